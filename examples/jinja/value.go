package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Undefined is the value of a variable, attribute or item that does not exist: it prints
// as nothing, counts as false, and has no attributes of its own.
type Undefined struct{ Name string }

// Dict is a dictionary in the order in which its keys were set. Those of JSON have strings as keys; a template can make others.
type Dict struct {
	keys   []string // of strings themselves, of other keys what hash writes
	values map[string]any
	others map[string]any // keys that are no strings
}

// Set puts a value under a key.
func (d *Dict) Set(key string, value any) { d.set(textHash(key), value) }

func (d *Dict) set(key string, value any) {
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
	value, ok = d.values[textHash(key)]
	return value, ok
}

// Keys gives the keys that are strings, in order.
func (d *Dict) Keys() []string {
	var out []string
	for _, key := range d.keys {
		if text, ok := d.key(key).(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// put is Set with any key that Python can hash.
func (r *rendering) put(d *Dict, key, value any) error {
	h, err := r.hash(key)
	if err != nil {
		return err
	}
	if _, text := key.(string); !text {
		if d.others == nil {
			d.others = map[string]any{}
		}
		if _, old := d.values[h]; !old {
			d.others[h] = key
		}
	}
	d.set(h, value)
	return nil
}

// key is the key behind its hash.
func (d *Dict) key(h string) any {
	if other, ok := d.others[h]; ok {
		return other
	}
	return strings.TrimPrefix(h, "\x00s")
}

// textHash keeps strings apart from what hash writes for other keys.
func textHash(key string) string {
	if strings.HasPrefix(key, "\x00") {
		return "\x00s" + key
	}
	return key
}

// hash writes a key as a string that equal keys have in common: 1, 1.0 and true are one key. It counts the work: a tuple may stand in a tuple many times.
func (r *rendering) hash(key any) (string, error) {
	if text, ok := key.(string); ok {
		return textHash(text), r.read(text)
	}
	var out strings.Builder
	err := r.writeHash(&out, key, 0)
	return out.String(), err
}

func (r *rendering) writeHash(out *strings.Builder, key any, depth int) error {
	if err := r.Step(size(key) / 16); err != nil {
		return err
	}
	if out.Len() > maxText {
		return errLarge
	}
	if depth > maxDepth {
		return errDeep
	}
	if f, i, whole, ok := numeric(key); ok {
		switch {
		case whole:
			out.WriteString("\x00i" + strconv.Itoa(i) + ";")
		case f == math.Trunc(f) && math.Abs(f) < 1<<63:
			out.WriteString("\x00i" + strconv.Itoa(int(f)) + ";")
		default:
			out.WriteString("\x00f" + float(f) + ";")
		}
		return nil
	}
	switch v := key.(type) {
	case nil:
		out.WriteString("\x00n;")
		return nil
	case string: // of a tuple
		out.WriteString("\x00s" + strconv.Itoa(len(v)) + ":" + v)
		return nil
	case tuple:
		out.WriteString("\x00t" + strconv.Itoa(len(v)) + ":")
		for _, item := range v {
			if err := r.writeHash(out, item, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s cannot be a key", describe(key))
}

// tuple is a list that is written in parentheses.
type tuple []any

// group is a tuple of the filter groupby: the value of the attribute, and the list of items that have it.
type group tuple

// view is the keys, values or items of a dictionary, or a range, as in Python: a template iterates over it and reads its length, but it is no list.
type view struct {
	name  string // how it prints: the whole of a range; of others what stands before their items
	items []any
}

// generator has the items that a filter such as map or select makes. As in Python they can be taken once, it has no length, and it is true without any, too.
type generator struct{ items []any }

// markup is a text that the filter escape has made, and does not escape again.
type markup string

// itemsOfList gives the items of a list or a tuple.
func itemsOfList(value any) (items []any, ok bool) {
	switch v := value.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	case group:
		return v, true
	}
	return nil, false
}

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
	case markup:
		return v != ""
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case view:
		return len(v.items) > 0
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
	case markup:
		return "an escaped text"
	case []any:
		return "a list"
	case tuple:
		return "a tuple"
	case view:
		return "a " + v.name
	case *generator:
		return "a generator, as filters such as map and select make,"
	case *Dict:
		return "a dictionary"
	case function, *macroValue:
		return "a function"
	case *loopState:
		return "a loop"
	case *namespace:
		return "a namespace"
	}
	return fmt.Sprintf("a value of type %T", value)
}

// size is about how much memory a value takes, for the bound on a rendering's work.
func size(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case markup:
		return len(v)
	case []any:
		return 16 * len(v)
	case tuple:
		return 16 * len(v)
	case view:
		return 16 * len(v.items)
	case *generator:
		return 16 * len(v.items)
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
		writeQuoted(out, v)
	case markup:
		out.WriteString("Markup(")
		writeQuoted(out, string(v))
		out.WriteString(")")
	case []any:
		writeItems(out, "[", v, "]", depth)
	case tuple:
		if len(v) == 1 {
			writeItems(out, "(", v, ",)", depth)
		} else {
			writeItems(out, "(", v, ")", depth)
		}
	case group:
		writeItems(out, "(", v, ")", depth)
	case view:
		if strings.HasSuffix(v.name, ")") {
			out.WriteString(v.name)
		} else {
			writeItems(out, v.name+"([", v.items, "])", depth)
		}
	case *Dict:
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			writeRepr(out, v.key(key), depth+1)
			out.WriteString(": ")
			if writeRepr(out, v.values[key], depth+1); out.Len() > maxText {
				return
			}
		}
		out.WriteByte('}')
	default:
		out.WriteString("<" + strings.TrimPrefix(describe(value), "a ") + ">")
	}
}

func writeItems(out *strings.Builder, opening string, items []any, closing string, depth int) {
	out.WriteString(opening)
	for i, item := range items {
		if i > 0 {
			out.WriteString(", ")
		}
		if writeRepr(out, item, depth+1); out.Len() > maxText {
			return
		}
	}
	out.WriteString(closing)
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

// writeQuoted writes a string as Python does: in single quotes unless only those occur in it.
func writeQuoted(out *strings.Builder, s string) {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	out.WriteByte(mark)
	for _, r := range s {
		if out.Len() > maxText {
			return
		}
		switch {
		case r == rune(mark) || r == '\\':
			out.WriteByte('\\')
			out.WriteByte(byte(r))
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(out, `\x%02x`, r)
		case !strconv.IsPrint(r) && r < 0x10000:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte(mark)
}

// iterate gives what a loop goes over: the items of a list, keys of a dictionary, characters of a string. It counts the work for those
// that it makes.
func (r *rendering) iterate(value any) ([]any, error) {
	switch v := value.(type) {
	case Undefined:
		return nil, nil
	case []any:
		return v, nil
	case tuple:
		return v, nil
	case group:
		return v, nil
	case view:
		return v.items, nil
	case *generator:
		items := v.items
		v.items = nil
		return items, nil
	case *Dict:
		return dictKeys(v), r.Step(2 * len(v.keys))
	case string:
		n := utf8.RuneCountInString(v)
		if n > maxItems {
			return nil, errLarge
		}
		if err := r.Step(len(v)/16 + 2*n); err != nil {
			return nil, err
		}
		out := make([]any, 0, n)
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
	case markup:
		return utf8.RuneCountInString(string(v)), nil
	case []any:
		return len(v), nil
	case tuple:
		return len(v), nil
	case group:
		return len(v), nil
	case view:
		return len(v.items), nil
	case *Dict:
		return len(v.keys), nil
	}
	return 0, fmt.Errorf("%s has no length", describe(value))
}
