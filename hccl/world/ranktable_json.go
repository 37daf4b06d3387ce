package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth limits the nesting; a rank table needs seven levels.
const maxDepth = 16

// maxElements limits the values of a table, so that a file of any kind ends within two seconds of a processor: 65,536 ranks have 9 each at most.
// maxKeys limits the keys of an object, of which there are a dozen.
const (
	maxElements = 600_000
	maxKeys     = 32
)

// element is a JSON value with its position in the file. Decoding into structs with encoding/json
// would lose positions and repeated keys.
type element struct {
	at     int64 // offset of its first byte
	field  string
	value  any                 // string, json.Number, bool, nil; unset for the two below
	object map[string]*element // nil unless an object
	list   []*element          // nil unless an array
}

// kind names the type of the value for errors.
func (e *element) kind() string {
	switch {
	case e.object != nil:
		return "an object"
	case e.list != nil:
		return "an array"
	}
	switch v := e.value.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case json.Number:
		return "the number " + string(v)
	case bool:
		return fmt.Sprintf("%t", v)
	}
	return "null"
}

// document reads JSON text into elements.
type document struct {
	path string
	data []byte
	dec  *json.Decoder
	read int // elements so far
}

// parse reads the one value that the text consists of.
func (d *document) parse() (*element, error) {
	if !utf8.Valid(d.data) {
		bad := int64(0)
		for rest := d.data; ; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				break
			}
			rest, bad = rest[n:], bad+int64(n)
		}
		return nil, d.fault(bad, "", "not UTF-8")
	}
	d.dec = json.NewDecoder(bytes.NewReader(d.data))
	d.dec.UseNumber()
	root, err := d.element("", 0)
	if err != nil {
		return nil, err
	}
	if at := d.next(); at < int64(len(d.data)) {
		return nil, d.fault(at, "", "text after the end of the table")
	}
	return root, nil
}

// next returns the offset of the next token; the decoder only reports where the last one ended.
func (d *document) next() int64 {
	at := d.dec.InputOffset()
	for at < int64(len(d.data)) && strings.IndexByte(" \t\r\n,:", d.data[at]) >= 0 {
		at++
	}
	return at
}

func (d *document) token() (json.Token, int64, error) {
	at := d.next()
	tok, err := d.dec.Token()
	switch {
	case err == nil:
		return tok, at, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, d.fault(int64(len(d.data)), "", "the text ends too early")
	}
	return nil, at, d.fault(at, "", err.Error())
}

func (d *document) element(field string, depth int) (*element, error) {
	tok, at, err := d.token()
	if err != nil {
		return nil, err
	}
	e := &element{at: at, field: field}
	if depth > maxDepth {
		return nil, d.fault(at, field, "nested too deeply")
	}
	if d.read++; d.read > maxElements {
		return nil, d.fault(at, field, fmt.Sprintf("more than %d values", maxElements))
	}
	switch tok {
	case json.Delim('{'):
		e.object = map[string]*element{}
		for d.dec.More() {
			tok, at, err := d.token()
			if err != nil {
				return nil, err
			}
			key, ok := tok.(string)
			if !ok {
				return nil, d.fault(at, field, fmt.Sprintf("%v where a key is due", tok))
			}
			name := key
			if field != "" {
				name = field + "." + key
			}
			if len(e.object) == maxKeys {
				return nil, d.fault(at, name, fmt.Sprintf("more than %d keys", maxKeys))
			}
			if e.object[key] != nil {
				return nil, d.fault(at, name, "given twice")
			}
			if e.object[key], err = d.element(name, depth+1); err != nil {
				return nil, err
			}
		}
		_, _, err = d.token()
	case json.Delim('['):
		e.list = []*element{}
		for d.dec.More() {
			member, err := d.element(fmt.Sprintf("%s[%d]", field, len(e.list)), depth+1)
			if err != nil {
				return nil, err
			}
			e.list = append(e.list, member)
		}
		_, _, err = d.token()
	default:
		e.value = tok
	}
	return e, err
}

// fault makes an error with line and column.
func (d *document) fault(at int64, field, detail string) *TableError {
	at = min(max(at, 0), int64(len(d.data)))
	before := d.data[:at]
	return &TableError{
		Path: d.path, Field: field, Detail: detail, Err: ErrRankTable,
		Line:   1 + bytes.Count(before, []byte{'\n'}),
		Column: int(at) - bytes.LastIndexByte(before, '\n'),
	}
}
