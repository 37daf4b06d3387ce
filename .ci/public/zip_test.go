package public

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
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

// writeZip writes the module's zip as a module proxy would make it of this repository.
func writeZip(t testing.TB, path string) {
	var files []modzip.File
	for _, name := range tracked(t) {
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
	writeZip(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer r.Close()
	prefix := modulePath + "@" + version + "/"
	have := make(map[string]bool)
	var testData int64
	for _, f := range r.File {
		if strings.Contains(f.Name, "/testdata/") {
			testData += int64(f.CompressedSize64)
		}
		name, ok := strings.CutPrefix(f.Name, prefix)
		require.True(t, ok, f.Name)
		have[name] = true
		assert.False(t, strings.HasPrefix(name, "testdata/"), name)
		assert.False(t, strings.HasPrefix(name, ".ci/"), name)
		assert.False(t, strings.HasPrefix(name, "examples/"), name)
		assert.False(t, strings.HasPrefix(name, "internal/npugen/"), name)
		assert.False(t, strings.HasPrefix(name, "internal/conformance/"), name)
		assert.False(t, strings.HasPrefix(name, "internal/testing/emptycann/"), name)
		assert.False(t, strings.HasPrefix(name, "internal/testing/rivals/"), name)
	}
	t.Logf("the module's zip has %d bytes, %d of them data of tests", info.Size(), testData)
	assert.Less(t, info.Size()-testData, int64(maxZip))
	for _, name := range []string{"go.mod", "LICENSE", "README.md", "acl/doc.go", "internal/emu/kernel/variant_avx2.c", "Makefile"} {
		assert.True(t, have[name], name)
	}
}
