package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/tokenizer"
)

// split is a pre-tokeniser by a pattern.
func split(expression string) parts {
	return levelled(parts{"type": "Split", "pattern": parts{"Regex": expression}, "behavior": "Isolated"})
}

// levelled is a pre-tokeniser of a model over bytes.
func levelled(stage parts) parts {
	return parts{"type": "Sequence", "pretokenizers": []parts{stage, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}
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
		change func() parts // made when it is needed, so that the files of others are no garbage that this one may leave
		text   string
		want   string // in the error; empty for none
	}{
		"GPT-4o, small letters":    {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, letters, ""},
		"GPT-4o, large letters":    {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, strings.Repeat("A", 1<<20), ""},
		"GPT-4o, marks":            {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, strings.Repeat("\u0301", 1<<19), ""},
		"GPT-4o, spaces":           {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, strings.Repeat(" ", 1<<20), ""},
		"GPT-4o, spaces and lines": {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, strings.Repeat(" \n  ", 1<<18), ""},
		"GPT-4o, words":            {func() parts { return parts{"pre_tokenizer": split(gpt4o)} }, strings.Repeat("Hello, world's 12 x; ", 1<<15), ""},
		"GPT-2, words":             {func() parts { return parts{"pre_tokenizer": parts{"type": "ByteLevel"}} }, strings.Repeat("Hello, world's 12 x; ", 1<<15), ""},
		"Digits":                   {func() parts { return parts{"pre_tokenizer": levelled(parts{"type": "Digits"})} }, strings.Repeat("1a", 1<<19), ""},
		"a run of all": {func() parts {
			return parts{"pre_tokenizer": levelled(parts{"type": "Split", "pattern": parts{"Regex": "a"}, "behavior": "Contiguous"})}
		}, letters, ""},
		"exponential":              {func() parts { return parts{"pre_tokenizer": split(`(a+)+b`)} }, letters + "c", ""},
		"exponential, to the end":  {func() parts { return parts{"pre_tokenizer": split(`(a+)+$`)} }, strings.Repeat("a", 40) + "b", "takes more than"},
		"exponential, look behind": {func() parts { return parts{"pre_tokenizer": split(`(?<=x)(a+)+b`)} }, "x" + strings.Repeat("a", 40), "takes more than"},
		"quadratic":                {func() parts { return parts{"pre_tokenizer": split(`a*b|a`)} }, letters, "encoding the text takes more than"},
		"quadratic, possessive":    {func() parts { return parts{"pre_tokenizer": split(`(?>a*)b|a`)} }, letters, "takes more than"},
		"many instructions":        {func() parts { return parts{"pre_tokenizer": split(`(a{1000}){1000}`)} }, letters, "pattern"},
		"a long pattern":           {func() parts { return parts{"pre_tokenizer": split(strings.Repeat("a?", 10_000))} }, letters, "20000 bytes"},
		"nested groups": {func() parts {
			return parts{"pre_tokenizer": split(strings.Repeat("(", 4000) + "a" + strings.Repeat(")", 4000))}
		}, "a", ""},
		"empty matches":            {func() parts { return parts{"pre_tokenizer": split(`x*`)} }, letters, ""},
		"growth":                   {func() parts { return parts{"normalizer": replacing(10, parts{"String": "a"}, strings.Repeat("a", 10))} }, letters, "over the limit"},
		"growth of a short text":   {func() parts { return parts{"normalizer": replacing(10, parts{"Regex": "a"}, strings.Repeat("a", 10))} }, "a", "over the limit"},
		"growth by nothing":        {func() parts { return parts{"normalizer": replacing(1, parts{"Regex": ""}, strings.Repeat("a", 4000))} }, letters, "over the limit"},
		"growth at once":           {func() parts { return parts{"normalizer": replacing(1, parts{"String": "a"}, strings.Repeat("a", 9e6))} }, letters, "over the limit"},
		"growth of decompositions": {func() parts { return parts{"normalizer": parts{"type": "NFKD"}} }, strings.Repeat("\ufdfa", 1<<18), "over the limit"},
		"a long prefix": {func() parts {
			return parts{"normalizer": parts{"type": "Prepend", "prepend": strings.Repeat("a", 9e6)}}
		}, "a", "9000000 bytes"},
		"prefixes": {func() parts {
			return parts{"normalizer": parts{"type": "Prepend", "prepend": strings.Repeat("a", 4000)}}
		}, strings.Repeat("<s>a", 1<<18), "over the limit"},
		"many normalisers":   {func() parts { return parts{"normalizer": replacing(3_000, parts{"String": "x"}, "y")} }, letters, "a list of parts has 1025 elements"},
		"more normalisers":   {func() parts { return parts{"normalizer": replacing(60_000, parts{"String": "x"}, "y")} }, letters, "at most 20000"},
		"nested normalisers": {func() parts { return parts{"normalizer": nested} }, "a", "not read so deep"},
		"normalised added tokens": {func() parts {
			return parts{"normalizer": replacing(30, parts{"Regex": "x"}, "y"), "added_tokens": numbered(100_000, 10, true)}
		}, "a", "normalising the added tokens takes more than"},
		"a long added token": {func() parts { return parts{"added_tokens": []parts{{"id": 100, "content": letters}}} }, letters, "1048576 bytes"},
		"added tokens that nearly are": {func() parts {
			return parts{"added_tokens": []parts{{"id": 100, "content": strings.Repeat("a", 4000) + "b"}}}
		}, letters, "encoding the text takes more than"},
		"many added tokens": {func() parts { return parts{"added_tokens": numbered(160_000, 1, false)} }, letters, ""},
		"a far id":          {func() parts { return parts{"added_tokens": []parts{{"id": 1 << 21, "content": "<far>"}}} }, "a", "outside of 0"},
		"tokens around":     {func() parts { return parts{"post_processor": around(1000, 1000)} }, "a", "a post-processor has"},
		"Unigram of nested tokens": {func() parts {
			return parts{"decoder": kept, "pre_tokenizer": nil, "model": parts{"type": "Unigram", "unk_id": 0, "merges": []string{}, "vocab": repeats("a", 2000)}}
		}, letters, "encoding the text takes more than"},
		"Unigram of one text": {func() parts {
			return parts{"decoder": kept, "pre_tokenizer": nil, "model": parts{"type": "Unigram", "unk_id": 0, "merges": []string{}, "vocab": repeats("a", 9)}}
		}, letters, ""},
		"Unigram, unknown characters": {func() parts {
			return parts{"decoder": kept, "pre_tokenizer": nil, "model": parts{"type": "Unigram", "unk_id": 0, "merges": []string{}, "vocab": repeats("a", 9)}}
		}, strings.Repeat("b", 1<<20), ""},
		"WordPiece of long words": {func() parts {
			return parts{"decoder": joined, "pre_tokenizer": nil, "model": parts{"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": 1001, "merges": []string{}}}
		}, letters, "1001 characters"},
		"WordPiece of letters": {func() parts {
			return parts{"decoder": joined, "pre_tokenizer": parts{"type": "WhitespaceSplit"}, "model": parts{"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "", "max_input_chars_per_word": 1000, "merges": []string{}, "vocab": lengths("a", 1000)}}
		}, strings.Repeat(strings.Repeat("a", 999)+" ", 1<<10), ""},
		"a large vocabulary": {func() parts { return parts{"model": parts{"vocab": many(500_000), "merges": []string{}}} }, letters, ""},
		"patterns on many parts": {func() parts {
			return parts{"pre_tokenizer": stages("pretokenizers", parts{"type": "Split", "pattern": parts{"String": "\n"}, "behavior": "Removed"}, parts{"type": "Split", "pattern": parts{"Regex": `(?:a|b|ab|(?<=q)c)*z`}, "behavior": "Isolated"}, parts{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})}
		}, strings.Repeat("x"+strings.Repeat("a", 60)+"b\n", 1<<14), "takes more than"},
		"patterns on many texts": {func() parts {
			return parts{"normalizer": parts{"type": "Replace", "pattern": parts{"Regex": `(?:a|b|ab|(?<=q)c)*z`}, "content": ""}}
		}, strings.Repeat("x"+strings.Repeat("a", 60)+"b<s>", 1<<14), "takes more than"},
		"parts that may be missing":   {func() parts { return parts{"pre_tokenizer": split(`(?:a?){1000}(?:a?){1000}(?:a?){1000}b`)} }, letters, "takes more than"},
		"letters that may be missing": {func() parts { return parts{"pre_tokenizer": split(`(?:\p{L}?){300}1|a`)} }, letters, "takes more than"},
		"many alternatives": {func() parts {
			return parts{"pre_tokenizer": split(strings.TrimSuffix(strings.Repeat(`\p{L}\p{M}*[^\p{L}]|`, 300), "|"))}
		}, letters, "takes more than"},
		"normal forms": {func() parts { return parts{"normalizer": repeated("normalizers", 31, parts{"type": "NFD"})} }, strings.Repeat("é", 1<<19), "takes more than"},
		"normal forms in sequences": {func() parts {
			return parts{"normalizer": repeated("normalizers", 20, repeated("normalizers", 20, parts{"type": "NFC"}))}
		}, letters, "421 stages"},
		"deep sequences": {func() parts {
			return parts{"normalizer": repeated("normalizers", 1, repeated("normalizers", 1, repeated("normalizers", 1, parts{"type": "NFC"})))}
		}, "a", "not read so deep"},
		"sequences of words": {func() parts {
			return parts{"pre_tokenizer": repeated("pretokenizers", 20, repeated("pretokenizers", 20, parts{"type": "Digits"}))}
		}, letters, "421 stages"},
		"words in many stages": {func() parts {
			return parts{"pre_tokenizer": levelled(repeated("pretokenizers", 28, parts{"type": "Split", "pattern": parts{"Regex": qwen}, "behavior": "Isolated"}))}
		}, strings.Repeat("a ", 1<<19), "takes more than"},
		"letters in many stages": {func() parts {
			return parts{"pre_tokenizer": levelled(repeated("pretokenizers", 28, parts{"type": "Split", "pattern": parts{"String": "a"}, "behavior": "Isolated"}))}
		}, letters, "takes more than"},
		"decoders that grow": {func() parts {
			return parts{"pre_tokenizer": nil, "decoder": repeated("decoders", 30, parts{"type": "Replace", "pattern": parts{"String": "a"}, "content": strings.Repeat("a", 10)})}
		}, "a", "over the limit"},
		"a decoder that grows": {func() parts {
			return parts{"pre_tokenizer": nil, "decoder": repeated("decoders", 1, parts{"type": "Replace", "pattern": parts{"String": "a"}, "content": strings.Repeat("b", 9e6)})}
		}, "a", "over the limit"},
		"a decoder of nothing": {func() parts {
			return parts{"pre_tokenizer": nil, "decoder": repeated("decoders", 30, parts{"type": "Replace", "pattern": parts{"String": ""}, "content": "abcd"})}
		}, "a", "in this place"},
		"decoders of a vocabulary": {func() parts {
			return parts{"pre_tokenizer": nil, "decoder": repeated("decoders", 30, parts{"type": "Replace", "pattern": parts{"String": "x"}, "content": "y"}), "model": parts{"vocab": many(300_000), "merges": []string{}}}
		}, "a", "decoding the vocabulary takes more than"},
		"many spaces at the begin": {func() parts {
			return parts{"pre_tokenizer": nil, "decoder": stages("decoders", parts{"type": "Fuse"}, parts{"type": "Strip", "content": " ", "start": 1 << 60, "stop": 0})}
		}, "a", "in this place"},
		"many decoders":        {func() parts { return parts{"decoder": repeated("decoders", 400_000, parts{"type": "Fuse"})} }, "a", "over the limit"},
		"too many tokens":      {func() parts { return parts{"model": parts{"vocab": many(600_000)}} }, "a", "vocab has 600001 tokens"},
		"empty added tokens":   {func() parts { return parts{"added_tokens": slices.Repeat([]parts{{}}, 400_001)} }, "a", "added_tokens has 400001 tokens"},
		"a long type":          {func() parts { return parts{"model": parts{"type": strings.Repeat("x", 9e6)}} }, "a", "unsupported"},
		"ids around":           {func() parts { return parts{"post_processor": around(1, 4_000_000)} }, "a", "over the limit"},
		"a long unknown token": {func() parts { return parts{"model": parts{"unk_token": strings.Repeat("x", 9e6)}} }, "a", "unk_token"},
		"a long merge":         {func() parts { return parts{"model": parts{"merges": []string{strings.Repeat("x", 9e6) + " a"}}} }, "a", "merge 0"},
		"many merges": {func() parts {
			return parts{"model": parts{"merges": strings.Split(strings.TrimSuffix(strings.Repeat("h e,", 1_400_000), ","), ",")}}
		}, letters, "merges has 600001 pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			file := describe(t, c.change())
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

// qwen is the pattern of a public model, which a scanner finds.
const qwen = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// stages is a Sequence of parts under a name, and repeated one of the same part n times.
func stages(name string, all ...parts) parts { return parts{"type": "Sequence", name: all} }

func repeated(name string, n int, one parts) parts {
	return stages(name, slices.Repeat([]parts{one}, n)...)
}

var joined = parts{"type": "WordPiece", "prefix": "", "cleanup": false}

// repeats is a vocabulary of Unigram: <unk>, and a letter up to n times, with the token of changed in its place.
func repeats(letter string, n int) []any {
	all := []any{[]any{"<unk>", 0}}
	for i := range n {
		all = append(all, []any{strings.Repeat(letter, i+1), -1})
	}
	if n >= 100 {
		all[100] = []any{"<s>", -1}
	}
	return all
}

// lengths is a vocabulary of a letter up to n times.
func lengths(letter string, n int) parts {
	all := parts{}
	for i := range n {
		all[strings.Repeat(letter, i+1)] = i
	}
	if n > 100 { // the token of changed has its place
		delete(all, strings.Repeat(letter, 101))
		all["<s>"] = 100
	}
	return all
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
	if n > 100 { // the token of changed has its place
		delete(all, "100")
		all["<s>"] = 100
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
