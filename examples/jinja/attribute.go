package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// namespace is an object whose attributes a template may set from inside of loops.
type namespace struct{ Dict }

// loopState is the variable "loop".
type loopState struct {
	items   []any
	at      int
	depth   int
	last    []any // the values that changed() saw last
	seen    bool
	recurse function // loop(…) of a recursive loop
}

// attributeOf is value.name: a method, or the item of a dictionary.
func attributeOf(value any, name string) (any, error) {
	switch v := value.(type) {
	case Undefined:
		return nil, fmt.Errorf("%s has no attribute %q", describe(v), name)
	case *loopState:
		return v.attribute(name), nil
	case *macroValue:
		return v.attribute(name), nil
	case self:
		return v.attribute(name), nil
	case *cycle:
		return v.attribute(name), nil
	case group:
		if i := slices.Index([]string{"grouper", "list"}, name); i >= 0 {
			return v[i], nil
		}
	case *namespace:
		if found, ok := v.Get(name); ok {
			return found, nil
		}
		return Undefined{name}, nil
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return method(v, m), nil
		}
		if found, ok := v.Get(name); ok {
			return found, nil
		}
		return Undefined{name}, python("dict", name)
	case string:
		if m, ok := textMethods[name]; ok {
			return method(v, m), nil
		}
		return Undefined{name}, python("str", name)
	case markup:
		return Undefined{name}, python("str", name)
	case []any:
		if m, ok := listMethods[name]; ok {
			return method(v, m), nil
		}
		return Undefined{name}, python("list", name)
	case tuple:
		if m, ok := listMethods[name]; ok && name != "copy" {
			return method([]any(v), m), nil
		}
	case bool, int:
		return Undefined{name}, python("int", name)
	case float64:
		return Undefined{name}, python("float", name)
	case view:
		return Undefined{name}, python("view", name)
	}
	return Undefined{name}, nil
}

// pythons are attributes of Python's values that are not supported here; those that change a value are refused by Jinja's sandbox, too.
var pythons = map[string][]string{
	"dict":  {"clear", "fromkeys", "pop", "popitem", "setdefault", "update"},
	"str":   {"encode", "format_map", "maketrans", "translate"},
	"list":  {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"},
	"int":   {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag", "numerator", "real", "to_bytes"},
	"float": {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "is_integer", "real"},
	"view":  {"isdisjoint", "mapping", "count", "index", "start", "step", "stop"},
}

// python is the error of an attribute that Python's values of a kind have.
func python(kind, name string) error {
	if slices.Contains(pythons[kind], name) {
		return fmt.Errorf("%s.%s is not supported", kind, name)
	}
	return nil
}

// method binds a function to the value it belongs to.
func method[T any](value T, f func(*rendering, T, args) (any, error)) function {
	return func(s *scope, a args) (any, error) {
		if err := s.read(value); err != nil {
			return nil, err
		}
		return s.builtin(s, func(s *scope, a args) (any, error) { return f(s.rendering, value, a) }, a)
	}
}

func (l *loopState) attribute(name string) any {
	n := len(l.items)
	switch name {
	case "index":
		return l.at + 1
	case "index0":
		return l.at
	case "revindex":
		return n - l.at
	case "revindex0":
		return n - l.at - 1
	case "first":
		return l.at == 0
	case "last":
		return l.at == n-1
	case "length":
		return n
	case "depth":
		return l.depth + 1
	case "depth0":
		return l.depth
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1]
		}
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1]
		}
	case "cycle":
		return function(func(_ *scope, a args) (any, error) {
			if len(a.values) == 0 {
				return nil, fmt.Errorf("cycle takes at least one argument")
			}
			return a.values[l.at%len(a.values)], nil
		})
	case "changed":
		return function(func(s *scope, a args) (any, error) {
			same, err := s.equal(l.last, a.values)
			changed := !l.seen || !same
			l.seen, l.last = true, a.values
			return changed, err
		})
	}
	return Undefined{name}
}

// item is value[key].
func (r *rendering) item(value, key any) (any, error) {
	if err := r.read(key); err != nil {
		return nil, err
	}
	if d, ok := value.(*Dict); ok {
		h, err := r.hash(key)
		if errors.Is(err, budget.ErrLimit) {
			return nil, err
		}
		if err != nil {
			return Undefined{}, nil
		}
		if found, ok := d.values[h]; ok {
			return found, nil
		}
		name, ok := key.(string)
		if _, also := dictMethods[name]; ok && also {
			return attributeOf(d, name)
		}
		return Undefined{name}, nil
	}
	if name, ok := key.(string); ok {
		switch v := value.(type) {
		case *namespace, *loopState, string, []any, tuple, group, *cycle, *macroValue, self:
			return attributeOf(v, name) // as Jinja, which looks for an attribute behind an item
		case Undefined:
			return nil, fmt.Errorf("%s has no item %q", describe(v), name)
		}
		return Undefined{name}, nil
	}
	i, err := asInt(key)
	if err != nil {
		return Undefined{}, nil
	}
	var items []any
	switch v := value.(type) {
	case []any:
		items = v
	case tuple:
		items = v
	case group:
		items = v
	case view:
		if strings.HasSuffix(v.name, ")") { // a range
			items = v.items
		}
	case string:
		return r.character(v, i)
	case markup:
		return nil, fmt.Errorf("%s has no items here", describe(v))
	case Undefined:
		return nil, fmt.Errorf("%s has no items", describe(v))
	}
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return Undefined{}, nil
	}
	return items[i], nil
}

// character is the character of a text at a position, which counts from the end if it is negative.
func (r *rendering) character(text string, i int) (any, error) {
	if err := r.read(text); err != nil {
		return nil, err
	}
	if i < 0 {
		i += utf8.RuneCountInString(text)
	}
	for _, c := range text {
		if i == 0 {
			return string(c), nil
		}
		i--
	}
	return Undefined{}, nil
}

// cut is value[start:stop:step] with Python's rules; absent parts are nil.
func (r *rendering) cut(value any, parts [3]any) (any, error) {
	if err := r.read(value); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case string:
		runes := []rune(v)
		out, err := cutItems(runes, parts)
		return string(out), err
	case []any:
		out, err := cutItems(v, parts)
		return out, err
	case tuple:
		out, err := cutItems(v, parts)
		return tuple(out), err
	}
	return nil, fmt.Errorf("%s cannot be sliced", describe(value))
}

func cutItems[T any](items []T, parts [3]any) ([]T, error) {
	step := 1
	if parts[2] != nil {
		var err error
		if step, err = asInt(parts[2]); err != nil || step == 0 {
			return nil, fmt.Errorf("a slice steps by %s", repr(parts[2]))
		}
	}
	n := len(items)
	low, high := 0, n // bounds of a position
	from, to := 0, n
	if step < 0 {
		low, high = -1, n-1
		from, to = n-1, -1
	}
	for i, bound := range []*int{&from, &to} {
		if parts[i] == nil {
			continue
		}
		at, err := asInt(parts[i])
		if err != nil {
			return nil, err
		}
		if at < 0 {
			at += n
		}
		*bound = min(max(at, low), high)
	}
	out := []T{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, items[i])
		if step > n || -step > n {
			break // the next position is outside, and i may not wrap
		}
	}
	return out, nil
}
