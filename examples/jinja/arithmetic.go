package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/goascend/cann/examples/budget"
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

// equal compares values as Python does. Each value that it looks at is a step: a list may stand in a list many times. Values nested too deeply
// are not compared.
func (r *rendering) equal(a, b any) (bool, error) { return r.same(a, b, 0) }

func (r *rendering) same(a, b any, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errDeep
	}
	if err := r.Step(0); err != nil {
		return false, err
	}
	if x, i, xi, ok := numeric(a); ok {
		y, j, yi, ok := numeric(b)
		return ok && (xi && yi && i == j || !(xi && yi) && x == y), nil
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok, nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, r.Step(len(x) / 16)
	case markup:
		y, ok := b.(markup)
		return ok && x == y, r.Step(len(x) / 16)
	case []any:
		y, ok := b.([]any)
		return r.sameItems(x, y, ok, depth)
	case tuple:
		y, ok := b.(tuple)
		return r.sameItems(x, y, ok, depth)
	case view:
		y, ok := b.(view)
		return r.sameItems(x.items, y.items, ok, depth)
	case *generator:
		return a == b, nil
	case *namespace:
		return a == b, nil
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false, nil
		}
		for _, key := range x.keys {
			other, ok := y.values[key]
			if !ok {
				return false, nil
			}
			if ok, err := r.same(x.values[key], other, depth+1); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}
	return false, nil
}

func (r *rendering) sameItems(x, y []any, ok bool, depth int) (bool, error) {
	if !ok || len(x) != len(y) {
		return false, nil
	}
	for i := range x {
		if ok, err := r.same(x[i], y[i], depth+1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

var errDeep = fmt.Errorf("%w: values are nested deeper than %d", budget.ErrLimit, maxDepth)

// order compares numbers, strings, or lists of them.
func (r *rendering) order(a, b any) (int, error) { return r.rank(a, b, 0) }

func (r *rendering) rank(a, b any, depth int) (int, error) {
	if depth > maxDepth {
		return 0, errDeep
	}
	if err := r.Step(0); err != nil {
		return 0, err
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
			return strings.Compare(s, t), r.Step(min(len(s), len(t)) / 16)
		}
	}
	s, ok := itemsOfList(a)
	t, also := itemsOfList(b)
	_, first := a.(tuple)
	if _, second := b.(tuple); !ok || !also || first != second {
		return 0, fmt.Errorf("%s and %s have no order", describe(a), describe(b))
	}
	for i := range min(len(s), len(t)) {
		if c, err := r.rank(s[i], t[i], depth+1); err != nil || c != 0 {
			return c, err
		}
	}
	return len(s) - len(t), nil
}

func (r *rendering) compare(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		same, err := r.equal(a, b)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "not in":
		in, err := r.contains(b, a)
		return !in, err
	}
	c, err := r.order(a, b)
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
func (r *rendering) contains(all, value any) (bool, error) {
	switch v := all.(type) {
	case string:
		part, ok := value.(string)
		if !ok {
			return false, fmt.Errorf("a string cannot contain %s", describe(value))
		}
		return strings.Contains(v, part), r.Step(len(v) / 16)
	case *Dict:
		key, err := r.hash(value)
		_, ok := v.values[key]
		return ok, err
	}
	items, err := r.iterate(all)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if same, err := r.equal(item, value); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

// calculate applies an operator between two values as Python does.
func (r *rendering) calculate(op string, a, b any) (any, error) {
	if op == "~" {
		before, err := r.str(a)
		if err != nil {
			return nil, err
		}
		behind, err := r.str(b)
		return before + behind, err
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
		if s, ok := a.(tuple); ok {
			if t, ok := b.(tuple); ok {
				return append(append(make(tuple, 0, len(s)+len(t)), s...), t...), nil
			}
		}
	}
	if s, ok := a.(string); ok && op == "%" {
		return r.formatted(s, b)
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
			return nil, errLarge
		}
		return strings.Repeat(v, n), nil
	case []any:
		if len(v) > 0 && n > maxItems/len(v) {
			return nil, errLarge
		}
		out := make([]any, 0, n*len(v))
		for range n {
			out = append(out, v...)
		}
		return out, nil
	}
	if v, ok := value.(tuple); ok {
		out, err := repeat([]any(v), n)
		if err != nil {
			return nil, err
		}
		return tuple(out.([]any)), nil
	}
	return nil, fmt.Errorf("%s cannot be repeated", describe(value))
}

// integers calculates with whole numbers. Python's have no bound; results beyond 64 bits are refused.
func integers(op string, i, j int) (any, error) {
	if exact, ok := wide(op, i, j); ok {
		if !exact.IsInt64() {
			return nil, fmt.Errorf("%d %s %d is beyond the integers of 64 bits", i, op, j)
		}
		return int(exact.Int64()), nil
	}
	if j == 0 {
		return nil, fmt.Errorf("%d %s 0", i, op)
	}
	if j == -1 { // the least integer has no counterpart
		if op == "//" {
			return integers("*", i, -1)
		}
		return 0, nil
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

// wide calculates exactly. Only 0, 1 and −1 have powers beyond 64 that fit.
func wide(op string, i, j int) (*big.Int, bool) {
	x, y := big.NewInt(int64(i)), big.NewInt(int64(j))
	switch op {
	case "+":
		return x.Add(x, y), true
	case "-":
		return x.Sub(x, y), true
	case "*":
		return x.Mul(x, y), true
	case "**":
		if j > 64 && i >= -1 && i <= 1 {
			y.SetInt64(int64(64 + j%2))
		} else if j > 64 {
			y.SetInt64(65)
		}
		return x.Exp(x, y, nil), true
	}
	return nil, false
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
