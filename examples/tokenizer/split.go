package tokenizer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dlclark/regexp2"
)

// splitter cuts a text into words, between which nothing is merged.
type splitter func(text string, each func(word string)) error

// gpt2 is the pattern that ByteLevel brings along.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// preTokenizer is an entry "pre_tokenizer" of tokenizer.json.
type preTokenizer struct {
	Type             string         `json:"type"`
	PreTokenizers    []preTokenizer `json:"pretokenizers"`
	Pattern          pattern        `json:"pattern"`
	Behavior         string         `json:"behavior"`
	Invert           bool           `json:"invert"`
	AddPrefixSpace   bool           `json:"add_prefix_space"`
	UseRegex         *bool          `json:"use_regex"`
	IndividualDigits bool           `json:"individual_digits"`
}

// pattern is a regular expression or a text to be taken literally.
type pattern struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

func (p pattern) expression() (string, error) {
	switch {
	case p.Regex != nil:
		return *p.Regex, nil
	case p.String != nil:
		return regexp.QuoteMeta(*p.String), nil
	}
	return "", fmt.Errorf("a pattern is neither a Regex nor a String")
}

// splitter builds what cuts the text. The order of a Sequence counts: each stage cuts the words of the one before.
func (p *preTokenizer) splitter() (splitter, error) {
	switch p.Type {
	case "Sequence":
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
			if words, err = byPattern(gpt2, "Isolated", false); err != nil {
				return nil, err
			}
		}
		if !p.AddPrefixSpace {
			return words, nil
		}
		return func(text string, each func(string)) error {
			if !strings.HasPrefix(text, " ") {
				text = " " + text
			}
			return words(text, each)
		}, nil
	case "Digits":
		behavior := "Contiguous"
		if p.IndividualDigits {
			behavior = "Isolated"
		}
		return byPattern(`\p{N}`, behavior, false)
	case "Split":
		expression, err := p.Pattern.expression()
		if err != nil {
			return nil, err
		}
		return byPattern(expression, p.Behavior, p.Invert)
	}
	return nil, fmt.Errorf("pre-tokenizer %q is not supported (Sequence, Split, Digits and ByteLevel are)", p.Type)
}

func whole(text string, each func(string)) error {
	each(text)
	return nil
}

func chain(stages []splitter) splitter {
	if len(stages) == 0 {
		return whole
	}
	first, rest := stages[0], chain(stages[1:])
	if len(stages) == 1 {
		return first
	}
	return func(text string, each func(string)) error {
		var failed error
		err := first(text, func(part string) {
			if failed == nil {
				failed = rest(part, each)
			}
		})
		if err != nil {
			return err
		}
		return failed
	}
}

// piece is a part of a text that a pattern matched, or one between two matches.
type piece struct {
	text  string
	match bool
}

func byPattern(expression, behavior string, invert bool) (splitter, error) {
	if fast, ok := scanners[expression]; ok && behavior == "Isolated" {
		return fast, nil // the whole text is matches, so inversion changes nothing
	}
	join, ok := behaviors[behavior]
	if !ok {
		return nil, fmt.Errorf("the behavior %q of a Split is unknown", behavior)
	}
	re, err := regexp2.Compile(expression, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the pattern of a Split: %w", err)
	}
	return func(text string, each func(string)) error {
		pieces, err := cut(re, text, invert)
		if err != nil {
			return err
		}
		for _, word := range join(pieces) {
			each(word)
		}
		return nil
	}, nil
}

func cut(re *regexp2.Regexp, text string, invert bool) ([]piece, error) {
	runes := []rune(text)
	var pieces []piece
	end := 0
	add := func(from, to int, match bool) {
		if from < to {
			pieces = append(pieces, piece{string(runes[from:to]), match != invert})
		}
	}
	m, err := re.FindRunesMatch(runes)
	for m != nil && err == nil {
		add(end, m.Index, false)
		end = m.Index + m.Length
		add(m.Index, end, true)
		m, err = re.FindNextMatch(m)
	}
	if err != nil {
		return nil, fmt.Errorf("splitting by %q: %w", re, err)
	}
	add(end, len(runes), false)
	return pieces, nil
}

// behaviors say what becomes of matches: words of their own, nothing, or parts of a neighbour.
var behaviors = map[string]func([]piece) []string{
	"Isolated": func(pieces []piece) (words []string) {
		for _, p := range pieces {
			words = append(words, p.text)
		}
		return words
	},
	"Removed": func(pieces []piece) (words []string) {
		for _, p := range pieces {
			if !p.match {
				words = append(words, p.text)
			}
		}
		return words
	},
	"MergedWithPrevious": func(pieces []piece) (words []string) {
		for i, p := range pieces {
			if i > 0 && p.match && !pieces[i-1].match {
				words[len(words)-1] += p.text
				continue
			}
			words = append(words, p.text)
		}
		return words
	},
	"MergedWithNext": func(pieces []piece) (words []string) {
		for i := 0; i < len(pieces); i++ {
			word := pieces[i].text
			if pieces[i].match && i+1 < len(pieces) && !pieces[i+1].match {
				i++
				word += pieces[i].text
			}
			words = append(words, word)
		}
		return words
	},
	"Contiguous": func(pieces []piece) (words []string) {
		for i, p := range pieces {
			if i > 0 && p.match == pieces[i-1].match {
				words[len(words)-1] += p.text
				continue
			}
			words = append(words, p.text)
		}
		return words
	},
}
