package public

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// published publishes the library and the examples as they are now on a module proxy of its own, as the tags of the
// next release do, and returns the variables with which the go command uses it: the user of a release gets the
// same files in the same way. Other modules come from the module cache of this machine.
func published(t testing.TB) []string {
	proxy := t.TempDir()
	for module, folder := range releasedModules {
		dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		writeZip(t, filepath.Join(dir, version+".zip"), module, tracked(t))
		info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
		require.NoError(t, err)
		for name, data := range map[string]string{"list": version + "\n", version + ".info": string(info), version + ".mod": text(t, folder+"go.mod")} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
		}
	}
	cache := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOMODCACHE"))
	usual := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOPROXY"))
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + usual,
		"GOMODCACHE=" + t.TempDir(), "GONOSUMDB=" + modulePath,
		"GOFLAGS=" + os.Getenv("GOFLAGS") + " -modcacherw -trimpath",
	}
}

// copied copies a folder of testdata to where a user's module may be.
func copied(t testing.TB, name string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return dir
}

// TestInstall: the programs can be installed by version, in any folder.
func TestInstall(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	env := append(published(t), "GOBIN="+bin)
	programs := []string{"generate", "launch", "npuinfo", "serve", "trainstep"}
	args := []string{"install"}
	for _, p := range programs {
		args = append(args, modulePath+"/examples/"+p+"@"+version)
	}
	command(t, dir, env, "go", args...)
	entries, err := os.ReadDir(bin)
	require.NoError(t, err)
	var installed []string
	for _, e := range entries {
		installed = append(installed, e.Name())
	}
	assert.Equal(t, programs, installed)
	assert.Contains(t, command(t, dir, nil, filepath.Join(bin, "npuinfo")), "libascendcl.so", "it reports what is there")
	// What go install gives is no copy of this tree.
	assert.Contains(t, command(t, dir, env, "go", "version", "-m", filepath.Join(bin, "trainstep")), modulePath+"/examples\t"+version)
}

// TestExamplesOutside: a user's module can require the library by the README's command, and import packages of the
// examples, with the library that they require.
func TestExamplesOutside(t *testing.T) {
	env, dir := published(t), t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/chat\n\ngo 1.26.0\n")
	command(t, dir, env, "go", "get", modulePath)
	var get, imports []string
	for _, p := range []string{"chat", "checkpoint", "dataset", "jinja", "serve/schema", "tokenizer"} {
		get = append(get, modulePath+"/examples/"+p+"@"+version)
		imports = append(imports, "import _ \""+modulePath+"/examples/"+p+"\"\n")
	}
	write(t, filepath.Join(dir, "chat.go"), "package chat\n\n"+strings.Join(imports, ""))
	command(t, dir, env, "go", append([]string{"get"}, get...)...)
	command(t, dir, env, "go", "build", "./...")
	assert.Contains(t, command(t, dir, env, "go", "list", "-m", "all"), modulePath+" "+version+"\n")
}

// TestBinder: the binder runs by version in a user's module, and what it writes compiles there.
func TestBinder(t *testing.T) {
	env, dir := published(t), t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/operators\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "aclnn_row_scale.h"), `#include "aclnn/aclnn_base.h"
aclnnStatus aclnnRowScaleGetWorkspaceSize(const aclTensor *x, const aclTensor *scale, double bias, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnRowScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
`)
	command(t, dir, env, "go", "run", modulePath+"/aclnn/bind@"+version, "-headers", ".", "-package", "operators", "-out", "zz_operators.go")
	command(t, dir, env, "go", "get", "./...")
	command(t, dir, env, "go", "vet", ".")
	bound, err := os.ReadFile(filepath.Join(dir, "zz_operators.go"))
	require.NoError(t, err)
	assert.Contains(t, string(bound), "func RowScale(st *acl.Stream, p RowScaleParams) error {")
}

// TestReplacements: no module that users name, or that the go command fetches for them, has a replace directive, with
// which go install refuses a program; go.work replaces the library by this tree.
func TestReplacements(t *testing.T) {
	for _, name := range tracked(t) {
		if filepath.Base(name) == "go.mod" && !slices.Contains(strings.Split(name, "/"), "testdata") {
			assert.NotContains(t, text(t, name), "replace", name)
		}
	}
	assert.Contains(t, text(t, "go.work"), "\nreplace "+modulePath+" "+version+" => ./\n")
	for _, folder := range []string{"examples", "internal/tools"} {
		assert.Contains(t, text(t, folder+"/go.mod"), "\n\t"+modulePath+" "+version+"\n", folder)
	}
}
