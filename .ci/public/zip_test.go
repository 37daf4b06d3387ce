package public

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// maxZip limits the bytes of the module's download, without the data of tests.
const maxZip = 3_000_000

// source is a file of the repository, as modzip.Create wants it.
type source struct{ root, name string }

func (s source) Path() string                 { return s.name }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(s.root, s.name)) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(s.root, s.name)) }

// writeZip writes the module's zip as a module proxy would make it of these files of the repository.
func writeZip(t testing.TB, path string, names []string) {
	var files []modzip.File
	for _, name := range names {
		files = append(files, source{repository(t), name})
	}
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, modzip.Create(f, module.Version{Path: modulePath, Version: version}, files))
	require.NoError(t, f.Close())
}

// TestModuleZip: what users download is small, and has all that they need and no reference data.
func TestModuleZip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "module.zip")
	writeZip(t, path, tracked(t))
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer r.Close()
	prefix := modulePath + "@" + version + "/"
	have := make(map[string]bool)
	for _, f := range r.File {
		name, ok := strings.CutPrefix(f.Name, prefix)
		require.True(t, ok, f.Name)
		have[name] = true
		assert.False(t, strings.HasPrefix(name, "testdata/"), name)
		assert.False(t, strings.HasPrefix(name, ".ci/"), name)
		assert.False(t, strings.HasPrefix(name, "examples/"), name)
		assert.False(t, strings.HasPrefix(name, "internal/tools/"), name)
	}
	without := filepath.Join(t.TempDir(), "without.zip")
	writeZip(t, without, slices.DeleteFunc(tracked(t), func(name string) bool { return strings.Contains(name, "/testdata/") }))
	info, err := os.Stat(without)
	require.NoError(t, err)
	t.Logf("the module's zip without the data of tests has %d bytes", info.Size())
	assert.Less(t, info.Size(), int64(maxZip))
	for _, name := range []string{"go.mod", "LICENSE", "README.md", "acl/doc.go", "internal/emu/kernel/variant_avx2.c", "Makefile"} {
		assert.True(t, have[name], name)
	}
}
