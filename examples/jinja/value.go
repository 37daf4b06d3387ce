package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Undefined is the value of a variable, attribute or item that does not exist: it prints
// as nothing, counts as false, and has no attributes of its own.
type Undefined struct{ Name string }

// Dict is a dictionary in the order in which its keys were set. Keys are strings, as in JSON.
type Dict struct {
	keys   []string
	values map[string]any
}

// Set puts a value under a key.
func (d *Dict) Set(key string, value any) {
	if d.values == nil {
		d.values = map[string]any{}
	}
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Get gives the value under a key; ok reports whether there is one.
func (d *Dict) Get(key string) (value any, ok bool) {
	value, ok = d.values[key]
	return value, ok
}

// Keys gives the keys in order.
func (d *Dict) Keys() []string { return slices.Clone(d.keys) }

// function is a value that a template can call: a macro, a method, a filter or a test.
type function func(s *scope, a args) (any, error)

func truth(value any) bool {
	switch v := value.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// describe names the kind of a value for errors.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case Undefined:
		if v.Name != "" {
			return fmt.Sprintf("%q, which is undefined,", v.Name)
		}
		return "an undefined value"
	case bool:
		return "a boolean"
	case int, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case *Dict:
		return "a dictionary"
	case function:
		return "a function"
	}
	return fmt.Sprintf("a value of type %T", value)
}

// size is about how much memory a value takes, for the bound on a rendering's work.
func size(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case []any:
		return 16 * len(v)
	case *Dict:
		return 32 * len(v.keys)
	}
	return 1
}

// repr is Python's repr: how a value prints inside of a list. It stops when it is longer than a value may be,
// for which its caller looks, and at values nested too deeply.
func repr(value any) string {
	var out strings.Builder
	writeRepr(&out, value, 0)
	return out.String()
}

func writeRepr(out *strings.Builder, value any, depth int) {
	if depth > maxDepth {
		out.WriteString("...")
		return
	}
	switch v := value.(type) {
	case nil:
		out.WriteString("None")
	case Undefined:
		out.WriteString("Undefined")
	case bool:
		if v {
			out.WriteString("True")
		} else {
			out.WriteString("False")
		}
	case int:
		out.WriteString(strconv.Itoa(v))
	case float64:
		out.WriteString(float(v))
	case string:
		out.WriteString(quote(v))
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteString(", ")
			}
			if writeRepr(out, item, depth+1); out.Len() > maxText {
				return
			}
		}
		out.WriteByte(']')
	case *Dict:
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			out.WriteString(quote(key) + ": ")
			if writeRepr(out, v.values[key], depth+1); out.Len() > maxText {
				return
			}
		}
		out.WriteByte('}')
	default:
		out.WriteString("<" + strings.TrimPrefix(describe(value), "a ") + ">")
	}
}

// float prints the shortest digits that read back the same, as Python does: 1.0, 1e+16, 1e-05.
func float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes a string as Python does: in single quotes unless only those occur in it.
func quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	out := []byte{mark}
	for _, r := range s {
		switch {
		case r == rune(mark) || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < ' ' || r == 0x7f:
			out = fmt.Appendf(out, `\x%02x`, r)
		case !strconv.IsPrint(r) && r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, mark))
}

// iterate gives what a loop goes over: the items of a list, keys of a dictionary, characters of a string.
func iterate(value any) ([]any, error) {
	switch v := value.(type) {
	case Undefined:
		return nil, nil
	case []any:
		return v, nil
	case *Dict:
		return texts(v.keys), nil
	case string:
		if len(v) > maxItems && utf8.RuneCountInString(v) > maxItems {
			return nil, errLarge
		}
		var out []any
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s cannot be iterated over", describe(value))
}

func texts(all []string) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out
}

// length is Python's len; of a string it counts characters.
func length(value any) (int, error) {
	switch v := value.(type) {
	case Undefined:
		return 0, nil
	case string:
		return utf8.RuneCountInString(v), nil
	case []any:
		return len(v), nil
	case *Dict:
		return len(v.keys), nil
	}
	return 0, fmt.Errorf("%s has no length", describe(value))
}
