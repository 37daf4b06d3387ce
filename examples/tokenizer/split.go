package tokenizer

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/examples/budget"
)

// splitter cuts a text into words, between which nothing is merged.
type splitter func(text string, b *budget.Budget, each func(word string) error) error

// gpt2 is the pattern that ByteLevel brings along.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// preTokenizer is an entry "pre_tokenizer" of tokenizer.json.
type preTokenizer struct {
	Type             string         `json:"type"`
	PreTokenizers    []preTokenizer `json:"pretokenizers"`
	Pattern          pattern        `json:"pattern"`
	Behavior         string         `json:"behavior"`
	Invert           bool           `json:"invert"`
	AddPrefixSpace   *bool          `json:"add_prefix_space"`
	Replacement      string         `json:"replacement"`
	PrependScheme    string         `json:"prepend_scheme"`
	Split            *bool          `json:"split"`
	UseRegex         *bool          `json:"use_regex"`
	IndividualDigits bool           `json:"individual_digits"`
}

// pattern is a regular expression or a text to be taken literally.
type pattern struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

// mostStages is how many normalisers, pre-tokenisers or post-processors a Sequence has.
const mostStages = 64

// splitter builds what cuts the text. The order of a Sequence counts: each stage cuts the words of the one before.
func (p *preTokenizer) splitter() (splitter, error) {
	switch p.Type {
	case "Sequence":
		if err := budget.Size("a Sequence", len(p.PreTokenizers), mostStages, "pre-tokenizers"); err != nil {
			return nil, err
		}
		stages := make([]splitter, len(p.PreTokenizers))
		for i := range p.PreTokenizers {
			var err error
			if stages[i], err = p.PreTokenizers[i].splitter(); err != nil {
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
	case "Metaspace": // whose spaces are replaced before
		if p.Split != nil && !*p.Split {
			return whole, nil
		}
		return byPattern(pattern{String: &p.Replacement}, "MergedWithNext", false)
	}
	return nil, fmt.Errorf("pre-tokenizer %q is not supported (Sequence, Split, Digits, ByteLevel and Metaspace are)", p.Type)
}

// metaspace finds a Metaspace, which must be the first stage, and refuses stages that do not fit the model.
func (p *preTokenizer) metaspace(characters bool) (m *metaspace, err error) {
	switch {
	case p.Type == "Metaspace":
		return newMetaspace(p.Replacement, p.PrependScheme, p.AddPrefixSpace)
	case p.Type == "ByteLevel" && characters:
		return nil, fmt.Errorf("pre-tokenizer ByteLevel without the decoder ByteLevel")
	case p.Type != "Sequence":
		return nil, nil
	}
	for i := range p.PreTokenizers {
		one, err := p.PreTokenizers[i].metaspace(characters)
		if err != nil {
			return nil, err
		}
		if one != nil && i > 0 {
			return nil, fmt.Errorf("pre-tokenizer Metaspace behind another one")
		}
		if one != nil {
			m = one
		}
	}
	return m, nil
}

func whole(text string, _ *budget.Budget, each func(word string) error) error { return each(text) }

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
	join, ok := behaviors[behavior]
	if !ok {
		return nil, fmt.Errorf("the behavior %.100q of a Split is unknown", behavior)
	}
	x, err := p.compile()
	if err != nil {
		return nil, fmt.Errorf("a Split: %w", err)
	}
	return func(text string, b *budget.Budget, each func(word string) error) error {
		if err := b.Step(len(text) / 16); err != nil {
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
