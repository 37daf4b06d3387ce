package emptycann

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuild(t *testing.T) {
	home, err := Build(t.TempDir())
	require.NoError(t, err)
	for _, name := range libraries {
		info, err := os.Stat(filepath.Join(home, "lib64", name))
		require.NoError(t, err)
		require.NotZero(t, info.Size())
	}
}
