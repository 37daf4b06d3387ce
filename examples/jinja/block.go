package jinja

import (
	"fmt"
	"slices"
)

// body reads statements up to the end of the template or to a block with one of the given words, whose opening mark it takes.
func (p *parser) body(closing ...string) (statement, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("line %d: blocks are nested deeper than %d", p.peek().line, maxDepth)
	}
	defer func() { p.depth-- }()
	var out sequence
	for {
		switch t := p.peek(); t.kind {
		case text:
			p.take()
			out = append(out, data(t.text))
		case output:
			p.take()
			value, err := p.expression()
			if err == nil {
				err = p.expectEnd()
			}
			if err != nil {
				return nil, err
			}
			out = append(out, printed{value})
		case block:
			word := p.tokens[p.at+1]
			if slices.Contains(closing, word.text) {
				p.take()
				return out, nil
			}
			parse, ok := blocks[word.text]
			if !ok || word.kind != name {
				return nil, p.unexpected(word, "a statement")
			}
			p.take()
			p.take()
			s, err := parse(p, word.line)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		default:
			if len(closing) > 0 {
				return nil, p.unexpected(t, closing[len(closing)-1])
			}
			return out, nil
		}
	}
}

// blocks read a statement after its first word.
var blocks map[string]func(p *parser, line int) (statement, error)

func init() {
	blocks = map[string]func(p *parser, line int) (statement, error){
		"if":         (*parser).branch,
		"for":        (*parser).loop,
		"set":        (*parser).set,
		"macro":      (*parser).macro,
		"call":       (*parser).callBlock,
		"filter":     (*parser).filterBlock,
		"generation": (*parser).generation,
		"with":       (*parser).with,
		"block":      (*parser).block,
		"autoescape": (*parser).autoescape,
		"break":      func(p *parser, line int) (statement, error) { return p.jump("break", leave, line) },
		"continue":   func(p *parser, line int) (statement, error) { return p.jump("continue", again, line) },
		"print": func(p *parser, _ int) (statement, error) {
			value, err := p.expression()
			if err != nil {
				return nil, err
			}
			return printed{value}, p.expectEnd()
		},
	}
}

// expectEnd takes the end of a tag.
func (p *parser) expectEnd() error {
	if t := p.peek(); t.text == "" || !p.accept(end) {
		return p.unexpected(t, "the end of the tag")
	}
	return nil
}

// inside reads the rest of an opening tag, the statements in it and its closing tag.
func (p *parser) inside(closing string) (statement, error) {
	if err := p.expectEnd(); err != nil {
		return nil, err
	}
	body, err := p.body(closing)
	if err != nil {
		return nil, err
	}
	p.take()
	if closing == "endblock" {
		p.accept(name) // may repeat the name
	}
	return body, p.expectEnd()
}

func (p *parser) branch(int) (statement, error) {
	var out branches
	for {
		condition, err := p.expression()
		if err == nil {
			err = p.expectEnd()
		}
		if err != nil {
			return nil, err
		}
		body, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		out = append(out, branch{condition, body})
		switch p.take().text {
		case "elif":
			continue
		case "else":
			body, err := p.inside("endif")
			return append(out, branch{nil, body}), err
		}
		return out, p.expectEnd()
	}
}

// targets reads the left of an assignment or a loop: one name, or several, which may be nested in parentheses.
func (p *parser) targets() (t target, err error) {
	if p.depth++; p.depth > maxDepth {
		return t, fmt.Errorf("line %d: names are nested deeper than %d", p.peek().line, maxDepth)
	}
	defer func() { p.depth-- }()
	several := false
	for {
		var one target
		if p.accept(operator, "(") {
			if one, err = p.targets(); err == nil {
				err = p.expect(operator, ")")
			}
		} else if one.name, err = p.identifier(); err == nil && p.accept(operator, ".") {
			one.field, err = p.identifier()
		}
		if err != nil {
			return t, err
		}
		t.parts = append(t.parts, one)
		if !p.accept(operator, ",") {
			break
		}
		if several = true; !p.is(name) && !p.is(operator, "(") || p.is(name, "in") {
			break // the comma was the last
		}
	}
	if !several {
		return t.parts[0], nil
	}
	return t, nil
}

// has reports whether a name is among the targets.
func (t target) has(name string) bool {
	return t.name == name || slices.ContainsFunc(t.parts, func(part target) bool { return part.has(name) })
}

func (p *parser) jump(word string, to flow, line int) (statement, error) {
	if p.loops == 0 {
		return nil, fmt.Errorf("line %d: %s outside of a loop", line, word)
	}
	return jump(to), p.expectEnd()
}

func (p *parser) with(int) (statement, error) {
	var w with
	for !p.is(end) {
		if len(w.names) > 0 {
			if err := p.expect(operator, ","); err != nil {
				return nil, err
			}
		}
		id, err := p.identifier()
		if err == nil {
			err = p.expect(operator, "=")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		w.names, w.values = append(w.names, target{name: id}), append(w.values, value)
	}
	var err error
	w.body, err = p.inside("endwith")
	return w, err
}

func (p *parser) block(line int) (statement, error) {
	id, err := p.identifier()
	if err != nil {
		return nil, err
	}
	if _, twice := p.blocks[id]; twice {
		return nil, fmt.Errorf("line %d: block %q is defined twice", line, id)
	}
	b := namedBlock{scoped: p.accept(name, "scoped")}
	p.blocks[id] = nil
	loops := p.loops
	p.loops = 0
	b.body, err = p.inside("endblock")
	p.loops, p.blocks[id] = loops, b.body
	return b, err
}

// self is the variable with the blocks of the template.
type self map[string]statement

func (b self) attribute(name string) any {
	body, ok := b[name]
	if !ok {
		return Undefined{name}
	}
	return function(func(s *scope, _ args) (any, error) {
		if s.calls++; s.calls > maxCalls {
			return nil, errCalls
		}
		defer func() { s.calls-- }()
		return s.top.inner().capture(body)
	})
}

// Templates never escape, so that autoescape false changes nothing.
func (p *parser) autoescape(line int) (statement, error) {
	if !p.is(name, "false", "False") {
		return nil, fmt.Errorf("line %d: autoescape is not supported, except autoescape false", line)
	}
	p.take()
	return p.inside("endautoescape")
}

func (p *parser) loop(line int) (statement, error) {
	l := &loop{line: line}
	var err error
	if l.targets, err = p.targets(); err == nil {
		err = p.expect(name, "in")
	}
	if err != nil {
		return nil, err
	}
	if l.targets.has("loop") {
		return nil, fmt.Errorf("line %d: a loop cannot assign to the name loop", line)
	}
	if l.items, err = p.or(); err != nil { // no conditional: "if" begins the filter
		return nil, err
	}
	if p.is(operator, ",") { // a tuple without parentheses
		p.take()
		rest, err := p.tuple()
		if err != nil {
			return nil, err
		}
		l.items = append(tupleOf{l.items}, rest...)
	}
	if p.accept(name, "if") {
		if l.condition, err = p.expression(); err != nil {
			return nil, err
		}
	}
	l.recursive = p.accept(name, "recursive")
	if err := p.expectEnd(); err != nil {
		return nil, err
	}
	p.loops++
	l.body, err = p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	if p.take().text == "else" {
		l.other, err = p.inside("endfor")
		return l, err
	}
	return l, p.expectEnd()
}

// tuple reads what follows the first comma of a tuple without parentheses.
func (p *parser) tuple() (rest tupleOf, err error) {
	for !p.is(end) && !p.is(name, "if", "recursive") {
		item, err := p.or()
		if err != nil {
			return nil, err
		}
		if rest = append(rest, item); !p.accept(operator, ",") {
			break
		}
	}
	return rest, nil
}

func (p *parser) set(line int) (statement, error) {
	a := assign{line: line}
	var err error
	if a.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if p.accept(operator, "=") {
		if a.value, err = p.expression(); err != nil {
			return nil, err
		}
		if p.accept(operator, ",") {
			rest, err := p.tuple()
			if err != nil {
				return nil, err
			}
			a.value = append(tupleOf{a.value}, rest...)
		}
		return a, p.expectEnd()
	}
	if a.targets.parts != nil {
		return nil, p.unexpected(p.peek(), `"="`)
	}
	out := assignBlock{target: a.targets}
	if p.is(operator, "|") {
		if out.filters, err = p.pipe(); err != nil {
			return nil, err
		}
	}
	out.body, err = p.inside("endset")
	return out, err
}

// pipe reads filters of the text of a block.
func (p *parser) pipe() (expression, error) {
	var value expression = variable(pending)
	for p.accept(operator, "|") {
		var err error
		if value, err = p.filter(value); err != nil {
			return nil, err
		}
	}
	return value, nil
}

func (p *parser) parameters() (all []parameter, err error) {
	if err := p.expect(operator, "("); err != nil {
		return nil, err
	}
	for !p.accept(operator, ")") {
		if len(all) > 0 {
			if err := p.expect(operator, ","); err != nil {
				return nil, err
			}
		}
		var one parameter
		if one.name, err = p.identifier(); err != nil {
			return nil, err
		}
		if p.accept(operator, "=") {
			if one.fallback, err = p.expression(); err != nil {
				return nil, err
			}
		}
		if n := len(all); n > 0 && one.fallback == nil && all[n-1].fallback != nil {
			return nil, fmt.Errorf("line %d: parameter %s has no default, and stands behind one with a default", p.peek().line, one.name)
		}
		all = append(all, one)
	}
	return all, nil
}

func (p *parser) macro(int) (statement, error) {
	m := new(macro)
	var err error
	if m.name, err = p.identifier(); err != nil {
		return nil, err
	}
	if m.parameters, err = p.parameters(); err != nil {
		return nil, err
	}
	err = p.macroBody(m, "endmacro")
	return m, err
}

// macroBody reads what a macro prints. It gets further arguments only if its body names their variables.
func (p *parser) macroBody(m *macro, closing string) (err error) {
	loops, from := p.loops, p.at
	p.loops = 0
	m.body, err = p.inside(closing)
	p.loops = loops
	for _, t := range p.tokens[from:p.at] {
		if t.kind == name {
			m.varargs, m.kwargs, m.caller = m.varargs || t.text == "varargs", m.kwargs || t.text == "kwargs", m.caller || t.text == "caller"
		}
	}
	return err
}

func (p *parser) callBlock(line int) (statement, error) {
	c := &callBlock{macro: macro{name: "caller"}}
	var err error
	if p.is(operator, "(") {
		if c.macro.parameters, err = p.parameters(); err != nil {
			return nil, err
		}
	}
	value, err := p.unary(false)
	if err != nil {
		return nil, err
	}
	var ok bool
	if c.call, ok = value.(call); !ok {
		return nil, fmt.Errorf("line %d: a call block calls nothing", line)
	}
	err = p.macroBody(&c.macro, "endcall")
	return c, err
}

func (p *parser) filterBlock(int) (statement, error) {
	value, err := p.filter(variable(pending))
	if err != nil {
		return nil, err
	}
	for p.accept(operator, "|") {
		if value, err = p.filter(value); err != nil {
			return nil, err
		}
	}
	body, err := p.inside("endfilter")
	return filterBlock{filters: value, body: body}, err
}

func (p *parser) generation(int) (statement, error) {
	body, err := p.inside("endgeneration")
	return generation{body}, err
}
