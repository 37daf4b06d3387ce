package safetensors

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPipe: a pipe in the place of weights, of an index or of a shard is refused at once. To open one waits for who writes into it, for ever.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, singleName)
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := Open(dir)
	require.ErrorIs(t, err, ErrHeader)
	require.ErrorContains(t, err, path+": malformed header: it is no regular file")
	index := filepath.Join(dir, "other.json")
	require.NoError(t, os.WriteFile(index, []byte(`{"weight_map":{"a":"model.safetensors"}}`), 0o600))
	_, err = Open(index)
	require.ErrorContains(t, err, "no regular file")
	require.NoError(t, os.Remove(index))
	require.NoError(t, syscall.Mkfifo(index, 0o600))
	_, err = Open(index)
	require.ErrorContains(t, err, "no regular file")
}
