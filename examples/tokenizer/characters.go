package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
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
		id, ok := m.Vocab.ids[*m.Unknown]
		if !ok {
			return nil, fmt.Errorf("tokenizer.json: unk_token is %.100q, which the vocabulary lacks", *m.Unknown)
		}
		c.unknown = id
	}
	c.fill(m.Vocab.ids, m.ByteFallback)
	return c, nil
}

// fill finds the tokens of bytes, if they stand for characters that the vocabulary lacks.
func (c *characters) fill(vocab map[string]int32, fallback bool) {
	for b := range c.bytes {
		id, ok := vocab[byteToken(byte(b))]
		if !ok || !fallback {
			id = -1
		}
		c.bytes[b] = id
	}
}

// known reports whether all bytes of a text have tokens.
func (c *characters) known(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(b byte) bool { return c.bytes[b] < 0 })
}

func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// ids adds the symbols of a character that the vocabulary lacks; before tells whether the last symbol is of such a
// character too.
func (c *characters) ids(character string, before bool, add func(id int32)) (unknown bool) {
	if c.known(character) {
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
	Type        string           `json:"type"`
	Decoders    few[decoderFile] `json:"decoders"`
	Pattern     pattern          `json:"pattern"`
	Content     string           `json:"content"`
	Start       int              `json:"start"`
	Stop        int              `json:"stop"`
	Replacement string           `json:"replacement"`
	Scheme      string           `json:"prepend_scheme"`
	PrefixSpace *bool            `json:"add_prefix_space"`
	Prefix      *string          `json:"prefix"`
	Cleanup     *bool            `json:"cleanup"`
}

// stages is the number of decoders in one, itself included.
func (d *decoderFile) stages() int {
	if d == nil {
		return 0
	}
	all := 1
	for i := range d.Decoders {
		all += d.Decoders[i].stages()
	}
	return all
}

// spelling is how tokens become text.
type spelling struct {
	replace [][2]string
	bytes   bool // <0x41> is the byte 0x41
	fused   bool
	strip   int // spaces that are taken from the begin of a text
	// first is removed from the first token, wherever it stands in it, unless it is empty.
	first string
	// words puts a space before each token that does not begin with a prefix, as WordPiece's tokens have it inside of words, except the first.
	words   bool
	prefix  string
	cleanup bool // takes the space before punctuation and English contractions away
}

// spelling reads a decoder. It is nil for the bytes of ByteLevel.
func (d *decoderFile) spelling() (*spelling, error) {
	s := &spelling{}
	if d == nil {
		return nil, fmt.Errorf("there is no decoder: tokens would stand with spaces between them")
	}
	list := []decoderFile{*d}
	if d.Type == "Sequence" {
		list = d.Decoders
	}
	if len(list) == 1 && list[0].Type == "ByteLevel" {
		return nil, nil
	}
	for _, d := range list {
		switch {
		case d.Type == "Replace" && d.Pattern.String != nil && *d.Pattern.String != "" && !s.bytes && !s.fused:
			s.replace = append(s.replace, [2]string{*d.Pattern.String, d.Content})
		case d.Type == "ByteFallback" && !s.fused:
			s.bytes = true
		case d.Type == "Fuse":
			s.fused = true
		case d.Type == "Strip" && s.fused && d.Content == " " && d.Stop == 0 && d.Start >= 0 && d.Start <= longestContent:
			s.strip += d.Start
		case d.Type == "WordPiece" && len(list) == 1:
			if d.Prefix == nil || d.Cleanup == nil {
				return nil, fmt.Errorf("the decoder WordPiece without prefix or cleanup")
			}
			s.words, s.prefix, s.cleanup = true, *d.Prefix, *d.Cleanup
		case d.Type == "Metaspace" && len(list) == 1:
			m, err := newMetaspace(d.Replacement, d.Scheme, d.PrefixSpace)
			if err != nil {
				return nil, err
			}
			s.replace = append(s.replace, [2]string{m.replacement, " "})
			if m.scheme != "never" {
				s.first = m.replacement
			}
		default:
			return nil, fmt.Errorf("decoder %.100q in this place (ByteLevel, Metaspace or WordPiece alone are supported, and a Sequence of Replace in tokens, then ByteFallback, Fuse, and a Strip of spaces at the begin)", d.Type)
		}
	}
	return s, nil
}

// token gives the bytes that a token stands for, and whether it is one byte.
func (s *spelling) token(content string, b *budget.Budget) (text []byte, single bool, err error) {
	if s.words {
		rest, inside := strings.CutPrefix(content, s.prefix)
		if !inside {
			rest = " " + content
		}
		return []byte(s.clean(rest)), false, b.Step(len(content) / 4)
	}
	for _, r := range s.replace {
		if content, err = replace(literal(r[0]), content, r[1], b); err != nil {
			return nil, false, err
		}
	}
	var one byte
	if s.bytes && len(content) == len("<0x00>") && strings.HasPrefix(content, "<0x") {
		if n, err := fmt.Sscanf(content, "<0x%02x>", &one); n == 1 && err == nil {
			return []byte{one}, true, nil
		}
	}
	return []byte(content), false, b.Step(0)
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
	case prefix != nil && *prefix != (scheme != "never"):
		return nil, fmt.Errorf("the add_prefix_space %v of a Metaspace, whose prepend_scheme is %s", *prefix, scheme)
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

// head gives the bytes of a token at the begin of a text.
func (s *spelling) head(content string, b *budget.Budget) ([]byte, error) {
	if s.words {
		return []byte(s.clean(content)), b.Step(len(content) / 4)
	}
	text, _, err := s.token(content, b)
	return bytes.ReplaceAll(text, []byte(" "), nil), err
}

// contractions pairs the ends of words before which WordPiece's decoder removes the space with the texts that it writes for them.
var contractions = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

func (s *spelling) clean(token string) string {
	if !s.cleanup {
		return token
	}
	return contractions.Replace(token)
}
