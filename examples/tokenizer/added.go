package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
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

// matcher finds added tokens: at each place the longest. Nodes are the prefixes of their contents.
type matcher struct {
	tokens []added
	first  [256]bool // bytes that a token begins with
	nodes  []map[byte]int32
	ends   []int32 // index of the token that ends at a node, or -1
}

func newMatcher(tokens []added) *matcher {
	m := &matcher{nodes: []map[byte]int32{{}}, ends: []int32{-1}}
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		m.first[t.Content[0]] = true
		node := int32(0)
		for i := range len(t.Content) {
			next, ok := m.nodes[node][t.Content[i]]
			if !ok {
				next = int32(len(m.nodes))
				m.nodes[node][t.Content[i]] = next
				m.nodes, m.ends = append(m.nodes, map[byte]int32{}), append(m.ends, -1)
			}
			node = next
		}
		m.ends[node] = int32(len(m.tokens))
		m.tokens = append(m.tokens, t)
	}
	return m
}

// at gives the longest token that the text has at i, or nil.
func (m *matcher) at(text string, i int) *added {
	var found *added
	node := int32(0)
	for ; i < len(text); i++ {
		next, ok := m.nodes[node][text[i]]
		if !ok {
			break
		}
		if node = next; m.ends[node] >= 0 {
			found = &m.tokens[m.ends[node]]
		}
	}
	return found
}

// split gives the parts of a text in order: added tokens by their id, what is between them with id -1.
func (m *matcher) split(text string, each func(part string, id int32) error) error {
	start := 0
	for i := 0; i < len(text); {
		if !m.first[text[i]] {
			i++
			continue
		}
		t := m.at(text, i)
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
