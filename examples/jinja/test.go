package jinja

import (
	"strings"
)

// tests by name: what may follow "is".
var tests map[string]function

func init() {
	tests = map[string]function{
		"boolean":     is[bool],
		"callable":    is[function],
		"defined":     holds(func(v any) bool { _, no := v.(Undefined); return !no }),
		"divisibleby": divisible,
		"even":        parity(0),
		"false":       holds(func(v any) bool { return v == false }),
		"float":       is[float64],
		"integer":     is[int],
		"iterable":    holds(func(v any) bool { _, err := length(v); return err == nil }),
		"lower":       ofText(func(s string) any { return s == strings.ToLower(s) && s != strings.ToUpper(s) }),
		"mapping":     is[*Dict],
		"none":        holds(func(v any) bool { return v == nil }),
		"number":      holds(func(v any) bool { _, _, _, ok := numeric(v); return ok }),
		"odd":         parity(1),
		"sameas":      compared("=="),
		"sequence":    holds(func(v any) bool { _, err := length(v); return err == nil }),
		"string":      is[string],
		"true":        holds(func(v any) bool { return v == true }),
		"undefined":   is[Undefined],
		"upper":       ofText(func(s string) any { return s == strings.ToUpper(s) && s != strings.ToLower(s) }),
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
