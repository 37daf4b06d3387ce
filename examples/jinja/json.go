package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// FromJSON reads a value. Objects keep the order of their keys; numbers without fraction and
// exponent are int.
func FromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := decode(d, 0)
	if err == nil {
		if _, after := d.Token(); after != io.EOF {
			err = fmt.Errorf("more than one value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return value, nil
}

// From makes a template's value of a Go value, by way of its JSON.
func From(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return FromJSON(text)
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case json.Number:
		if i, err := strconv.Atoi(v.String()); err == nil {
			return i, nil
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return nil, fmt.Errorf("%s is beyond the integers of 64 bits", v)
		}
		return v.Float64()
	case json.Delim:
		if v == '[' {
			out := []any{}
			for d.More() {
				item, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				out = append(out, item)
			}
			_, err := d.Token()
			return out, err
		}
		out := new(Dict)
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(key.(string), value)
		}
		_, err := d.Token()
		return out, err
	}
	return t, nil
}

// toJSON is the filter as transformers defines it: json.dumps without escapes for HTML.
func toJSON(s *scope, a args) (any, error) {
	v, err := a.bind("value", "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	if err != nil {
		return nil, err
	}
	w := &jsonWriter{ascii: truth(or(v[1], false)), sorted: truth(or(v[4], false)), comma: ", ", colon: ": "}
	switch indent := or(v[2], nil).(type) {
	case nil:
	case string:
		w.indent, w.lines = indent, true
	default:
		n, err := asInt(indent)
		if err != nil {
			return nil, err
		}
		w.indent, w.lines = strings.Repeat(" ", min(max(n, 0), 64)), true
	}
	if w.lines {
		w.comma = ","
	}
	if separators, ok := itemsOfList(or(v[3], nil)); ok && len(separators) == 2 {
		if w.comma, err = s.str(separators[0]); err == nil {
			w.colon, err = s.str(separators[1])
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.value(v[0], 0); err != nil {
		return nil, err
	}
	return w.out.String(), nil
}

type jsonWriter struct {
	out           strings.Builder
	ascii, sorted bool
	lines         bool
	indent        string
	comma, colon  string
}

func (w *jsonWriter) value(value any, depth int) error {
	switch v := value.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int:
		w.out.WriteString(strconv.Itoa(v))
	case float64:
		w.float(v)
	case string:
		w.text(v)
	case []any:
		return w.list(v, depth)
	case tuple:
		return w.list(v, depth)
	case *Dict:
		keys := v.keys
		if w.sorted && v.others != nil {
			return fmt.Errorf("keys that are no strings are not sorted")
		}
		if w.sorted {
			keys = sortedTexts(keys)
		}
		return w.group("{", "}", len(keys), depth, func(i int) error {
			switch key := v.key(keys[i]).(type) {
			case string:
				w.text(key)
			case nil, bool, int, float64:
				w.out.WriteByte('"')
				if err := w.value(key, depth); err != nil {
					return err
				}
				w.out.WriteByte('"')
			default:
				return fmt.Errorf("%s as a key has no JSON", describe(key))
			}
			w.out.WriteString(w.colon)
			return w.value(v.values[keys[i]], depth+1)
		})
	default:
		return fmt.Errorf("%s has no JSON", describe(value))
	}
	return nil
}

func (w *jsonWriter) list(items []any, depth int) error {
	return w.group("[", "]", len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
}

func (w *jsonWriter) group(opening, closing string, n, depth int, each func(i int) error) error {
	if depth > maxDepth {
		return errDeep
	}
	w.out.WriteString(opening)
	for i := range n {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		w.line(depth + 1)
		if err := each(i); err != nil {
			return err
		}
		if w.out.Len()+len(w.indent)*(depth+2) > maxText {
			return errLarge
		}
	}
	if n > 0 {
		w.line(depth)
	}
	w.out.WriteString(closing)
	return nil
}

func (w *jsonWriter) line(depth int) {
	if w.lines && w.out.Len()+len(w.indent)*depth <= maxText { // a longer text is refused
		w.out.WriteString("\n" + strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) float(f float64) {
	switch {
	case math.IsNaN(f):
		w.out.WriteString("NaN")
	case math.IsInf(f, 1):
		w.out.WriteString("Infinity")
	case math.IsInf(f, -1):
		w.out.WriteString("-Infinity")
	default:
		w.out.WriteString(float(f))
	}
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (w *jsonWriter) text(s string) {
	w.out.WriteByte('"')
	for _, r := range s {
		if w.out.Len() > maxText { // the caller looks for that
			return
		}
		plain, ok := jsonEscapes[r]
		switch {
		case ok:
			w.out.WriteString(plain)
		case r < ' ' || w.ascii && r >= 0x7f && r < 0x10000:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		case w.ascii && r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, high, low)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
}
