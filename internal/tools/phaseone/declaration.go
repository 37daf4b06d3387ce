package main

import "slices"

// simple reads a declaration or an expression.
func (r *reader) simple() *statement {
	if len(r.t) == 0 {
		return nil
	}
	if s := r.declaration(); s != nil {
		return s
	}
	return &statement{op: "expr", x: expression(r.t)}
}

// binding reads "[a, b] = value" after auto.
func binding(t []token) *statement {
	end := closing(t, 0)
	if end+1 >= len(t) || !t[end+1].is("=") {
		return &statement{op: "expr", x: opaqueNode}
	}
	n := &node{op: "bind", args: []*node{expression(t[end+2:])}}
	for _, p := range commas(t[1:end]) {
		n.args = append(n.args, expression(p))
	}
	return &statement{op: "expr", x: n}
}

var qualifiers = []string{"const", "static", "constexpr", "inline", "volatile", "unsigned", "signed", "struct", "extern", "thread_local"}

// declaration reads "type name = value", "type name{…}", "type name(…)" and "type name", and returns
// nil for anything else.
func (r *reader) declaration() *statement {
	i, t := 0, r.t
	for i < len(t) && slices.Contains(qualifiers, t[i].s) {
		i++
	}
	explicit := i > 0
	if i >= len(t) || t[i].kind != ident {
		if !explicit || i >= len(t) {
			return nil
		}
	}
	typ := ""
	if i < len(t) && t[i].kind == ident {
		typ = t[i].s
		i++
	}
	for i < len(t) {
		if t[i].is("::") && i+1 < len(t) {
			typ = t[i+1].s
			i += 2
		} else if t[i].is("<") && angles(t, i) > 0 {
			i = angles(t, i) + 1
		} else {
			break
		}
	}
	ref := false
	for i < len(t) && (t[i].is("*") || t[i].is("&") || t[i].is("&&") || t[i].is("const")) {
		ref = ref || t[i].is("&")
		i++
	}
	if i < len(t) && t[i].is("[") && typ == "auto" {
		return binding(t[i:])
	}
	if i >= len(t) || t[i].kind != ident || typ == "return" || typ == "delete" || typ == "new" {
		return nil
	}
	first := &statement{op: "decl", typ: typ, name: t[i].s, ref: ref}
	i++
	if i < len(t) && !t[i].is("=") && !t[i].is("{") && !t[i].is("(") && !t[i].is("[") && !t[i].is(",") {
		return nil
	}
	return declarators(first, t[i:])
}

// declarators reads the initial value of the first variable and further variables of its type.
func declarators(first *statement, t []token) *statement {
	parts := split(t)
	if len(t) > 0 && t[0].is(",") {
		parts = append([][]token{nil}, split(t[1:])...)
	}
	out := &statement{op: "block", declare: []*statement{first}}
	for k, p := range parts {
		s := first
		if k > 0 {
			for len(p) > 0 && (p[0].is("*") || p[0].is("&")) {
				p = p[1:]
			}
			if len(p) == 0 || p[0].kind != ident {
				continue
			}
			s = &statement{op: "decl", typ: first.typ, name: p[0].s}
			p = p[1:]
			out.declare = append(out.declare, s)
		}
		for len(p) > 0 && p[0].is("[") {
			s.array = true
			p = p[min(closing(p, 0)+1, len(p)):]
		}
		switch {
		case len(p) == 0:
		case p[0].is("="):
			s.x = expression(p[1:])
		case p[0].is("{"):
			s.x = expression(p)
		case p[0].is("("):
			s.x = &node{op: "call", args: []*node{{op: "id", s: "construct::" + first.typ}}}
			for _, a := range split(p[1:closing(p, 0)]) {
				s.x.args = append(s.x.args, expression(a))
			}
		}
	}
	if len(out.declare) == 1 {
		return first
	}
	return out
}
