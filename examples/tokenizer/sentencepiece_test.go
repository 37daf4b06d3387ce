package tokenizer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/internal/testing/golden"
)

// pieces copies a golden model of SentencePiece into a folder with a configuration.
func pieces(t *testing.T, name, config string) (folder string, model []byte) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	model, err = os.ReadFile(filepath.Join(dir, "tokenizer", "sentencepiece", name, "tokenizer.model"))
	require.NoError(t, err)
	folder = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.model"), model, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte(config), 0o600))
	return folder, model
}

// TestPiecesOfFolders: control pieces in a text are tokens, and the configuration says which stand around a text and where spaces are put, as
// LlamaTokenizer of transformers 5.17 has it.
func TestPiecesOfFolders(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                         "▁qu ick <s> qu ick",
		`{"legacy":false}`:           "▁qu ick <s> qu ick",
		`{"legacy":true}`:            "▁qu ick <s> ▁qu ick",
		`{"add_prefix_space":false}`: "qu ick <s> qu ick",
		`{"add_bos_token":true,"add_eos_token":true,"bos_token":"<s>","eos_token":{"content":"</s>"}}`: "<s> ▁qu ick <s> qu ick </s>",
		`{"added_tokens_decoder":{"480":{"content":"ui"}}}`:                                            "▁q ui ck <s> q ui ck",
	} {
		folder, _ := pieces(t, "llama", config)
		tok, err := tokenizer.Load(folder)
		require.NoError(t, err, config)
		ids, err := tok.EncodeSpecial("quick<s>quick")
		require.NoError(t, err)
		var got []string
		for _, id := range ids {
			text := strings.ReplaceAll(string(tok.Bytes(id)), " ", "▁")
			got = append(got, text)
		}
		if !strings.Contains(config, "480") {
			require.Equal(t, want, strings.Join(got, " "), config)
			continue
		}
		require.Contains(t, got, "ui")
	}
	folder, _ := pieces(t, "llama", `{}`)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "added_tokens.json"), []byte(`{"<new>":480}`), 0o600))
	tok, err := tokenizer.Load(folder)
	require.NoError(t, err)
	ids, err := tok.Encode("<new>")
	require.NoError(t, err)
	require.Equal(t, []int32{480}, ids)
	for config, want := range map[string]string{
		`{"add_bos_token":true,"bos_token":"<none>"}`:     `"<none>" is asked for around a text`,
		`{"sp_model_kwargs":{"nbest_size":-1}}`:           "sp_model_kwargs",
		`{"do_lower_case":true}`:                          "do_lower_case is true",
		`{"added_tokens_decoder":{"5":{"content":"zz"}}}`: `has "zz" as token 5`,
		`{"added_tokens_decoder":{"x":{"content":"zz"}}}`: `the id "x"`,
	} {
		folder, _ := pieces(t, "llama", config)
		_, err := tokenizer.Load(folder)
		require.ErrorContains(t, err, want)
	}
}

// TestEveryKeyOfPieces changes each key of tokenizer_config.json that goes with a model of SentencePiece, except those of chat templates.
func TestEveryKeyOfPieces(t *testing.T) {
	encode := func(config string) (string, error) {
		folder, _ := pieces(t, "llama", config)
		tok, err := tokenizer.Load(folder)
		if err != nil {
			return "", err
		}
		ids, err := tok.EncodeSpecial("quick<s>quick")
		require.NoError(t, err)
		return fmt.Sprint(ids), nil
	}
	want, err := encode(`{}`)
	require.NoError(t, err)
	values := map[string]string{"add_bos_token": "true", "add_eos_token": "true", "add_prefix_space": "false", "legacy": "true", "added_tokens_decoder": `{"480":{"content":"ui"}}`}
	for _, k := range hub.PiecesConfig.Keys {
		value, ok := values[k.Name]
		if !ok {
			value = "7"
		}
		got, err := encode(`{"` + k.Name + `":` + value + `}`)
		switch {
		case k.Name == "chat_template" || strings.HasSuffix(k.Name, "_token") && k.Kind == verdict.Honoured && !ok: // package chat reads them
		case k.Kind == verdict.Refused:
			require.ErrorContains(t, err, k.Name+" is 7")
		case k.Kind == verdict.Honoured:
			require.True(t, err != nil || got != want, "%s changes nothing", k.Name)
		default:
			require.NoError(t, err, k.Name)
			require.Equal(t, want, got, k.Name)
		}
	}
}

// TestDamagedPieces: a model of SentencePiece that is cut off or damaged is refused, or encodes, and never panics.
func TestDamagedPieces(t *testing.T) {
	for _, name := range []string{"llama", "unigram_symbols", "bpe_symbols"} {
		folder, model := pieces(t, name, `{"add_bos_token":true}`)
		for i := 0; i < len(model); i += 97 {
			damaged := append([]byte{}, model...)
			damaged[i] ^= byte(1 << (i % 8))
			if i%3 == 0 {
				damaged = damaged[:i]
			}
			require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.model"), damaged, 0o600))
			tok, err := tokenizer.Load(folder)
			if err != nil {
				continue
			}
			if ids, err := tok.EncodeSpecial("The quick <code> brown \u4e16 <s> fox"); err == nil {
				tok.Decode(ids)
			}
		}
	}
}
