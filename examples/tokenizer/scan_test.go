package tokenizer

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
)

// FuzzScan compares the scans by hand with the regular expressions that they stand for.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		"", "Hello, world!", "it's I'LL we're 'tis 'S 'ſx", "a1234 56", "  two\n\n lines \r\n\t x", "é́é हिन्दी 世界", "...!!\n?? ", "\u00a0x\u3000\u3000y", "́a ́", "½²٣x", "'", "' s", " \n", "\n ", "x  ",
	} {
		f.Add(text)
	}
	type one struct {
		source string
		expression
	}
	var all []one
	for source := range scanners {
		l, err := newLinear(source)
		require.NoError(f, err, source)
		all = append(all, one{source, l}, one{source, backtracking{regexp2.MustCompile(source, regexp2.None)}})
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = string([]rune(text)) // as Append does
		for _, x := range all {
			b := budget.New(t.Context(), "the text", 1<<30)
			var want, got []string
			require.NoError(t, cut(x, text, b, func(p piece) error {
				want = append(want, text[p.from:p.to])
				return nil
			}))
			if _, slow := x.expression.(backtracking); slow && strings.Contains(text, "ſ") { // the library's case folding does not know it, that of tokenizers does
				continue
			}
			require.NoError(t, scanners[x.source](text, b, func(word string) error {
				got = append(got, word)
				return nil
			}))
			require.Equal(t, want, got, "%q by %s", text, x.source)
		}
	})
}

func TestBehaviors(t *testing.T) {
	for behavior, want := range map[string][]string{
		"Isolated":           {"a", "-", "-", "b", "-"},
		"Removed":            {"a", "b"},
		"MergedWithPrevious": {"a-", "-", "b-"},
		"MergedWithNext":     {"a", "-", "-b", "-"},
		"Contiguous":         {"a", "--", "b", "-"},
	} {
		t.Run(behavior, func(t *testing.T) {
			for _, invert := range []bool{false, true} {
				expression := "-"
				if invert {
					expression = "[^-]"
				}
				if invert && behavior != "Isolated" && behavior != "Removed" {
					continue // matches of one character and of many differ there
				}
				split, err := byPattern(pattern{Regex: &expression}, behavior, invert)
				require.NoError(t, err)
				var got []string
				require.NoError(t, split("a--b-", budget.New(t.Context(), "the text", 1000), func(word string) error {
					got = append(got, word)
					return nil
				}))
				if invert && behavior == "Isolated" {
					want = []string{"a", "--", "b", "-"}
				}
				require.Equal(t, want, got)
			}
		})
	}
	_, err := byPattern(pattern{String: new("-")}, "Sideways", false)
	require.ErrorContains(t, err, "Sideways")
	_, err = byPattern(pattern{Regex: new("(")}, "Isolated", false)
	require.Error(t, err)
}
