package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// expr is an expression of the rules: an integer, a symbol, or an operation on expressions. The
// operation "?" is a value that the extractor does not know; its s is the place and the text in the sources, if any.
type expr struct {
	op   string // "int", "sym", "?" or an operation
	n    int64
	s    string
	args []*expr
	size int
}

var (
	unknown = &expr{op: "?", size: 1}
	yes     = integerExpr(1)
	no      = integerExpr(0)
)

func integerExpr(n int64) *expr { return &expr{op: "int", n: n, size: 1} }
func symbol(s string) *expr     { return &expr{op: "sym", s: s, size: 1} }

func integer(s string) (int64, bool) {
	s = strings.TrimRight(strings.ReplaceAll(s, "'", ""), "uUlL") // f is a digit of 0xf, and belongs to numbers with a fraction
	n, err := strconv.ParseInt(s, 0, 64)
	return n, err == nil
}

func (e *expr) constant() bool { return e.op == "int" }

// limit is the size beyond which an expression is given up.
const limit = 160

func makeExpr(op string, args ...*expr) *expr {
	e := &expr{op: op, args: args, size: 1}
	for _, a := range args {
		e.size += a.size
	}
	if e.size > limit {
		return &expr{op: "?", s: fmt.Sprintf("a condition of more than %d operations", limit), size: 1}
	}
	return e
}

func same(a, b *expr) bool {
	return a == b || a.op == "?" && b.op == "?" || a.op == b.op && a.n == b.n && (a.s == b.s || a.op == "int") && len(a.args) == len(b.args) && slices.EqualFunc(a.args, b.args, same)
}

func not(e *expr) *expr {
	switch e.op {
	case "?":
		return e
	case "int":
		return boolean(e.n == 0)
	case "not":
		return e.args[0]
	case "eq":
		return makeExpr("ne", e.args...)
	case "ne":
		return makeExpr("eq", e.args...)
	case "lt":
		return makeExpr("ge", e.args...)
	case "ge":
		return makeExpr("lt", e.args...)
	case "gt":
		return makeExpr("le", e.args...)
	case "le":
		return makeExpr("gt", e.args...)
	}
	return makeExpr("not", e)
}

func boolean(b bool) *expr {
	if b {
		return yes
	}
	return no
}

func and(a, b *expr) *expr { return join("and", a, b) }
func or(a, b *expr) *expr  { return join("or", a, b) }

// join builds "and" and "or" with constants folded and nested operations flattened.
func join(op string, a, b *expr) *expr {
	absorbing := boolean(op == "or").n
	for i, e := range []*expr{a, b} {
		if e.constant() {
			if boolean(e.n != 0).n == absorbing {
				return integerExpr(absorbing)
			}
			return []*expr{b, a}[i]
		}
	}
	if same(a, b) {
		return a
	}
	if same(not(a), b) && !unsure(a) {
		return integerExpr(absorbing)
	}
	var args []*expr
	for _, e := range []*expr{a, b} {
		if e.op == op {
			args = append(args, e.args...)
		} else {
			args = append(args, e)
		}
	}
	return makeExpr(op, args...)
}

// choose is the conditional expression.
func choose(c, a, b *expr) *expr {
	switch {
	case c.constant():
		if c.n != 0 {
			return a
		}
		return b
	case same(a, b):
		return a
	case truth(a) && truth(b):
		return or(and(c, a), and(not(c), b))
	case a.constant() && a.n == 0 && logical(b):
		return and(not(c), b)
	case a.constant() && a.n == 1 && logical(b):
		return or(c, b)
	case b.constant() && b.n == 0 && logical(a):
		return and(c, a)
	case b.constant() && b.n == 1 && logical(a):
		return or(not(c), a)
	case logical(a) && logical(b):
		return or(and(c, a), and(not(c), b))
	}
	return makeExpr("if", c, a, b)
}

func truth(e *expr) bool { return e.constant() && (e.n == 0 || e.n == 1) }

// logical reports whether the value can only be 0 or 1.
func logical(e *expr) bool {
	switch e.op {
	case "int":
		return truth(e)
	case "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "null", "in", "empty", "any", "sheq", "bcok", "cast", "real", "complex", "integral", "private", "samestr":
		return true
	}
	return false
}

// compare builds a comparison. Conditional operands are distributed over it, so that comparisons
// of status codes disappear.
func compare(op string, a, b *expr) *expr {
	if a.constant() && b.constant() {
		var r bool
		switch op {
		case "eq":
			r = a.n == b.n
		case "ne":
			r = a.n != b.n
		case "lt":
			r = a.n < b.n
		case "le":
			r = a.n <= b.n
		case "gt":
			r = a.n > b.n
		case "ge":
			r = a.n >= b.n
		}
		return boolean(r)
	}
	if a.op == "sym" && b.op == "sym" && strings.HasPrefix(a.s, "@") && strings.HasPrefix(b.s, "@") {
		return boolean((a.s == b.s) == (op == "eq"))
	}
	if a.op == "if" && leaves(a) && b.constant() {
		return choose(a.args[0], compare(op, a.args[1], b), compare(op, a.args[2], b))
	}
	if b.op == "if" && leaves(b) && a.constant() {
		return choose(b.args[0], compare(op, a, b.args[1]), compare(op, a, b.args[2]))
	}
	if logical(a) && b.constant() && (op == "eq" || op == "ne") {
		if (b.n != 0) == (op == "eq") {
			return a
		}
		return not(a)
	}
	if same(a, b) && a.op != "?" && !unsure(a) {
		return boolean(op == "eq" || op == "le" || op == "ge")
	}
	return makeExpr(op, a, b)
}

// leaves reports whether a conditional has constants at some of its ends.
func leaves(e *expr) bool {
	if e.op != "if" {
		return e.constant()
	}
	return leaves(e.args[1]) || leaves(e.args[2])
}

// visible returns an expression without the names that only the sources have.
func visible(e *expr) *expr {
	if e.op == "sym" && strings.HasPrefix(e.s, "@") {
		return &expr{op: "?", s: "what the sources compute with " + e.s[1:], size: 1}
	}
	if len(e.args) == 0 {
		return e
	}
	args := make([]*expr, len(e.args))
	for i, a := range e.args {
		args[i] = visible(a)
	}
	return makeExpr(e.op, args...)
}

// gaps returns the places of the unknown parts of an expression, each once.
func (e *expr) gaps() []string {
	var all []string
	if e.op == "?" && e.s != "" {
		all = append(all, e.s)
	}
	for _, a := range e.args {
		for _, g := range a.gaps() {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// unsure reports whether an expression contains an unknown part.
func unsure(e *expr) bool { return e.op == "?" || slices.ContainsFunc(e.args, unsure) }

// bound replaces what is unknown in a condition, so that the result implies the condition (low), or
// is implied by it (high).
func bound(e *expr, low bool) *expr {
	switch e.op {
	case "?":
		return boolean(!low)
	case "and", "or":
		r := boolean(e.op == "and")
		for _, a := range e.args {
			r = join(e.op, r, bound(a, low))
		}
		return r
	case "not":
		return not(bound(e.args[0], !low))
	case "if":
		if unsure(e) {
			return bound(or(and(e.args[0], e.args[1]), and(not(e.args[0]), e.args[2])), low)
		}
	case "any":
		if unsure(e.args[1]) || unsure(e.args[2]) {
			return boolean(!low)
		}
		c := bound(e.args[3], low)
		if c.constant() && c.n == 0 {
			return no
		}
		return makeExpr("any", e.args[0], e.args[1], e.args[2], c)
	}
	if unsure(e) {
		for i, a := range e.args { // a choice of which one side is known bounds the condition
			if a.op == "if" && logical(e) {
				with := func(x *expr) *expr {
					args := slices.Clone(e.args)
					args[i] = x
					if slices.Contains(orders, e.op) {
						return compare(e.op, args[0], args[1])
					}
					return makeExpr(e.op, args...)
				}
				return bound(or(and(a.args[0], with(a.args[1])), and(not(a.args[0]), with(a.args[2]))), low)
			}
		}
		return boolean(!low)
	}
	return e
}

// orders are the comparisons of numbers.
var orders = []string{"eq", "ne", "lt", "le", "gt", "ge"}

func arithmetic(op string, a, b *expr) *expr {
	if a.constant() && b.constant() {
		switch op {
		case "+":
			return integerExpr(a.n + b.n)
		case "-":
			return integerExpr(a.n - b.n)
		case "*":
			return integerExpr(a.n * b.n)
		case "/":
			if b.n != 0 {
				return integerExpr(a.n / b.n)
			}
		case "%":
			if b.n != 0 {
				return integerExpr(a.n % b.n)
			}
		}
	}
	return makeExpr(op, a, b)
}

// String returns the expression as it stands in the table.
func (e *expr) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *expr) write(b *strings.Builder) {
	switch e.op {
	case "int":
		if e.s != "" {
			b.WriteString(e.s)
		} else {
			b.WriteString(strconv.FormatInt(e.n, 10))
		}
	case "sym":
		b.WriteString(e.s)
	case "?":
		b.WriteString("?")
	default:
		b.WriteString("(" + e.op)
		for _, a := range e.args {
			b.WriteByte(' ')
			a.write(b)
		}
		b.WriteString(")")
	}
}
