package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// The patterns that the models of today split words by. They differ in how many digits go
// together and in whether marks (accents, vowel signs) count as letters. A scan by hand
// takes a fifteenth of the time of the regular expression.
var scanners = map[string]splitter{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:             scanner{digits: 1}.split,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:        scanner{digits: 3}.split,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: scanner{digits: 1, marks: true}.split,
}

// scanner finds the words of one of those patterns.
type scanner struct {
	digits int
	marks  bool
}

func (s scanner) split(text string, b *budget.Budget, each func(word string) error) error {
	if err := b.Step(1 + len(text)/16); err != nil {
		return err
	}
	for len(text) > 0 {
		n := s.word(text)
		if err := each(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// word is the length of the word that a text begins with. Its steps are the pattern's alternatives, in order.
func (s scanner) word(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	first, size := class(text)
	if n := s.run(text, s.letter); n > 0 {
		return n
	}
	if first&(lineEnd|number) == 0 {
		if n := s.run(text[size:], s.letter); n > 0 {
			return size + n
		}
	}
	if first&number != 0 {
		n := size
		for digits := 1; digits < s.digits; digits++ {
			c, size := class(text[n:])
			if c&number == 0 {
				break
			}
			n += size
		}
		return n
	}
	space := 0
	if text[0] == ' ' {
		space = 1
	}
	if n := s.run(text[space:], s.other); n > 0 {
		n += space
		return n + s.run(text[n:], func(c classes) bool { return c&lineEnd != 0 })
	}
	return blank(text)
}

// blank is the length of a word of white space: up to its last line end; without one all of it, but for the
// last character where a word follows, which that character belongs to.
func blank(text string) int {
	end, last, line := 0, 0, 0
	for end < len(text) {
		c, size := class(text[end:])
		if c&white == 0 {
			break
		}
		last, end = end, end+size
		if c&lineEnd != 0 {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end == len(text) || last == 0:
		return end
	}
	return last
}

// run is the length of the characters of some class that a text begins with.
func (s scanner) run(text string, in func(classes) bool) int {
	n := 0
	for n < len(text) {
		c, size := class(text[n:])
		if !in(c) {
			break
		}
		n += size
	}
	return n
}

func (s scanner) letter(c classes) bool { return c&letter != 0 || s.marks && c&mark != 0 }

func (s scanner) other(c classes) bool {
	return c&(white|letter|number) == 0 && !(s.marks && c&mark != 0)
}

// contraction is the length of an English 's, 't, 're, 've, 'm, 'll or 'd, in any case, or 0. The
// long s, U+017F, is an s to a pattern without case.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(text) > 2 && text[2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if len(text) > 2 && text[2]|0x20 == 'l' {
			return 3
		}
	}
	if r, n := utf8.DecodeRuneInString(text[1:]); r == 'ſ' {
		return 1 + n
	}
	return 0
}

// classes are the properties of a character that the patterns ask for.
type classes uint8

const (
	letter classes = 1 << iota
	mark
	number
	white
	lineEnd
)

var ascii = func() (table [utf8.RuneSelf]classes) {
	for r := range table {
		table[r] = slowClass(rune(r))
	}
	return table
}()

// class gives the classes and the length of the character that a text begins with.
func class(text string) (classes, int) {
	if text == "" {
		return white, 0
	}
	if b := text[0]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, size := utf8.DecodeRuneInString(text)
	return slowClass(r), size
}

func slowClass(r rune) (c classes) {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsMark(r):
		return mark
	case unicode.IsNumber(r):
		return number
	case r == '\r' || r == '\n':
		return white | lineEnd
	case unicode.IsSpace(r):
		return white
	}
	return 0
}
