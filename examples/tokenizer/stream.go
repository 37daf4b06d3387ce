package tokenizer

import "unicode/utf8"

// Stream decodes tokens one by one, as a model makes them, and gives out whole characters only:
// a character of several tokens comes with its last one.
type Stream struct {
	bytes func(id int32) []byte
	rest  []byte
}

// NewStream decodes tokens that stand for the given bytes.
func NewStream(bytes func(id int32) []byte) *Stream { return &Stream{bytes: bytes} }

// Stream decodes a sequence that arrives piece by piece; plain leaves out special tokens.
func (t *Tokenizer) Stream(plain bool) *Stream {
	return NewStream(func(id int32) []byte {
		if plain && t.special[id] {
			return nil
		}
		return t.Bytes(id)
	})
}

// Next takes one token and gives the text that is complete with it, which may be empty.
func (s *Stream) Next(id int32) string {
	s.rest = append(s.rest, s.bytes(id)...)
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
