package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

// tokenized runs -tokenize and returns what it says.
func tokenized(t *testing.T, flags ...string) string {
	o, err := parseFlags(flags, t.Output())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), o, &out))
	return out.String()
}

// TestTokenize: the tokens of a text train as the text does, on any ranks, and a model's tokenizer
// gives those of samples, without the bad ones.
func TestTokenize(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rhyme.tokens")
	out := tokenized(t, smallFlags("-tokenize", path)...)
	text, err := os.ReadFile("testdata/rhyme.txt")
	require.NoError(t, err)
	f, err := dataset.OpenTokens(path)
	require.NoError(t, err)
	require.Contains(t, out, "tokens below")
	require.Equal(t, len(text), f.Count)
	ids, err := f.Window(0, f.Count)
	require.NoError(t, err)
	for i := range text {
		require.EqualValues(t, text[i], ids[i])
	}
	_, err = f.Window(f.Count-1, 2)
	require.Error(t, err)
	require.NoError(t, f.Close())
	// The vocabulary of a new model is that of its data, so both learn from tokens of 256.
	model := filepath.Join(dir, "model")
	trained(t, smallFlags("-steps", "1", "-export", model)...)
	flags := []string{"-model", model, "-data", "testdata/rhyme.txt", "-batch", "4", "-seq", "64", "-warmup", "5", "-steps", "3"}
	said, want := trained(t, flags...)
	require.Contains(t, said, "has no tokenizer.json or tokenizer.model: tokens are the bytes of the text")
	_, got := trained(t, append(flags, "-data", path)...)
	require.Equal(t, want, got)
	_, several := trained(t, append(flags, "-data", path, "-ranks", "2", "-fsdp")...)
	require.InEpsilon(t, want, several, 1e-4)

	root, err := golden.Dir()
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(model, os.DirFS(filepath.Join(root, "tokenizer", "small"))))
	samples := questions(t, `{"text": "the square of %d is %d"}`)
	path = filepath.Join(dir, "questions.tokens")
	out = tokenized(t, "-model", model, "-data", samples, "-tokenize", path)
	require.Contains(t, out, "41 samples read, 1 bad lines")
	tok, err := tokenizer.Load(model)
	require.NoError(t, err)
	first, err := tok.Encode("the square of 7 is 49")
	require.NoError(t, err)
	f, err = dataset.OpenTokens(path)
	require.NoError(t, err)
	ids, err = f.Window(0, f.Count)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.True(t, bytes.Contains(raw(ids), raw(first)))
	left, err := filepath.Glob(filepath.Join(dir, ".tokenize-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// raw are the bytes of ids.
func raw(ids []int32) (b []byte) {
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// TestBadTokens: damaged files are named, and what cannot be made leaves nothing behind.
func TestBadTokens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tokens")
	good := append(dataset.TokensHeader(5), 1, 0, 0, 0)
	for text, content := range map[string][]byte{
		"not a file that -tokenize has written": good[:9], "as a .tokens file does": append([]byte("T"), good...), "impossible": good[:len(good)-1],
		"0 bytes of tokens": good[:16],
	} {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := loadCorpus(path)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	c, err := loadCorpus(path)
	require.NoError(t, err)
	_, _, err = c.batch(1, 0, 0, 1, 4)
	require.ErrorContains(t, err, "has 1 tokens")
	require.NoError(t, c.Close())

	_, err = parseFlags([]string{"-tokenize", "x.bin"}, t.Output())
	require.ErrorContains(t, err, ".tokens")
	o, err := parseFlags(smallFlags("-tokenize", filepath.Join(dir, "b.tokens")), t.Output())
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ended, o, t.Output()), context.Canceled)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{path}, left)
}

// TestEvaluatesTokens: -eval reads files of tokens as -data does: the loss is that of the same text.
func TestEvaluatesTokens(t *testing.T) {
	dir := t.TempDir()
	path, words := filepath.Join(dir, "rhyme.tokens"), filepath.Join(dir, "rhyme.bin")
	tokenized(t, smallFlags("-tokenize", path)...)
	text, err := os.ReadFile("testdata/rhyme.txt")
	require.NoError(t, err)
	var ids []byte
	for _, b := range text {
		ids = append(ids, b, 0)
	}
	require.NoError(t, os.WriteFile(words, ids, 0o600))
	held := func(file string) string {
		out, _ := trained(t, smallFlags("-steps", "2", "-eval", file)...)
		loss := regexp.MustCompile(`held-out loss [0-9.]+`).FindString(out)
		require.NotEmpty(t, loss)
		return loss
	}
	want := held("testdata/rhyme.txt")
	require.Equal(t, want, held(path))
	require.Equal(t, want, held(words))
}
