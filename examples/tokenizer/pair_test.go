package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestGoldenPairs: pairs of texts become the ids and types that the tokenizers library gives them, with each kind of post-processor.
func TestGoldenPairs(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "tokenizer", "pieces", "bert", "tokenizer.json"))
	require.NoError(t, err)
	file := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(text, &file))
	var all []struct {
		Name       string
		Processor  json.RawMessage `json:"post_processor"`
		Pairs      [][2]string
		IDs, Types [][]int32
	}
	text, err = os.ReadFile(filepath.Join(dir, "encoders", "pairs.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 10)
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			file["post_processor"] = c.Processor
			text, err := json.Marshal(file)
			require.NoError(t, err)
			tok, err := tokenizer.Parse(text)
			require.NoError(t, err)
			for i, p := range c.Pairs {
				ids, types, err := tok.EncodePair(p[0], p[1], len(c.IDs[i]))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(c.IDs[i], c.Types[i]), fmt.Sprint(ids, types), "%q", p)
				if len(ids) > 0 {
					_, _, err = tok.EncodePair(p[0], p[1], len(ids)-1)
					require.ErrorIs(t, err, tokenizer.ErrLength)
				}
			}
		})
	}
}

// TestPairRefusals: a tokenizer that does not say how a pair is encoded still encodes single texts.
func TestPairRefusals(t *testing.T) {
	for want, processor := range map[string]parts{
		"several post-processors": {"type": "Sequence", "processors": []parts{template, template}},
		"names token \"<x>\"":     {"type": "TemplateProcessing", "single": template["single"], "pair": []parts{{"SpecialToken": parts{"id": "<x>"}}}, "special_tokens": template["special_tokens"]},
		"something beside tokens": {"type": "TemplateProcessing", "single": template["single"], "pair": []parts{{"Sequence": parts{"id": "C"}}}, "special_tokens": template["special_tokens"]},
		"1 Sequences A and 2 Seq": {"type": "TemplateProcessing", "single": template["single"], "pair": []parts{{"Sequence": parts{"id": "A"}}, {"Sequence": parts{"id": "B"}}, {"Sequence": parts{"id": "B"}}}, "special_tokens": template["special_tokens"]},
	} {
		tok, err := build(t, parts{"post_processor": processor})
		require.NoError(t, err)
		_, err = tok.EncodeSpecial("hello")
		require.NoError(t, err)
		_, _, err = tok.EncodePair("hello", "hello", 100)
		require.ErrorIs(t, err, tokenizer.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}
