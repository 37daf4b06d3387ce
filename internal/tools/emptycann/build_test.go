package emptycann_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/tools/emptycann"
)

func TestBuild(t *testing.T) {
	home, err := emptycann.Build(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so"} {
		info, err := os.Stat(filepath.Join(home, "lib64", name))
		require.NoError(t, err)
		require.NotZero(t, info.Size())
	}
}
