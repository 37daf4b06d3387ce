package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Byte-level BPE writes bytes as characters that can be seen: printable Latin-1 as
// itself, the other bytes as the characters from U+0100 on, in order.
// (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.)
var (
	byteRunes [256]rune
	runeBytes = map[rune]byte{}
)

func init() {
	next := rune(0x100)
	for b := range byteRunes {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE && r <= 0xFF) {
			r, next = next, next+1
		}
		byteRunes[b], runeBytes[r] = r, byte(b)
	}
}

// tokenBytes reads a token in the byte-level alphabet. One with other characters stands for its own text.
func tokenBytes(token string) []byte {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := runeBytes[r]
		if !ok {
			return []byte(token)
		}
		out = append(out, b)
	}
	return out
}

// replaceInvalid makes a string of bytes, with one U+FFFD for each longest part of a
// character that is cut off, and for each byte that can be no part of one: the rule of the Unicode
// standard (3.9, "Substitution of Maximal Subparts"), which Rust and Python follow.
func replaceInvalid(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			n = subpart(text)
		}
		out.WriteRune(r)
		text = text[n:]
	}
	return out.String()
}

// subpart is the length of the longest start of an invalid text that a character can begin with, at least 1.
func subpart(text []byte) int {
	n := 1
	for n < min(len(text), utf8.UTFMax-1) && !utf8.FullRune(text[:n]) && !utf8.FullRune(text[:n+1]) {
		n++
	}
	return n
}
