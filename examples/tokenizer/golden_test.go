package tokenizer_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

// golden case: a text, its ids and the text that the ids give back.
type encoded struct {
	Text    string  `json:"text"`
	IDs     []int32 `json:"ids"`
	Decoded string  `json:"decoded"`
}

func TestGoldenTokens(t *testing.T) {
	for _, name := range []string{"small", "hub"} {
		t.Run(name, func(t *testing.T) {
			tok, cases := load(t, name)
			require.NotEmpty(t, cases)
			for i, c := range cases {
				ids, err := tok.Encode(c.Text)
				require.NoError(t, err)
				require.Equal(t, c.IDs, ids, "case %d: %q", i, c.Text)
				require.Equal(t, c.Decoded, tok.Decode(c.IDs), "case %d", i)
				stream, text := tok.Stream(false), ""
				for _, id := range c.IDs {
					text += stream.Next(id)
				}
				require.Equal(t, c.Decoded, text+stream.Flush(), "case %d, token by token", i)
			}
			t.Logf("%d texts", len(cases))
		})
	}
}

// TestGoldenForms: BPE over characters, in the forms that conversions of SentencePiece have, and WordPiece and Unigram in those of BERT, XLM-RoBERTa, ALBERT and
// others agree with the tokenizers library (make.py in testdata/golden/tokenizer/characters and pieces): the ids, and the texts that they give back with and
// without special tokens, at once and token by token.
func TestGoldenForms(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	forms, err := filepath.Glob(filepath.Join(dir, "tokenizer", "[cp]*", "*", "cases.json"))
	require.NoError(t, err)
	require.Len(t, forms, 19)
	for _, path := range forms {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			tok, err := tokenizer.Load(filepath.Dir(path))
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var all struct {
				Cases []struct {
					encoded
					Special []int32
					Plain   string
				}
				Lists []encoded
			}
			require.NoError(t, json.Unmarshal(text, &all))
			require.NotEmpty(t, all.Cases)
			for _, c := range all.Cases {
				ids, err := tok.Encode(c.Text)
				require.NoError(t, err)
				if len(ids) == 0 {
					ids = []int32{}
				}
				require.Equal(t, c.IDs, ids, "%q", c.Text)
				special, err := tok.EncodeSpecial(c.Text)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(c.Special), fmt.Sprint(special), "%q", c.Text)
				require.Equal(t, c.Decoded, tok.Decode(c.IDs), "%q", c.Text)
				require.Equal(t, c.Plain, tok.DecodePlain(c.Special), "%q", c.Text)
			}
			for _, c := range all.Lists {
				require.Equal(t, c.Decoded, tok.Decode(c.IDs), "%v", c.IDs)
				stream, text := tok.Stream(false).FromBegin(), ""
				for _, id := range c.IDs {
					text += stream.Next(id)
				}
				if text += stream.Flush(); !strings.Contains(c.Decoded, "\uFFFD") { // a stream keeps characters between bytes that are none
					require.Equal(t, c.Decoded, text, "%v token by token", c.IDs)
				}
			}
		})
	}
}

// load reads a tokenizer of the golden data and its cases. The large one of a hub is not part of the
// repository's data.
func load(t testing.TB, name string) (*tokenizer.Tokenizer, []encoded) {
	t.Helper()
	dir, err := golden.Dir()
	require.NoError(t, err)
	dir = filepath.Join(dir, "tokenizer")
	var tok *tokenizer.Tokenizer
	path := filepath.Join(dir, name, "cases.json")
	if name == "small" {
		tok, err = tokenizer.Load(filepath.Join(dir, name))
		require.NoError(t, err)
	} else {
		path = filepath.Join(dir, name+"_cases.json")
		packed, err := os.Open(filepath.Join(dir, name, "tokenizer.json.gz"))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the golden data has no tokenizer of a hub (set CANN_GOLDEN_DIR to a full set)")
		}
		require.NoError(t, err)
		defer packed.Close()
		text, err := gzip.NewReader(packed)
		require.NoError(t, err)
		all, err := io.ReadAll(text)
		require.NoError(t, err)
		tok, err = tokenizer.Parse(all)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var cases []encoded
	require.NoError(t, json.Unmarshal(text, &cases))
	return tok, cases
}

// BenchmarkEncode encodes ten megabytes of mixed text: code, prose in several scripts, numbers.
func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"small", "hub"} {
		b.Run(name, func(b *testing.B) {
			tok, cases := load(b, name)
			var text []byte
			for len(text) < 10e6 {
				for _, c := range cases {
					text = append(text, c.Text...)
				}
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, err := tok.Encode(string(text))
				require.NoError(b, err)
			}
		})
	}
}

// TestGoldenSentencePiece: models of SentencePiece, without a tokenizer.json, give the ids and texts that SentencePiece itself gives
// (testdata/golden/tokenizer/sentencepiece/make.py).
func TestGoldenSentencePiece(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	forms, err := filepath.Glob(filepath.Join(dir, "tokenizer", "sentencepiece", "*", "cases.json"))
	require.NoError(t, err)
	require.Len(t, forms, 8)
	for _, path := range forms {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			tok, err := tokenizer.Load(filepath.Dir(path))
			if filepath.Base(filepath.Dir(path)) == "word" {
				require.ErrorIs(t, err, tokenizer.ErrUnsupported)
				require.ErrorContains(t, err, "a model of type 3")
				return
			}
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var all struct{ Cases, Lists []encoded }
			require.NoError(t, json.Unmarshal(text, &all))
			require.NotEmpty(t, all.Cases)
			// plain reports whether a list of ids has no token that SentencePiece prints in another way: control and unknown ones, and bytes that are no character.
			plain := func(c encoded) bool {
				for i, id := range c.IDs {
					if tok.Special(id) || i == 0 && string(tok.Bytes(id)) == " " {
						return false
					}
				}
				return !strings.Contains(c.Decoded, "\uFFFD")
			}
			for _, c := range all.Cases {
				if strings.Contains(c.Text, "<unk>") || strings.Contains(c.Text, "<s>") || strings.Contains(c.Text, "<sep>") {
					continue // they are tokens here, as in transformers
				}
				ids, err := tok.Encode(c.Text)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(c.IDs), fmt.Sprint(ids), "%q", c.Text)
			}
			decoded := 0
			for _, c := range append(all.Cases, all.Lists...) {
				if plain(c) {
					decoded++
					require.Equal(t, c.Decoded, tok.Decode(c.IDs), "%v", c.IDs)
				}
			}
			require.Greater(t, decoded, 30)
		})
	}
}
