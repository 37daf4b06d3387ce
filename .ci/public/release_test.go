package public

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRelease releases a clone of this repository: the command refuses what is not ready, tags both modules, pushes
// the tags, and takes the notes from CHANGELOG.md.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	origin, clone, bin := filepath.Join(dir, "origin"), filepath.Join(dir, "clone"), filepath.Join(dir, "bin")
	command(t, dir, nil, "git", "init", "-q", "--bare", "-b", "main", origin)
	command(t, dir, nil, "git", "clone", "-q", origin, clone)
	files := []string{".ci/release", ".gitignore", "CHANGELOG.md", "examples/CHANGELOG.md", "examples/go.mod", "internal/tools/go.mod", "go.work"}
	for _, name := range files {
		path := filepath.Join(clone, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		write(t, path, text(t, name))
	}
	require.NoError(t, os.Chmod(filepath.Join(clone, ".ci/release"), 0o755))
	// gh answers what the file conclusion has, and notes its arguments.
	require.NoError(t, os.Mkdir(bin, 0o755))
	write(t, filepath.Join(bin, "gh"), "#!/bin/sh\necho \"$@\" >>"+dir+"/calls\n[ $1 = release ] || cat "+dir+"/conclusion\n")
	require.NoError(t, os.Chmod(filepath.Join(bin, "gh"), 0o755))
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=test", "GIT_"+who+"_EMAIL=test@example.com")
	}
	git := func(args ...string) string { return command(t, clone, env, "git", args...) }
	commit := func() {
		git("add", "-A")
		git("commit", "-q", "-m", "change")
		git("push", "-q", "origin", "HEAD:main")
	}
	release := func(version string) (string, error) {
		c := exec.CommandContext(t.Context(), ".ci/release", version)
		c.Dir, c.Env = clone, env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	refused := func(version, why string) {
		t.Helper()
		out, err := release(version)
		require.Error(t, err)
		assert.Contains(t, out, "no release: ")
		assert.Contains(t, out, why)
		assert.Empty(t, command(t, clone, env, "git", "ls-remote", "--tags", "origin"))
	}
	dated := func(name string) {
		before, after, ok := strings.Cut(text(t, name), "\n## Unreleased\n")
		require.True(t, ok, "%s has no heading Unreleased", name)
		write(t, filepath.Join(clone, name), before+"\n## "+version+" (2031-02-03)\n"+after)
	}
	write(t, filepath.Join(dir, "conclusion"), "failure\n")
	write(t, filepath.Join(clone, "CHANGELOG.md"), "# Changes\n\n## Unreleased\n")
	commit()
	refused("0.1", "'0.1' is no version")
	refused(version, "CHANGELOG.md has no heading '## "+version+" (")
	dated("CHANGELOG.md")
	refused(version, "the tree has changes")
	commit()
	refused(version, "examples/CHANGELOG.md has no heading")
	refused("v7.8.9", "examples/go.mod does not require "+modulePath+" v7.8.9")
	dated("examples/CHANGELOG.md")
	git("add", "-A")
	git("commit", "-q", "-m", "change")
	refused(version, "is not what origin's main has")
	git("push", "-q", "origin", "HEAD:main")
	refused(version, "its conclusion is 'failure'")

	write(t, filepath.Join(dir, "conclusion"), "success\n")
	out, err := release(version)
	require.NoError(t, err, out)
	head := strings.TrimSpace(git("rev-parse", "HEAD"))
	assert.Contains(t, out, "released "+version+": tags "+version+" and examples/"+version+" at "+head)
	for _, tag := range []string{version, "examples/" + version} {
		assert.Equal(t, head+"\n", command(t, origin, env, "git", "rev-parse", tag+"^{commit}"), tag)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	assert.Contains(t, string(calls), "run list --workflow check.yml --branch main --commit "+head)
	assert.Contains(t, string(calls), "release create "+version+" --verify-tag --title "+version+" --notes-file build/release/notes.md\n")
	notes, err := os.ReadFile(filepath.Join(clone, "build/release/notes.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(text(t, "CHANGELOG.md"), "\n## Unreleased\n")
	section, _, _ = strings.Cut(section, "\n## ")
	assert.Equal(t, strings.TrimSpace(section), strings.TrimSpace(string(notes)))
	assert.NotEmpty(t, strings.TrimSpace(section))

	out, err = release(version)
	require.Error(t, err)
	assert.Contains(t, out, "no release: the tag "+version+" exists")
}
