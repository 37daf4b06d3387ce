package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/tokenizer"
)

// Parts of tokenizers over characters, as folders of Llama 2, of newer models and of Gemma have them.
var (
	toSpaces   = parts{"type": "Replace", "pattern": parts{"String": "▁"}, "content": " "}
	fromSpaces = parts{"type": "Replace", "pattern": parts{"String": " "}, "content": "▁"}
	stripped   = parts{"type": "Sequence", "decoders": []parts{toSpaces, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}}}
	kept       = parts{"type": "Sequence", "decoders": []parts{toSpaces, {"type": "ByteFallback"}, {"type": "Fuse"}}}
	llama      = parts{"normalizer": parts{"type": "Sequence", "normalizers": []parts{{"type": "Prepend", "prepend": "▁"}, fromSpaces}}, "decoder": stripped}
)

func meta(scheme string, split bool) parts {
	return parts{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
}

// characters makes a tokenizer whose tokens are <unk>, <s>, those of all bytes unless fallback is false, and some words.
func characters(t *testing.T, change parts, fallback, fuse bool) *tokenizer.Tokenizer {
	vocab := map[string]int{"<unk>": 0, "<s>": 1}
	for b := 0; fallback && b < 256; b++ {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	for _, w := range []string{"▁", "h", "i", "hi", "▁hi", "▁▁", "世"} {
		vocab[w] = len(vocab)
	}
	all := parts{
		"added_tokens": []parts{{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true}},
		"model":        parts{"type": "BPE", "unk_token": "<unk>", "byte_fallback": fallback, "fuse_unk": fuse, "vocab": vocab, "merges": []string{"h i", "▁ hi", "▁ ▁"}},
	}
	for name, part := range change {
		all[name] = part
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	tok, err := tokenizer.Parse(text)
	require.NoError(t, err)
	return tok
}

// TestCharacters: a model over characters joins them, takes unknown ones as bytes or as the unknown token, and writes spaces as
// its form has it: before every part of a text, before the first, or nowhere.
func TestCharacters(t *testing.T) {
	for name, c := range map[string]struct {
		parts          parts
		fallback, fuse bool
		want           map[string][]string // tokens of texts, as the vocabulary spells them
		decoded        map[string]string   // texts that do not come back as they were
	}{
		"llama": {llama, true, true, map[string][]string{
			"": nil, "hi": {"▁hi"}, " hi": {"▁", "▁hi"}, "hi hi": {"▁hi", "▁hi"}, "  ": {"▁▁", "▁"}, "世é": {"▁", "世", "<0xC3>", "<0xA9>"}, "hi<s>hi": {"▁hi", "<s>", "▁hi"}, "\n": {"▁", "<0x0A>"},
		}, map[string]string{"hi<s>hi": "hi<s> hi"}},
		"first": {parts{"pre_tokenizer": meta("first", false), "decoder": stripped}, true, true, map[string][]string{
			"hi": {"▁hi"}, " hi": {"▁hi"}, "hi<s>hi": {"▁hi", "<s>", "hi"}, "<s>hi": {"<s>", "hi"}, "hi  hi": {"▁hi", "▁", "▁hi"},
		}, map[string]string{" hi": "hi"}},
		"always": {parts{"pre_tokenizer": meta("always", true), "decoder": meta("always", true)}, true, true, map[string][]string{
			"hi": {"▁hi"}, "hi<s>hi": {"▁hi", "<s>", "▁hi"}, "hi  hi": {"▁hi", "▁", "▁hi"}, "é": {"▁", "<0xC3>", "<0xA9>"},
		}, map[string]string{"hi<s>hi": "hi<s> hi", "é": "<0xC3><0xA9>"}},
		"never": {parts{"pre_tokenizer": meta("never", true), "decoder": meta("never", true)}, true, true, map[string][]string{
			"hi": {"hi"}, " hi": {"▁hi"}, "  hi": {"▁", "▁hi"},
		}, nil},
		"gemma": {parts{"normalizer": fromSpaces, "pre_tokenizer": parts{"type": "Split", "pattern": parts{"String": " "}, "behavior": "MergedWithPrevious"}, "decoder": kept}, true, true, map[string][]string{
			"hi": {"hi"}, " hi": {"▁hi"}, "  hi": {"▁", "▁hi"},
		}, nil},
		"fused":  {parts{"normalizer": fromSpaces, "decoder": kept}, false, true, map[string][]string{"éüh\n": {"<unk>", "h", "<unk>"}}, map[string]string{"éüh\n": "<unk>h<unk>"}},
		"single": {parts{"normalizer": fromSpaces, "decoder": kept}, false, false, map[string][]string{"éüh": {"<unk>", "<unk>", "h"}}, map[string]string{"éüh": "<unk><unk>h"}},
	} {
		t.Run(name, func(t *testing.T) {
			tok := characters(t, c.parts, c.fallback, c.fuse)
			for text, want := range c.want {
				ids, err := tok.Encode(text)
				require.NoError(t, err)
				var wanted []int32
				for _, w := range want {
					id, ok := tok.ID(w)
					require.True(t, ok, w)
					wanted = append(wanted, id)
				}
				require.Equal(t, fmt.Sprint(wanted), fmt.Sprint(ids), "%q", text)
				back, ok := c.decoded[text]
				if !ok {
					back = text
				}
				require.Equal(t, back, tok.Decode(ids), "%q", text)
				stream, out := tok.Stream(false).FromBegin(), ""
				for _, id := range ids {
					out += stream.Next(id)
				}
				require.Equal(t, back, out+stream.Flush(), "%q token by token", text)
			}
		})
	}
	tok := characters(t, llama, true, true)
	id := func(name string) int32 {
		id, ok := tok.ID(name)
		require.True(t, ok)
		return id
	}
	// Bytes that are no character are U+FFFD each, with those beside them; a stream, which does not know what comes, keeps whole ones.
	require.Equal(t, "hi\uFFFD\uFFFD\uFFFDhi", tok.Decode([]int32{id("▁hi"), id("<0xC3>"), id("<0xA9>"), id("<0xFF>"), id("hi")}))
	stream := tok.Stream(true)
	require.Equal(t, []string{" hi", "", "é", "\uFFFD"}, []string{stream.Next(id("▁hi")), stream.Next(id("<0xC3>")), stream.Next(id("<0xA9>")), stream.Next(id("<0xFF>"))})
}
