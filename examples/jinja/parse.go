package jinja

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/budget"
)

// parser reads tokens by recursive descent. Its expressions rank as Jinja's do: conditional, or, and,
// not, comparison, + and -, ~, * / // and %, power, then filters and tests, and the sign.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int                  // around what is read
	blocks map[string]statement // by name
	height int                  // of the expression read last: the nodes on its longest path
}

// Deeper nesting than templates have would otherwise end the process by its stack: when it is parsed, maxDepth, and when it is evaluated,
// maxHeight, which a chain such as a.b.c or 1 + 2 + 3 reaches without nesting.
const (
	maxDepth  = 200
	maxHeight = 2000
)

// over notes that the expression read last is a node above another one of this height.
func (p *parser) over(height int) error {
	if p.height = max(p.height, height) + 1; p.height > maxHeight {
		return fmt.Errorf("line %d: %w: an expression is a chain of more than %d parts", p.peek().line, budget.ErrLimit, maxHeight)
	}
	return nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) is(k kind, texts ...string) bool {
	t := p.peek()
	return t.kind == k && (len(texts) == 0 || slices.Contains(texts, t.text))
}

// accept takes a token if it is the expected one.
func (p *parser) accept(k kind, texts ...string) bool {
	if p.is(k, texts...) {
		p.take()
		return true
	}
	return false
}

func (p *parser) expect(k kind, want string) error {
	if t := p.peek(); !p.accept(k, want) {
		return p.unexpected(t, fmt.Sprintf("%q", want))
	}
	return nil
}

func (p *parser) unexpected(t token, want string) error {
	found := t.text
	if t.kind == end && found == "" {
		found = "the end of the template"
	}
	return fmt.Errorf("line %d: found %s where %s belongs", t.line, found, want)
}

func (p *parser) identifier() (string, error) {
	if t := p.peek(); !p.is(name) {
		return "", p.unexpected(t, "a name")
	}
	return p.take().text, nil
}

// expression reads a conditional expression.
func (p *parser) expression() (expression, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("line %d: expressions are nested deeper than %d", p.peek().line, maxDepth)
	}
	defer func() { p.depth-- }()
	value, err := p.or()
	if err != nil || !p.accept(name, "if") {
		return value, err
	}
	height := p.height
	condition, err := p.or()
	if err != nil {
		return nil, err
	}
	height = max(height, p.height)
	var other expression = literal{Undefined{}}
	if p.accept(name, "else") {
		if other, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return conditional{condition, value, other}, p.over(height)
}

func (p *parser) or() (expression, error)  { return p.logic("or", p.and) }
func (p *parser) and() (expression, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() (expression, error)) (expression, error) {
	left, err := operand()
	for err == nil && p.accept(name, word) {
		var right expression
		height := p.height
		if right, err = operand(); err == nil {
			left, err = logical{word, left, right}, p.over(height)
		}
	}
	return left, err
}

func (p *parser) not() (expression, error) {
	if !p.accept(name, "not") {
		return p.compare()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("line %d: expressions are nested deeper than %d", p.peek().line, maxDepth)
	}
	defer func() { p.depth-- }()
	operand, err := p.not()
	if err == nil {
		err = p.over(0)
	}
	return negation{operand}, err
}

// compare reads a chain of comparisons, which holds when each of them does.
func (p *parser) compare() (expression, error) {
	first, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	chain, height := comparison{first: first}, 0
	for {
		var op string
		switch {
		case p.is(operator, "==", "!=", "<", ">", "<=", ">="):
			op = p.take().text
		case p.accept(name, "in"):
			op = "in"
		case p.is(name, "not") && p.tokens[min(p.at+1, len(p.tokens)-1)].text == "in":
			p.take()
			p.take()
			op = "not in"
		case len(chain.rest) == 0:
			return first, nil
		default:
			return chain, p.over(height)
		}
		height = max(height, p.height)
		operand, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		chain.rest = append(chain.rest, step{op, operand})
	}
}

// binaries are the levels of the operators between two values, weakest first.
var binaries = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) binary(level int) (expression, error) {
	if level == len(binaries) {
		return p.unary(true)
	}
	left, err := p.binary(level + 1)
	for err == nil && p.is(operator, binaries[level]...) {
		op, height := p.take(), p.height
		var right expression
		if right, err = p.binary(level + 1); err == nil {
			left, err = arithmetic{op.text, op.line, left, right}, p.over(height)
		}
	}
	return left, err
}

// unary reads a value with its sign and what follows it. Filters and tests apply to the value with its sign.
func (p *parser) unary(filters bool) (value expression, err error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("line %d: expressions are nested deeper than %d", p.peek().line, maxDepth)
	}
	defer func() { p.depth-- }()
	if line := p.peek().line; p.is(operator, "-", "+") {
		op := p.take().text
		if value, err = p.unary(false); err == nil && op == "-" {
			value = negative{value, line}
		} else if err == nil {
			value = arithmetic{op, line, literal{0}, value}
		}
		if err == nil {
			err = p.over(0)
		}
	} else if value, err = p.primary(); err == nil {
		value, err = p.postfix(value)
	}
	for err == nil && filters {
		switch {
		case p.accept(operator, "|"):
			value, err = p.filter(value)
		case p.accept(name, "is"):
			value, err = p.test(value)
		case p.is(operator, "("): // the result of a filter is called
			value, err = p.postfix(value)
		default:
			return value, nil
		}
	}
	return value, err
}

func (p *parser) primary() (expression, error) {
	p.height = 1
	switch t := p.take(); t.kind {
	case number:
		return literal{t.value}, nil
	case quoted:
		all := []string{t.value.(string)}
		for p.is(quoted) { // as in Python, neighbours are one string
			all = append(all, p.take().value.(string))
		}
		return literal{strings.Join(all, "")}, nil
	case name:
		switch t.text {
		case "true", "True":
			return literal{true}, nil
		case "false", "False":
			return literal{false}, nil
		case "none", "None":
			return literal{nil}, nil
		}
		return variable(t.text), nil
	case operator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			items, err := p.list("]")
			return list(items), err
		case "{":
			return p.dictionary()
		}
		return nil, p.unexpected(t, "a value")
	default:
		return nil, p.unexpected(t, "a value")
	}
}

// list reads expressions between commas up to a closing mark; a comma may be the last.
func (p *parser) list(closing string) (items []expression, err error) {
	height := 0
	for !p.accept(operator, closing) {
		if len(items) > 0 {
			if err := p.expect(operator, ","); err != nil {
				return nil, err
			}
			if p.accept(operator, closing) {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		items, height = append(items, item), max(height, p.height)
	}
	p.height = 0
	return items, p.over(height)
}

// parenthesis reads a value in parentheses, or a tuple.
func (p *parser) parenthesis() (expression, error) {
	if p.accept(operator, ")") {
		return tupleOf{}, nil
	}
	first, err := p.expression()
	if err != nil || p.accept(operator, ")") {
		return first, err
	}
	if err := p.expect(operator, ","); err != nil {
		return nil, err
	}
	height := p.height
	rest, err := p.list(")")
	if err == nil {
		err = p.over(height)
	}
	return append(tupleOf{first}, rest...), err
}

func (p *parser) dictionary() (expression, error) {
	var d dictionary
	height := 0
	for !p.accept(operator, "}") {
		if len(d.keys) > 0 {
			if err := p.expect(operator, ","); err != nil {
				return nil, err
			}
			if p.accept(operator, "}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expect(operator, ":")
		}
		if err != nil {
			return nil, err
		}
		height = max(height, p.height)
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		height = max(height, p.height)
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	p.height = 0
	return d, p.over(height)
}

// postfix reads attributes, indices, slices and calls.
func (p *parser) postfix(value expression) (expression, error) {
	for {
		t, height := p.peek(), p.height
		switch {
		case p.accept(operator, "."):
			if p.is(number) { // a.0
				value = index{value, literal{p.take().value}, t.line}
				break
			}
			field, err := p.identifier()
			if err != nil {
				return nil, err
			}
			value = attribute{value, field, t.line}
		case p.accept(operator, "["):
			next, err := p.subscript(value, t.line)
			if err != nil {
				return nil, err
			}
			value = next
		case p.accept(operator, "("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			value = call{value, args, t.line}
		default:
			return value, nil
		}
		if err := p.over(height); err != nil {
			return nil, err
		}
	}
}

// subscript reads what stands in brackets: an index or up to three parts of a slice.
func (p *parser) subscript(value expression, line int) (expression, error) {
	var parts [3]expression
	colons, height := 0, 0
	for !p.accept(operator, "]") {
		if colons < 2 && p.accept(operator, ":") {
			colons++
			continue
		}
		if parts[colons] != nil {
			return nil, p.unexpected(p.peek(), "]")
		}
		var err error
		if parts[colons], err = p.expression(); err != nil {
			return nil, err
		}
		height = max(height, p.height)
	}
	p.height = height
	if colons > 0 {
		return slice{value, parts, line}, nil
	}
	if parts[0] == nil {
		return nil, fmt.Errorf("line %d: an index is missing", line)
	}
	return index{value, parts[0], line}, nil
}

// arguments reads those of a call, after its opening parenthesis.
func (p *parser) arguments() (a arguments, err error) {
	height := 0
	defer func() { p.height = height }()
	for !p.accept(operator, ")") {
		if len(a.values)+len(a.named) > 0 {
			if err := p.expect(operator, ","); err != nil {
				return a, err
			}
			if p.accept(operator, ")") {
				break
			}
		}
		if p.is(operator, "*", "**") {
			star := p.take().text
			value, err := p.expression()
			if err != nil {
				return a, err
			}
			height = max(height, p.height)
			if star == "*" {
				a.values = append(a.values, spread{value})
			} else {
				a.named = append(a.named, namedArgument{"", value})
			}
			continue
		}
		if p.is(name) && p.tokens[p.at+1].kind == operator && p.tokens[p.at+1].text == "=" {
			key := p.take().text
			p.take()
			value, err := p.expression()
			if err != nil {
				return a, err
			}
			height = max(height, p.height)
			a.named = append(a.named, namedArgument{key, value})
			continue
		}
		if len(a.named) > 0 {
			return a, p.unexpected(p.peek(), "an argument with a name")
		}
		value, err := p.expression()
		if err != nil {
			return a, err
		}
		height = max(height, p.height)
		a.values = append(a.values, value)
	}
	return a, nil
}

func (p *parser) filter(value expression) (expression, error) {
	line := p.peek().line
	id, err := p.identifier()
	if err != nil {
		return nil, err
	}
	f, ok := filters[id]
	if !ok {
		return nil, fmt.Errorf("line %d: there is no filter %q", line, id)
	}
	out, height := filtered{name: id, filter: f, value: value, line: line}, p.height
	if p.accept(operator, "(") {
		out.args, err = p.arguments()
	}
	if err == nil {
		err = p.over(height)
	}
	return out, err
}

// test reads what follows "is". A test may take one argument without parentheses.
func (p *parser) test(value expression) (expression, error) {
	inverted := p.accept(name, "not")
	line := p.peek().line
	id, err := p.identifier()
	if err != nil {
		return nil, err
	}
	f, ok := tests[id]
	if !ok {
		return nil, fmt.Errorf("line %d: there is no test %q", line, id)
	}
	out, height := tested{name: id, test: f, value: value, line: line}, p.height
	switch {
	case p.accept(operator, "("):
		out.args, err = p.arguments()
	case p.is(number), p.is(quoted), p.is(operator, "[", "{"), p.is(name) && !p.is(name, "and", "or", "not", "else", "if", "is", "in", "recursive"):
		var argument expression
		if argument, err = p.primary(); err == nil {
			argument, err = p.postfix(argument)
		}
		out.args.values = []expression{argument}
	}
	if err == nil {
		err = p.over(height + 1)
	}
	if inverted {
		return negation{out}, err
	}
	return out, err
}
