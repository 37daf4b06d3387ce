//go:build parquet

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestParquet: the rows of a Parquet file train like the same samples as lines of JSON.
func TestParquet(t *testing.T) {
	type row struct {
		Prompt   string `parquet:"prompt"`
		Response string `parquet:"response,zstd"`
	}
	var rows []row
	var lines []byte
	for i := range 40 {
		r := row{fmt.Sprintf("square of %d: ", i), fmt.Sprint(i * i)}
		rows = append(rows, r)
		lines = fmt.Appendf(lines, "{\"prompt\": %q, \"response\": %q}\n", r.Prompt, r.Response)
	}
	table, text := filepath.Join(t.TempDir(), "squares.parquet"), filepath.Join(t.TempDir(), "squares.jsonl")
	require.NoError(t, parquet.WriteFile(table, rows))
	require.NoError(t, os.WriteFile(text, lines, 0o600))
	flags := []string{"-seq", "32", "-steps", "3"}
	_, want := trained(t, smallFlags(append(flags, "-data", text)...)...)
	_, got := trained(t, smallFlags(append(flags, "-data", table)...)...)
	require.Equal(t, want, got)
}
