package main

import (
	"slices"
	"strings"
)

// node is an expression of C++. op is "id", "num", "str", "call", "member", "index", "init",
// "?:", "opaque", "un" or "bin".
type node struct {
	op   string
	s    string // name or operator
	args []*node
	targ [][]token // template arguments of an id
}

var opaqueNode = &node{op: "opaque"}

// reader reads expressions and statements from tokens.
type reader struct {
	t []token
	i int
}

func (r *reader) at(s string) bool { return r.i < len(r.t) && r.t[r.i].is(s) }
func (r *reader) accept(s string) bool {
	if r.at(s) {
		r.i++
		return true
	}
	return false
}

func expression(t []token) *node {
	if len(t) == 0 {
		return opaqueNode
	}
	r := &reader{t: t}
	n := r.ternary()
	if r.i < len(t) {
		return opaque(t)
	}
	return n
}

// opaque is an expression that the reader does not understand.
func opaque(t []token) *node {
	words := make([]string, 0, 12)
	for _, x := range t {
		if len(words) == 12 {
			words = append(words, "…")
			break
		}
		words = append(words, x.s)
	}
	return &node{op: "opaque", s: strings.Join(words, " ")}
}

// String returns the expression in the form of the sources, of a call without its arguments.
func (n *node) String() string {
	switch {
	case n.op == "call":
		return "the call of " + strings.TrimPrefix(n.args[0].String(), ".")
	case n.op == "member":
		return strings.TrimPrefix(n.args[0].String(), "the call of ") + "." + n.s
	case n.op == "index":
		return n.args[0].String() + "[" + n.args[1].String() + "]"
	case n.op == "bin":
		return n.args[0].String() + " " + n.s + " " + n.args[1].String()
	case n.op == "un":
		return n.s + n.args[0].String()
	case n.op == "?:":
		return n.args[0].String() + " ? …"
	case n.op == "init":
		return n.s + "{…}"
	case n.op == "opaque" && n.s == "":
		return "an expression"
	}
	return n.s
}

var assignments = []string{"=", "+=", "-=", "*=", "/=", "%=", "|=", "&="}

func (r *reader) ternary() *node {
	c := r.binary(0)
	switch {
	case r.accept("?"):
		a := r.ternary()
		r.accept(":")
		return &node{op: "?:", args: []*node{c, a, r.ternary()}}
	case r.i < len(r.t) && slices.Contains(assignments, r.t[r.i].s) && r.t[r.i].kind == punct:
		o := r.t[r.i].s
		r.i++
		return &node{op: "bin", s: o, args: []*node{c, r.ternary()}}
	}
	return c
}

var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<"}, {"+", "-"}, {"*", "/", "%"}}

func (r *reader) binary(level int) *node {
	if level == len(levels) {
		return r.unary()
	}
	a := r.binary(level + 1)
	for r.i < len(r.t) && r.t[r.i].kind == punct && slices.Contains(levels[level], r.t[r.i].s) {
		o := r.t[r.i].s
		r.i++
		a = &node{op: "bin", s: o, args: []*node{a, r.binary(level + 1)}}
	}
	return a
}

// castTypes are the words of which C's types of numbers consist, with the kind of number: 'f' with a fraction, 'i' without, 'b' a
// truth value, ' ' a word that leaves the kind open, 'v' for void, which drops the value. Casts to types of fewer bits and to types without a sign keep the number:
// the sources make them after they refused the numbers that would change.
var castTypes = map[string]byte{
	"float": 'f', "double": 'f', "float_t": 'f', "double_t": 'f', "bool": 'b', "void": 'v', "int": 'i', "char": 'i', "short": ' ', "long": ' ', "signed": 'i',
	"int8_t": 'i', "int16_t": 'i', "int32_t": 'i', "int64_t": 'i', "ssize_t": 'i', "ptrdiff_t": 'i', "__int128": 'i',
	"unsigned": 'i', "uint": 'i', "uint8_t": 'i', "uint16_t": 'i', "uint32_t": 'i', "uint64_t": 'i', "size_t": 'i',
}

// numberKind returns the kind of number of a type, or 0 for other types.
func numberKind(t []token) (kind byte) {
	for i, x := range t {
		of, known := castTypes[x.s]
		switch {
		case x.is("const"), x.is("volatile"), x.is("std") && i+1 < len(t) && t[i+1].is("::"), x.is("::"):
		case !known:
			return 0
		case kind == 0, kind == ' ', kind == 'i' && of != ' ':
			kind = of // long double
		}
	}
	if kind == ' ' {
		return 'i'
	}
	return kind
}

func (r *reader) unary() *node {
	if r.i >= len(r.t) {
		return opaqueNode
	}
	switch x := r.t[r.i]; {
	case x.is("!"), x.is("-"), x.is("&"), x.is("*"), x.is("++"), x.is("--"), x.is("+"), x.is("~"):
		r.i++
		return &node{op: "un", s: x.s, args: []*node{r.unary()}}
	case x.is("("):
		end := closing(r.t, r.i)
		if end+1 >= len(r.t) {
			break
		}
		to := r.t[r.i+1 : end]
		if kind := numberKind(to); kind != 0 {
			r.i = end + 1
			return cast(kind, r.unary())
		}
		if n := len(to); n > 1 && to[n-1].is("*") && numberKind(to[:n-1]) != 0 { // of a pointer
			r.i = end + 1
			return r.unary()
		}
	}
	return r.postfix(r.primary())
}

func (r *reader) primary() *node {
	if r.i >= len(r.t) {
		return opaqueNode
	}
	x := r.t[r.i]
	r.i++
	switch {
	case x.kind == number:
		return &node{op: "num", s: x.s}
	case x.kind == text:
		for r.i < len(r.t) && r.t[r.i].kind == text {
			r.i++
		}
		return &node{op: "str", s: strings.Trim(x.s, `"'`)}
	case x.is("("):
		end := closing(r.t, r.i-1)
		n := expression(r.t[r.i:min(end, len(r.t))])
		r.i = end + 1
		return n
	case x.is("{"):
		end := closing(r.t, r.i-1)
		n := &node{op: "init"}
		for _, p := range split(r.t[r.i:min(end, len(r.t))]) {
			n.args = append(n.args, expression(p))
		}
		r.i = end + 1
		return n
	case x.is("["): // a lambda
		start := r.i - 1
		r.i = closing(r.t, r.i-1) + 1
		if r.at("(") {
			r.i = closing(r.t, r.i) + 1
		}
		for r.i < len(r.t) && !r.at("{") {
			r.i++
		}
		r.i = closing(r.t, min(r.i, len(r.t)-1)) + 1
		return opaque(r.t[start:min(r.i, len(r.t))])
	case x.is("::"):
		return r.primary()
	case x.kind == ident:
		return r.name(x.s)
	}
	return opaqueNode
}

// cast is a value of another type of numbers.
func cast(kind byte, of *node) *node {
	_, literal := integer(of.s)
	switch {
	case kind == 'f':
		return &node{op: "fraction", args: []*node{of}}
	case kind == 'b':
		return &node{op: "bin", s: "!=", args: []*node{of, {op: "num", s: "0"}}}
	case kind == 'i' && !(of.op == "num" && literal):
		return &node{op: "whole", args: []*node{of}}
	}
	return of
}

// fractional reports whether an expression has a type with a fraction, whatever its value: 2.0 too.
func (n *node) fractional() bool {
	return n.op == "fraction" || n.op == "num" && !strings.HasPrefix(n.s, "0x") && strings.ContainsAny(n.s, ".eE") || n.op == "un" && n.args[0].fractional() || n.op == "bin" && slices.Contains([]string{"+", "-", "*", "/"}, n.s) && slices.ContainsFunc(n.args, (*node).fractional)
}

// name reads a qualified name with template arguments. Casts to other types become their operand.
func (r *reader) name(s string) *node {
	n := &node{op: "id", s: s}
	for r.i < len(r.t) {
		if r.at("::") && r.i+1 < len(r.t) && r.t[r.i+1].kind == ident {
			n.s += "::" + r.t[r.i+1].s
			r.i += 2
			continue
		}
		if r.at("<") {
			if end := angles(r.t, r.i); end > 0 && (end+1 == len(r.t) || r.t[end+1].is("(") || r.t[end+1].is("::") || r.t[end+1].is("{")) {
				n.targ = split(r.t[r.i+1 : end])
				r.i = end + 1
				continue
			}
		}
		break
	}
	kind := numberKind([]token{{kind: ident, s: strings.TrimPrefix(n.s, "std::")}}) // of int64_t(x)
	if r.at("(") && (strings.HasSuffix(n.s, "_cast") || kind != 0) {
		end := closing(r.t, r.i)
		inner := expression(r.t[r.i+1 : min(end, len(r.t))])
		r.i = end + 1
		if len(n.targ) > 0 {
			kind = numberKind(n.targ[0])
		}
		return cast(kind, inner)
	}
	return n
}

func (r *reader) postfix(n *node) *node {
	for r.i < len(r.t) {
		switch {
		case r.at("("):
			end := closing(r.t, r.i)
			c := &node{op: "call", args: []*node{n}}
			for _, p := range split(r.t[r.i+1 : min(end, len(r.t))]) {
				c.args = append(c.args, expression(p))
			}
			n = c
			r.i = end + 1
		case r.at("["):
			end := closing(r.t, r.i)
			n = &node{op: "index", args: []*node{n, expression(r.t[r.i+1 : min(end, len(r.t))])}}
			r.i = end + 1
		case (r.at(".") || r.at("->")) && r.i+1 < len(r.t):
			n = &node{op: "member", s: r.t[r.i+1].s, args: []*node{n}}
			r.i += 2
			if r.at("<") {
				if end := angles(r.t, r.i); end > 0 {
					r.i = end + 1
				}
			}
		case r.at("{") && n.op == "id":
			list := r.primary()
			list.s = n.s
			n = list
		case r.at("++"), r.at("--"):
			n = &node{op: "un", s: r.t[r.i].s, args: []*node{n}}
			r.i++
		default:
			return n
		}
	}
	return n
}

// statement is a statement of C++. op is "decl", "expr", "if", "for", "each", "while", "switch",
// "return", "block", "break" or "continue".
type statement struct {
	op      string
	line    int    // of its first word in the file
	name    string // of a declared variable
	typ     string
	ref     bool // the variable is a reference
	array   bool // the variable is an array
	x       *node
	init    *statement
	step    *node
	body    []*statement
	other   []*statement
	cases   []choice
	declare []*statement
}

// choice is a group of labels of a switch with the statements up to the next break.
type choice struct {
	labels []*node // nil for default
	body   []*statement
}

func statements(t []token) []*statement {
	r := &reader{t: t}
	var out []*statement
	for r.i < len(r.t) {
		before := r.i
		if s := r.statement(); s != nil {
			s.line = t[before].line
			out = append(out, s)
		}
		if r.i == before {
			r.i++
		}
	}
	return out
}

// until returns the tokens up to the semicolon outside of brackets and moves past it.
func (r *reader) until(stop string) []token {
	start := r.i
	for r.i < len(r.t) && !r.at(stop) {
		if r.at("(") || r.at("[") || r.at("{") {
			r.i = closing(r.t, r.i)
		}
		r.i++
	}
	end := min(r.i, len(r.t))
	r.i = min(end+1, len(r.t))
	return r.t[start:end]
}

func (r *reader) group() []token {
	end := closing(r.t, r.i)
	t := r.t[min(r.i+1, len(r.t)):min(end, len(r.t))]
	r.i = min(end+1, len(r.t))
	return t
}

// body reads one statement or a block as a list.
func (r *reader) body() []*statement {
	if r.at("{") {
		return statements(r.group())
	}
	before := r.i
	if s := r.statement(); s != nil {
		s.line = r.t[min(before, len(r.t)-1)].line
		return []*statement{s}
	}
	return nil
}

func (r *reader) statement() *statement {
	switch {
	case r.accept(";"):
		return nil
	case r.at("{"):
		return &statement{op: "block", body: statements(r.group())}
	case r.accept("if"):
		r.accept("constexpr")
		s := &statement{op: "if"}
		cond := r.group()
		if k := slices.IndexFunc(cond, func(t token) bool { return t.is(";") }); k >= 0 {
			s.init = (&reader{t: cond[:k]}).simple()
			cond = cond[k+1:]
		}
		s.x = expression(cond)
		s.body = r.body()
		if r.accept("else") {
			s.other = r.body()
		}
		return s
	case r.accept("for"):
		return r.loop()
	case r.accept("while"):
		return &statement{op: "while", x: expression(r.group()), body: r.body()}
	case r.accept("do"):
		body := r.body()
		r.accept("while")
		cond := expression(r.group())
		r.accept(";")
		if cond.op == "num" && cond.s == "0" || cond.op == "id" && cond.s == "false" {
			return &statement{op: "block", body: body}
		}
		return &statement{op: "while", x: opaqueNode, body: body}
	case r.accept("switch"):
		s := &statement{op: "switch", x: expression(r.group())}
		s.cases = choices(r.group())
		return s
	case r.accept("return"):
		t := r.until(";")
		if len(t) == 0 {
			return &statement{op: "return"}
		}
		return &statement{op: "return", x: expression(t)}
	case r.accept("break"):
		r.accept(";")
		return &statement{op: "break"}
	case r.accept("continue"):
		r.accept(";")
		return &statement{op: "continue"}
	case r.at("using"), r.at("typedef"), r.at("static_assert"):
		r.until(";")
		return nil
	}
	return (&reader{t: r.until(";")}).simple()
}

func (r *reader) loop() *statement {
	head := r.group()
	s := &statement{op: "for"}
	parts := [][]token{nil}
	depth := 0
	for i, x := range head {
		switch {
		case x.is("("), x.is("["), x.is("{"):
			depth++
		case x.is(")"), x.is("]"), x.is("}"):
			depth--
		case depth == 0 && x.is(";"):
			parts = append(parts, nil)
			continue
		case depth == 0 && x.is(":") && len(parts) == 1 && i > 0:
			s.op = "each"
			s.name = head[i-1].s
			s.x = expression(head[i+1:])
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], x)
	}
	if s.op == "for" && len(parts) == 3 {
		s.init = (&reader{t: parts[0]}).simple()
		s.x, s.step = expression(parts[1]), expression(parts[2])
	}
	s.body = r.body()
	return s
}

func choices(t []token) (out []choice) {
	var c *choice
	r := &reader{t: t}
	var tail []token
	flush := func() {
		if c != nil && len(tail) > 0 {
			c.body = statements(tail)
			out = append(out, *c)
			c, tail = nil, nil
		}
	}
	for r.i < len(r.t) {
		switch {
		case r.at("case"), r.at("default"):
			flush()
			if c == nil {
				c = &choice{}
			}
			isDefault := r.at("default")
			r.i++
			label := r.until(":")
			if isDefault {
				c.labels = append(c.labels, nil)
			} else {
				c.labels = append(c.labels, expression(label))
			}
		case r.at("{"), r.at("("):
			end := closing(r.t, r.i)
			tail = append(tail, r.t[r.i:min(end+1, len(r.t))]...)
			r.i = end + 1
		default:
			tail = append(tail, r.t[r.i])
			r.i++
		}
	}
	flush()
	return out
}
