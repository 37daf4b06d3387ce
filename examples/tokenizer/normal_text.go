package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// mapped makes a text of what a function makes of each character: a text, or nothing.
func mapped(f func(out *strings.Builder, r rune)) normalizer {
	return plainly(func(text string) string {
		var out strings.Builder
		out.Grow(len(text))
		for _, r := range text {
			f(&out, r)
		}
		return out.String()
	})
}

// bert is BERT's normaliser: without control characters, with spaces around ideographs, without accents and in small letters, each as asked for.
// (Devlin et al., "BERT", 2018.)
func (n *normalizerFile) bert() normalizer {
	clean, ideographs, lowercase := isTrue(n.CleanText), isTrue(n.ChineseChars), isTrue(n.Lowercase)
	accents := n.StripAccents == nil && lowercase || n.StripAccents != nil && *n.StripAccents
	return plainly(func(text string) string {
		var out strings.Builder
		for _, r := range text {
			switch {
			case clean && (r == 0 || r == unicode.ReplacementChar || control(r)):
			case clean && unicode.IsSpace(r):
				out.WriteByte(' ')
			case ideographs && ideograph(r):
				out.WriteString(" " + string(r) + " ")
			default:
				out.WriteRune(r)
			}
		}
		text = out.String()
		if accents {
			text = strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFD.String(text))
		}
		if lowercase {
			text = lower(text)
		}
		return text
	})
}

func isTrue(b *bool) bool { return b == nil || *b }

// control tells characters that are no text: control and format characters, and private ones.
func control(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

func ideograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F ||
		r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F // the gap before 2B920 is tokenizers'
}

// lower makes small letters one by one: İ becomes two characters, and Σ at the end of a word is none of its own.
func lower(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, "İ", "i\u0307"))
}

// punctuation reports whether BERT's pre-tokeniser and Punctuation split r off: Unicode's punctuation, and the symbols of ASCII.
func punctuation(r rune) bool {
	return r < 0x80 && unicode.In(r, unicode.P, unicode.S) || r >= 0x80 && unicode.Is(unicode.P, r)
}

// nmt takes control characters out and makes spaces of others, as SentencePiece's rules of that name do.
func nmt(out *strings.Builder, r rune) {
	switch {
	case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == unicode.ReplacementChar:
		out.WriteByte(' ')
	default:
		out.WriteRune(r)
	}
}
