package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunWritesAPackage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "zz_myops.go")
	require.NoError(t, run([]string{"-headers", "../../internal/abi/header/testdata", "-package", "myops", "-out", out}, io.Discard))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/zz_myops.go.golden")
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "-headers and -out are required"},
		{[]string{"-headers", ".", "-out", "x.go", "-package", "1x"}, `-package "1x" is not a Go package name`},
		{[]string{"-headers", ".", "-out", "x.go", "-package", "x", "more"}, `"more" is no flag`},
		{[]string{"-headers", t.TempDir(), "-out", "x.go", "-package", "x"}, "the headers declare no operator"},
		{[]string{"-frob"}, "flag provided but not defined"},
	} {
		assert.ErrorContains(t, run(c.args, io.Discard), c.want)
	}
}

func TestHelp(t *testing.T) {
	var out strings.Builder
	require.ErrorIs(t, run([]string{"-h"}, &out), flag.ErrHelp)
	assert.Contains(t, out.String(), "Usage: bind -headers folder")
	assert.Contains(t, out.String(), "-library name")
}

// TestExample: the example of a custom operator has the binding that its header gives.
func TestExample(t *testing.T) {
	dir, out := filepath.Join("..", "..", "examples", "customop", "rowscale"), filepath.Join(t.TempDir(), "zz_rowscale.go")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the examples are a module of their own, which this module's download lacks")
	}
	require.NoError(t, run([]string{"-headers", dir, "-package", "rowscale", "-out", out}, io.Discard))
	want, err := os.ReadFile(out)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "zz_rowscale.go"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate in %s", dir)
}
