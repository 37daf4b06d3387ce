package jinja

import (
	"fmt"
	"strings"
)

// tests by name: what may follow "is".
var tests map[string]function

func init() {
	tests = map[string]function{
		"boolean": is[bool],
		"callable": holds(func(v any) bool {
			_, f := v.(function)
			_, m := v.(*macroValue)
			return f || m
		}),
		"defined":     holds(func(v any) bool { _, no := v.(Undefined); return !no }),
		"divisibleby": divisible,
		"escaped":     is[markup],
		"even":        parity(0),
		"false":       holds(func(v any) bool { return v == false }),
		"float":       is[float64],
		"integer":     is[int],
		"filter":      holds(func(v any) bool { name, ok := v.(string); return ok && filters[name] != nil }),
		"iterable":    holds(func(v any) bool { _, err := length(v); _, ok := v.(*generator); return err == nil || ok }),
		"lower":       ofText(func(s string) any { return s == lower(s) && s != upper(s) }),
		"mapping":     is[*Dict],
		"none":        holds(func(v any) bool { return v == nil }),
		"number":      holds(func(v any) bool { _, _, _, ok := numeric(v); return ok }),
		"odd":         parity(1),
		"sameas": func(s *scope, a args) (any, error) {
			v, err := a.bind("value", "other")
			if err != nil {
				return nil, err
			}
			return identical(v[0], v[1])
		},
		"sequence": holds(func(v any) bool {
			_, err := length(v)
			w, ok := v.(view)
			return err == nil && (!ok || strings.HasSuffix(w.name, ")"))
		}),
		"string": holds(func(v any) bool {
			_, text := v.(string)
			_, escaped := v.(markup)
			return text || escaped
		}),
		"test":      holds(func(v any) bool { name, ok := v.(string); return ok && tests[name] != nil }),
		"true":      holds(func(v any) bool { return v == true }),
		"undefined": is[Undefined],
		"upper":     ofText(func(s string) any { return s == upper(s) && s != lower(s) }),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"}, ">": {"gt", "greaterthan"}, ">=": {"ge"}, "in": {"in"},
	} {
		for _, name := range names {
			tests[name] = compared(op)
		}
	}
}

func holds(f func(any) bool) function {
	return unary(func(_ *rendering, v any) (any, error) { return f(v), nil })
}

func is[T any](s *scope, a args) (any, error) {
	return holds(func(v any) bool { _, ok := v.(T); return ok })(s, a)
}

func compared(op string) function {
	return func(s *scope, a args) (any, error) {
		v, err := a.bind("value", "other")
		if err != nil {
			return nil, err
		}
		return s.compare(op, v[0], v[1])
	}
}

// identical is Python's is. Whether equal texts, large numbers and lists are one object depends on where they come from there, so it is refused.
func identical(a, b any) (any, error) {
	switch x := a.(type) {
	case nil, bool, *Dict, *namespace, *generator:
		return a == b, nil
	case int:
		y, ok := b.(int)
		if ok && x == y && (x < -5 || x > 256) {
			return nil, fmt.Errorf("sameas is not supported of equal numbers as large as %d", x)
		}
		return ok && x == y, nil
	case []any:
		y, ok := b.([]any)
		return ok && len(x) == len(y) && (len(x) > 0 && &x[0] == &y[0]), nil
	}
	if describe(a) != describe(b) {
		return false, nil
	}
	return nil, fmt.Errorf("sameas is not supported of %s", describe(a))
}

func divisible(s *scope, a args) (any, error) {
	v, err := a.bind("value", "num")
	if err != nil {
		return nil, err
	}
	rest, err := s.calculate("%", v[0], v[1])
	return err == nil && !truth(rest), err
}

func parity(want int) function {
	return unary(func(_ *rendering, v any) (any, error) {
		i, err := asInt(v)
		return i&1 == want, err
	})
}
