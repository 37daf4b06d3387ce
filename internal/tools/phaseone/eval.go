package main

import (
	"slices"
	"strconv"
	"strings"
)

// eval returns the value of an expression. Of one that it cannot follow it keeps the place and the text.
func (f *frame) eval(n *node) *value {
	v := f.evaluate(n)
	if v == nil || n == nil || v.e == nil || v.e.op != "?" || v.e.s != "" {
		return v
	}
	w := *v
	w.e = f.unclear(n.String())
	return &w
}

func (f *frame) evaluate(n *node) *value {
	if n == nil {
		return nothing
	}
	if f.m.steps++; f.m.steps > budget {
		return scalar(f.unclear(exhausted))
	}
	switch n.op {
	case "num":
		return f.number(n.s)
	case "fraction":
		return f.eval(n.args[0])
	case "whole":
		v := f.eval(n.args[0])
		if e := v.expr(); f.real(e) {
			return scalar(makeExpr("trunc", e))
		}
		return v
	case "str":
		return scalar(symbol(strconv.Quote(n.s)))
	case "id":
		return f.identifier(n)
	case "init":
		if fields := f.fieldsOf(n.s); fields != nil {
			return f.aggregate(n.s, n)
		}
		v := &value{isList: true}
		for _, a := range n.args {
			v.list = append(v.list, f.eval(a))
		}
		return v
	case "?:":
		c := truthOf(f.eval(n.args[0]).expr())
		if c.constant() {
			return f.eval(n.args[2-c.n])
		}
		return merge(c, f.eval(n.args[1]), f.eval(n.args[2]))
	case "un":
		return f.unary(n)
	case "bin":
		return f.binary(n)
	case "index":
		return f.index(f.eval(n.args[0]), f.eval(n.args[1]).expr())
	case "member":
		return f.member(f.eval(n.args[0]), n.s)
	case "call":
		return f.call(n)
	case "bind":
		v := f.eval(n.args[0])
		for i, a := range n.args[1:] {
			f.vars[a.s] = f.index(v, integerExpr(int64(i)))
		}
		return nothing
	}
	return nothing
}

func (f *frame) number(s string) *value {
	if i, ok := integer(s); ok {
		return scalar(integerExpr(i))
	}
	if x, err := strconv.ParseFloat(strings.TrimRight(s, "fFlL"), 64); err == nil {
		if x == float64(int64(x)) {
			return scalar(integerExpr(int64(x)))
		}
		return scalar(symbol("#" + strconv.FormatFloat(x, 'g', -1, 64)))
	}
	return nothing
}

func (f *frame) identifier(n *node) *value {
	switch n.s {
	case "true":
		return scalar(yes)
	case "false":
		return scalar(no)
	case "nullptr", "NULL":
		return scalar(symbol("@null"))
	}
	if v, ok := f.vars[n.s]; ok {
		return v
	}
	name := n.s
	if k := strings.LastIndex(name, "::"); k >= 0 {
		name = name[k+2:]
	}
	if e := enumerator(name); e != nil {
		return scalar(e)
	}
	for _, g := range append([]*file{f.fn.file}, f.fn.file.linked...) {
		if d := g.globals[name]; d != nil {
			global := &frame{m: f.m, fn: &function{file: g}, vars: map[string]*value{}, depth: f.depth + 1}
			if global.depth > 40 {
				return nothing
			}
			global.declare(d)
			return global.vars[name]
		}
		if v, ok := g.enums[name]; ok {
			return scalar(integerExpr(v))
		}
	}
	for _, g := range append([]*file{f.fn.file}, f.fn.file.linked...) {
		if g.functions[name] != nil {
			return &value{e: unknown, callee: f.named(n)}
		}
	}
	return nothing
}

// named returns the name of a function with its template arguments as numbers, which other
// functions can call.
func (f *frame) named(n *node) *node {
	out := &node{op: "id", s: n.s}
	for _, t := range n.targ {
		e := f.eval(expression(expand(t, f.fn.file.macro, 0))).expr()
		if !e.constant() {
			return nil
		}
		out.targ = append(out.targ, []token{{kind: number, s: strconv.FormatInt(e.n, 10)}})
	}
	return out
}

func (f *frame) unary(n *node) *value {
	switch n.s {
	case "&", "*":
		return f.eval(n.args[0])
	case "!":
		return f.eval(n.args[0]).mapped(func(e *expr) *expr {
			if e.op == "sym" && !strings.HasPrefix(e.s, "@") { // a pointer, or a bool parameter
				return compare("eq", e, no)
			}
			return not(e)
		})
	case "-":
		v := f.eval(n.args[0]).expr()
		if v.op == "sym" && strings.HasPrefix(v.s, "#") {
			return scalar(symbol("#-" + v.s[1:]))
		}
		return scalar(arithmetic("-", no, v))
	case "++", "--":
		v := f.eval(n.args[0]).expr()
		op := map[string]string{"++": "+", "--": "-"}[n.s]
		f.assign(n.args[0], scalar(arithmetic(op, v, yes)))
		return scalar(v)
	case "+":
		return f.eval(n.args[0])
	}
	return nothing
}

var comparisons = map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

func (f *frame) binary(n *node) *value {
	switch n.s {
	case "=":
		v := f.eval(n.args[1])
		f.assign(n.args[0], v.clone())
		return v
	case "+=", "-=", "*=", "/=", "%=":
		v := scalar(arithmetic(n.s[:1], f.eval(n.args[0]).expr(), f.eval(n.args[1]).expr()))
		f.assign(n.args[0], v)
		return v
	case "|=", "&=":
		f.assign(n.args[0], nothing)
		return nothing
	case "&&":
		a := truthOf(f.eval(n.args[0]).expr())
		if a.constant() && a.n == 0 {
			return scalar(no)
		}
		return scalar(and(pointer(a), pointer(truthOf(f.eval(n.args[1]).expr()))))
	case "||":
		a := truthOf(f.eval(n.args[0]).expr())
		if a.constant() && a.n != 0 {
			return scalar(yes)
		}
		return scalar(or(pointer(a), pointer(truthOf(f.eval(n.args[1]).expr()))))
	case "+", "-", "*", "/", "%":
		if n.s == "/" && n.args[0].sizeof() && n.args[1].sizeof() {
			return f.length(n.args[0].args[1])
		}
		a, b := f.eval(n.args[0]).expr(), f.eval(n.args[1]).expr()
		if n.s == "/" && (f.real(a) || f.real(b) || n.args[0].fractional() || n.args[1].fractional()) {
			return scalar(makeExpr("quot", a, b))
		}
		return scalar(arithmetic(n.s, a, b))
	}
	op, ok := comparisons[n.s]
	if !ok {
		return nothing
	}
	a, b := f.eval(n.args[0]), f.eval(n.args[1])
	return f.compare(op, a, b)
}

// sizeof reports whether n is a size in bytes.
func (n *node) sizeof() bool { return n.op == "call" && n.args[0].s == "sizeof" && len(n.args) == 2 }

// length is the number of elements of an array, which programs compute from its size and that of an element.
func (f *frame) length(array *node) *value {
	if v := f.eval(array); v.isList {
		return scalar(integerExpr(int64(len(v.list))))
	}
	return nothing
}

// real reports whether a number may have a fraction.
func (f *frame) real(e *expr) bool {
	switch e.op {
	case "sym":
		return strings.HasPrefix(e.s, "#") || f.m.reals[e.s]
	case "+", "-", "*", "quot", "if":
		return e.op == "quot" || slices.ContainsFunc(e.args, f.real)
	}
	return false
}

// pointer makes conditions of pointers and flags that stand for themselves.
func pointer(e *expr) *expr {
	if e.op == "sym" {
		return compare("ne", e, no)
	}
	return e
}

func (f *frame) compare(op string, a, b *value) *value {
	if a.end && b.found != nil {
		a, b = b, a
	}
	if a.found != nil && b.end {
		if op == "eq" {
			return scalar(not(a.found))
		}
		return scalar(a.found)
	}
	if a.chain != nil && b.chain == nil && b.expr().constant() && a.settled() {
		return a.mapped(func(e *expr) *expr { return compare(op, e, b.expr()) })
	}
	x, y := a.expr(), b.expr()
	if y.op == "sym" && y.s == "@null" {
		x, y = y, x
	}
	if x.op == "sym" && x.s == "@null" {
		return scalar(f.nullness(op, y))
	}
	if isText(x) || isText(y) {
		return scalar(textual(op, x, y))
	}
	if f.pointer(x) && f.pointer(y) && !same(x, y) { // the same tensor may be given twice
		return nothing
	}
	if shaped(x) || shaped(y) {
		c := makeExpr("sheq", x, y)
		if unsure(c) {
			c = unknown
		}
		if same(x, y) && !unsure(x) {
			c = yes
		}
		if op == "ne" {
			c = not(c)
		}
		return scalar(c)
	}
	return scalar(compare(op, x, y))
}

// pointer reports whether an expression is an argument that is a pointer.
func (f *frame) pointer(e *expr) bool {
	return e.op == "sym" && !strings.ContainsAny(e.s[:1], `@#$"`) && !f.m.numbers[e.s]
}

// nullness is the comparison of a pointer with null. Only arguments can be null.
func (f *frame) nullness(op string, x *expr) *expr {
	c := unknown
	switch {
	case x.op == "sym" && x.s == "@null":
		c = yes
	case x.op == "sym" && f.m.numbers[x.s]: // the address of a copy
		c = no
	case x.op == "sym" && !strings.HasPrefix(x.s, "$"):
		c = makeExpr("null", x)
	case x.op == "at":
		c = makeExpr("null", x)
	case x.op == "retype" || x.op == "typed": // of a computation, which yields a tensor
		c = no
	case x.op == "if":
		c = choose(x.args[0], f.nullness("eq", x.args[1]), f.nullness("eq", x.args[2]))
	}
	if op == "ne" {
		return not(c)
	}
	return c
}

func isText(e *expr) bool { return e.op == "sym" && strings.HasPrefix(e.s, `"`) }

func textual(op string, x, y *expr) *expr {
	c := unknown
	switch {
	case isText(x) && isText(y):
		c = boolean(x.s == y.s)
	case isText(y) && x.op == "sym":
		c = makeExpr("samestr", x, y)
	case isText(x) && y.op == "sym":
		c = makeExpr("samestr", y, x)
	}
	if op == "ne" {
		return not(c)
	}
	return c
}

// shaped reports whether an expression is a shape.
func shaped(e *expr) bool {
	switch e.op {
	case "view", "storage", "broadcast", "shape", "append", "set":
		return true
	case "if":
		return shaped(e.args[1]) || shaped(e.args[2])
	}
	return false
}

func (f *frame) assign(target *node, v *value) {
	switch target.op {
	case "id":
		f.set(target.s, v)
	case "call": // std::tie(a, b) = …
		for i, a := range target.args[1:] {
			f.assign(a, f.index(v, integerExpr(int64(i))))
		}
	case "un":
		if target.s == "*" || target.s == "&" {
			f.assign(target.args[0], v)
		}
	case "member":
		if o := f.eval(target.args[0]); o.fields != nil {
			o.fields[target.s] = v
		}
	case "index":
		if name := root(target); name != "" {
			if i := f.eval(target.args[1]).expr(); target.args[0].op == "id" && i.constant() {
				old := f.vars[name]
				if old != nil && old.isList && i.n >= 0 && int(i.n) < len(old.list) {
					list := append([]*value(nil), old.list...)
					list[i.n] = v
					f.vars[name] = &value{isList: true, list: list}
					return
				}
			}
			f.vars[name] = nothing
		}
	}
}

// set assigns to a variable, to the member of a tuple that it refers to, and to the references to
// members of the tuple that it holds.
func (f *frame) set(name string, v *value) {
	f.vars[name] = v
	if r, ok := f.refs[name]; ok {
		if t := f.vars[r.tuple]; t != nil && t.isList && r.index < int64(len(t.list)) {
			list := append([]*value(nil), t.list...)
			list[r.index] = v
			f.vars[r.tuple] = &value{isList: true, list: list}
		}
	}
	for ref, r := range f.refs {
		if r.tuple == name {
			f.vars[ref] = f.index(v, integerExpr(r.index))
		}
	}
}

func (f *frame) index(v *value, i *expr) *value {
	if v.isList {
		if len(v.list) > 0 && v.list[0].isList && len(v.list[0].list) == 2 {
			return v.mappedBy(i)
		}
		if i.constant() && i.n >= 0 && int(i.n) < len(v.list) {
			return v.list[i.n]
		}
		return nothing
	}
	if v.cond != nil {
		return scalar(choose(v.cond, f.index(v.a, i).expr(), f.index(v.b, i).expr()))
	}
	e := v.expr()
	switch {
	case shaped(e):
		return scalar(dimension(e, i))
	case e.op == "sym" && !strings.HasPrefix(e.s, "@"):
		return scalar(makeExpr("at", e, i))
	}
	return nothing
}

// dimension is the size of dimension i of a shape.
func dimension(e, i *expr) *expr {
	if e.op == "shape" && i.constant() && i.n >= 0 && int(i.n) < len(e.args) {
		return e.args[i.n]
	}
	if e.op == "?" {
		return unknown
	}
	return makeExpr("dim", e, i)
}

func (f *frame) member(v *value, name string) *value {
	if v.fields != nil {
		if x := v.fields[name]; x != nil {
			return x
		}
		return nothing
	}
	if name == "second" && v.second != nil {
		return v.second
	}
	if i := slices.Index([]string{"first", "second"}, name); i >= 0 && v.isList && len(v.list) == 2 {
		return v.list[i]
	}
	return nothing
}
