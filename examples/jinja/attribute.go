package jinja

import (
	"fmt"
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
	case *namespace:
		if found, ok := v.values[name]; ok {
			return found, nil
		}
		return Undefined{name}, nil
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return method(v, m), nil
		}
		if found, ok := v.values[name]; ok {
			return found, nil
		}
	case string:
		if m, ok := textMethods[name]; ok {
			return method(v, m), nil
		}
	case []any:
		if m, ok := listMethods[name]; ok {
			return method(v, m), nil
		}
	}
	return Undefined{name}, nil
}

// method binds a function to the value it belongs to.
func method[T any](value T, f func(T, args) (any, error)) function {
	return func(_ *scope, a args) (any, error) { return f(value, a) }
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
		return function(func(_ *scope, a args) (any, error) {
			changed := !l.seen || !equal(l.last, a.values)
			l.seen, l.last = true, a.values
			return changed, nil
		})
	}
	return Undefined{name}
}

// item is value[key].
func item(value, key any) (any, error) {
	if name, ok := key.(string); ok {
		switch v := value.(type) {
		case *Dict:
			if found, ok := v.values[name]; ok {
				return found, nil
			}
			return Undefined{name}, nil
		case *namespace, *loopState:
			return attributeOf(v, name)
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
	case string:
		items, _ = iterate(v)
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

// cut is value[start:stop:step] with Python's rules; absent parts are nil.
func cut(value any, parts [3]any) (any, error) {
	text, isText := value.(string)
	items, ok := value.([]any)
	if !isText && !ok {
		return nil, fmt.Errorf("%s cannot be sliced", describe(value))
	}
	if isText {
		items, _ = iterate(text)
	}
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
	out := []any{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, items[i])
		if step > n || -step > n {
			break // the next position is outside, and i may not wrap
		}
	}
	if isText {
		return concatenate(out), nil
	}
	return out, nil
}
