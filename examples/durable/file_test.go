package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/durable"
)

// TestWrite: a file has its old content until the new one is complete, and nothing else is left.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	has := func(want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	require.NoError(t, durable.Write(path, strings.NewReader("old")))
	has("old")
	broken := errors.New("broken")
	require.ErrorIs(t, durable.Write(path, io.MultiReader(strings.NewReader("ne"), iotest.ErrReader(broken))), broken)
	has("old")
	require.NoError(t, durable.Write(path, strings.NewReader("new")))
	has("new")
	require.ErrorIs(t, durable.Write(filepath.Join(dir, "none", "file"), strings.NewReader("")), os.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.Error(t, durable.Write(filepath.Join(dir, "folder"), strings.NewReader("")), "a folder is in the way")
	require.NoFileExists(t, filepath.Join(dir, "folder.tmp"))
}
