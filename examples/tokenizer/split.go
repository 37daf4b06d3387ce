package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// splitter cuts a text into words, between which nothing is merged.
type splitter func(text string, b *budget.Budget, each func(word string) error) error

// gpt2 is the pattern that ByteLevel brings along.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// preTokenizer is an entry "pre_tokenizer" of tokenizer.json.
type preTokenizer struct {
	Type             string            `json:"type"`
	PreTokenizers    few[preTokenizer] `json:"pretokenizers"`
	Pattern          pattern           `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            *bool             `json:"split"`
	UseRegex         *bool             `json:"use_regex"`
	IndividualDigits bool              `json:"individual_digits"`
	Delimiter        string            `json:"delimiter"`
}

// pattern is a regular expression or a text to be taken literally.
type pattern struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

// mostStages is how many normalisers, pre-tokenisers or post-processors there are, Sequences and those in them included.
const mostStages = 32

// stages is the number of pre-tokenisers in one, itself included.
func (p *preTokenizer) stages() int {
	if p == nil {
		return 0
	}
	all := 1
	for i := range p.PreTokenizers {
		all += p.PreTokenizers[i].stages()
	}
	return all
}

// splitter builds what cuts the text. The order of a Sequence counts: each stage cuts the words of the one before.
func (p *preTokenizer) splitter(first bool) (splitter, error) {
	switch p.Type {
	case "Sequence":
		stages := make([]splitter, len(p.PreTokenizers))
		for i := range p.PreTokenizers {
			var err error
			if stages[i], err = p.PreTokenizers[i].splitter(first && i == 0); err != nil {
				return nil, err
			}
		}
		return chain(stages), nil
	case "ByteLevel":
		words := whole
		if p.UseRegex == nil || *p.UseRegex {
			var err error
			if words, err = byPattern(pattern{Regex: new(gpt2)}, "Isolated", false); err != nil {
				return nil, err
			}
		}
		if p.AddPrefixSpace == nil || !*p.AddPrefixSpace {
			return words, nil
		}
		return func(text string, b *budget.Budget, each func(string) error) error {
			if !strings.HasPrefix(text, " ") {
				text = " " + text
			}
			return words(text, b, each)
		}, nil
	case "Digits":
		behavior := "Contiguous"
		if p.IndividualDigits {
			behavior = "Isolated"
		}
		return byPattern(pattern{Regex: new(`\p{N}`)}, behavior, false)
	case "Split":
		return byPattern(p.Pattern, p.Behavior, p.Invert)
	case "Whitespace":
		return by(runs(wordOrMark), "Removed", true)
	case "WhitespaceSplit":
		return by(characterSet(unicode.IsSpace), "Removed", false)
	case "Punctuation":
		return by(characterSet(punctuation), cmp.Or(p.Behavior, "Isolated"), false)
	case "BertPreTokenizer":
		blanks, err := by(characterSet(unicode.IsSpace), "Removed", false)
		if err != nil {
			return nil, err
		}
		marks, err := by(characterSet(punctuation), "Isolated", false)
		return chain([]splitter{blanks, marks}), err
	case "CharDelimiterSplit":
		if utf8.RuneCountInString(p.Delimiter) != 1 {
			return nil, fmt.Errorf("the delimiter %.100q of a CharDelimiterSplit is not one character", p.Delimiter)
		}
		return byPattern(pattern{String: &p.Delimiter}, "Removed", false)
	case "Metaspace":
		return p.spaced(first)
	}
	return nil, fmt.Errorf("pre-tokenizer %.100q is not supported (Sequence, Split, Digits, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit and BertPreTokenizer are)", p.Type)
}

// spaced is a Metaspace. The spaces of the first stage are replaced before.
func (p *preTokenizer) spaced(first bool) (splitter, error) {
	words := whole
	if p.Split == nil || *p.Split {
		var err error
		if words, err = byPattern(pattern{String: &p.Replacement}, "MergedWithNext", false); err != nil {
			return nil, err
		}
	}
	m, err := newMetaspace(p.Replacement, p.PrependScheme, p.AddPrefixSpace)
	if first || err != nil {
		return words, err
	}
	if m.scheme == "first" {
		return nil, fmt.Errorf("pre-tokenizer Metaspace with the prepend_scheme first behind another one")
	}
	return func(text string, b *budget.Budget, each func(string) error) error {
		return words(m.apply(text, false), b, each)
	}, nil
}

// wordOrMark divides characters for the pre-tokeniser Whitespace: 1 for those of words, 2 for others, 0 for white space.
func wordOrMark(r rune) int {
	switch {
	case unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control):
		return 1
	case unicode.IsSpace(r):
		return 0
	}
	return 2
}

// runs finds characters side by side of one class, except of class 0.
type runs func(r rune) int

func (class runs) each(text string, _ *budget.Budget, match func(from, to int) error) error {
	from, last := 0, 0
	for at, r := range text {
		c := class(r)
		if c == last {
			continue
		}
		if last != 0 {
			if err := match(from, at); err != nil {
				return err
			}
		}
		from, last = at, c
	}
	if last != 0 {
		return match(from, len(text))
	}
	return nil
}

// characterSet finds single characters.
type characterSet func(r rune) bool

func (in characterSet) each(text string, _ *budget.Budget, match func(from, to int) error) error {
	for at, r := range text {
		if in(r) {
			if err := match(at, at+utf8.RuneLen(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// metaspace finds a Metaspace that is the first stage; it looks at where the text begins.
func (p *preTokenizer) metaspace(first bool) (*metaspace, error) {
	switch {
	case p.Type == "Metaspace" && first:
		return newMetaspace(p.Replacement, p.PrependScheme, p.AddPrefixSpace)
	case p.Type == "Sequence" && len(p.PreTokenizers) > 0:
		return p.PreTokenizers[0].metaspace(first)
	}
	return nil, nil
}

// level checks that a ByteLevel, which writes bytes as characters, is the last stage of a model over bytes, and is not there in others.
func (p *preTokenizer) level(bytes bool) error {
	var stages []string
	var list func(p *preTokenizer)
	list = func(p *preTokenizer) {
		if p.Type != "Sequence" {
			stages = append(stages, p.Type)
		}
		for i := range p.PreTokenizers {
			list(&p.PreTokenizers[i])
		}
	}
	if p != nil {
		list(p)
	}
	at := slices.Index(stages, "ByteLevel")
	switch {
	case at < 0 && bytes:
		return fmt.Errorf("decoder ByteLevel without the pre-tokenizer ByteLevel")
	case at >= 0 && !bytes:
		return fmt.Errorf("pre-tokenizer ByteLevel without the decoder ByteLevel")
	case at >= 0 && at < len(stages)-1:
		return fmt.Errorf("pre-tokenizer %s behind ByteLevel, whose characters stand for bytes", stages[at+1])
	}
	return nil
}

func whole(text string, b *budget.Budget, each func(word string) error) error {
	if err := b.Step(0); err != nil {
		return err
	}
	return each(text)
}

func chain(stages []splitter) splitter {
	if len(stages) == 0 {
		return whole
	}
	first, rest := stages[0], chain(stages[1:])
	if len(stages) == 1 {
		return first
	}
	return func(text string, b *budget.Budget, each func(word string) error) error {
		return first(text, b, func(part string) error { return rest(part, b, each) })
	}
}

// piece is a part of a text that a pattern matched, or one between two matches.
type piece struct {
	from, to int
	match    bool
}

func byPattern(p pattern, behavior string, invert bool) (splitter, error) {
	if p.Regex != nil && behavior == "Isolated" {
		if fast, ok := scanners[*p.Regex]; ok {
			return fast, nil // the whole text is matches, so inversion changes nothing
		}
	}
	x, err := p.compile()
	if err != nil {
		return nil, fmt.Errorf("a Split: %w", err)
	}
	return by(x, behavior, invert)
}

func by(x expression, behavior string, invert bool) (splitter, error) {
	join, ok := behaviors[behavior]
	if !ok {
		return nil, fmt.Errorf("the behavior %.100q of a Split is unknown", behavior)
	}
	return func(text string, b *budget.Budget, each func(word string) error) error {
		if err := b.Step(1 + len(text)/16); err != nil {
			return err
		}
		j := joiner{text: text, each: each}
		if err := cut(x, text, b, func(p piece) error {
			p.match = p.match != invert
			return join(&j, p)
		}); err != nil {
			return err
		}
		return j.flush()
	}, nil
}

// cut gives the matches in a text, and what is between them.
func cut(x expression, text string, b *budget.Budget, each func(p piece) error) error {
	end := 0
	add := func(from, to int, match bool) error {
		if from == to {
			return nil
		}
		return each(piece{from, to, match})
	}
	err := x.each(text, b, func(from, to int) error {
		if err := add(end, from, false); err != nil {
			return err
		}
		end = to
		return add(from, to, true)
	})
	if err != nil {
		return err
	}
	return add(end, len(text), false)
}

// joiner makes words of pieces, which stand side by side.
type joiner struct {
	text string
	word piece // not given to each yet; none if it is empty. Its match is that of its last piece
	each func(word string) error
}

func (j *joiner) empty() bool { return j.word.from == j.word.to }

// flush ends the word.
func (j *joiner) flush() error {
	if j.empty() {
		return nil
	}
	word := j.text[j.word.from:j.word.to]
	j.word = piece{}
	return j.each(word)
}

// begin ends the word before a piece, and begins another with it.
func (j *joiner) begin(p piece) error {
	err := j.flush()
	j.word = p
	return err
}

// extend makes a piece a part of the word.
func (j *joiner) extend(p piece) error {
	j.word.to, j.word.match = p.to, p.match
	return nil
}

// behaviors say what becomes of a piece: a word of its own, nothing, or a part of a neighbour.
var behaviors = map[string]func(j *joiner, p piece) error{
	"Isolated": (*joiner).begin,
	"Removed": func(j *joiner, p piece) error {
		if p.match {
			return nil
		}
		return j.begin(p)
	},
	"MergedWithPrevious": func(j *joiner, p piece) error {
		if p.match && !j.empty() && !j.word.match {
			return j.extend(p)
		}
		return j.begin(p)
	},
	"MergedWithNext": func(j *joiner, p piece) error {
		if !p.match && !j.empty() && j.word.match {
			return j.extend(p)
		}
		return j.begin(p)
	},
	"Contiguous": func(j *joiner, p piece) error {
		if !j.empty() && p.match == j.word.match {
			return j.extend(p)
		}
		return j.begin(p)
	},
}
