package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// scanner walks a JSON document token by token. encoding/json's struct decoding would accept
// repeated keys, keys in the wrong case, nulls for numbers and broken UTF-8, each of which lets
// two readers see two different files.
type scanner struct{ dec *json.Decoder }

// scanDocument calls value once to consume the single JSON value data consists of.
func scanDocument(data []byte, value func(scanner) error) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("not UTF-8")
	}
	s := scanner{json.NewDecoder(bytes.NewReader(data))}
	s.dec.UseNumber()
	if err := value(s); err != nil {
		return err
	}
	if _, err := s.dec.Token(); err != io.EOF {
		return fmt.Errorf("text after the JSON value")
	}
	return nil
}

// optional is object for a value that may also be null, as some writers spell "nothing".
func (s scanner) optional(field func(s scanner, key string) error) error {
	var text json.RawMessage
	if err := s.dec.Decode(&text); err != nil || string(text) == "null" {
		return err
	}
	return scanDocument(text, func(s scanner) error {
		return s.object(func(key string) error { return field(s, key) })
	})
}

// object calls field for each key, which must consume the value.
func (s scanner) object(field func(key string) error) error {
	if err := s.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for s.dec.More() {
		key, err := s.text()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%q %w", key, ErrDuplicate)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	return s.delim('}')
}

// naturals reads an array of integers that are not negative and fit an int.
func (s scanner) naturals() ([]int, error) {
	if err := s.delim('['); err != nil {
		return nil, err
	}
	list := []int{}
	for s.dec.More() {
		tok, err := s.dec.Token()
		if err != nil {
			return nil, err
		}
		number, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v where a number is due", tok)
		}
		n, err := strconv.ParseUint(string(number), 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("%s is not a count", number)
		}
		list = append(list, int(n))
	}
	return list, s.delim(']')
}

func (s scanner) text() (string, error) {
	tok, err := s.dec.Token()
	if err != nil {
		return "", err
	}
	text, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("%v where a string is due", tok)
	}
	return text, nil
}

func (s scanner) delim(want json.Delim) error {
	tok, err := s.dec.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("%v where %v is due", tok, want)
	}
	return nil
}
