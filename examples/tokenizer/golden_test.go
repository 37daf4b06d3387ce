package tokenizer_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// TestGoldenCharacters: BPE over characters, in the forms that conversions of SentencePiece have, agrees with the tokenizers library
// (testdata/golden/tokenizer/characters/make.py): the ids, and the texts that they give back with and without special tokens.
func TestGoldenCharacters(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	forms, err := filepath.Glob(filepath.Join(dir, "tokenizer", "characters", "*", "cases.json"))
	require.NoError(t, err)
	require.Len(t, forms, 7)
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
				require.Equal(t, c.Special, special, "%q", c.Text)
				require.Equal(t, c.Decoded, tok.Decode(c.IDs), "%q", c.Text)
				require.Equal(t, c.Plain, tok.DecodePlain(c.Special), "%q", c.Text)
			}
			for _, c := range all.Lists {
				require.Equal(t, c.Decoded, tok.Decode(c.IDs), "%v", c.IDs)
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
