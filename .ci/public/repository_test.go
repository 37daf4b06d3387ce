// Package public checks what users of the module see: the module's zip, a program outside of
// this repository that uses it, the README's snippets, and the workflows. What it needs beyond
// the library's own requirements stays out of the library's go.mod.
package public

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// modulePath is the module under test.
const modulePath = "github.com/goascend/cann"

// version is the one that the next release gets, which the modules beside the library require.
var version = func() string {
	data, err := os.ReadFile("../../go.work")
	if err != nil {
		panic(err)
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		panic(err)
	}
	return work.Replace[0].Old.Version
}()

// repository is the root of the repository.
func repository(t testing.TB) string {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	return root
}

// tracked lists the files of the repository, those that are not committed yet included, and
// those that git ignores not.
func tracked(t testing.TB) []string {
	list := command(t, repository(t), nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(repository(t), name)); err == nil { // not deleted
			files = append(files, name)
		}
	}
	require.NotEmpty(t, files)
	return files
}

// text reads a file of the repository.
func text(t testing.TB, name string) string {
	b, err := os.ReadFile(filepath.Join(repository(t), filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(b)
}

// command runs a program in a folder, with variables beside those of this process but for GOWORK, and returns
// what it writes to standard output. A program that fails fails the test.
func command(t testing.TB, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(append(os.Environ(), "GOWORK="), env...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), out, errs.String())
	return string(out)
}

// write writes a file.
func write(t testing.TB, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}
