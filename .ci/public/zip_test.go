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

// releasedModules are the modules that a release tags, with their folders.
var releasedModules = map[string]string{modulePath: "", modulePath + "/examples": "examples/"}

// source is a file of the repository, as modzip.Create wants it.
type source struct{ path, name string }

func (s source) Path() string                 { return s.name }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(s.path) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(s.path) }

// writeZip writes a module's zip as a module proxy would make it of these files of the repository. A module
// without a licence gets the repository's.
func writeZip(t testing.TB, path, name string, names []string) {
	folder := releasedModules[name]
	files := []modzip.File{}
	for _, n := range names {
		if inside, ok := strings.CutPrefix(n, folder); ok {
			files = append(files, source{filepath.Join(repository(t), n), inside})
		}
	}
	if folder != "" {
		files = append(files, source{filepath.Join(repository(t), "LICENSE"), "LICENSE"})
	}
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, modzip.Create(f, module.Version{Path: name, Version: version}, files))
	require.NoError(t, f.Close())
}

// TestModuleZip: what users download has all that they need, and nothing that only this repository needs. Its size is
// reported, not limited.
func TestModuleZip(t *testing.T) {
	for name, needed := range map[string][]string{
		modulePath:               {"go.mod", "LICENSE", "README.md", "acl/doc.go", "aclnn/bind/doc.go", "cshim/doc.go", "Makefile"},
		modulePath + "/examples": {"go.mod", "LICENSE", "README.md", "trainstep/main.go", "npuinfo/main.go"},
	} {
		path := filepath.Join(t.TempDir(), "module.zip")
		writeZip(t, path, name, tracked(t))
		r, err := zip.OpenReader(path)
		require.NoError(t, err)
		defer r.Close()
		have := make(map[string]bool)
		for _, f := range r.File {
			inside, ok := strings.CutPrefix(f.Name, name+"@"+version+"/")
			require.True(t, ok, f.Name)
			have[inside] = true
			for _, folder := range []string{"testdata/", ".ci/", "examples/", "internal/tools/"} {
				assert.False(t, strings.HasPrefix(inside, folder), f.Name)
			}
		}
		for _, n := range needed {
			assert.True(t, have[n], n)
		}
		info, err := os.Stat(path)
		require.NoError(t, err)
		t.Logf("the zip of %s has %d bytes in %d files", name, info.Size(), len(r.File))
	}
}
