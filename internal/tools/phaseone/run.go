package main

import (
	"fmt"
	"maps"
)

// flow is how a list of statements ends.
type flow uint8

const (
	falls flow = iota
	returns
	skips // break or continue
)

// machine runs phase one of an operator symbolically for one chip.
type machine struct {
	repo  *Repository
	soc   soc
	steps int
	loops int
	gaps  []string // statements that are not followed, by place and text
	lost  *node    // the last call of a function that is nowhere in the sources

	numbers, reals map[string]bool // the parameters that are no pointers, and those with a fraction
}

// exhausted is the text of what follows after the budget.
var exhausted = fmt.Sprintf("what follows %d statements and expressions", budget)

// budget is the number of statements and expressions after which an operator is given up.
const budget = 400000

// frame is a running function.
type frame struct {
	m     *machine
	fn    *function
	vars  map[string]*value
	refs  map[string]element // references to members of tuples, by name
	typed map[string]bool    // the variables that hold arguments whose element type was changed
	idle  bool               // a block runs that ends phase one before any kernel
	out   []outcome
	depth int
	line  int // of the statement that runs
}

// unclear returns an unknown value with its place in the sources.
func (f *frame) unclear(text string) *expr {
	return &expr{op: "?", s: fmt.Sprintf("%s:%d: %s", f.fn.file.path, f.line, text), size: 1}
}

// element is a member of the tuple in a variable.
type element struct {
	tuple string
	index int64
}

func (f *frame) record(path *expr, v *value) {
	if v.chain != nil {
		for _, o := range v.chain {
			f.record(and(path, o.cond), o.v)
		}
		return
	}
	if path.constant() && path.n == 0 {
		return
	}
	f.out = append(f.out, outcome{path, v})
}

// result returns what the function returns.
func (f *frame) result() *value {
	if len(f.out) == 0 {
		return nothing
	}
	if o := f.out[0]; o.cond.constant() && o.cond.n != 0 {
		return o.v
	}
	list := false
	for _, o := range f.out {
		list = list || o.v.isList || o.v.cond != nil || o.v.fields != nil
	}
	if list {
		v := f.out[len(f.out)-1].v
		for i := len(f.out) - 2; i >= 0; i-- {
			v = merge(f.out[i].cond, f.out[i].v, v)
		}
		return v
	}
	return &value{chain: f.out}
}

// exec runs statements under a condition. It returns how they end and the condition under which
// what follows them runs.
func (f *frame) exec(list []*statement, path *expr) (flow, *expr) {
	for _, s := range list {
		if f.m.steps++; f.m.steps > budget {
			f.record(f.unclear(exhausted), nothing)
			return returns, path
		}
		if s.line > 0 {
			f.line = s.line
		}
		switch s.op {
		case "decl":
			f.declare(s)
		case "expr":
			if v := f.eval(s.x); s.x.op == "opaque" && s.x.s != "" || s.x == f.m.lost {
				f.m.gaps = append(f.m.gaps, v.expr().s)
			}
		case "return":
			v := nothing
			if s.x != nil {
				v = f.eval(s.x)
			}
			if f.idle && v.e != nil && v.e.constant() && v.e.n == 0 {
				v = &value{e: no, idle: true}
			}
			f.record(path, v)
			return returns, path
		case "break", "continue":
			return skips, path
		case "block":
			for _, d := range s.declare {
				f.declare(d)
			}
			end, p := f.exec(s.body, path)
			if end != falls {
				return end, p
			}
			path = p
		case "if":
			end, p := f.branch(s, path)
			if end != falls {
				return end, p
			}
			path = p
		case "for", "each", "while":
			f.loop(s, path)
		case "switch":
			if f.choose(s, path) == returns {
				return returns, path
			}
		}
		if n := len(f.out); n > 0 {
			if c := f.out[n-1].cond; c.constant() && c.n != 0 {
				return returns, path
			}
		}
	}
	return falls, path
}

func (f *frame) declare(s *statement) {
	if s.line > 0 {
		f.line = s.line
	}
	f.vars[s.name] = f.initial(s).clone()
	if s.ref {
		f.refer(s)
	}
}

// initial returns the initial value of a declared variable.
func (f *frame) initial(s *statement) *value {
	switch {
	case s.x == nil:
		return f.empty(s.typ)
	case s.array && s.x.op == "init":
		v := &value{isList: true}
		for _, x := range s.x.args {
			v.list = append(v.list, f.initial(&statement{typ: s.typ, x: x}))
		}
		return v
	case s.x.op == "init" && f.fieldsOf(s.typ) != nil && s.x.s == "" && len(s.x.args) > 0:
		return f.aggregate(s.typ, s.x)
	}
	v := f.eval(s.x)
	if s.x.op == "init" && len(v.list) == 1 && !containers[s.typ] {
		return v.list[0]
	}
	if s.x.op == "init" && len(v.list) == 0 && v.isList && !containers[s.typ] {
		return f.empty(s.typ)
	}
	return v
}

// retype assigns an argument of another element type to a variable.
func (f *frame) retype(name string, v *value) {
	if f.typed == nil {
		f.typed = map[string]bool{}
	}
	f.typed[name] = true
	f.set(name, v)
}

// refer records a variable that is declared as a reference to a member: auto& x = std::get<1>(t).
func (f *frame) refer(s *statement) {
	if s.x == nil || s.x.op != "call" || len(s.x.args) != 2 || s.x.args[1].op != "id" || len(s.x.args[0].targ) != 1 {
		return
	}
	i := f.eval(expression(expand(s.x.args[0].targ[0], f.fn.file.macro, 0))).expr()
	if t := f.vars[s.x.args[1].s]; i.constant() && t != nil && t.isList {
		if f.refs == nil {
			f.refs = map[string]element{}
		}
		f.refs[s.name] = element{s.x.args[1].s, i.n}
	}
}

// containers are the types whose braces hold a list and not one value.
var containers = map[string]bool{"initializer_list": true, "vector": true, "set": true, "unordered_set": true, "map": true, "unordered_map": true, "array": true, "FVector": true, "Shape": true, "auto": true}

// empty is the value of a variable without an initial value.
func (f *frame) empty(typ string) *value {
	switch typ {
	case "Shape", "vector", "FVector", "set", "string":
		return &value{isList: true}
	}
	if fields := f.fieldsOf(typ); fields != nil {
		v := &value{fields: map[string]*value{}}
		for _, d := range fields {
			v.fields[d.name] = nothing
			if d.x != nil || d.typ == "Shape" {
				v.fields[d.name] = f.initial(d)
			}
		}
		return v
	}
	return nothing
}

// fieldsOf returns the declarations of a struct's members.
func (f *frame) fieldsOf(typ string) []*statement {
	for _, g := range append([]*file{f.fn.file}, f.fn.file.linked...) {
		if r := g.records[typ]; r != nil {
			return r
		}
	}
	return nil
}

func (f *frame) aggregate(typ string, n *node) *value {
	v := &value{fields: map[string]*value{}}
	for i, d := range f.fieldsOf(typ) {
		v.fields[d.name] = nothing
		if i < len(n.args) {
			v.fields[d.name] = f.eval(n.args[i])
		}
	}
	return v
}

// branch runs an if statement.
func (f *frame) branch(s *statement, path *expr) (flow, *expr) {
	if s.init != nil {
		f.exec([]*statement{s.init}, path)
	}
	v := f.eval(s.x)
	if v.settled() && returning(s.body) && len(s.other) == 0 {
		f.leaves(s, v, path)
		return falls, path
	}
	c := truthOf(v.expr())
	if c.constant() {
		body := s.body
		if c.n == 0 {
			body = s.other
		}
		return f.exec(body, path)
	}
	before := f.vars
	f.vars = cloneVars(before)
	outer := f.idle
	f.idle = outer || idle(s.body)
	endA, _ := f.exec(s.body, and(path, c))
	f.idle = outer
	varsA := f.vars
	f.vars = cloneVars(before)
	endB, _ := f.exec(s.other, and(path, not(c)))
	varsB := f.vars
	switch {
	case endA != falls && endB != falls:
		f.vars = before
		if endA == skips || endB == skips {
			return skips, path
		}
		return returns, path
	case endA != falls:
		f.vars = varsB
		if endA == skips || f.m.loops > 0 {
			path = and(path, not(c))
		}
	case endB != falls:
		f.vars = varsA
		if endB == skips || f.m.loops > 0 {
			path = and(path, c)
		}
	default:
		f.vars = before
		for name := range before {
			f.vars[name] = merge(c, varsA[name], varsB[name])
		}
	}
	return falls, path
}

// idle reports whether statements end phase one without a kernel: they set the size of the workspace
// to 0, release the executor and return.
func idle(body []*statement) bool {
	sized := false
	for _, s := range body {
		switch {
		case s.op == "return":
			return sized
		case s.op == "block":
			if !idle(s.body) {
				return false
			}
			return true
		case s.op == "expr" && s.x.op == "bin" && s.x.s == "=" && s.x.args[0].op == "un" && s.x.args[0].s == "*" && root(s.x.args[0]) == "workspaceSize" && s.x.args[1].s == "0":
			sized = true
		case s.op == "expr" && s.x.op == "call" && s.x.args[0].op == "member" && s.x.args[0].s == "ReleaseTo", s.op == "expr" && s.x.op == "opaque":
		default:
			return false
		}
	}
	return false
}

func cloneVars(vars map[string]*value) map[string]*value {
	c := maps.Clone(vars)
	for k, v := range c {
		if v != nil && v.fields != nil {
			c[k] = v.clone()
		}
	}
	return c
}

// truthOf makes a condition of an integer expression or of the result of a kernel.
func truthOf(e *expr) *expr {
	switch {
	case e.constant():
		return boolean(e.n != 0)
	case e.op == "typed" || e.op == "retype":
		return yes
	}
	return e
}

// returning reports whether statements only return.
func returning(body []*statement) bool {
	for _, s := range body {
		switch {
		case s.op == "return":
			return true
		case s.op == "block" && returning(s.body):
			return true
		case s.op != "expr" && s.op != "decl":
			return false
		}
	}
	return false
}

// leaves runs "if (result of a check) { return …; }" once for each outcome of the check, so that
// every condition of the check gives a rule of its own.
func (f *frame) leaves(s *statement, v *value, path *expr) {
	skipped := no
	before := f.vars
	for _, o := range v.chain {
		e := o.v.expr()
		if !e.constant() || e.n == 0 {
			skipped = or(skipped, o.cond)
			continue
		}
		f.vars = cloneVars(before)
		if v.source != nil {
			for k, x := range f.vars {
				if x == v.source {
					f.vars[k] = original(v, o)
				}
			}
		}
		f.exec(s.body, and(path, and(not(skipped), o.cond)))
	}
	f.vars = before
}

// original returns the outcome of the source of v that belongs to the outcome o of v.
func original(v *value, o outcome) *value {
	for i, x := range v.chain {
		if x.cond == o.cond && x.v == o.v {
			return v.source.chain[i].v
		}
	}
	return nothing
}

func (f *frame) choose(s *statement, path *expr) flow {
	x := f.eval(s.x).expr()
	rest := yes
	var other *choice
	before := cloneVars(f.vars)
	merged := f.vars
	all := true
	take := func(c *expr, body []*statement) {
		f.vars = cloneVars(before)
		if end, _ := f.exec(body, and(path, c)); end != returns {
			all = false
			for name := range before {
				merged[name] = merge(c, f.vars[name], merged[name])
			}
		}
	}
	for i := range s.cases {
		k := &s.cases[i]
		c := no
		for _, l := range k.labels {
			if l == nil {
				other = k
				continue
			}
			c = or(c, compare("eq", x, f.eval(l).expr()))
		}
		if c.constant() && c.n == 0 {
			continue
		}
		take(and(rest, c), k.body)
		rest = and(rest, not(c))
	}
	if !(rest.constant() && rest.n == 0) {
		if other != nil {
			take(rest, other.body)
		} else {
			all = false
		}
	}
	f.vars = merged
	if all {
		return returns
	}
	return falls
}
