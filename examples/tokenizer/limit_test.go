package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/tokenizer"
)

// split is a pre-tokeniser by a pattern.
func split(expression string) parts {
	return parts{"type": "Split", "pattern": parts{"Regex": expression}, "behavior": "Isolated"}
}

// replacing are n normalisers that make a content of each match.
func replacing(n int, by parts, content string) parts {
	all := make([]parts, n)
	for i := range all {
		all[i] = parts{"type": "Replace", "pattern": by, "content": content}
	}
	return parts{"type": "Sequence", "normalizers": all}
}

// gpt4o is the pattern of a public model, whose classes overlap: trying everything takes a time that is quadratic in a run of letters.
const gpt4o = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// TestCostlyTokenizers: whatever a tokenizer.json asks for, it is refused, or a text is encoded or refused, in bounded time and memory.
func TestCostlyTokenizers(t *testing.T) {
	letters := strings.Repeat("a", 1<<20)
	nested := parts{"type": "Prepend", "prepend": "a"}
	for range 2000 {
		nested = parts{"type": "Sequence", "normalizers": []parts{nested}}
	}
	for name, c := range map[string]struct {
		change parts
		text   string
		want   string // in the error; empty for none
	}{
		"GPT-4o, small letters":        {parts{"pre_tokenizer": split(gpt4o)}, letters, ""},
		"GPT-4o, large letters":        {parts{"pre_tokenizer": split(gpt4o)}, strings.Repeat("A", 1<<20), ""},
		"GPT-4o, marks":                {parts{"pre_tokenizer": split(gpt4o)}, strings.Repeat("\u0301", 1<<19), ""},
		"GPT-4o, spaces":               {parts{"pre_tokenizer": split(gpt4o)}, strings.Repeat(" ", 1<<20), ""},
		"GPT-4o, spaces and lines":     {parts{"pre_tokenizer": split(gpt4o)}, strings.Repeat(" \n  ", 1<<18), ""},
		"GPT-4o, words":                {parts{"pre_tokenizer": split(gpt4o)}, strings.Repeat("Hello, world's 12 x; ", 1<<15), ""},
		"GPT-2, words":                 {parts{"pre_tokenizer": parts{"type": "ByteLevel"}}, strings.Repeat("Hello, world's 12 x; ", 1<<15), ""},
		"Digits":                       {parts{"pre_tokenizer": parts{"type": "Digits"}}, strings.Repeat("1a", 1<<19), ""},
		"a run of all":                 {parts{"pre_tokenizer": parts{"type": "Split", "pattern": parts{"Regex": "a"}, "behavior": "Contiguous"}}, letters, ""},
		"exponential":                  {parts{"pre_tokenizer": split(`(a+)+b`)}, letters + "c", ""},
		"exponential, to the end":      {parts{"pre_tokenizer": split(`(a+)+$`)}, strings.Repeat("a", 40) + "b", "takes more than 1s"},
		"exponential, look behind":     {parts{"pre_tokenizer": split(`(?<=x)(a+)+b`)}, "x" + strings.Repeat("a", 40), "takes more than 1s"},
		"quadratic":                    {parts{"pre_tokenizer": split(`a*b|a`)}, letters, "encoding the text takes more than"},
		"quadratic, possessive":        {parts{"pre_tokenizer": split(`(?>a*)b|a`)}, letters, "takes more than 1s"},
		"many instructions":            {parts{"pre_tokenizer": split(`(a{1000}){1000}`)}, letters, "pattern"},
		"a long pattern":               {parts{"pre_tokenizer": split(strings.Repeat("a?", 10_000))}, letters, "20000 bytes"},
		"nested groups":                {parts{"pre_tokenizer": split(strings.Repeat("(", 4000) + "a" + strings.Repeat(")", 4000))}, "a", ""},
		"empty matches":                {parts{"pre_tokenizer": split(`x*`)}, letters, ""},
		"growth":                       {parts{"normalizer": replacing(10, parts{"String": "a"}, strings.Repeat("a", 10))}, letters, "over the limit"},
		"growth of a short text":       {parts{"normalizer": replacing(10, parts{"Regex": "a"}, strings.Repeat("a", 10))}, "a", "over the limit"},
		"growth by nothing":            {parts{"normalizer": replacing(1, parts{"Regex": ""}, strings.Repeat("a", 4000))}, letters, "over the limit"},
		"growth at once":               {parts{"normalizer": replacing(1, parts{"String": "a"}, strings.Repeat("a", 9e6))}, letters, "over the limit"},
		"growth of decompositions":     {parts{"normalizer": parts{"type": "NFKD"}}, strings.Repeat("\ufdfa", 1<<18), "over the limit"},
		"a long prefix":                {parts{"normalizer": parts{"type": "Prepend", "prepend": strings.Repeat("a", 9e6)}}, "a", "9000000 bytes"},
		"prefixes":                     {parts{"normalizer": parts{"type": "Prepend", "prepend": strings.Repeat("a", 4000)}}, strings.Repeat("<s>a", 1<<18), "over the limit"},
		"many normalisers":             {parts{"normalizer": replacing(60_000, parts{"String": "x"}, "y")}, letters, "60000 normalizers"},
		"nested normalisers":           {parts{"normalizer": nested}, "a", ""},
		"normalised added tokens":      {parts{"normalizer": replacing(60, parts{"Regex": "x"}, "y"), "added_tokens": numbered(100_000, 10, true)}, "a", "normalising the added tokens takes more than"},
		"a long added token":           {parts{"added_tokens": []parts{{"id": 100, "content": letters}}}, letters, "1048576 bytes"},
		"added tokens that nearly are": {parts{"added_tokens": []parts{{"id": 100, "content": strings.Repeat("a", 4000) + "b"}}}, letters, "encoding the text takes more than"},
		"many added tokens":            {parts{"added_tokens": numbered(160_000, 1, false)}, letters, ""},
		"a far id":                     {parts{"added_tokens": []parts{{"id": 1 << 21, "content": "<far>"}}}, "a", "outside of 0"},
		"tokens around":                {parts{"post_processor": around(1000, 1000)}, "a", "a post-processor has"},
		"a large vocabulary":           {parts{"model": parts{"vocab": many(500_000), "merges": []string{}}}, letters, ""},
		"many merges":                  {parts{"model": parts{"merges": strings.Split(strings.TrimSuffix(strings.Repeat("h e,", 1_400_000), ","), ",")}}, letters, "merges has 600001 pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			file := describe(t, c.change)
			require.LessOrEqual(t, len(file), 10_500_000)
			budgettest.Bounded(t, func() {
				tok, err := tokenizer.Parse(file)
				if err == nil {
					_, err = tok.Encode(c.text)
				}
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				require.Less(t, len(err.Error()), 30_000)
			})
		})
	}
}

// numbered are added tokens of some length at least.
func numbered(n, length int, normalized bool) []parts {
	all := make([]parts, n)
	for i := range all {
		all[i] = parts{"id": 100 + i, "content": fmt.Sprintf("<%0*d>", length, i), "normalized": normalized}
	}
	return all
}

// around is a post-processor that puts a token around a text many times, which stands for many ids.
func around(times, ids int) parts {
	single := make([]parts, times)
	for i := range single {
		single[i] = parts{"SpecialToken": parts{"id": "<s>"}}
	}
	return parts{"type": "TemplateProcessing", "single": single, "special_tokens": parts{"<s>": parts{"ids": make([]int, ids)}}}
}

// many is a vocabulary of numbers.
func many(n int) map[string]int {
	all := map[string]int{"a": n}
	for i := range n {
		all[fmt.Sprint(i)] = i
	}
	return all
}

// TestAtMost: a text that is too long is not encoded to its end.
func TestAtMost(t *testing.T) {
	tok, err := build(t, parts{"post_processor": parts{"type": "TemplateProcessing",
		"single":         []parts{{"SpecialToken": parts{"id": "<s>"}}, {"Sequence": parts{"id": "A"}}, {"SpecialToken": parts{"id": "<s>"}}},
		"special_tokens": parts{"<s>": parts{"ids": []int{100}}}}})
	require.NoError(t, err)
	ids, err := tok.EncodeAtMost("b c d", true, 7)
	require.NoError(t, err)
	require.Len(t, ids, 7)
	for _, text := range []string{"b c d", strings.Repeat("b ", 1<<22), strings.Repeat("<s>", 1<<21)} {
		_, err = tok.EncodeAtMost(text, true, 6)
		require.ErrorIs(t, err, tokenizer.ErrLength)
		require.ErrorIs(t, err, budget.ErrLimit)
	}
	_, err = tok.EncodeAtMost("", true, 1)
	require.ErrorIs(t, err, tokenizer.ErrLength)
}

// FuzzTokenizer: a tokenizer.json is refused, or encodes a text in bounded time.
func FuzzTokenizer(f *testing.F) {
	for _, change := range []parts{nil, {"pre_tokenizer": split(gpt4o)}, {"pre_tokenizer": split(`(?<=x)(a+)+b`)}, {"normalizer": replacing(3, parts{"Regex": "a"}, "aaaa")}, {"post_processor": around(2, 2)}} {
		f.Add(describe(f, change), "aa Hello\n <s>é 12'S")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		budgettest.Timely(t, func() {
			tok, err := tokenizer.Parse(file)
			if err != nil {
				return
			}
			ids, err := tok.EncodeSpecial(text)
			if err != nil {
				require.ErrorIs(t, err, budget.ErrLimit)
				return
			}
			_ = tok.Decode(ids)
		})
	})
}

// describe is a tokenizer.json with some changes, see build.
func describe(t testing.TB, change parts) []byte {
	text, err := json.Marshal(changed(change))
	require.NoError(t, err)
	return text
}
