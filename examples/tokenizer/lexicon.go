package tokenizer

import (
	"sort"
	"strings"

	"github.com/goascend/cann/examples/budget"
)

// lexicon finds the tokens that a text begins with.
type lexicon struct {
	tokens []entry // in the order of their texts
	first  [257]int
}

type entry struct {
	text string
	id   int32
}

func newLexicon(tokens []entry) *lexicon {
	l := &lexicon{tokens: tokens}
	sort.Slice(l.tokens, func(i, j int) bool { return l.tokens[i].text < l.tokens[j].text })
	for b := range l.first {
		l.first[b] = sort.Search(len(l.tokens), func(i int) bool { return l.tokens[i].text != "" && int(l.tokens[i].text[0]) >= b })
	}
	return l
}

// prefixes gives the tokens that a text begins with, from the shortest to the longest. Of those with the same text it gives one.
func (l *lexicon) prefixes(text string, b *budget.Budget, each func(e entry)) error {
	if text == "" {
		return nil
	}
	left := l.tokens[l.first[text[0]]:l.first[int(text[0])+1]]
	n := 1 // left are the tokens that begin with n bytes of the text
	for len(left) > 0 {
		if e := left[0]; len(e.text) == n {
			each(e)
			for len(left) > 0 && len(left[0].text) == n {
				left = left[1:]
			}
		}
		if n == len(text) || len(left) == 0 {
			break
		}
		if last := left[len(left)-1].text; left[0].text == last || strings.HasPrefix(last, left[0].text) { // one way is left
			if !strings.HasPrefix(text, left[0].text) {
				break
			}
			n = len(left[0].text)
			continue
		}
		left = left[sort.Search(len(left), func(i int) bool { return left[i].text[n] >= text[n] }):]
		left = left[:sort.Search(len(left), func(i int) bool { return left[i].text[n] > text[n] })]
		n++
	}
	return b.Step(n)
}
