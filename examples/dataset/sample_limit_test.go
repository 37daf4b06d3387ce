package dataset_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/dataset"
)

// filled is n bytes or a little more: begin, one part after the other, end.
func filled(n int, begin, part, end string) string {
	return begin + strings.Repeat(part, n/len(part)) + end
}

// compressed is a text of n bytes or a little more, of equal parts, as zstd compresses it.
func compressed(t testing.TB, n int, begin, part, end string, options ...zstd.EOption) string {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, options...)
	require.NoError(t, err)
	_, err = io.WriteString(w, begin)
	require.NoError(t, err)
	parts := strings.Repeat(part, 1<<16/len(part)+1)
	for range n / len(parts) {
		_, err = io.WriteString(w, parts)
		require.NoError(t, err)
	}
	_, err = io.WriteString(w, end)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// TestCostlySamples: whatever is in a file of samples, compressed or not, it is refused, or read in bounded time and memory.
func TestCostlySamples(t *testing.T) {
	folder := t.TempDir()
	const size = 10_000_000
	lines := func(part string) string { return filled(size, "", part, "{\"text\":\"good\"}\n") }
	for name, c := range map[string]struct {
		file string
		text func() string
		want string
	}{
		"empty lines":              {"x.jsonl", func() string { return lines("\n") }, "over the limit: a file of"},
		"lines of a digit":         {"x.jsonl", func() string { return lines("0\n") }, "over the limit: a file of"},
		"empty objects":            {"x.jsonl", func() string { return lines("{}\n") }, "over the limit: a file of"},
		"lines of half an object":  {"x.jsonl", func() string { return lines("{\n") }, "over the limit: a file of"},
		"digits after each other":  {"x.jsonl", func() string { return filled(1_000_000, "", "0\n", "") }, "over the limit: the 262145 lines before"},
		"half objects":             {"x.jsonl", func() string { return filled(1_000_000, "", "{\n", "") }, "over the limit: the 262145 lines before"},
		"no lines between samples": {"x.jsonl", func() string { return filled(1_000_000, "", "\n", "") }, "over the limit: the 262145 lines before"},
		"empty texts":              {"x.jsonl", func() string { return lines("{\"text\":\"\"}\n") }, "over the limit: the 262145 lines before"},
		"texts of a letter":        {"x.jsonl", func() string { return lines("{\"text\":\"a\"}\n") }, ""},
		"texts of two letters":     {"x.jsonl", func() string { return lines("{\"text\":\"ab\"}\n") }, ""},
		"texts with another key":   {"x.jsonl", func() string { return lines("{\"text\":\"ab\",\"x\":0}\n") }, ""},
		"one line":                 {"x.jsonl", func() string { return filled(size, `{"text":"`, "a", `"}`) }, "longer than 8 MiB"},
		"one line of escapes":      {"x.jsonl", func() string { return filled(size, `{"text":"`, `\u0041`, `"}`) }, "longer than 8 MiB"},
		"deep lines":               {"x.jsonl", func() string { return lines(strings.Repeat("[", 9_000) + "\n") }, ""},
		"deep members": {"x.jsonl", func() string {
			return lines(`{"text":"ab","x":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}\n")
		}, ""},
		"one deep line":            {"x.jsonl", func() string { return filled(8_000_000, "", "[", "") }, "can be used"},
		"many messages":            {"x.jsonl", func() string { return filled(8_000_000, `{"messages":[{}`, `,{}`, `]}`) }, "can be used"},
		"many messages with roles": {"x.jsonl", func() string { return filled(8_000_000, `{"messages":[{}`, `,{"role":"user","content":"x"}`, `]}`) }, "can be used"},
		"many turns": {"x.jsonl", func() string {
			return filled(size, `{"conversations":[{"from":"human","value":""}`, `,{"from":"human","value":""}`, `]}`)
		}, "can be used"},
		"turns without anything": {"x.jsonl", func() string { return filled(8_000_000, `{"conversations":[{}`, `,{}`, `]}`) }, "can be used"},
		"a long history": {"x.jsonl", func() string {
			return filled(size, `{"prompt":"a","response":"b","history":[["",""]`, `,["",""]`, `]}`)
		}, "can be used"},
		"a history of empty rounds": {"x.jsonl", func() string { return filled(8_000_000, `{"prompt":"a","response":"b","history":[[]`, `,[]`, `]}`) }, "can be used"},
		"many keys":                 {"x.jsonl", func() string { return filled(8_000_000, `{"text":"ab"`, `,"text":"ab"`, `}`) }, "twice"},
		"many other keys": {"x.jsonl", func() string {
			var b strings.Builder
			b.WriteString(`{"text":"ab"`)
			for i := 0; b.Len() < 8_000_000; i++ {
				fmt.Fprintf(&b, `,"%d":0`, i)
			}
			return b.String() + "}"
		}, "over the limit"},
		"an array of digits":        {"x.json", func() string { return filled(size, `[{}`, `,0`, `]`) }, "over the limit: a file of"},
		"an array of empty objects": {"x.json", func() string { return filled(size, `[{}`, `,{}`, `]`) }, "over the limit: a file of"},
		"an array of texts":         {"x.json", func() string { return filled(size, `[{}`, `,{"text":"ab"}`, `]`) }, ""},
		"an array without an end":   {"x.json", func() string { return filled(size, `[{}`, `,{}`, ``) }, "over the limit: a file of"},
		"an array in arrays":        {"x.json", func() string { return filled(size, `[{},`, `[`, ``) }, "element"},
		"an array of one":           {"x.json", func() string { return filled(size, `[{"text":"`, `a`, `"}]`) }, "element 1 of the array: over the limit: it is longer than 8 MiB"},
		"text in one line":          {"x.txt", func() string { return filled(size, "", "a", "") }, ""},
		"text of empty lines":       {"x.txt", func() string { return filled(size, "a", "\n", "") }, ""},
		"gzip of empty lines":       {"x.jsonl.gz", func() string { return string(gzipped(t, []byte(lines("\n")))) }, "over the limit"},
		"gzip of 2.6 GB":            {"x.jsonl.gz", func() string { return strings.Repeat(string(gzipped(t, []byte(lines("\n")))), size/9_800) }, "over the limit"},
		"zstd of empty lines":       {"x.jsonl.zst", func() string { return compressed(t, 3<<30, "", "\n", "") }, "over the limit"},
		"zstd of a line":            {"x.jsonl.zst", func() string { return compressed(t, 60<<20, `{"text":"`, "a", "\"}\n") }, "longer than 8 MiB"},
		"zstd of a long line":       {"x.jsonl.zst", func() string { return compressed(t, 120<<20, `{"text":"`, "a", "\"}\n") }, "over the limit"},
		"zstd of an array":          {"x.json.zst", func() string { return compressed(t, 60<<20, `[{"text":"`, "a", `"}]`) }, "element 1 of the array: over the limit: it is longer than 8 MiB"},
		"zstd of text in one line":  {"x.txt.zst", func() string { return compressed(t, 60<<20, "", "a", "") }, ""},
		"zstd with a large window": {"x.jsonl.zst", func() string {
			return compressed(t, 300<<20, "", "{\"text\":\"ab\"}\n", "", zstd.WithWindowSize(256<<20))
		}, "window size exceeded"},
		"zstd of frames with a window": {"x.jsonl.zst", func() string {
			return strings.Repeat(compressed(t, 1<<20, "", "{\"text\":\"a longer text, of which there are many in this file\"}\n", "", zstd.WithWindowSize(128<<20)), 30)
		}, ""},
		"tokens": {"x.bin", func() string { return filled(size, "", "ab", "") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			path := filepath.Join(folder, c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.text()), 0o600))
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.LessOrEqual(t, info.Size(), int64(11<<20))
			budgettest.Bounded(t, func() {
				err := readSome(t, path, 1000, bytewise)
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
			})
			left, err := os.ReadDir(os.TempDir())
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestCostlyConversations: what a template makes of a sample, and two answers, are bounded too.
func TestCostlyConversations(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "chat_template.jinja"),
		[]byte("{{ tools|tojson if tools else '' }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"), 0o600))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	single, pairs := bytewise, bytewise
	single.Template = template
	pairs.Template, pairs.Pairs = template, 1<<20
	const size = 2_000_000
	answers := `,"chosen":"a","rejected":"b"}`
	for name, c := range map[string]struct {
		options dataset.Options
		text    func() string
		want    string
	}{
		"tools":              {single, func() string { return filled(size, `{"messages":[],"tools":[0`, ",[]", "]}") }, "can be used"},
		"tools as a text":    {single, func() string { return filled(size, `{"messages":[],"tools":"[0`, ",[]", `]"}`) }, "can be used"},
		"parts of a message": {single, func() string { return filled(size, `{"messages":[{"role":"user","content":[0`, ",[]", "]}]}") }, "can be used"},
		"a long message": {single, func() string {
			return filled(size, `{"messages":[{"role":"user","content":""},{"role":"assistant","content":"`, "a", `"}]}`)
		}, ""},
		"10,000 messages": {single, func() string {
			return filled(9_000*35, `{"messages":[{"role":"assistant","content":"x"}`, `,{"role":"assistant","content":"x"}`, `]}`)
		}, "can be used"},
		"a longer conversation": {single, func() string { return filled(3_000_000, `{"messages":[{"role":"assistant","content":"`, "a", `"}]}`) }, "over the limit: a conversation has 30000"},
		"prompts of pairs":      {pairs, func() string { return filled(size, `{"prompt":[{}`, ",{}", "]"+answers) }, "can be used"},
		"a part of a pair":      {pairs, func() string { return filled(size, `{"prompt":[{"role":"user","content":[0`, ",[]", "]}]"+answers) }, "can be used"},
		"parts with spaces": {pairs, func() string {
			parts := strings.Repeat(",[]", size/6)
			return `{"chosen":[{"role":"user","content":[0` + parts + `]}],"rejected":[{"role":"user","content":[0` + parts + ` ]}]}`
		}, "are the same"},
		"a long pair":           {pairs, func() string { return filled(1_000_000, `{"prompt":"`, "a", `"`+answers) }, ""},
		"other keys of a pair":  {pairs, func() string { return filled(size, `{"prompt":"a"`, `,"x":[[]]`, answers) }, "twice"},
		"many keys of a pair":   {pairs, func() string { return filled(size, `{"prompt":"a"`, `,"":0`, answers) }, "twice"},
		"an answer of messages": {pairs, func() string { return filled(size, `{"prompt":"a","rejected":"b","chosen":[{}`, ",{}", "]}") }, "can be used"},
		"different keys": {pairs, func() string {
			var b strings.Builder
			b.WriteString(`{"prompt":"a"`)
			for n := range size / 11 {
				fmt.Fprintf(&b, `,"%x":0`, n)
			}
			return b.String() + answers
		}, "over the limit: a pair has 18"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder, "x.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(c.text()), 0o600))
			budgettest.Bounded(t, func() {
				err := readSome(t, path, 10, c.options)
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
			})
		})
	}
}
