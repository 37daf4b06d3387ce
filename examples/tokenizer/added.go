package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// added is a token outside of the model's vocabulary, found in the text before anything is split.
type added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between characters that are no letters, digits or _
	LStrip     bool   `json:"lstrip"`      // takes the white space before it along
	RStrip     bool   `json:"rstrip"`      // and that behind it
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// addedList refuses members that added does not have. There may be very many tokens, so their keys are not on Table.
type addedList []added

func (l *addedList) UnmarshalJSON(text []byte) error {
	n := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("null")) // at least; some contents have one
	if err := budget.Size("added_tokens", n, mostAdded, "tokens"); err != nil {
		return err
	}
	all := make([]added, 0, n)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return fmt.Errorf("added_tokens: %w", err)
	}
	*l = all
	return nil
}

// mostAdded is the number of added tokens. Public models have some thousand.
const mostAdded = 400_000

// matcher finds added tokens: at each place the longest.
type matcher struct {
	tokens []added   // in the order of their contents
	first  [256]bool // bytes that a token begins with
}

// longestContent is the length of the content of an added token, and of what a normaliser adds, in bytes.
const longestContent = 4096

func newMatcher(tokens []added) *matcher {
	m := &matcher{}
	for _, t := range tokens {
		if t.Content != "" {
			m.first[t.Content[0]] = true
			m.tokens = append(m.tokens, t)
		}
	}
	slices.SortStableFunc(m.tokens, func(a, b added) int { return strings.Compare(a.Content, b.Content) })
	return m
}

// at gives the longest token that a text begins with, or nil. Of those with the same content, the last counts.
func (m *matcher) at(text string, b *budget.Budget) (found *added, err error) {
	for n, left := 0, m.tokens; len(left) > 0; n++ { // left are those that begin with n bytes of the text
		for len(left) > 0 && len(left[0].Content) == n {
			found, left = &left[0], left[1:]
		}
		if n == len(text) || len(left) == 0 {
			break
		}
		if err := b.Step(0); err != nil {
			return nil, err
		}
		left = left[sort.Search(len(left), func(i int) bool { return left[i].Content[n] >= text[n] }):]
		left = left[:sort.Search(len(left), func(i int) bool { return left[i].Content[n] > text[n] })]
	}
	return found, nil
}

// split gives the parts of a text in order: added tokens by their id, what is between them with id -1.
func (m *matcher) split(text string, b *budget.Budget, each func(part string, id int32) error) error {
	start := 0
	for i := 0; i < len(text); {
		if !m.first[text[i]] {
			i++
			continue
		}
		t, err := m.at(text[i:], b)
		if err != nil {
			return err
		}
		if t == nil || t.SingleWord && !alone(text, i, i+len(t.Content)) {
			i++
			continue
		}
		from, to := i, i+len(t.Content)
		if t.LStrip {
			from = start + len(strings.TrimRightFunc(text[start:i], unicode.IsSpace))
		}
		if t.RStrip {
			to = len(text) - len(strings.TrimLeftFunc(text[to:], unicode.IsSpace))
		}
		if from > start {
			if err := each(text[start:from], -1); err != nil {
				return err
			}
		}
		if err := each(text[i:i+len(t.Content)], t.ID); err != nil {
			return err
		}
		start, i = to, to
	}
	if start < len(text) {
		return each(text[start:], -1)
	}
	return nil
}

// alone reports whether no word goes on before or behind a part of a text.
func alone(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	behind, _ := utf8.DecodeRuneInString(text[to:])
	return (from == 0 || !wordRune(before)) && (to == len(text) || !wordRune(behind))
}

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}
