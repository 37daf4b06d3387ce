package jinja

import (
	"fmt"
)

// expression is a part of a template that has a value.
type expression interface {
	eval(s *scope) (any, error)
}

type (
	literal  struct{ value any }
	variable string
	list     []expression
	tupleOf  []expression
	negative struct {
		operand expression
		line    int
	}
	dictionary  struct{ keys, values []expression }
	conditional struct{ condition, value, other expression }
	negation    struct{ operand expression }
	logical     struct {
		word        string
		left, right expression
	}
	comparison struct {
		first expression
		rest  []step
	}
	step struct {
		op      string
		operand expression
	}
	arithmetic struct {
		op          string
		line        int
		left, right expression
	}
	attribute struct {
		value expression
		name  string
		line  int
	}
	index struct {
		value, key expression
		line       int
	}
	slice struct {
		value expression
		parts [3]expression
		line  int
	}
	call struct {
		callee expression
		args   arguments
		line   int
	}
	filtered struct {
		name   string
		filter function
		value  expression
		args   arguments
		line   int
	}
	tested struct {
		name  string
		test  function
		value expression
		args  arguments
		line  int
	}
	arguments struct {
		values []expression // those with a star are spread
		named  []namedArgument
	}
	spread        struct{ expression }
	namedArgument struct {
		name  string
		value expression
	}
)

func (e literal) eval(*scope) (any, error) { return e.value, nil }

func (e variable) eval(s *scope) (any, error) {
	value, scopes := s.lookup(string(e))
	return value, s.Step(scopes / 8)
}

func (e list) eval(s *scope) (any, error) {
	out := make([]any, len(e))
	for i, item := range e {
		var err error
		if out[i], err = item.eval(s); err != nil {
			return nil, err
		}
	}
	return out, s.made(out)
}

func (e tupleOf) eval(s *scope) (any, error) {
	items, err := list(e).eval(s)
	if err != nil {
		return nil, err
	}
	return tuple(items.([]any)), nil
}

func (e negative) eval(s *scope) (any, error) {
	value, err := e.operand.eval(s)
	if err != nil {
		return nil, err
	}
	if f, ok := value.(float64); ok {
		return -f, s.Step(0)
	}
	value, err = s.calculate("-", 0, value)
	return value, at(e.line, err)
}

func (e dictionary) eval(s *scope) (any, error) {
	out := new(Dict)
	if err := s.entries(len(e.keys)); err != nil {
		return nil, err
	}
	for i := range e.keys {
		key, err := e.keys[i].eval(s)
		if err != nil {
			return nil, err
		}
		value, err := e.values[i].eval(s)
		if err != nil {
			return nil, err
		}
		if err := s.put(out, key, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e conditional) eval(s *scope) (any, error) {
	condition, err := e.condition.eval(s)
	if err != nil {
		return nil, err
	}
	if err := s.Step(0); err != nil {
		return nil, err
	}
	if truth(condition) {
		return e.value.eval(s)
	}
	return e.other.eval(s)
}

func (e negation) eval(s *scope) (any, error) {
	value, err := e.operand.eval(s)
	if err != nil {
		return nil, err
	}
	return !truth(value), s.Step(0)
}

// eval gives the operand that decides, as Python does: x or "default".
func (e logical) eval(s *scope) (any, error) {
	left, err := e.left.eval(s)
	if err == nil {
		err = s.Step(0)
	}
	if err != nil || truth(left) == (e.word == "or") {
		return left, err
	}
	return e.right.eval(s)
}

func (e comparison) eval(s *scope) (any, error) {
	left, err := e.first.eval(s)
	if err != nil {
		return nil, err
	}
	for _, next := range e.rest {
		right, err := next.operand.eval(s)
		if err != nil {
			return nil, err
		}
		holds, err := s.compare(next.op, left, right)
		if err != nil || !holds {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (e arithmetic) eval(s *scope) (any, error) {
	left, err := e.left.eval(s)
	if err != nil {
		return nil, err
	}
	right, err := e.right.eval(s)
	if err != nil {
		return nil, err
	}
	value, err := s.calculate(e.op, left, right)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", e.line, err)
	}
	return value, s.made(value)
}

func (e attribute) eval(s *scope) (any, error) {
	value, err := e.value.eval(s)
	if err != nil {
		return nil, err
	}
	if err := s.Step(0); err != nil {
		return nil, err
	}
	field, err := attributeOf(value, e.name)
	return field, at(e.line, err)
}

func (e index) eval(s *scope) (any, error) {
	value, err := e.value.eval(s)
	if err != nil {
		return nil, err
	}
	key, err := e.key.eval(s)
	if err != nil {
		return nil, err
	}
	if err := s.Step(0); err != nil {
		return nil, err
	}
	item, err := s.item(value, key)
	return item, at(e.line, err)
}

func (e slice) eval(s *scope) (any, error) {
	value, err := e.value.eval(s)
	if err != nil {
		return nil, err
	}
	var parts [3]any
	for i, part := range e.parts {
		if part == nil {
			continue
		}
		if parts[i], err = part.eval(s); err != nil {
			return nil, err
		}
	}
	out, err := s.cut(value, parts)
	if err != nil {
		return nil, at(e.line, err)
	}
	return out, s.made(out)
}

func (e call) eval(s *scope) (any, error) {
	callee, err := e.callee.eval(s)
	if err != nil {
		return nil, err
	}
	args, err := e.args.eval(s)
	if err != nil {
		return nil, err
	}
	f, ok := callable(callee)
	if !ok {
		return nil, fmt.Errorf("line %d: %s cannot be called", e.line, describe(callee))
	}
	value, err := f(s, args)
	if err != nil {
		return nil, at(e.line, err)
	}
	return value, s.made(value)
}

// callable gives the function behind a value: itself, or a recursive loop.
func callable(value any) (f function, ok bool) {
	switch v := value.(type) {
	case *loopState:
		return v.recurse, v.recurse != nil
	case *macroValue:
		return v.call, true
	}
	f, ok = value.(function)
	return f, ok
}

func (e filtered) eval(s *scope) (any, error) {
	return applied(s, e.name, e.filter, e.value, e.args, e.line)
}
func (e tested) eval(s *scope) (any, error) {
	return applied(s, e.name, e.test, e.value, e.args, e.line)
}

// applied calls a filter or a test: the value comes before the arguments.
func applied(s *scope, name string, f function, value expression, more arguments, line int) (any, error) {
	first, err := value.eval(s)
	if err != nil {
		return nil, err
	}
	args, err := more.eval(s)
	if err != nil {
		return nil, err
	}
	args.values = append([]any{first}, args.values...)
	out, err := s.builtin(s, f, args)
	if err != nil {
		return nil, fmt.Errorf("line %d: %s: %w", line, name, err)
	}
	return out, nil
}

func (a arguments) eval(s *scope) (args, error) {
	var out args
	if err := s.Step(len(a.values) + 4*len(a.named)); err != nil {
		return out, err
	}
	for _, value := range a.values {
		v, err := value.eval(s)
		if err != nil {
			return out, err
		}
		if _, star := value.(spread); !star {
			out.values = append(out.values, v)
			continue
		}
		items, err := s.iterate(v)
		if err != nil {
			return out, err
		}
		out.values = append(out.values, items...)
		if err := s.made(out.values); err != nil {
			return out, err
		}
	}
	for _, n := range a.named {
		v, err := n.value.eval(s)
		if err != nil {
			return out, err
		}
		if n.name != "" {
			if err := out.name(n.name, v); err != nil {
				return out, err
			}
			continue
		}
		d, ok := v.(*Dict) // behind two stars
		if !ok {
			return out, fmt.Errorf("needs a dictionary behind **, not %s", describe(v))
		}
		if err := s.entries(len(d.keys)); err != nil {
			return out, err
		}
		for _, key := range d.keys {
			text, ok := d.key(key).(string)
			if !ok {
				return out, fmt.Errorf("a key behind ** is %s, not a string", describe(d.key(key)))
			}
			if err := out.name(text, d.values[key]); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// name adds an argument with a name.
func (a *args) name(key string, value any) error {
	if _, twice := a.named[key]; twice {
		return fmt.Errorf("argument %q is given twice", key)
	}
	if a.named == nil {
		a.named = map[string]any{}
	}
	a.named[key], a.order = value, append(a.order, key)
	return nil
}

func at(line int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", line, err)
}
