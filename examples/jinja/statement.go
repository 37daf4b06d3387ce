package jinja

import (
	"fmt"

	"github.com/goascend/cann/examples/budget"
)

// statement is a part of a template that prints or assigns. Its flow makes a loop end or go on.
type statement interface {
	exec(s *scope) (flow, error)
}

type flow uint8

const (
	on flow = iota
	leave
	again
)

type (
	sequence []statement
	data     string
	printed  struct{ value expression }
	branches []branch
	branch   struct {
		condition expression // nil for else
		body      statement
	}
	loop struct {
		targets   target
		items     expression
		condition expression // of "for … if …", or nil
		body      statement
		other     statement // of "else", or nil
		recursive bool
		line      int
	}
	jump   flow
	assign struct {
		targets target
		value   expression
		line    int
	}
	// target receives a value: a name, the attribute of a namespace, or several targets for its items.
	target struct {
		name, field string
		parts       []target // nil for one
	}
	with struct {
		names  []target
		values []expression
		body   statement
	}
	namedBlock struct {
		body   statement
		scoped bool // it sees the variables around it
	}
	assignBlock struct {
		target  target
		filters expression // of the text, or nil
		body    statement
	}
	macro struct {
		name       string
		parameters []parameter
		body       statement

		varargs, kwargs, caller bool // whether the body names the variable of the further arguments
	}
	parameter struct {
		name     string
		fallback expression // or nil
	}
	callBlock struct {
		macro macro
		call  call
	}
	filterBlock struct {
		filters expression
		body    statement
	}
	generation struct{ body statement }
)

func (b sequence) exec(s *scope) (flow, error) {
	if err := s.Step(len(b)); err != nil {
		return on, err
	}
	for _, part := range b {
		if f, err := part.exec(s); f != on || err != nil {
			return f, err
		}
	}
	return on, nil
}

func (d data) exec(s *scope) (flow, error) {
	return on, s.print(string(d))
}

func (p printed) exec(s *scope) (flow, error) {
	value, err := p.value.eval(s)
	if err != nil {
		return on, err
	}
	text, err := s.str(value)
	if err != nil {
		return on, err
	}
	return on, s.print(text)
}

func (b branches) exec(s *scope) (flow, error) {
	for _, branch := range b {
		if err := s.Step(0); err != nil {
			return on, err
		}
		if branch.condition != nil {
			value, err := branch.condition.eval(s)
			if err != nil {
				return on, err
			}
			if !truth(value) {
				continue
			}
		}
		return branch.body.exec(s)
	}
	return on, nil
}

func (j jump) exec(*scope) (flow, error) { return flow(j), nil }

func (l *loop) exec(s *scope) (flow, error) {
	value, err := l.items.eval(s)
	if err != nil {
		return on, err
	}
	return on, l.over(s, value, 0)
}

// over runs the body for each item that satisfies the condition; "else" runs if there was none.
func (l *loop) over(s *scope, value any, depth int) error {
	if depth > maxCalls {
		return errCalls
	}
	items, err := s.iterate(value)
	if err != nil {
		return at(l.line, err)
	}
	if l.condition != nil {
		if items, err = l.filtered(s, items); err != nil {
			return err
		}
	}
	if len(items) == 0 && l.other != nil {
		_, err := l.other.exec(s)
		return err
	}
	state := &loopState{items: items, depth: depth}
	if l.recursive {
		state.recurse = func(_ *scope, a args) (any, error) {
			value, err := a.one()
			if err != nil {
				return nil, err
			}
			if s.calls++; s.calls > maxCalls { // loops may call one another
				return nil, errCalls
			}
			defer func() { s.calls-- }()
			return s.capture(statementFunc(func(s *scope) error { return l.over(s, value, depth+1) }))
		}
	}
	for i, item := range items {
		if err := s.Step(1); err != nil {
			return err
		}
		state.at = i
		body := s.inner()
		body.vars["loop"] = state
		if err := l.targets.assign(body, item); err != nil {
			return at(l.line, err)
		}
		f, err := l.body.exec(body)
		if err != nil {
			return err
		}
		if f == leave {
			break
		}
	}
	return nil
}

type statementFunc func(s *scope) error

func (f statementFunc) exec(s *scope) (flow, error) { return on, f(s) }

func (l *loop) filtered(s *scope, items []any) ([]any, error) {
	var kept []any
	for _, item := range items {
		inner := s.inner()
		if err := l.targets.assign(inner, item); err != nil {
			return nil, at(l.line, err)
		}
		value, err := l.condition.eval(inner)
		if err != nil {
			return nil, err
		}
		if truth(value) {
			kept = append(kept, item)
		}
	}
	return kept, s.Step(len(items))
}

// assign gives a target a value.
func (t target) assign(s *scope, to any) error {
	switch {
	case t.field != "":
		value, scopes := s.lookup(t.name)
		space, ok := value.(*namespace)
		if !ok {
			return fmt.Errorf("%s is not a namespace, so its attributes cannot be set", t.name)
		}
		space.Set(t.field, to)
		return s.Step(scopes / 8)
	case t.parts == nil:
		s.vars[t.name] = to
		return nil
	}
	items, err := s.iterate(to)
	if err != nil {
		return err
	}
	if len(items) != len(t.parts) {
		return fmt.Errorf("%d values for %d names", len(items), len(t.parts))
	}
	for i, part := range t.parts {
		if err := part.assign(s, items[i]); err != nil {
			return err
		}
	}
	return s.entries(len(t.parts))
}

func (a assign) exec(s *scope) (flow, error) {
	value, err := a.value.eval(s)
	if err != nil {
		return on, err
	}
	return on, at(a.line, a.targets.assign(s, value))
}

// exec gives the names their values, which do not see one another, inside of the block.
func (w with) exec(s *scope) (flow, error) {
	inner := s.inner()
	for i, name := range w.names {
		value, err := w.values[i].eval(s)
		if err != nil {
			return on, err
		}
		if err := name.assign(inner, value); err != nil {
			return on, err
		}
	}
	return w.body.exec(inner)
}

// exec runs the block where it stands: no template extends another here.
func (b namedBlock) exec(s *scope) (flow, error) {
	if !b.scoped {
		s = s.top
	}
	return b.body.exec(s.inner())
}

func (a assignBlock) exec(s *scope) (flow, error) {
	text, err := s.capture(a.body)
	if err != nil {
		return on, err
	}
	var value any = text
	if a.filters != nil {
		inner := s.inner()
		inner.vars[pending] = value
		if value, err = a.filters.eval(inner); err != nil {
			return on, err
		}
	}
	return on, a.target.assign(s, value)
}

var errCalls = fmt.Errorf("%w: more than %d calls inside one another", budget.ErrLimit, maxCalls)

// pending names the value that a filter of a block works on. No template can write it.
const pending = "\x00"

func (m *macro) exec(s *scope) (flow, error) {
	s.vars[m.name] = m.value(s)
	return on, nil
}

// macroValue is a macro as the value of a variable.
type macroValue struct {
	*macro
	call function
}

// attribute gives what Jinja has of a macro.
func (m *macroValue) attribute(name string) any {
	switch name {
	case "name":
		return m.name
	case "arguments":
		out := tuple{}
		for _, p := range m.parameters {
			out = append(out, p.name)
		}
		return out
	case "catch_varargs":
		return m.varargs
	case "catch_kwargs":
		return m.kwargs
	case "caller":
		return m.caller
	}
	return Undefined{name}
}

// value makes what a template calls: the body sees the scope of the macro, not of its caller.
func (m *macro) value(defined *scope) *macroValue {
	return &macroValue{m, func(s *scope, a args) (any, error) {
		if s.calls++; s.calls > maxCalls {
			return nil, errCalls
		}
		defer func() { s.calls-- }()
		if err := s.entries(len(m.parameters) + len(a.order)); err != nil {
			return nil, err
		}
		body := defined.inner()
		taken := map[string]bool{}
		for _, p := range m.parameters {
			taken[p.name] = true
		}
		taken["caller"] = taken["caller"] || m.caller
		rest := new(Dict)
		for _, key := range a.order {
			if !taken[key] {
				rest.Set(key, a.named[key])
			}
		}
		for i, p := range m.parameters {
			value, given := a.named[p.name]
			switch {
			case i < len(a.values) && given:
				return nil, fmt.Errorf("macro %s gets argument %q twice", m.name, p.name)
			case i < len(a.values):
				value = a.values[i]
			case given:
			case p.fallback != nil:
				var err error
				if value, err = p.fallback.eval(body); err != nil {
					return nil, err
				}
			default:
				value = Undefined{p.name}
			}
			body.vars[p.name] = value
		}
		if m.caller {
			caller, ok := a.named["caller"]
			if !ok {
				caller = Undefined{"caller"}
			}
			body.vars["caller"] = caller
		}
		if m.kwargs {
			body.vars["kwargs"] = rest
		} else if len(rest.keys) > 0 {
			return nil, fmt.Errorf("macro %s takes no argument %q", m.name, rest.keys[0])
		}
		if m.varargs {
			body.vars["varargs"] = append(tuple{}, a.values[min(len(a.values), len(m.parameters)):]...)
		} else if len(a.values) > len(m.parameters) {
			return nil, fmt.Errorf("macro %s takes %d arguments, not %d", m.name, len(m.parameters), len(a.values))
		}
		return body.capture(m.body)
	}}
}

func (c *callBlock) exec(s *scope) (flow, error) {
	callee, err := c.call.callee.eval(s)
	if err != nil {
		return on, err
	}
	f, ok := callable(callee)
	if !ok {
		return on, fmt.Errorf("line %d: %s cannot be called", c.call.line, describe(callee))
	}
	a, err := c.call.args.eval(s)
	if err != nil {
		return on, err
	}
	if err := a.name("caller", c.macro.value(s)); err != nil {
		return on, at(c.call.line, err)
	}
	value, err := f(s, a)
	if err != nil {
		return on, at(c.call.line, err)
	}
	text, err := s.str(value)
	if err != nil {
		return on, err
	}
	return on, s.print(text)
}

func (f filterBlock) exec(s *scope) (flow, error) {
	text, err := s.capture(f.body)
	if err != nil {
		return on, err
	}
	inner := s.inner()
	inner.vars[pending] = text
	return printed{f.filters}.exec(inner)
}

// exec notes where the text of the model begins and ends.
func (g generation) exec(s *scope) (flow, error) {
	from := s.out.Len()
	f, err := g.body.exec(s)
	s.spans = append(s.spans, Span{from, s.out.Len()})
	return f, err
}
