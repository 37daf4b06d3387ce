package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"

	"github.com/goascend/cann/examples/budget"
)

// expression finds the matches of a pattern of tokenizer.json in a text, one after another: from one of its bytes up to another. Some are empty.
type expression interface {
	each(text string, b *budget.Budget, match func(from, to int) error) error
}

// Limits of patterns.
const (
	longestPattern   = 10_000 // bytes
	mostInstructions = 10_000
	deepestGroup     = 100
	// A match of a pattern that can only be found by backtracking may take longestMatch by the clock, and all work for a text of up to a
	// mebibyte longestSearch of the processor.
	longestMatch  = time.Second / 2
	longSearch    = 50 * time.Microsecond
	longestSearch = 1200 * time.Millisecond
)

// compile reads a pattern in the syntax of Oniguruma, which tokenizers uses. Go's own package finds it in a time that is linear in the
// text that it looks at. Patterns that need more of the syntax, such as a look behind a match, get one that tries everything, until a time limit ends it.
func (p pattern) compile() (expression, error) {
	if p.Regex == nil && p.String == nil {
		return nil, fmt.Errorf("a pattern is neither a Regex nor a String")
	}
	if p.Regex == nil {
		return literal(*p.String), nil
	}
	source := *p.Regex
	if err := budget.Size("a pattern", len(source), longestPattern, "bytes"); err != nil {
		return nil, err
	}
	if l, err := newLinear(source); !errors.Is(err, errSyntax) {
		return l, err
	}
	re, err := regexp2.Compile(source, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", source, err)
	}
	re.MatchTimeout = longestMatch
	return backtracking{re}, nil
}

// literal is a text, which is found as it is.
type literal string

func (l literal) each(text string, _ *budget.Budget, match func(from, to int) error) error {
	for at := 0; l != ""; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			break
		}
		if err := match(at+i, at+i+len(l)); err != nil {
			return err
		}
		at += i + len(l)
	}
	return nil
}

// linear is a pattern that Go's package finds. A match is one of its groups: what stands behind it is a look ahead.
type linear struct {
	re     *regexp.Regexp
	weight int // what a character that is looked at costs, in steps
}

// weightOf is the number of instructions of a pattern that cost a step for a character: only some of them are active at a time.
const weightOf = 64

func (l linear) each(text string, b *budget.Budget, match func(from, to int) error) error {
	r := &counted{budget: b, weight: l.weight}
	for at := 0; at <= len(text); {
		r.text = text[at:]
		found := l.re.FindReaderSubmatchIndex(r)
		if r.err != nil {
			return r.err
		}
		if found == nil {
			return nil
		}
		to := found[1]
		for group := 2; group < len(found); group += 2 {
			if found[group] >= 0 {
				to = found[group+1]
			}
		}
		if err := match(at+found[0], at+to); err != nil {
			return err
		}
		if to == found[0] { // an empty match does not hold the search up
			_, n := utf8.DecodeRuneInString(text[at+to:])
			to += max(n, 1)
		}
		at += to
	}
	return nil
}

// counted gives a text to a search, and counts the characters that it looks at.
type counted struct {
	text   string
	budget *budget.Budget
	weight int
	err    error
}

// ReadRune implements io.RuneReader.
func (c *counted) ReadRune() (r rune, size int, err error) {
	if c.err == nil {
		c.err = c.budget.Step(c.weight)
	}
	if c.err != nil {
		return 0, 0, c.err
	}
	if c.text == "" {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(c.text)
	c.text = c.text[size:]
	return r, size, nil
}

// backtracking is a pattern that may take exponential time.
type backtracking struct{ re *regexp2.Regexp }

func (x backtracking) each(text string, b *budget.Budget, match func(from, to int) error) error {
	runes := []rune(text)
	at, bytes := 0, 0
	offset := func(rune int) int { // of its byte; matches come in order
		for ; at < rune; at++ {
			bytes += utf8.RuneLen(runes[at])
		}
		return bytes
	}
	next := func() (*regexp2.Match, error) { return x.re.FindRunesMatch(runes) }
	for {
		began := time.Now()
		m, err := next()
		if err != nil { // which has the text in it
			return fmt.Errorf("%w: the pattern %q takes more than %v for a match in %d bytes", budget.ErrTime, x.re, longestMatch, len(text))
		}
		if time.Since(began) > longSearch { // else the next steps notice
			err = b.Check()
		}
		if err == nil && m != nil {
			err = b.Step(m.Length)
		}
		if err != nil || m == nil {
			return err
		}
		from := offset(m.Index)
		if err := match(from, offset(m.Index+m.Length)); err != nil {
			return err
		}
		next = func() (*regexp2.Match, error) { return x.re.FindNextMatch(m) }
	}
}

// space has the characters that \s matches in Oniguruma, Unicode's White_Space, in the syntax of Go inside of a set.
const space = `\t-\r \x{85}\p{Z}`

// sets translates Oniguruma's classes of characters to Go's syntax inside of a set.
var sets = map[byte]string{'s': space, 'd': `\p{Nd}`, 'w': `\p{L}\p{M}\p{Nd}\p{Pc}`}

// errSyntax is the error of a pattern that needs what Go's package does not have.
var errSyntax = errors.New("it takes backtracking")

// newLinear translates a pattern for Go's package. The error matches budget.ErrLimit if the pattern is too large.
func newLinear(source string) (l linear, err error) {
	t := translation{source: source}
	out := t.alternatives()
	if t.failed || t.at < len(source) {
		return l, errSyntax
	}
	parsed, err := syntax.Parse(out, syntax.Perl)
	var wrong *syntax.Error
	if errors.As(err, &wrong) && (wrong.Code == syntax.ErrLarge || wrong.Code == syntax.ErrInvalidRepeatSize) {
		return l, fmt.Errorf("%w: a pattern: %w", budget.ErrLimit, err)
	}
	if err != nil {
		return l, errSyntax
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return l, err
	}
	if err := budget.Size("a pattern", len(program.Inst), mostInstructions, "instructions"); err != nil {
		return l, err
	}
	l.weight = len(program.Inst) / weightOf
	l.re, err = regexp.Compile(out)
	return l, err
}

// translation reads a pattern.
type translation struct {
	source string
	at     int
	depth  int  // of groups
	failed bool // Go's package does not have what the pattern needs
}

// fail notes that the pattern cannot be translated.
func (t *translation) fail() string {
	t.failed = true
	return ""
}

// peek reports whether the source goes on with a text.
func (t *translation) peek(text string) bool { return strings.HasPrefix(t.source[t.at:], text) }

func (t *translation) take(text string) bool {
	if !t.peek(text) {
		return false
	}
	t.at += len(text)
	return true
}

// alternatives reads the pattern: its alternatives become groups, and what the text must or must not have behind one of them is matched
// outside of its group. That finds the same as a look ahead: of all the ways in which the group can match, the first that goes on like that.
func (t *translation) alternatives() string {
	var all []string
	for {
		body, ahead := t.sequence(true), ""
		switch {
		case t.take("(?!"):
			ahead = t.ahead(true)
		case t.take("(?="):
			ahead = t.ahead(false)
		}
		all = append(all, "("+body+")"+ahead)
		if t.failed || !t.take("|") {
			return strings.Join(all, "|")
		}
	}
}

// ahead reads a look at one character.
func (t *translation) ahead(not bool) string {
	set := t.atom(not)
	if !t.take(")") {
		return t.fail()
	}
	if not {
		return `(?:\z|` + set + ")"
	}
	return set
}

// sequence reads up to the end of an alternative. On the first level it may end before a look ahead.
func (t *translation) sequence(first bool) string {
	var b strings.Builder
	for t.at < len(t.source) && !t.failed && !t.peek("|") && !t.peek(")") {
		if first && (t.peek("(?!") || t.peek("(?=")) {
			break
		}
		b.WriteString(t.atom(false))
		b.WriteString(t.quantifier())
	}
	return b.String()
}

// atom reads a character, a set or a group; not inverts what is one character.
func (t *translation) atom(not bool) string {
	if t.at == len(t.source) {
		return t.fail()
	}
	switch c := t.source[t.at]; {
	case c == '[':
		return t.set(not)
	case c == '(' && !not:
		return t.group()
	case c == '\\':
		inside, inverted := t.escape()
		return bracket(inside, inverted != not)
	case strings.IndexByte(`^$.*+?{}|()&`, c) >= 0 && c != '&':
		return t.fail()
	}
	_, n := utf8.DecodeRuneInString(t.source[t.at:])
	t.at += n
	one := t.source[t.at-n : t.at]
	if one == "-" || one == "&" || one == "]" {
		one = `\` + one
	}
	if not {
		return bracket(one, true)
	}
	return one
}

func bracket(inside string, inverted bool) string {
	if inverted {
		return "[^" + inside + "]"
	}
	return "[" + inside + "]"
}

// group reads a group whose matches are not asked for.
func (t *translation) group() string {
	open := "(?:"
	for _, start := range []string{"(?:", "(?i:"} {
		if t.take(start) {
			open = start
			return t.rest(open)
		}
	}
	if t.peek("(?") || t.peek("(*") {
		return t.fail()
	}
	t.at++
	return t.rest(open)
}

func (t *translation) rest(open string) string {
	if t.depth++; t.depth > deepestGroup {
		return t.fail()
	}
	defer func() { t.depth-- }()
	var all []string
	for {
		all = append(all, t.sequence(false))
		if t.failed || !t.take("|") {
			break
		}
	}
	if !t.take(")") {
		return t.fail()
	}
	return open + strings.Join(all, "|") + ")"
}

// escape reads what a backslash stands for, as part of a set; inverted reports that it is the other characters.
func (t *translation) escape() (inside string, inverted bool) {
	t.at++
	if t.at == len(t.source) {
		return t.fail(), false
	}
	c := t.source[t.at]
	t.at++
	switch {
	case c == 'p' || c == 'P':
		end := strings.IndexByte(t.source[t.at:], '}')
		if !t.peek("{") || end < 0 || t.peek("{^") {
			return t.fail(), false
		}
		name := t.source[t.at : t.at+end+1]
		t.at += end + 1
		return `\p` + name, c == 'P'
	case sets[c|0x20] != "":
		return sets[c|0x20], c&0x20 == 0
	case strings.IndexByte("rntfv", c) >= 0:
		return `\` + string(c), false
	case c == 'x' || c == 'u':
		return t.number(c)
	case c < utf8.RuneSelf && !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'):
		return `\` + string(c), false
	}
	return t.fail(), false
}

// number reads the digits of \xHH, \x{H…} or \uHHHH.
func (t *translation) number(kind byte) (string, bool) {
	n, braces := map[byte]int{'x': 2, 'u': 4}[kind], kind == 'x' && t.take("{")
	if braces {
		n = strings.IndexByte(t.source[t.at:], '}')
	}
	if n < 1 || t.at+n > len(t.source) {
		return t.fail(), false
	}
	digits := t.source[t.at : t.at+n]
	t.at += n
	if strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return t.fail(), false
	}
	if braces {
		t.at++
	}
	return `\x{` + digits + `}`, false
}

// set reads a set of characters. Sets in sets, and what two sets have in common, are Oniguruma's only.
func (t *translation) set(not bool) string {
	t.at++
	inverted := t.take("^")
	var b strings.Builder
	for n := 0; ; n++ {
		if t.at == len(t.source) || t.failed {
			return t.fail()
		}
		c := t.source[t.at]
		switch {
		case c == ']' && n > 0:
			t.at++
			return bracket(b.String(), inverted != not)
		case c == ']' || c == '[' || t.peek("&&"):
			return t.fail()
		case c == '\\':
			inside, other := t.escape()
			if other && !strings.HasPrefix(inside, `\p`) {
				return t.fail() // the others of several
			}
			if other {
				inside = `\P` + inside[2:]
			}
			b.WriteString(inside)
		default:
			_, n := utf8.DecodeRuneInString(t.source[t.at:])
			b.WriteString(t.source[t.at : t.at+n])
			t.at += n
		}
	}
}

// quantifier reads how often an atom comes.
func (t *translation) quantifier() string {
	start := t.at
	switch {
	case t.take("*"), t.take("+"), t.take("?"):
	case t.peek("{"):
		end := strings.IndexByte(t.source[t.at:], '}')
		if end < 0 || !counts.MatchString(t.source[t.at:t.at+end+1]) {
			return t.fail()
		}
		t.at += end + 1
		if t.peek("?") || t.peek("+") { // Oniguruma reads these in its own way
			return t.fail()
		}
		return t.source[start:t.at]
	default:
		return ""
	}
	t.take("?")
	if t.peek("+") || t.peek("*") || t.peek("?") || t.peek("{") { // possessive, or one on another
		return t.fail()
	}
	return t.source[start:t.at]
}

var counts = regexp.MustCompile(`^\{[0-9]+(,[0-9]*)?\}$`)
