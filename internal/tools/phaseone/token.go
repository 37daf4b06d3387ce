package main

import "strings"

// kind classifies a token of C++.
type kind uint8

const (
	ident kind = iota
	number
	text // a string or character literal
	punct
)

type token struct {
	kind kind
	s    string
	line int // of the file; of a macro's expansion that of its call
}

func (t token) is(s string) bool { return t.kind != text && t.s == s }

// Operators of several characters, the longest first. ">>" is left out because it also closes
// template arguments.
var operators = []string{"...", "->", "::", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "<<", "##"}

// lex splits source text into tokens. Comments are dropped. Lines of the preprocessor are passed to
// define as one line each, without the "#".
func lex(src string, define func(line string)) []token {
	var out []token
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r", ""), "\\\n", "\v") // a joined line is white space
	bol, line, counted := true, 1, 0
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			bol = true
			i++
			continue
		case c == ' ' || c == '\t' || c == '\v':
			i++
			continue
		case strings.HasPrefix(src[i:], "//"):
			i = lineEnd(src, i)
			continue
		case strings.HasPrefix(src[i:], "/*"):
			end := strings.Index(src[i:], "*/")
			if end < 0 {
				return out
			}
			i += end + 2
			continue
		case c == '#' && bol && define != nil:
			end := lineEnd(src, i)
			define(strings.TrimSpace(src[i+1 : end]))
			i = end
			continue
		}
		bol = false
		n, k := 1, punct
		switch {
		case letter(c):
			k = ident
			for i+n < len(src) && (letter(src[i+n]) || digit(src[i+n])) {
				n++
			}
		case digit(c) || c == '.' && i+1 < len(src) && digit(src[i+1]):
			k = number
			for i+n < len(src) && (letter(src[i+n]) || digit(src[i+n]) || src[i+n] == '.' || src[i+n] == '\'' ||
				(src[i+n] == '-' || src[i+n] == '+') && (src[i+n-1] == 'e' || src[i+n-1] == 'E') && !strings.HasPrefix(src[i:], "0x")) {
				n++
			}
		case c == '"' || c == '\'':
			k = text
			for i+n < len(src) && src[i+n] != c {
				if src[i+n] == '\\' {
					n++
				}
				n++
			}
			n++
		default:
			for _, o := range operators {
				if strings.HasPrefix(src[i:], o) {
					n = len(o)
					break
				}
			}
		}
		n = min(n, len(src)-i)
		line += strings.Count(src[counted:i], "\n") + strings.Count(src[counted:i], "\v")
		counted = i
		out = append(out, token{k, src[i : i+n], line})
		i += n
	}
	return out
}

func lineEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(s)
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// closing returns the index of the bracket that closes the one at i, or len(t).
func closing(t []token, i int) int {
	depth := 0
	for ; i < len(t); i++ {
		if t[i].kind != punct {
			continue
		}
		switch t[i].s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(t)
}

// split divides tokens at the commas outside of brackets.
func split(t []token) (parts [][]token) {
	start, depth := 0, 0
	for i, x := range t {
		if x.kind != punct {
			continue
		}
		switch x.s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "<":
			if end := angles(t, i); end > 0 {
				depth++
			}
		case ">":
			if depth > 0 && opened(t, i) {
				depth--
			}
		case ",":
			if depth == 0 {
				parts = append(parts, t[start:i])
				start = i + 1
			}
		}
	}
	if start < len(t) {
		parts = append(parts, t[start:])
	}
	return parts
}

// angles returns the index of the ">" that closes template arguments at i, or 0 if the "<" is a
// comparison.
func angles(t []token, i int) int {
	if i == 0 || t[i-1].kind != ident {
		return 0
	}
	depth := 0
	for j := i; j < len(t) && j < i+60; j++ {
		switch {
		case t[j].is("<"):
			depth++
		case t[j].is(">"):
			if depth--; depth == 0 {
				return j
			}
		case t[j].kind == ident, t[j].kind == number, t[j].is("::"), t[j].is(","), t[j].is("*"), t[j].is("&"), t[j].is("["), t[j].is("]"), t[j].is("("), t[j].is(")"):
		default:
			return 0
		}
	}
	return 0
}

// opened reports whether the ">" at i closes template arguments.
func opened(t []token, i int) bool {
	for j := i - 1; j >= 0 && j > i-60; j-- {
		if t[j].is("<") && angles(t, j) == i {
			return true
		}
	}
	return false
}
