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

	require.Equal(t, results(t, smallFlags(append(flags, "-data", text, "-eval", text)...)...), results(t, smallFlags(append(flags, "-data", table, "-eval", table)...)...))

	type turn struct {
		From  string `parquet:"from"`
		Value string `parquet:"value"`
	}
	type alpaca struct {
		Instruction string `parquet:"instruction"`
		Input       string `parquet:"input"`
		Output      string `parquet:"output"`
	}
	type shared struct {
		Conversations []turn `parquet:"conversations,list"`
	}
	var one []alpaca
	var other []shared
	for i := range 8 { // as conversationForms
		a := alpaca{"the square", fmt.Sprintf("of %d", i), fmt.Sprint(i * i)}
		one, other = append(one, a), append(other, shared{[]turn{{"human", a.Instruction + "\n" + a.Input}, {"gpt", a.Output}}})
	}
	model, dir := chatModel(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "messages.jsonl"), []byte(conversationForms(t)["messages.jsonl"]), 0o600))
	require.NoError(t, parquet.WriteFile(filepath.Join(dir, "alpaca.parquet"), one))
	require.NoError(t, parquet.WriteFile(filepath.Join(dir, "sharegpt.PARQUET"), other))
	trains := func(name string) string {
		path := filepath.Join(dir, name)
		return results(t, "-model", model, "-dtype", "fp32", "-batch", "4", "-seq", "64", "-steps", "1", "-data", path, "-eval", path)
	}
	require.Equal(t, trains("messages.jsonl"), trains("alpaca.parquet"))
	require.Equal(t, trains("messages.jsonl"), trains("sharegpt.PARQUET"))
}
