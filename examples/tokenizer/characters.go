package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// SentencePiece's models of BPE join characters, not bytes, and write spaces as ▁ (U+2581). A character that the vocabulary lacks
// becomes its bytes, as the tokens <0x00> to <0xFF>, or the unknown token.
// (Kudo and Richardson, "SentencePiece", 2018.)

// characters are the symbols that such a model begins with.
type characters struct {
	bytes   [256]int32 // tokens of bytes; -1 for those that the vocabulary lacks
	unknown int32      // -1 for none
	fuse    bool       // unknown characters side by side are one token
}

func (m *model) characters() (*characters, error) {
	c := &characters{unknown: -1, fuse: m.FuseUnknown}
	if m.Unknown != nil {
		id, ok := m.Vocab[*m.Unknown]
		if !ok {
			return nil, fmt.Errorf("tokenizer.json: unk_token is %q, which the vocabulary lacks", *m.Unknown)
		}
		c.unknown = id
	}
	for b := range c.bytes {
		id, ok := m.Vocab[byteToken(byte(b))]
		if !ok || !m.ByteFallback {
			id = -1
		}
		c.bytes[b] = id
	}
	return c, nil
}

func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// ids adds the symbols of a character that the vocabulary lacks; before tells whether the last symbol is of such a
// character too.
func (c *characters) ids(character string, before bool, add func(id int32)) (unknown bool) {
	if !slices.ContainsFunc([]byte(character), func(b byte) bool { return c.bytes[b] < 0 }) {
		for _, b := range []byte(character) {
			add(c.bytes[b])
		}
		return false
	}
	if c.unknown >= 0 && !(before && c.fuse) {
		add(c.unknown)
	}
	return true
}

// decoderFile is the entry "decoder" of tokenizer.json.
type decoderFile struct {
	Type        string        `json:"type"`
	Decoders    []decoderFile `json:"decoders"`
	Pattern     pattern       `json:"pattern"`
	Content     string        `json:"content"`
	Start       int           `json:"start"`
	Stop        int           `json:"stop"`
	Replacement string        `json:"replacement"`
	Scheme      string        `json:"prepend_scheme"`
	Prefix      *bool         `json:"add_prefix_space"`
}

// spelling is how tokens become text.
type spelling struct {
	replace [][2]string
	bytes   bool // <0x41> is the byte 0x41
	fused   bool
	strip   int // spaces that are taken from the begin of a text
	// first is removed from the first token, wherever it stands in it, unless it is empty.
	first string
}

// spelling reads a decoder. It is nil for the bytes of ByteLevel.
func (d *decoderFile) spelling() (*spelling, error) {
	s := &spelling{}
	if d == nil {
		return nil, fmt.Errorf("there is no decoder: tokens would stand with spaces between them")
	}
	list := []decoderFile{*d}
	switch d.Type {
	case "ByteLevel":
		return nil, nil
	case "Sequence":
		list = d.Decoders
	case "Metaspace":
	default:
		return nil, fmt.Errorf("decoder %q (ByteLevel, Metaspace, and a Sequence of Replace, ByteFallback, Fuse and Strip are supported)", d.Type)
	}
	for _, d := range list {
		switch {
		case d.Type == "Replace" && d.Pattern.String != nil && !s.bytes && !s.fused && len(list) <= mostStages:
			s.replace = append(s.replace, [2]string{*d.Pattern.String, d.Content})
		case d.Type == "ByteFallback" && !s.fused:
			s.bytes = true
		case d.Type == "Fuse":
			s.fused = true
		case d.Type == "Strip" && s.fused && d.Content == " " && d.Stop == 0 && d.Start >= 0:
			s.strip += d.Start
		case d.Type == "Metaspace" && len(list) == 1:
			m, err := newMetaspace(d.Replacement, d.Scheme, d.Prefix)
			if err != nil {
				return nil, err
			}
			s.replace = append(s.replace, [2]string{m.replacement, " "})
			if m.scheme != "never" {
				s.first = m.replacement
			}
		default:
			return nil, fmt.Errorf("decoder %q in this place of a Sequence (texts are replaced in tokens, then come ByteFallback, Fuse, and a Strip of spaces at the begin)", d.Type)
		}
	}
	return s, nil
}

// token gives the bytes that a token stands for, and whether it is one byte.
func (s *spelling) token(content string) (text []byte, single bool) {
	for _, r := range s.replace {
		content = strings.ReplaceAll(content, r[0], r[1])
	}
	var b byte
	if s.bytes && len(content) == len("<0x00>") {
		if n, err := fmt.Sscanf(content, "<0x%02x>", &b); n == 1 && err == nil {
			return []byte{b}, true
		}
	}
	return []byte(content), false
}

// metaspace writes the spaces of a text as another character.
type metaspace struct {
	replacement string
	scheme      string // where one is put before a text: always, first or never
}

func newMetaspace(replacement, scheme string, prefix *bool) (*metaspace, error) {
	if utf8.RuneCountInString(replacement) != 1 {
		return nil, fmt.Errorf("the replacement %.100q of a Metaspace is not one character", replacement)
	}
	switch {
	case scheme == "" && (prefix == nil || *prefix):
		scheme = "always"
	case scheme == "":
		scheme = "never"
	case scheme != "always" && scheme != "first" && scheme != "never":
		return nil, fmt.Errorf("the prepend_scheme %.100q of a Metaspace (always, first and never are supported)", scheme)
	}
	return &metaspace{replacement, scheme}, nil
}

// apply changes a part of a text, which may be its first.
func (m *metaspace) apply(part string, first bool) string {
	if m == nil {
		return part
	}
	part = strings.ReplaceAll(part, " ", m.replacement)
	if (m.scheme == "always" || m.scheme == "first" && first) && !strings.HasPrefix(part, m.replacement) {
		part = m.replacement + part
	}
	return part
}

// begin takes from the first token of a text what does not belong to it.
func (s *spelling) begin(token []byte) []byte {
	if s.first == "" {
		return token
	}
	return bytes.ReplaceAll(token, []byte(" "), nil)
}
