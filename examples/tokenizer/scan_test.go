package tokenizer

import (
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
)

// FuzzScan compares the scans by hand with the regular expressions that they stand for.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		"", "Hello, world!", "it's I'LL we're 'tis 'S 'ſx", "a1234 56", "  two\n\n lines \r\n\t x", "é́é हिन्दी 世界", "...!!\n?? ", "\u00a0x\u3000\u3000y", "́a ́", "½²٣x", "'", "' s", " \n", "\n ", "x  ",
	} {
		f.Add(text)
	}
	var all []*regexp2.Regexp
	for expression := range scanners {
		all = append(all, regexp2.MustCompile(expression, regexp2.None))
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = string([]rune(text)) // as Append does
		for _, re := range all {
			pieces, err := cut(re, text, false)
			require.NoError(t, err)
			var want, got []string
			long := false
			for _, p := range pieces {
				want = append(want, p.text)
			}
			for _, r := range text {
				long = long || r == 'ſ' // the library's case folding does not know it, that of tokenizers does
			}
			if long {
				continue
			}
			require.NoError(t, scanners[re.String()](text, func(word string) { got = append(got, word) }))
			require.Equal(t, want, got, "%q by %s", text, re)
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
				split, err := byPattern(expression, behavior, invert)
				require.NoError(t, err)
				var got []string
				require.NoError(t, split("a--b-", func(word string) { got = append(got, word) }))
				if invert && behavior == "Isolated" {
					want = []string{"a", "--", "b", "-"}
				}
				require.Equal(t, want, got)
			}
		})
	}
	_, err := byPattern("-", "Sideways", false)
	require.ErrorContains(t, err, "Sideways")
	_, err = byPattern("(", "Isolated", false)
	require.Error(t, err)
}
