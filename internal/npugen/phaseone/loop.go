package phaseone

import "strconv"

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
		for range 33 {
			c := f.eval(s.x).expr()
			if !c.constant() {
				break
			}
			if c.n == 0 {
				return
			}
			if end, p := f.exec(s.body, path); end == returns {
				return
			} else if end == falls {
				path = p
			}
			f.eval(s.step)
		}
		start := f.vars[s.init.name].expr()
		f.any(s.body, s.init.name, start, f.bound(s), nil, path)
		return
	}
	f.any(s.body, "", no, unknown, nil, path)
}

// bound returns the end of a loop that counts up by one, or unknown.
func (f *frame) bound(s *statement) *expr {
	x := s.x
	if x.op == "bin" && (x.s == "<" || x.s == "!=") && x.args[0].op == "id" && x.args[0].s == s.init.name && s.step.op == "un" && s.step.s == "++" {
		return f.eval(x.args[1]).expr()
	}
	return unknown
}

func (f *frame) each(s *statement, path *expr) {
	v := f.eval(s.x)
	if v.isList {
		for _, x := range v.list {
			f.vars[s.name] = x
			if end, _ := f.exec(s.body, path); end == returns {
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
	f.any(s.body, "", no, unknown, func(*expr) { f.vars[s.name] = nothing }, path)
}

func (f *frame) any(body []*statement, name string, lo, hi *expr, bind func(*expr), path *expr) {
	f.m.loops++
	defer func() { f.m.loops-- }()
	v := symbol("$" + strconv.Itoa(f.m.loops))
	outer := f.out
	// The first run shows which variables the body changes. They are unknown in the second.
	var inner []outcome
	for range 2 {
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
