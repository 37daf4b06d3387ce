//go:build !parquet

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// TestWithoutParquet: a program that was built without the reader of Parquet files refuses them by name,
// also when they are in a folder with others.
func TestWithoutParquet(t *testing.T) {
	acltest.Need(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "a.parquet")
	require.NoError(t, os.WriteFile(path, []byte("PAR1"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "b.jsonl"), []byte(`{"text": "text"}`+"\n"), 0o600))
	for _, flags := range [][]string{{"-data", path, "-steps", "1"}, {"-eval", folder, "-steps", "1"}} {
		o, err := parseFlags(smallFlags(flags...), t.Output())
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, io.Discard), "a.parquet: this trainstep cannot read Parquet files: build it with -tags parquet")
	}
}
