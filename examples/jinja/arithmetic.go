package jinja

import (
	"fmt"
	"math"
	"strings"
)

// numeric reads a number: booleans count as 0 and 1. whole reports whether it is an integer.
func numeric(value any) (f float64, i int, whole, ok bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

func equal(a, b any) bool { return same(a, b, 0) }

// same compares values; those nested too deeply are never equal.
func same(a, b any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	if x, i, xi, ok := numeric(a); ok {
		y, j, yi, ok := numeric(b)
		return ok && (xi && yi && i == j || !(xi && yi) && x == y)
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case string:
		y, ok := b.(string)
		return ok && x == y
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for key, value := range x.values {
			if other, ok := y.values[key]; !ok || !same(value, other, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

// order compares numbers, strings, or lists of them.
func order(a, b any) (int, error) { return rank(a, b, 0) }

func rank(a, b any, depth int) (int, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	x, _, _, ok := numeric(a)
	y, _, _, also := numeric(b)
	switch {
	case ok && also && x < y:
		return -1, nil
	case ok && also && x > y:
		return 1, nil
	case ok && also:
		return 0, nil
	}
	if s, ok := a.(string); ok {
		if t, ok := b.(string); ok {
			return strings.Compare(s, t), nil
		}
	}
	s, ok := a.([]any)
	t, also := b.([]any)
	if !ok || !also {
		return 0, fmt.Errorf("%s and %s have no order", describe(a), describe(b))
	}
	for i := range min(len(s), len(t)) {
		if c, err := rank(s[i], t[i], depth+1); err != nil || c != 0 {
			return c, err
		}
	}
	return len(s) - len(t), nil
}

func compare(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return contains(b, a)
	case "not in":
		in, err := contains(b, a)
		return !in, err
	}
	c, err := order(a, b)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// contains reports whether a string, list or dictionary has a part, an item or a key.
func contains(all, value any) (bool, error) {
	switch v := all.(type) {
	case string:
		part, ok := value.(string)
		if !ok {
			return false, fmt.Errorf("a string cannot contain %s", describe(value))
		}
		return strings.Contains(v, part), nil
	case *Dict:
		key, ok := value.(string)
		if !ok {
			return false, nil
		}
		_, ok = v.values[key]
		return ok, nil
	}
	items, err := iterate(all)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if equal(item, value) {
			return true, nil
		}
	}
	return false, nil
}

// calculate applies an operator between two values as Python does.
func calculate(op string, a, b any) (any, error) {
	if op == "~" {
		return str(a) + str(b), nil
	}
	x, i, xi, ok := numeric(a)
	y, j, yi, also := numeric(b)
	switch {
	case ok && also && xi && yi && op != "/" && !(op == "**" && j < 0):
		return integers(op, i, j)
	case ok && also:
		return floats(op, x, y)
	}
	if op == "+" {
		if s, ok := a.(string); ok {
			if t, ok := b.(string); ok {
				return s + t, nil
			}
		}
		if s, ok := a.([]any); ok {
			if t, ok := b.([]any); ok {
				return append(append(make([]any, 0, len(s)+len(t)), s...), t...), nil
			}
		}
	}
	if op == "*" && (yi || xi) {
		if xi {
			a, j = b, i
		}
		return repeat(a, j)
	}
	return nil, fmt.Errorf("%s %s %s is not defined", describe(a), op, describe(b))
}

func repeat(value any, n int) (any, error) {
	n = max(n, 0)
	switch v := value.(type) {
	case string:
		if len(v) > 0 && n > maxText/len(v) {
			return nil, ErrLimit
		}
		return strings.Repeat(v, n), nil
	case []any:
		if len(v) > 0 && n > maxText/16/len(v) {
			return nil, ErrLimit
		}
		out := make([]any, 0, n*len(v))
		for range n {
			out = append(out, v...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s cannot be repeated", describe(value))
}

func integers(op string, i, j int) (any, error) {
	switch op {
	case "+":
		return i + j, nil
	case "-":
		return i - j, nil
	case "*":
		return i * j, nil
	case "**":
		return int(math.Pow(float64(i), float64(j))), nil
	}
	if j == 0 {
		return nil, fmt.Errorf("%d %s 0", i, op)
	}
	quotient, remainder := i/j, i%j
	if remainder != 0 && (remainder < 0) != (j < 0) { // Python rounds down
		quotient, remainder = quotient-1, remainder+j
	}
	if op == "//" {
		return quotient, nil
	}
	return remainder, nil
}

func floats(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		return math.Pow(x, y), nil
	}
	if y == 0 {
		return nil, fmt.Errorf("%v %s 0", x, op)
	}
	switch op {
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	}
	return x - y*math.Floor(x/y), nil
}
