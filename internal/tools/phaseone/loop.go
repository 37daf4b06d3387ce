package main

import (
	"slices"
	"strconv"
)

// loop unrolls loops with constant bounds. Other loops run once for any index, and what they assign
// is unknown.
func (f *frame) loop(s *statement, path *expr) {
	if s.op == "each" {
		f.each(s, path)
		return
	}
	if s.init != nil {
		f.exec([]*statement{s.init}, path)
	}
	if s.op == "for" && s.init != nil && s.init.op == "decl" {
		on := goesOn(s.body)
		for range 33 {
			c := f.eval(s.x).expr()
			if !c.constant() {
				break
			}
			if c.n == 0 {
				return
			}
			if end, p := f.exec(s.body, path); end == returns && !on {
				return
			} else if end == falls && !on {
				path = p
			}
			f.eval(s.step)
		}
		start := f.vars[s.init.name].expr()
		f.any(s.body, s.init.name, start, f.bound(s), nil, path)
		return
	}
	f.any(s.body, "", no, f.unclear("the end of the loop"), nil, path)
}

// bound returns the end of a loop that counts up by one, or unknown.
func (f *frame) bound(s *statement) *expr {
	x := s.x
	if x.op == "bin" && (x.s == "<" || x.s == "!=") && x.args[0].op == "id" && x.args[0].s == s.init.name && s.step.op == "un" && s.step.s == "++" {
		return f.eval(x.args[1]).expr()
	}
	return f.unclear("the end of the loop")
}

func (f *frame) each(s *statement, path *expr) {
	v := f.eval(s.x)
	if writes(s.body, s.name) {
		defer f.assign(s.x, nothing)
	}
	if v.isList {
		for _, x := range v.list {
			f.vars[s.name] = x
			if end, _ := f.exec(s.body, path); end == returns && !goesOn(s.body) {
				return
			}
		}
		return
	}
	e := v.expr()
	if e.op == "sym" {
		f.any(s.body, "", no, makeExpr("count", e), func(i *expr) { f.vars[s.name] = scalar(makeExpr("at", e, i)) }, path)
		return
	}
	f.any(s.body, "", no, f.unclear("the members of "+s.x.String()), func(*expr) { f.vars[s.name] = nothing }, path)
}

func (f *frame) any(body []*statement, name string, lo, hi *expr, bind func(*expr), path *expr) {
	f.m.loops++
	defer func() { f.m.loops-- }()
	v := symbol("$" + strconv.Itoa(f.m.loops))
	outer := f.out
	// The first run shows which variables the body changes. They are unknown in the second, except
	// those that collect something of each member.
	var inner []outcome
	totals := map[string]func(n *expr) *expr{}
	for run := range 2 {
		before := cloneVars(f.vars)
		if name != "" {
			f.vars[name] = scalar(v)
		}
		if bind != nil {
			bind(v)
		}
		f.out = nil
		f.exec(body, yes)
		inner = f.out
		for k, x := range f.vars {
			if old, ok := before[k]; !ok || !old.unchanged(x) {
				f.vars[k] = nothing
				if run == 0 && ok && !has(body, "break") && !has(body, "continue") {
					totals[k] = total(old.expr(), x.expr(), v, lo)
				}
			}
		}
		for k, t := range totals {
			if t != nil {
				f.vars[k] = scalar(t([]*expr{v, hi}[run]))
			}
		}
	}
	f.out = outer
	for _, o := range inner {
		c := o.cond
		if !(c.constant() && c.n == 0) {
			c = makeExpr("any", v, lo, hi, c)
		}
		f.record(and(path, c), o.v)
	}
}

// goesOn reports whether a loop's body may end early, and the next iteration follows whenever it does.
func goesOn(body []*statement) bool { return has(body, "continue") && !has(body, "break") }

// has reports whether there is a statement of a kind among statements and those within them.
func has(body []*statement, op string) bool {
	return slices.ContainsFunc(body, func(s *statement) bool { return s.op == op || has(s.body, op) || has(s.other, op) })
}

// writes reports whether statements assign to a variable.
func writes(body []*statement, name string) bool {
	return slices.ContainsFunc(body, func(s *statement) bool {
		assigns := s.x != nil && (slices.Contains(assignments, s.x.s) || s.x.s == "++" || s.x.s == "--")
		to := assigns && len(s.x.args) > 0 && root(s.x.args[0]) == name
		return to || writes(s.body, name) || writes(s.other, name)
	})
}

// total returns what a variable holds before iteration n of a loop from lo that turns it from old
// into now in iteration v: a product of sizes or the common element type of a list. It returns nil for
// anything else.
func total(old, now, v, lo *expr) func(n *expr) *expr {
	if len(now.args) != 2 {
		return nil
	}
	x := now.args[0]
	if same(x, old) {
		x = now.args[1]
	} else if !same(now.args[1], old) {
		return nil
	}
	switch {
	case now.op == "*" && (x.op == "dim" || x.op == "at") && same(x.args[1], v) && !unsure(old):
		return func(n *expr) *expr {
			p := makeExpr("prod", x.args[0], lo, n)
			if old.constant() && old.n == 1 {
				return p
			}
			return makeExpr("*", old, p)
		}
	case now.op == "promote" && x.op == "dt" && x.args[0].op == "at" && same(x.args[0].args[1], v) && lo.constant() && lo.n == 1:
		list := x.args[0].args[0]
		if same(old, makeExpr("dt", makeExpr("at", list, no))) {
			return func(n *expr) *expr { return makeExpr("promoted", list, n) }
		}
	}
	return nil
}

// root returns the variable of an expression such as a[i] or a.b, or "".
func root(n *node) string {
	for (n.op == "index" || n.op == "member" || n.op == "un") && len(n.args) > 0 {
		n = n.args[0]
	}
	if n.op == "id" {
		return n.s
	}
	return ""
}
