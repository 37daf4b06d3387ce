package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// scanner walks a JSON document. encoding/json's struct decoding would accept repeated keys, keys in the wrong case, nulls for
// numbers and broken UTF-8, each of which lets two readers see two different files; its tokens take twice as long. The document is known to be
// valid JSON, so a scanner looks only for the beginnings and ends of values.
type scanner struct{ rest *[]byte }

// scanDocument calls value once to consume the single JSON value data consists of.
func scanDocument(data []byte, value func(scanner) error) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("not UTF-8")
	}
	if err := validate(data); err != nil {
		return err
	}
	return value(scanner{&data})
}

// validate checks the syntax of a document, and that nothing follows it.
func validate(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var value json.RawMessage
	return json.Unmarshal(data, &value) // it says what is wrong
}

// next returns the first byte of the next token, without consuming it.
func (s scanner) next() byte {
	*s.rest = bytes.TrimLeft(*s.rest, " \t\r\n")
	return (*s.rest)[0]
}

// take consumes bytes.
func (s scanner) take(n int) []byte {
	text := (*s.rest)[:n]
	*s.rest = (*s.rest)[n:]
	return text
}

// optional is object for a value that may also be null, as some writers spell "nothing".
func (s scanner) optional(field func(s scanner, key string) error) error {
	if s.next() == 'n' {
		s.take(len("null"))
		return nil
	}
	return s.object(func(key string) error { return field(s, key) })
}

// object calls field for each key, which must consume the value.
func (s scanner) object(field func(key string) error) error {
	if err := s.begin('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for s.more('}') {
		key, err := s.text()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%q %w", key, ErrDuplicate)
		}
		seen[key] = true
		s.next()
		s.take(len(":"))
		if err := field(key); err != nil {
			return err
		}
	}
	return nil
}

// naturals reads an array of integers that are not negative and fit an int.
func (s scanner) naturals() ([]int, error) {
	if err := s.begin('['); err != nil {
		return nil, err
	}
	list := []int{}
	for s.more(']') {
		if c := s.next(); c != '-' && (c < '0' || c > '9') {
			return nil, fmt.Errorf("%s where a number is due", s.word())
		}
		number := string(s.take(bytes.IndexAny(*s.rest, " \t\r\n,]")))
		n, err := strconv.ParseUint(number, 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("%s is not a count", number)
		}
		list = append(list, int(n))
	}
	return list, nil
}

func (s scanner) text() (string, error) {
	if s.next() != '"' {
		return "", fmt.Errorf("%s where a string is due", s.word())
	}
	quoted := s.take(quotedLength(*s.rest))
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err
}

// quotedLength is that of a string which a text begins with.
func quotedLength(text []byte) int {
	for end := 1; ; end++ {
		switch text[end] {
		case '\\':
			end++
		case '"':
			return end + 1
		}
	}
}

// value consumes any value, and returns its text.
func (s scanner) value() []byte {
	s.next()
	text, n, depth := *s.rest, 0, 0
	for {
		switch text[n] {
		case '"':
			n += quotedLength(text[n:])
		case '[', '{':
			depth++
			n++
		case ']', '}':
			depth--
			n++
		default:
			n++
			if depth == 0 {
				n += bytes.IndexAny(text[n:], " \t\r\n,]}")
			}
		}
		if depth == 0 {
			return s.take(n)
		}
	}
}

// begin consumes the beginning of an array or an object.
func (s scanner) begin(want byte) error {
	if s.next() != want {
		return fmt.Errorf("%s where %c is due", s.word(), want)
	}
	s.take(1)
	return nil
}

// more reports whether another value follows in an array or an object, and else consumes its end.
func (s scanner) more(end byte) bool {
	c := s.next()
	if c == ',' || c == end {
		s.take(1)
	}
	return c != end
}

// word is the beginning of the next token, for errors.
func (s scanner) word() []byte {
	const most = 20
	text := (*s.rest)[:min(len(*s.rest), most)]
	if end := bytes.IndexAny(text[1:], " \t\r\n,:[]{}"); end >= 0 {
		text = text[:end+1]
	}
	return text
}
