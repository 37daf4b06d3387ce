package public

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOutside: a user's module that imports every public package compiles with and without the
// tag, and passes its tests: on the emulator all of them, without CANN those that need none.
func TestOutside(t *testing.T) {
	env, dir := published(t), copied(t, "outside")
	run := func(name string, args ...string) string {
		start := time.Now()
		out := command(t, dir, env, name, args...)
		t.Logf("%v\t%s %s", time.Since(start).Round(time.Second/10), name, strings.Join(args, " "))
		return out
	}
	run("go", "get", "-t", "./...")
	assert.Contains(t, run("go", "list", "-m", modulePath), version)

	imported := strings.Fields(run("go", "list", "-tags", "emu", "-f", `{{join .Imports "\n"}} {{join .TestImports "\n"}} {{join .XTestImports "\n"}}`, "./..."))
	for _, p := range public(t) {
		assert.Contains(t, imported, p, "testdata/outside has to use every public package")
	}

	// The commands of the README's template for continuous integration.
	for _, step := range templateCommands(t) {
		run("bash", "-euc", step)
	}
	emulated := run("go", "test", "-tags", "emu", "-v", "./...")
	assert.Contains(t, emulated, "--- PASS")
	assert.NotContains(t, emulated, "--- SKIP", "the emulator runs everything")
	run("go", "vet", "./...")
	run("go", "test", "./...")

	// Tests of the module itself skip from the module cache what needs the reference data.
	run("go", "get", "-t", modulePath+"/internal/testing/golden@"+version)
	golden := run("go", "test", "-v", modulePath+"/internal/testing/golden")
	assert.Contains(t, golden, "the module's download has no reference data")
	assert.Contains(t, golden, "--- SKIP: TestGoldenFiles")
}

// public lists the packages that users import.
func public(t testing.TB) []string {
	all := strings.Fields(command(t, repository(t), nil, "go", "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`, "./..."))
	return slices.DeleteFunc(all, func(p string) bool { return strings.Contains(p, "/internal") })
}

// TestProgramsImportNothingInternal: a program that is copied out of examples still compiles.
func TestProgramsImportNothingInternal(t *testing.T) {
	list := command(t, repository(t), nil, "go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./examples/...")
	require.NotEmpty(t, list)
	for line := range strings.Lines(list) {
		assert.NotContains(t, line, modulePath+"/internal/")
	}
}

// TestLibraryLeavesTheWebOut: a program that has no use for net/http does not compile it, which would double the
// time of its first build.
func TestLibraryLeavesTheWebOut(t *testing.T) {
	for _, p := range public(t) {
		if strings.Contains(p, "/examples/") {
			continue
		}
		deps := strings.Fields(command(t, repository(t), nil, "go", "list", "-deps", "-tags", "emu", p))
		require.NotEmpty(t, deps)
		assert.NotContains(t, deps, "net/http", p)
	}
}
