//go:build emu

package acl_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestHostFuncOnOlderCANN runs the tests of host functions again in a process whose CANN has
// aclrtLaunchCallback only.
func TestHostFuncOnOlderCANN(t *testing.T) {
	const api = "CANN_EMU_API"
	if os.Getenv(api) != "" {
		t.Skip("this is the process with the older CANN")
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "HostFunc|Abort|Wait|Fault|Leak")
	cmd.Env = append(os.Environ(), api+"="+abi.V81RC1)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestHostFuncRunsInOrder")
	require.NotContains(t, string(out), "no host functions")
}
