package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/internal/testing/golden"
)

const mark = "\uFEFF"

func gzipped(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func zstandard(t *testing.T, text string) string {
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, z.Close()) }()
	return string(z.EncodeAll([]byte(text), nil))
}

// results are the losses of a step and of the held-out data, as the program prints them.
func results(t *testing.T, flags ...string) string {
	out, _ := trained(t, flags...)
	return strings.Join(regexp.MustCompile(`loss [0-9.]+  gradient|held-out loss [0-9.]+`).FindAllString(out, -1), ", ")
}

// chatModel is the folder of a model with a tokenizer and a chat template.
func chatModel(t *testing.T) string {
	dir := t.TempDir()
	model, tokens := filepath.Join(dir, "model"), filepath.Join(dir, "tokens.bin")
	require.NoError(t, os.WriteFile(tokens, binary.LittleEndian.AppendUint16(make([]byte, 400), 4095), 0o600))
	trained(t, smallFlags("-data", tokens, "-steps", "1", "-export", model)...)
	golden, err := golden.Dir()
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(model, os.DirFS(filepath.Join(golden, "tokenizer", "small"))))
	for _, name := range []string{"cases.json", "chat.json"} { // what the tokenizer is tested with
		require.NoError(t, os.Remove(filepath.Join(model, name)))
	}
	return model
}

// conversationForms are files with the same conversations, each in another form.
func conversationForms(t *testing.T) map[string]string {
	const n = 8
	lines := func(sample func(i int) any) string {
		var b strings.Builder
		for i := range n {
			text, err := json.Marshal(sample(i))
			require.NoError(t, err)
			b.Write(append(text, '\n'))
		}
		return b.String()
	}
	type object = map[string]any
	question, answer := func(i int) string { return fmt.Sprintf("the square\nof %d", i) }, func(i int) string { return fmt.Sprint(i * i) }
	messages := lines(func(i int) any {
		return object{"messages": []any{object{"role": "user", "content": question(i)}, object{"role": "assistant", "content": answer(i), "weight": 1}}, "parallel_tool_calls": false}
	})
	shared := lines(func(i int) any {
		return object{"id": i, "conversations": []any{object{"from": "human", "value": question(i), "weight": nil}, object{"from": "gpt", "value": answer(i), "weight": 1}}}
	})
	alpaca := lines(func(i int) any {
		return object{"instruction": "the square", "input": fmt.Sprintf("of %d", i), "output": answer(i)}
	})
	array := "[\n " + strings.ReplaceAll(strings.TrimSpace(alpaca), "\n", ",\n ") + "\n]"
	return map[string]string{
		"messages.jsonl": messages, "MESSAGES.JSONL": messages, "windows.jsonl": mark + strings.ReplaceAll(messages, "\n", "\r\n"), "lines.json": messages, "lines.ndjson": messages, "lines": messages,
		"sharegpt.jsonl": shared, "sharegpt.json": "[" + strings.ReplaceAll(strings.TrimSpace(shared), "\n", ",") + "]", "Alpaca.Json": array, "marked.json": mark + array,
		"alpaca.json.gz": gzipped(t, array), "alpaca.jsonl.zst": zstandard(t, alpaca), "packed.json": gzipped(t, messages), "packed": zstandard(t, mark+messages),
		"query.jsonl": lines(func(i int) any {
			return object{"query": question(i), "response": answer(i), "system": "", "history": []any{}}
		}),
		"prompt.jsonl": lines(func(i int) any { return object{"prompt": question(i), "completion": answer(i)} }),
	}
}

// TestForms: the same samples train the same and have the same held-out loss, whatever the form of the file, by -data and by -eval.
func TestForms(t *testing.T) {
	model, dir := chatModel(t), t.TempDir()
	flags := func(path string) []string {
		return []string{"-model", model, "-dtype", "fp32", "-batch", "4", "-seq", "64", "-steps", "1", "-data", path, "-eval", path}
	}
	forms := conversationForms(t)
	for name, text := range forms {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	want := results(t, flags(filepath.Join(dir, "messages.jsonl"))...)
	require.Regexp(t, `^loss [0-9.]+  gradient, held-out loss [0-9.]+$`, want)
	for name := range forms {
		t.Run(name, func(t *testing.T) { require.Equal(t, want, results(t, flags(filepath.Join(dir, name))...)) })
	}
	t.Run("keys that are not read", func(t *testing.T) {
		out, _ := trained(t, flags(filepath.Join(dir, "sharegpt.jsonl"))...)
		require.Equal(t, 2, strings.Count(out, "not read of samples: id"), out)
		o, err := parseFlags(append(flags(filepath.Join(dir, "sharegpt.jsonl")), "-strict"), t.Output())
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, t.Output()), ": a sample of a data set: id is ")
	})
}

// TestTextForms: the same for texts and tokens of a model without a tokenizer, whose tokens are bytes.
func TestTextForms(t *testing.T) {
	rhyme, err := os.ReadFile("testdata/rhyme.txt")
	require.NoError(t, err)
	text, dir := string(rhyme), t.TempDir()
	var words, wide []byte
	wide = dataset.TokensHeader(256)
	for _, b := range rhyme {
		words, wide = binary.LittleEndian.AppendUint16(words, uint16(b)), binary.LittleEndian.AppendUint32(wide, uint32(b))
	}
	want := results(t, smallFlags("-dtype", "fp32", "-steps", "1", "-eval", "testdata/rhyme.txt")...)
	require.Regexp(t, `^loss [0-9.]+  gradient, held-out loss [0-9.]+$`, want)
	for name, content := range map[string]string{
		"marked.txt": mark + text, "rhyme.txt.gz": gzipped(t, text), "rhyme.TXT.ZST": zstandard(t, mark+text), "packed.txt": gzipped(t, text),
		"rhyme.tokens": string(wide), "rhyme.tokens.gz": gzipped(t, string(wide)), "folder/rhyme.md": mark + text, "packed/rhyme.txt.gz": gzipped(t, text),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			if filepath.Dir(path) != dir {
				path = filepath.Dir(path)
			}
			require.Equal(t, want, results(t, smallFlags("-dtype", "fp32", "-steps", "1", "-data", path, "-eval", path)...))
		})
	}
	// The vocabulary of a new model is that of its 16-bit tokens, so these are compared with each other.
	plain, packed := filepath.Join(dir, "rhyme.bin"), filepath.Join(dir, "rhyme.bin.zst")
	require.NoError(t, os.WriteFile(plain, words, 0o600))
	require.NoError(t, os.WriteFile(packed, []byte(zstandard(t, string(words))), 0o600))
	require.Equal(t, results(t, smallFlags("-steps", "1", "-data", plain, "-eval", plain)...), results(t, smallFlags("-steps", "1", "-data", packed, "-eval", packed)...))
	// What is not read of a folder is named.
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "x.pdf"), nil, 0o600))
	out, _ := trained(t, smallFlags("-steps", "1", "-data", folder)...)
	require.Contains(t, out, `1 files "*.pdf" not read`)
	// Tokens that the model does not have are refused, before anything is looked up.
	require.NoError(t, os.WriteFile(plain, append(binary.LittleEndian.AppendUint16(nil, 999), words...), 0o600))
	o, err := parseFlags(smallFlags("-steps", "1", "-eval", plain), t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, t.Output()), "999")
}
