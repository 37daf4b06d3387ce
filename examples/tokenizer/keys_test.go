package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/verdict"
)

// change is another legal value of a key of tokenizer.json, in a file with other parts than the usual ones.
type change struct {
	parts parts
	value any
}

var (
	byteLevel  = parts{"type": "ByteLevel", "add_prefix_space": false}
	splitting  = parts{"type": "Split", "pattern": parts{"String": "l"}, "behavior": "Isolated", "invert": false}
	template   = parts{"type": "TemplateProcessing", "single": []parts{{"SpecialToken": parts{"id": "<s>"}}, {"Sequence": parts{"id": "A"}}}, "special_tokens": parts{"<s>": parts{"ids": []int{100}}}}
	unknown    = parts{"decoder": kept, "model": parts{"unk_token": "<s>", "merges": []string{}, "vocab": parts{"a": 0, "l": 3, "<s>": 100}}, "pre_tokenizer": nil}
	spaced     = parts{"decoder": parts{"type": "Strip", "content": " ", "start": 0, "stop": 0}, "pre_tokenizer": nil}
	wordPieces = parts{"decoder": parts{"type": "WordPiece", "prefix": "##", "cleanup": true}, "pre_tokenizer": parts{"type": "BertPreTokenizer"}, "model": parts{
		"type": "WordPiece", "unk_token": "<s>", "merges": []string{}, "vocab": parts{"<s>": 100, "hel": 0, "##l": 1, "##o": 2, "w": 3, "-": 4, ".": 5, "#l": 6, "aaaa": 7}}}
	unigrams   = parts{"decoder": kept, "pre_tokenizer": nil, "model": parts{"type": "Unigram", "unk_id": 0, "merges": []string{}, "vocab": []any{[]any{"<unk>", 0}, []any{"h", -1}, []any{"e", -2}, []any{"he", -2.5}, []any{"l", -1}}}}
	bertParts  = parts{"normalizer": parts{"type": "BertNormalizer"}}
	bertAround = parts{"post_processor": parts{"type": "BertProcessing", "cls": []any{"a", 0}, "sep": []any{"b", 1}}}
	metaspaces = parts{"decoder": meta("always", true), "pre_tokenizer": parts{"type": "Metaspace", "replacement": "Ġ"}}
)

// changes has another legal value for each key, without the names of the parts that it may be nested in.
var changes = map[string]change{
	"version":                         {nil, "2.0"},
	"truncation":                      {nil, parts{"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
	"padding":                         {nil, parts{"strategy": parts{"Fixed": 9}, "pad_id": 1, "pad_type_id": 0, "pad_token": "a", "direction": "Right"}},
	"added_tokens":                    {nil, []parts{{"id": 100, "content": "<s>", "special": true}, {"id": 42, "content": "hell"}}},
	"model.type":                      {nil, "Unigram"},
	"model.vocab":                     {parts{"model": parts{"merges": []string{}}}, parts{"h": 1, "e": 0}},
	"model.merges":                    {nil, []string{"h e"}},
	"model.ignore_merges":             {parts{"model": parts{"merges": []string{"h e"}}}, true},
	"model.dropout":                   {nil, 0.5},
	"model.unk_token":                 {unknown, "a"},
	"model.continuing_subword_prefix": {nil, "##"},
	"model.end_of_word_suffix":        {nil, "</w>"},
	"model.byte_fallback":             {parts{"decoder": kept, "pre_tokenizer": nil, "model": parts{"vocab": parts{"<0x68>": 1, "e": 0, "<s>": 100}, "merges": []string{}}}, true},
	"model.fuse_unk":                  {unknown, true},
	"model.unk_id":                    {unigrams, 1},
	"model.max_input_chars_per_word":  {wordPieces, 4},
	"normalizer.clean_text":           {bertParts, false},
	"normalizer.handle_chinese_chars": {bertParts, false},
	"normalizer.strip_accents":        {bertParts, false},
	"normalizer.lowercase":            {bertParts, false},
	"normalizer.strip_left":           {parts{"normalizer": parts{"type": "Strip"}}, false},
	"normalizer.strip_right":          {parts{"normalizer": parts{"type": "Strip"}}, false},
	"normalizer.precompiled_charsmap": {parts{"normalizer": parts{"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="}}, "AAAA"},
	"pre_tokenizer.delimiter":         {parts{"pre_tokenizer": parts{"type": "CharDelimiterSplit", "delimiter": "l"}, "decoder": kept}, "e"},
	"post_processor.cls":              {bertAround, []any{"c", 2}},
	"post_processor.sep":              {bertAround, []any{"c", 2}},
	"decoder.prefix":                  {wordPieces, "#"},
	"decoder.cleanup":                 {wordPieces, false},
	"normalizer.type":                 {parts{"normalizer": parts{"type": "NFC"}}, "Lowercase"},
	"normalizer.normalizers":          {parts{"normalizer": parts{"type": "Sequence", "normalizers": []parts{}}}, []parts{{"type": "Lowercase"}}},
	"normalizer.pattern":              {parts{"normalizer": parts{"type": "Replace", "pattern": parts{"String": "h"}, "content": "b"}}, parts{"Regex": "[he]"}},
	"normalizer.content":              {parts{"normalizer": parts{"type": "Replace", "pattern": parts{"String": "h"}, "content": "b"}}, "c"},
	"normalizer.prepend":              {parts{"normalizer": parts{"type": "Prepend", "prepend": "b"}}, "c"},
	"pre_tokenizer.type":              {parts{"pre_tokenizer": byteLevel}, "Digits"},
	"pre_tokenizer.pretokenizers":     {parts{"pre_tokenizer": parts{"type": "Sequence", "pretokenizers": []parts{byteLevel}}}, []parts{splitting, byteLevel}},
	"pre_tokenizer.pattern":           {parts{"pre_tokenizer": splitting, "decoder": kept}, parts{"String": "e"}},
	"pre_tokenizer.behavior":          {parts{"pre_tokenizer": splitting, "decoder": kept}, "Removed"},
	"pre_tokenizer.invert":            {parts{"pre_tokenizer": parts{"type": "Split", "pattern": parts{"String": "l"}, "behavior": "Removed"}, "decoder": kept}, true},
	"pre_tokenizer.individual_digits": {parts{"pre_tokenizer": parts{"type": "Digits"}, "decoder": kept, "model": parts{"merges": []string{"1 2"}, "vocab": parts{"1": 0, "2": 1, "12": 2}}}, true},
	"pre_tokenizer.add_prefix_space":  {nil, true},
	"pre_tokenizer.replacement":       {metaspaces, "-"},
	"pre_tokenizer.prepend_scheme":    {metaspaces, "never"},
	"pre_tokenizer.split":             {parts{"decoder": meta("always", true), "pre_tokenizer": parts{"type": "Metaspace", "replacement": "Ġ"}, "model": parts{"merges": []string{"o Ġ"}, "vocab": parts{"o": 0, "Ġ": 1, "oĠ": 2}}}, false},
	"pre_tokenizer.str_rep":           {metaspaces, "-"},
	"pre_tokenizer.use_regex":         {parts{"model": parts{"merges": []string{"o Ġ"}, "vocab": parts{"o": 0, "Ġ": 1, "oĠ": 2}}}, false},
	"pre_tokenizer.trim_offsets":      {nil, true},
	"post_processor.type":             {parts{"post_processor": template}, "ByteLevel"},
	"post_processor.processors":       {parts{"post_processor": parts{"type": "Sequence", "processors": []parts{}}}, []parts{template}},
	"post_processor.single":           {parts{"post_processor": template}, []parts{{"Sequence": parts{"id": "A"}}, {"SpecialToken": parts{"id": "<s>"}}}},
	"post_processor.pair":             {parts{"post_processor": template}, []parts{{"Sequence": parts{"id": "B"}}, {"Sequence": parts{"id": "A"}}}},
	"post_processor.special_tokens":   {parts{"post_processor": template}, parts{"<s>": parts{"ids": []int{3, 4}}}},
	"post_processor.add_prefix_space": {parts{"post_processor": parts{"type": "ByteLevel"}}, true},
	"post_processor.trim_offsets":     {parts{"post_processor": parts{"type": "ByteLevel"}}, true},
	"post_processor.use_regex":        {parts{"post_processor": parts{"type": "ByteLevel"}}, false},
	"decoder.type":                    {parts{"decoder": parts{"type": "Metaspace", "replacement": "Ġ", "prepend_scheme": "never"}, "pre_tokenizer": nil}, "Fuse"},
	"decoder.decoders":                {parts{"decoder": parts{"type": "Sequence", "decoders": []parts{}}, "pre_tokenizer": nil}, []parts{{"type": "Replace", "pattern": parts{"String": "h"}, "content": "b"}}},
	"decoder.pattern":                 {parts{"decoder": parts{"type": "Replace", "pattern": parts{"String": "h"}, "content": "b"}, "pre_tokenizer": nil}, parts{"String": "e"}},
	"decoder.content":                 {parts{"decoder": parts{"type": "Replace", "pattern": parts{"String": "h"}, "content": "b"}, "pre_tokenizer": nil}, "c"},
	"decoder.start":                   {spaced, 1},
	"decoder.stop":                    {spaced, 1},
	"decoder.replacement":             {parts{"decoder": meta("never", true), "pre_tokenizer": nil}, "Ġ"},
	"decoder.prepend_scheme":          {parts{"decoder": parts{"type": "Metaspace", "replacement": "Ġ", "prepend_scheme": "never"}, "pre_tokenizer": nil}, "always"},
	"decoder.add_prefix_space":        {parts{"decoder": parts{"type": "Metaspace", "replacement": "Ġ"}, "pre_tokenizer": nil}, false},
	"decoder.split":                   {parts{"decoder": meta("never", true), "pre_tokenizer": nil}, false},
	"decoder.str_rep":                 {parts{"decoder": meta("never", true), "pre_tokenizer": nil}, "-"},
	"decoder.trim_offsets":            {nil, true},
	"decoder.use_regex":               {nil, false},
}

// TestEveryKey changes each key of tokenizer.json to another legal value, at every depth of the table. That changes what texts and tokens become, or
// is refused; or the key is on the list without effect, and changes nothing.
func TestEveryKey(t *testing.T) {
	of := func(all parts) (string, error) {
		text, err := json.Marshal(all)
		require.NoError(t, err)
		tok, err := tokenizer.Parse(text)
		if err != nil {
			return "", err
		}
		var out []any
		for _, text := range []string{"hello world", "HELLO  hell 12 1 aaaa", "<s>hello w", "hGello<s>o o", "Ġhello-l", "é…ö", " x ", "a世", "x\tw"} {
			ids, err := tok.Encode(text)
			require.NoError(t, err)
			special, err := tok.EncodeSpecial(text)
			require.NoError(t, err)
			pair, types, err := tok.EncodePair(text, "hello", 100)
			require.NoError(t, err)
			out = append(out, ids, special, pair, types, tok.Decode(ids), tok.DecodePlain(special))
		}
		for id := range int32(tok.Size()) {
			out = append(out, tok.Bytes(id))
		}
		return fmt.Sprint(append(out, tok.Decode([]int32{36, 36, 7, 4, 36}))...), nil
	}
	seen := map[string]bool{}
	for _, k := range tokenizer.Table.Keys {
		path := strings.Split(k.Name, ".")
		key, part, nested := path[len(path)-1], path[0], path[1:max(1, len(path)-1)]
		name := key
		if len(path) > 1 {
			name = part + "." + key
		}
		c, ok := changes[name]
		require.True(t, ok, "%s has no other value", k.Name)
		seen[name] = true
		// with is the file of the change, in as many Sequences as the table's key stands in, with a value of the key unless it is nil.
		with := func(value any) parts {
			all := changed(c.parts)
			if len(path) == 1 {
				all[key] = or(value, all[key])
				return all
			}
			one := parts{}
			if whole, ok := all[part].(parts); ok {
				for k, v := range whole {
					one[k] = v
				}
			}
			if value != nil {
				one[key] = value
			}
			for _, list := range slices.Backward(nested) {
				one = parts{"type": "Sequence", list: []parts{one}}
				if last := one[list].([]parts)[0]; list == "decoders" && last["type"] == "Strip" { // has its place behind others
					one[list] = []parts{{"type": "Replace", "pattern": parts{"String": "Ġ"}, "content": " "}, {"type": "Fuse"}, last}
				}
			}
			all[part] = one
			return all
		}
		if k.Kind == verdict.Refused {
			_, err := of(with(c.value))
			require.Error(t, err, k.Name)
			require.Contains(t, strings.ReplaceAll(err.Error(), "[]", ""), k.Name)
			continue
		}
		want, err := of(with(nil))
		require.NoError(t, err, k.Name)
		got, err := of(with(c.value))
		if k.Kind == verdict.Harmless {
			require.NoError(t, err, k.Name)
			require.Equal(t, want, got, k.Name)
		} else {
			require.True(t, err != nil || got != want, "%s is honoured, and %v changes nothing", k.Name, c.value)
		}
	}
	require.Len(t, seen, len(changes))
}

// TestUnknownKeys: a key of tokenizer.json that is not on the table is refused by name, at every depth.
func TestUnknownKeys(t *testing.T) {
	for want, change := range map[string]parts{
		"tokenizer.json: new is 1":                 {"new": 1},
		`added_tokens: json: unknown field "odd"`:  {"added_tokens": []parts{{"id": 2, "content": "c", "odd": true}}},
		"normalizer.normalizers[].odd is 1":        {"normalizer": parts{"type": "Sequence", "normalizers": []parts{{"type": "NFC", "odd": 1}}}},
		"pretokenizers[].pretokenizers[].odd is 1": {"pre_tokenizer": parts{"type": "Sequence", "pretokenizers": []parts{{"type": "Sequence", "pretokenizers": []parts{{"odd": 1}}}}}},
		"post_processor.odd is 1":                  {"post_processor": parts{"type": "ByteLevel", "odd": 1}},
		"decoder.decoders[].decoders is [{":        {"decoder": parts{"type": "Sequence", "decoders": []parts{{"type": "Sequence", "decoders": []parts{{"type": "Fuse"}}}}}},
		"model.nobody_knows is 7":                  {"model": parts{"nobody_knows": 7}},
	} {
		_, err := build(t, change)
		require.ErrorContains(t, err, want)
	}
}

func or(value, other any) any {
	if value == nil {
		return other
	}
	return value
}
