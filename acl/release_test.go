//go:build emu

package acl_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// TestReleases runs in a process for each release: functions that came later are not there, the version is that of
// the release, and the release is found by its functions.
func TestReleases(t *testing.T) {
	first := map[string]string{ // a function of each release
		abi.V81RC1: "aclrtMalloc", abi.V850: "aclmdlRIBuildBegin", abi.V900: "", abi.V910: "aclrtMemManagedAdvise", abi.V920Beta1: "aclrtRecordEventWithFlag",
	}
	table, err := abi.Load()
	require.NoError(t, err)
	for _, f := range table.Functions {
		if first[abi.V900] == "" && f.Since() == abi.V900 && f.Library == "libascendcl" {
			first[abi.V900] = f.Name
		}
	}
	require.NotEmpty(t, first[abi.V900])
	for at, release := range acl.KnownVersions() {
		t.Run(release, func(t *testing.T) {
			acltest.Rerun(t, func(t *testing.T) {
				for i, r := range acl.KnownVersions() {
					f, ok := table.Function(first[r])
					require.True(t, ok, first[r])
					require.Equal(t, r, f.Since(), f.Name)
					require.Equal(t, i <= at, cshim.NewFunc(cshim.ACL, f.Name).Available() == nil, "%s of %s in %s", f.Name, r, release)
				}
				installed, err := acl.InstalledRelease()
				require.NoError(t, err)
				require.Equal(t, release, installed)
				rt := acltest.Open(t)
				version, err := rt.CANNVersion()
				require.NoError(t, err)
				require.Equal(t, release, version)
			}, "CANN_EMU_API="+release)
		})
	}
	t.Run("unknown", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			_, err := acl.Open(acl.Config{})
			require.ErrorContains(t, err, `CANN_EMU_API="2026-08": the releases of CANN are 8.1.RC1, 8.5.0, 9.0.0, 9.1.0, 9.2.0-beta.1`)
		}, "CANN_EMU_API=2026-08")
	})
	if os.Getenv("CANN_EMU_API") == "" {
		installed, err := acl.InstalledRelease()
		require.NoError(t, err)
		require.Equal(t, abi.V920Beta1, installed)
	}
}
