package tokenizer

import "unicode/utf8"

// Stream decodes tokens one by one, as a model makes them, and gives out whole characters only:
// a character of several tokens comes with its last one. It goes on after another text: spaces that a decoder takes from the
// begin of a text stay, unless FromBegin says that nothing is before. Bytes that are no character become U+FFFD one by one.
type Stream struct {
	bytes    func(id int32) []byte
	heads    [][]byte // of tokens at the begin of a text; nil where that is no difference
	rest     []byte
	spelling *spelling
	strip    int  // spaces to take from the begin
	first    bool // nothing has come since the begin
}

// FromBegin makes it the stream of a whole text.
func (s *Stream) FromBegin() *Stream {
	if s.spelling != nil {
		s.strip, s.first = s.spelling.strip, true
	}
	return s
}

// NewStream decodes tokens that stand for the given bytes.
func NewStream(bytes func(id int32) []byte) *Stream { return &Stream{bytes: bytes} }

// Stream decodes a sequence that arrives piece by piece; plain leaves out special tokens.
func (t *Tokenizer) Stream(plain bool) *Stream {
	s := NewStream(func(id int32) []byte {
		if plain && t.special[id] {
			return nil
		}
		return t.Bytes(id)
	})
	s.spelling, s.heads = t.spelling, t.heads
	return s
}

// Next takes one token and gives the text that is complete with it, which may be empty.
func (s *Stream) Next(id int32) string {
	one := s.bytes(id)
	if s.first && one != nil {
		if s.first = false; s.heads != nil {
			one = s.heads[id]
		}
	}
	for s.strip > 0 && len(one) > 0 {
		if one[0] != ' ' {
			s.strip = 0
			break
		}
		one, s.strip = one[1:], s.strip-1
	}
	s.rest = append(s.rest, one...)
	whole := len(s.rest)
	for back := 1; back <= min(utf8.UTFMax-1, len(s.rest)); back++ {
		if start := len(s.rest) - back; utf8.RuneStart(s.rest[start]) {
			if !utf8.FullRune(s.rest[start:]) {
				whole = start
			}
			break
		}
	}
	text := replaceInvalid(s.rest[:whole])
	s.rest = append(s.rest[:0], s.rest[whole:]...)
	return text
}

// Flush gives what is left at the end of the sequence: an unfinished character as U+FFFD.
func (s *Stream) Flush() string {
	text := replaceInvalid(s.rest)
	s.rest = s.rest[:0]
	return text
}
