package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/tokenizer"
)

// parts of a tokenizer.json with a vocabulary of a few words; a test replaces what it is about.
type parts map[string]any

func build(t *testing.T, change parts) (*tokenizer.Tokenizer, error) {
	t.Helper()
	return tokenizer.Parse(describe(t, change))
}

// changed are the parts with those of a test.
func changed(change parts) parts {
	vocab := map[string]int{}
	for _, r := range "abcdefghijklmnopqrstuvwxyz0123456789-ĠÂĊ" {
		vocab[string(r)] = len(vocab)
	}
	for _, word := range []string{"he", "ll", "hell", "hello", "Ġw", "aa", "aaa"} {
		vocab[word] = len(vocab)
	}
	all := parts{
		"added_tokens":  []parts{{"id": 100, "content": "<s>", "special": true}},
		"pre_tokenizer": parts{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       parts{"type": "ByteLevel"},
		"model": parts{"type": "BPE", "vocab": vocab, "merges": []any{
			"h e", []string{"l", "l"}, "he ll", "hell o", "Ġ w", "a a", "aa a"}},
	}
	for name, value := range change {
		if m, ok := value.(parts); ok && name == "model" {
			for k, v := range m {
				all["model"].(parts)[k] = v
			}
			continue
		}
		all[name] = value
	}
	return all
}

// words encodes a text and names the tokens.
func words(t *testing.T, tok *tokenizer.Tokenizer, text string) string {
	t.Helper()
	ids, err := tok.Encode(text)
	require.NoError(t, err)
	var all []string
	for _, id := range ids {
		all = append(all, string(tok.Bytes(id)))
	}
	return strings.Join(all, "|")
}

func TestMerges(t *testing.T) {
	tok, err := build(t, nil)
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                       "",
		"hello world":            "hello| w|o|r|l|d",
		"aaaa":                   "aa|aa",
		"aaaaa":                  "aa|aaa",
		"<s>hello<s>":            "<s>|hello|<s>",
		"< s>":                   " |s",
		strings.Repeat("z", 100): strings.TrimSuffix(strings.Repeat("z|", 100), "|"),
	} {
		require.Equal(t, want, words(t, tok, text), "%q", text)
	}
	ids, err := tok.Encode(strings.Repeat("a", 1<<20)) // one word of a megabyte
	require.NoError(t, err)
	require.Len(t, ids, 1<<19)
	require.Equal(t, 101, tok.Size())
}

func TestIgnoreMerges(t *testing.T) {
	tok, err := build(t, parts{"model": parts{"merges": []any{"h e"}, "ignore_merges": true}})
	require.NoError(t, err)
	require.Equal(t, "hello", words(t, tok, "hello"))
	require.Equal(t, "he|l|l|o|o", words(t, tok, "helloo"))
}

func TestAddedTokens(t *testing.T) {
	tok, err := build(t, parts{"normalizer": parts{"type": "Lowercase"}, "added_tokens": []parts{
		{"id": 100, "content": "<a>", "lstrip": true, "rstrip": true},
		{"id": 101, "content": "<a><b>", "special": true},
		{"id": 42, "content": "hell", "single_word": true},
		{"id": 103, "content": "XY", "normalized": true},
	}})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"b <a> c":     "b|<a>|c",
		"b<a><b>":     "b|<a><b>",
		"hell":        "hell",
		"hell hello":  "hell| |hello",
		"xy Xy xY1":   "XY| |XY| |XY|1",
		"<A>":         "a",
		"<a> <a> <a>": "<a>|<a>|<a>",
	} {
		require.Equal(t, want, words(t, tok, text), "%q", text)
	}
	ids, err := tok.Encode("hello<a><b>")
	require.NoError(t, err)
	require.Equal(t, "hello<a><b>", tok.Decode(ids))
	require.Equal(t, "hello", tok.DecodePlain(ids))
	id, ok := tok.ID("<a><b>")
	require.True(t, ok)
	require.Equal(t, int32(101), id)
	require.True(t, tok.Special(id))
	_, ok = tok.ID("<none>")
	require.False(t, ok)
}

func TestAroundText(t *testing.T) {
	bos := parts{"type": "TemplateProcessing",
		"single":         []parts{{"SpecialToken": parts{"id": "<s>"}}, {"Sequence": parts{"id": "A"}}, {"SpecialToken": parts{"id": "<s>"}}},
		"special_tokens": parts{"<s>": parts{"ids": []int{100}}}}
	tok, err := build(t, parts{"post_processor": parts{"type": "Sequence", "processors": []parts{{"type": "ByteLevel"}, bos}}})
	require.NoError(t, err)
	ids, err := tok.EncodeSpecial("")
	require.NoError(t, err)
	require.Equal(t, []int32{100, 100}, ids)
}

func TestBytesThatAreNoText(t *testing.T) {
	dir := t.TempDir()
	vocab := map[string]int{"ã": 0, "ģ": 1, "Ĥ": 2, "a": 3} // E3 81 82 is あ
	text, err := json.Marshal(parts{"pre_tokenizer": parts{"type": "ByteLevel", "add_prefix_space": false}, "decoder": parts{"type": "ByteLevel"}, "model": parts{"vocab": vocab}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o600))
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	for _, c := range []struct {
		ids  []int32
		want string
	}{
		{[]int32{0, 1, 2}, "あ"}, {[]int32{0, 1}, "\uFFFD"}, {[]int32{0, 1, 3}, "\uFFFDa"}, {[]int32{1, 1}, "\uFFFD\uFFFD"}, {[]int32{0, 0, 1, 2}, "\uFFFDあ"}, {[]int32{-1, 99}, ""},
	} {
		require.Equal(t, c.want, tok.Decode(c.ids), "%v", c.ids)
		stream, out := tok.Stream(true), ""
		for _, id := range c.ids {
			out += stream.Next(id)
		}
		require.Equal(t, c.want, out+stream.Flush(), "%v", c.ids)
	}
	stream := tok.Stream(false)
	require.Equal(t, []string{"", "", "あ"}, []string{stream.Next(0), stream.Next(1), stream.Next(2)})
}

func TestUnsupported(t *testing.T) {
	for name, change := range map[string]parts{
		"Unigram":        {"model": parts{"type": "Unigram", "merges": []string{}, "vocab": []any{[]any{"a", 0}}}},
		"WordLevel":      {"model": parts{"type": "WordLevel"}},
		"byte_fallback":  {"model": parts{"byte_fallback": true}},
		"Metaspace":      {"pre_tokenizer": parts{"type": "Sequence", "pretokenizers": []parts{{"type": "Digits"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}}}},
		"Strip":          {"decoder": parts{"type": "Sequence", "decoders": []parts{{"type": "Strip", "content": " ", "start": 1}}}},
		"ByteLevel":      {"decoder": parts{"type": "Metaspace", "replacement": "▁"}, "pre_tokenizer": parts{"type": "ByteLevel"}},
		"dropout":        {"model": parts{"dropout": 0.1}},
		"unk_token":      {"model": parts{"unk_token": "<unk>"}},
		"end_of_word":    {"model": parts{"end_of_word_suffix": "</w>"}},
		"UnicodeScript":  {"pre_tokenizer": parts{"type": "UnicodeScripts"}},
		"Replace":        {"normalizer": parts{"type": "Replace", "pattern": parts{"String": "a"}, "content": ""}, "pre_tokenizer": meta("first", true), "decoder": meta("first", true)},
		"normalizer":     {"normalizer": parts{"type": "ByteLevel"}},
		"post-process":   {"post_processor": parts{"type": "Template"}},
		"without prefix": {"decoder": parts{"type": "WordPiece"}},
		"decoder":        {"decoder": parts{"type": "CTC"}},
		"neither":        {"pre_tokenizer": parts{"type": "Split", "behavior": "Isolated"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(t, change)
			require.ErrorIs(t, err, tokenizer.ErrUnsupported)
			require.ErrorContains(t, err, name)
		})
	}
	for name, change := range map[string]parts{
		"vocabulary is empty": {"model": parts{"vocab": parts{}}},
		"names a token":       {"model": parts{"merges": []string{"h q q"}}},
		"has no space":        {"model": parts{"merges": []string{"hq"}}},
		"outside of 0":        {"added_tokens": []parts{{"id": 1 << 30, "content": "<far>"}}},
	} {
		_, err := build(t, change)
		require.ErrorContains(t, err, name)
	}
	_, err := tokenizer.Load(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestConcurrentUse(t *testing.T) {
	tok, cases := load(t, "small")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, c := range cases {
				ids, err := tok.Encode(c.Text)
				if err != nil || fmt.Sprint(ids) != fmt.Sprint(c.IDs) {
					t.Errorf("%q: %v, %v", c.Text, ids, err)
				}
			}
		})
	}
	all.Wait()
}

// TestOneOwner: each id has one token, and each token one id, so that decoding does not depend on the order in which a file is read.
func TestOneOwner(t *testing.T) {
	_, err := build(t, parts{"model": parts{"vocab": json.RawMessage(`{"a":0,"b":1,":":2,"a":3}`), "merges": []string{}}})
	require.ErrorContains(t, err, "vocab: 1 of its tokens stand there twice")
	for want, change := range map[string]parts{
		`the id 1 is that of two tokens, "a" and "b"`:              {"model": parts{"vocab": parts{"a": 1, "b": 1}, "merges": []string{}}},
		`the id 1 is that of two tokens, "<x>" and "b"`:            {"model": parts{"vocab": parts{"a": 0, "b": 1}, "merges": []string{}}, "added_tokens": []parts{{"id": 1, "content": "<x>"}}},
		`the added token "<x>" has the ids 7 and 8`:                {"added_tokens": []parts{{"id": 7, "content": "<x>"}, {"id": 8, "content": "<x>"}}},
		`the added token "a" has the ids 0 and 9`:                  {"model": parts{"vocab": parts{"a": 0, "b": 1}, "merges": []string{}}, "added_tokens": []parts{{"id": 9, "content": "a"}}},
		`vocab: the token "a" has the ids 0 and 1`:                 {"model": parts{"type": "Unigram", "unk_id": 0, "vocab": [][]any{{"a", -1.5}, {"a", -2.5}}}},
		`the template for a single text gives "A" the type_id 1`:   {"post_processor": parts{"type": "TemplateProcessing", "single": []parts{{"Sequence": parts{"id": "A", "type_id": 1}}}, "special_tokens": parts{}}},
		`the template for a single text gives "<s>" the type_id 2`: {"post_processor": parts{"type": "TemplateProcessing", "single": []parts{{"Sequence": parts{"id": "A"}}, {"SpecialToken": parts{"id": "<s>", "type_id": 2}}}, "special_tokens": parts{"<s>": parts{"ids": []int{1}}}}},
	} {
		_, err := build(t, change)
		require.ErrorContains(t, err, want)
	}
}
