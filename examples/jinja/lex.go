package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// kind is the kind of a token.
type kind uint8

const (
	end      kind = iota // of the tag or of the template
	text                 // outside of tags
	output               // {{
	block                // {%
	name                 // identifier or keyword
	number               // int or float64
	quoted               // string literal
	operator             // punctuation
)

// token is a word of the template. Text and literals carry their value.
type token struct {
	kind  kind
	text  string
	value any
	line  int
}

// lexer cuts a template into tokens. Newlines behind a block and blanks before one on its line are dropped,
// as transformers sets trim_blocks and lstrip_blocks.
type lexer struct {
	rest   string
	line   int
	tokens []token
	strip  bool // the last tag ended with -, so white space after it goes
	trim   bool // the last tag was a block or a comment, so one newline after it goes
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{rest: strings.TrimSuffix(source, "\n"), line: 1}
	for l.rest != "" {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
	}
	return append(l.tokens, token{kind: end, line: l.line}), nil
}

// next takes the text up to a tag, and the tag.
func (l *lexer) next() error {
	start := len(l.rest)
	for at := 0; ; {
		i := strings.IndexByte(l.rest[at:], '{')
		if i < 0 || at+i+1 >= len(l.rest) {
			break
		}
		if at += i; strings.IndexByte("{%#", l.rest[at+1]) >= 0 {
			start = at
			break
		}
		at++
	}
	before, tag := l.rest[:start], l.rest[start:]
	if tag == "" {
		l.emitText(before, "", 0)
		l.rest = ""
		return nil
	}
	opening, mark := tag[:2], byte(0)
	if len(tag) > 2 && (tag[2] == '-' || tag[2] == '+') {
		mark = tag[2]
	}
	l.emitText(before, opening, mark)
	body := tag[2:]
	if mark != 0 {
		body = body[1:]
	}
	switch opening {
	case "{#":
		return l.comment(body)
	case "{{":
		l.tokens = append(l.tokens, token{kind: output, text: opening, line: l.line})
		return l.tag(body, "}}")
	}
	l.tokens = append(l.tokens, token{kind: block, text: opening, line: l.line})
	if err := l.tag(body, "%}"); err != nil {
		return err
	}
	if n := len(l.tokens); n >= 3 && l.tokens[n-2].text == "raw" && l.tokens[n-3].kind == block {
		l.tokens = l.tokens[:n-3]
		return l.raw()
	}
	return nil
}

// emitText adds the text before a tag, without the white space that the tags around it take.
func (l *lexer) emitText(s, opening string, mark byte) {
	lines := strings.Count(s, "\n")
	begins := len(l.tokens) == 0 && !l.trim && !l.strip
	switch {
	case l.strip:
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	case l.trim && strings.HasPrefix(s, "\n"):
		s, begins = s[1:], true
	}
	l.strip, l.trim = false, false
	if mark == '-' {
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	} else if mark != '+' && (opening == "{%" || opening == "{#") {
		line := strings.LastIndexByte(s, '\n') + 1
		if strings.TrimLeft(s[line:], " \t\v\f") == "" && (line > 0 || begins) {
			s = s[:line]
		}
	}
	if s != "" {
		l.tokens = append(l.tokens, token{kind: text, text: s, line: l.line})
	}
	l.line += lines
}

func (l *lexer) comment(body string) error {
	i := strings.Index(body, "#}")
	if i < 0 {
		return fmt.Errorf("a comment does not end")
	}
	l.line += strings.Count(body[:i], "\n")
	l.strip, l.trim = strings.HasSuffix(body[:i], "-"), !strings.HasSuffix(body[:i], "+")
	l.rest = body[i+2:]
	return nil
}

var endraw = regexp.MustCompile(`^\{%([-+]?)\s*endraw\s*([-+]?)%\}`)

// raw takes text up to {% endraw %} as it is.
func (l *lexer) raw() error {
	for from := 0; ; {
		i := strings.Index(l.rest[from:], "{%")
		if i < 0 {
			return fmt.Errorf("{%% raw %%} does not end")
		}
		from += i
		found := endraw.FindStringSubmatch(l.rest[from:])
		if found == nil {
			from += 2
			continue
		}
		mark := byte(0)
		if found[1] != "" {
			mark = found[1][0]
		}
		l.emitText(l.rest[:from], "{%", mark)
		l.strip, l.trim = found[2] == "-", found[2] != "+"
		l.rest = l.rest[from+len(found[0]):]
		return nil
	}
}

// operators, the longer ones first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "|"}

// tag takes the tokens inside of a tag and its end.
func (l *lexer) tag(body, closing string) error {
	depth := 0 // of braces: }} may close two dictionaries
	for {
		body = l.blanks(body)
		if body == "" {
			return fmt.Errorf("a tag does not end with %s", closing)
		}
		if depth == 0 {
			for _, mark := range []string{"", "-", "+"} {
				if strings.HasPrefix(body, mark+closing) {
					l.tokens = append(l.tokens, token{kind: end, text: closing, line: l.line})
					l.strip, l.trim = mark == "-", closing == "%}" && mark == ""
					l.rest = body[len(mark)+2:]
					return nil
				}
			}
		}
		n, err := l.word(body)
		if err != nil {
			return err
		}
		switch body[:n] {
		case "{", "[", "(":
			depth++
		case "}", "]", ")":
			depth--
		}
		body = body[n:]
	}
}

func (l *lexer) blanks(body string) string {
	trimmed := strings.TrimLeftFunc(body, unicode.IsSpace)
	l.line += strings.Count(body[:len(body)-len(trimmed)], "\n")
	return trimmed
}

// maxName is the longest name, in bytes: looking it up is one step.
const maxName = 256

// word adds one token of a tag and gives its length.
func (l *lexer) word(body string) (int, error) {
	first, size := utf8.DecodeRuneInString(body)
	switch {
	case first == '_' || unicode.IsLetter(first):
		n := strings.IndexFunc(body, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(body)
		}
		if err := budget.Size("a name", n, maxName, "bytes"); err != nil {
			return 0, err
		}
		l.tokens = append(l.tokens, token{kind: name, text: body[:n], line: l.line})
		return n, nil
	case first >= '0' && first <= '9':
		return l.number(body)
	case first == '\'' || first == '"':
		return l.quoted(body)
	}
	for _, op := range operators {
		if strings.HasPrefix(body, op) {
			l.tokens = append(l.tokens, token{kind: operator, text: op, line: l.line})
			return len(op), nil
		}
	}
	return size, fmt.Errorf("unexpected %q", first)
}

func (l *lexer) number(body string) (int, error) {
	if len(body) > 2 && body[0] == '0' {
		if of := map[byte]int{'x': 16, 'o': 8, 'b': 2}[body[1]|0x20]; of != 0 {
			n := 2
			for n < len(body) && (body[n] == '_' || strings.IndexByte("0123456789abcdef"[:of], body[n]|0x20) >= 0 || of != 16 && body[n] >= '0' && int(body[n]) < '0'+of) {
				n++
			}
			value, ok := parseInt(body[:n], of)
			if !ok || !value.IsInt64() {
				return 0, fmt.Errorf("number %s", body[:n])
			}
			l.tokens = append(l.tokens, token{kind: number, text: body[:n], value: int(value.Int64()), line: l.line})
			return n, nil
		}
	}
	n := 0
	digits := func() {
		for n < len(body) && (body[n] >= '0' && body[n] <= '9' || body[n] == '_') {
			n++
		}
	}
	digits()
	float := false
	if n+1 < len(body) && body[n] == '.' && body[n+1] >= '0' && body[n+1] <= '9' {
		float = true
		n++
		digits()
	}
	if n < len(body) && (body[n] == 'e' || body[n] == 'E') {
		m := n + 1
		if m < len(body) && (body[m] == '+' || body[m] == '-') {
			m++
		}
		if m < len(body) && body[m] >= '0' && body[m] <= '9' {
			float, n = true, m
			digits()
		}
	}
	literal := strings.ReplaceAll(body[:n], "_", "")
	t := token{kind: number, text: literal, line: l.line}
	var err error
	if float {
		t.value, err = strconv.ParseFloat(literal, 64)
	} else {
		if t.value, err = strconv.Atoi(literal); err != nil {
			err = fmt.Errorf("%s is beyond the integers of 64 bits", literal)
		}
	}
	l.tokens = append(l.tokens, t)
	return n, err
}

func (l *lexer) quoted(body string) (int, error) {
	var out strings.Builder
	for i := 1; i < len(body); i++ {
		switch c := body[i]; c {
		case body[0]:
			l.tokens = append(l.tokens, token{kind: quoted, text: body[:i+1], value: out.String(), line: l.line})
			l.line += strings.Count(body[:i], "\n")
			return i + 1, nil
		case '\\':
			if i++; i == len(body) {
				break
			}
			n, err := escape(&out, body[i:])
			if err != nil {
				return 0, err
			}
			i += n - 1
		default:
			out.WriteByte(c)
		}
	}
	return 0, fmt.Errorf("a string does not end")
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// escape writes what follows a backslash and gives its length. Python keeps a backslash that escapes nothing.
func escape(out *strings.Builder, s string) (int, error) {
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]; digits > 0 {
		if len(s) <= digits {
			return 0, fmt.Errorf("escape \\%s is cut off", s)
		}
		r, err := strconv.ParseUint(s[1:1+digits], 16, 32)
		if err != nil {
			return 0, fmt.Errorf("escape \\%s: %w", s[:1+digits], err)
		}
		out.WriteRune(rune(r))
		return 1 + digits, nil
	}
	if s[0] >= '0' && s[0] <= '7' {
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		r, _ := strconv.ParseUint(s[:n], 8, 32)
		out.WriteRune(rune(r))
		return n, nil
	}
	if s[0] == 'N' {
		return 0, fmt.Errorf("escape \\N, a character by its name, is not supported")
	}
	if plain, ok := escapes[s[0]]; ok {
		out.WriteString(plain)
	} else {
		out.WriteString("\\" + s[:1])
	}
	return 1, nil
}
