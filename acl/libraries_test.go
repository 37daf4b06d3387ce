package acl_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

// TestLibraries: the emulator has every function that the module knows, unless it is set to be
// an older CANN; where a library is missing the error says what was tried.
func TestLibraries(t *testing.T) {
	libraries, err := acl.Libraries()
	require.NoError(t, err)
	require.Len(t, libraries, 11)
	older := os.Getenv("CANN_EMU_API") != ""
	total := 0
	for _, l := range libraries {
		total += l.Functions
		if l.Err != nil {
			assert.ErrorIs(t, l.Err, acl.ErrNotInstalled, l.Name)
			assert.ErrorContains(t, l.Err, l.Name)
			assert.Empty(t, l.Paths, l.Name)
			assert.Empty(t, l.Missing, l.Name)
			continue
		}
		assert.NotEmpty(t, l.Paths, l.Name)
		assert.Positive(t, l.Functions, l.Name)
		if older && l.Name == "libascendcl.so" {
			assert.Contains(t, l.Missing, "aclmdlRIBuildBegin")
		} else if !older {
			assert.Empty(t, l.Missing, l.Name)
		}
	}
	assert.Greater(t, total, 2500, "phases of operators, the runtime, HCCL")
	assert.Equal(t, []string{"8.1.RC1", "8.5.0", "9.0.0", "9.1.0", "9.2.0-beta.1"}, acl.KnownVersions())
}
