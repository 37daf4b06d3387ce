package jinja

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// Vars are the variables of a rendering.
type Vars map[string]any

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	body   statement
	blocks map[string]statement // by name, for self

	// Now is the clock of strftime_now; time.Now if nil.
	Now func() time.Time
}

// Parse reads a template. Errors name the line.
func Parse(source string) (*Template, error) {
	if err := budget.Size("the template", len(source), maxSource, "bytes"); err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	if !utf8.ValidString(source) {
		return nil, fmt.Errorf("jinja: the template is not UTF-8")
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	p := &parser{tokens: tokens, blocks: map[string]statement{}}
	body, err := p.body()
	if err == nil && !p.is(end) {
		err = p.unexpected(p.tokens[min(p.at+1, len(tokens)-1)], "a statement")
	}
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return &Template{body: body, blocks: p.blocks}, nil
}

// Span is a part of a rendering, from one byte up to another.
type Span struct{ From, To int }

// Raised is the error of a template that calls raise_exception.
type Raised struct{ Message string }

func (r *Raised) Error() string { return r.Message }

// Render fills in a template. A template that refuses its input gives a *Raised.
func (t *Template) Render(vars Vars) (string, error) {
	text, _, err := t.RenderSpans(budget.New(context.Background(), "the template", maxSteps), vars)
	return text, err
}

// RenderSpans is Render with the parts that stand in {% generation %} blocks: what the
// model said, and what it is trained on. Its steps count in a budget for several renderings, beside their own.
func (t *Template) RenderSpans(all *budget.Budget, vars Vars) (string, []Span, error) {
	r := &rendering{Budget: all.Part("the template", maxSteps), out: new(strings.Builder), now: t.Now}
	defer r.Time(maxTime)()
	if r.now == nil {
		r.now = time.Now
	}
	globals := &scope{rendering: r, vars: map[string]any{}}
	for name, f := range functions {
		globals.vars[name] = f
	}
	for name, value := range vars {
		globals.vars[name] = value
	}
	s := globals.inner()
	r.top = s
	globals.vars["self"] = self(t.blocks)
	if _, err := t.body.exec(s); err != nil {
		return "", nil, fmt.Errorf("jinja: %w", err)
	}
	return r.out.String(), r.spans, nil
}

// rendering is the state of one rendering. All its scopes share it.
type rendering struct {
	*budget.Budget
	out   *strings.Builder
	spans []Span
	calls int
	now   func() time.Time
	top   *scope // of the template, outside of its loops and macros
}

// The limits of a rendering. A step is about a node of the template that is evaluated, an item of a list that is looked at, or 16 bytes
// of text that are read or made, so that a rendering ends within a second or so, and within some 100 MiB. maxTime of the processor is for what is
// counted too low.
const (
	maxSteps  = 4_000_000
	maxCalls  = 200
	maxText   = 1 << 24      // bytes of one text, and of all that is printed
	maxItems  = maxText / 16 // of one list
	maxSource = 1 << 20      // bytes of a template
	maxTime   = 1500 * time.Millisecond
)

// scope holds the variables of a template, a loop's body or a macro. An assignment stays in its scope.
type scope struct {
	*rendering
	vars  map[string]any
	outer *scope
}

func (s *scope) inner() *scope {
	return &scope{rendering: s.rendering, vars: map[string]any{}, outer: s}
}

// lookup gives the value of a variable, and the number of scopes in which it looked for it.
func (s *scope) lookup(name string) (value any, scopes int) {
	for ; s != nil; s = s.outer {
		if value, ok := s.vars[name]; ok {
			return value, scopes
		}
		scopes++
	}
	return Undefined{name}, scopes
}

// entries counts the work for a dictionary, or for variables, of so many names.
func (r *rendering) entries(n int) error { return r.Step(4 + 8*n) }

// made checks the size of a new value, and counts it as work.
func (r *rendering) made(value any) error {
	n := size(value)
	if n > maxText {
		return errLarge
	}
	return r.Step(n / 16)
}

// errLarge reports a text or a list that is larger than one may be.
var errLarge = fmt.Errorf("%w: a value of more than %d bytes", budget.ErrLimit, maxText)

// read counts the work of looking at values.
func (r *rendering) read(values ...any) error {
	n := 0
	for _, v := range values {
		n += size(v) / 16
	}
	return r.Step(n)
}

// str is Python's str: what an output prints. It counts the work for what is no text already.
func (r *rendering) str(value any) (string, error) {
	switch v := value.(type) {
	case Undefined:
		return "", nil
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case function, *macroValue, *generator, *loopState, *namespace, self:
		return "", fmt.Errorf("%s has no text", describe(v)) // Python prints where it is in memory
	}
	text := repr(value)
	return text, r.made(text)
}

// builtin calls a filter, a test or a method, and counts the work of reading its arguments and of its result.
func (r *rendering) builtin(s *scope, f function, a args) (any, error) {
	if err := r.read(a.values...); err != nil {
		return nil, err
	}
	for _, v := range a.named {
		if err := r.read(v); err != nil {
			return nil, err
		}
	}
	out, err := f(s, a)
	if err != nil {
		return nil, err
	}
	return out, r.made(out)
}

// print adds to the output.
func (s *scope) print(text string) error {
	if s.out.Len()+len(text) > maxText {
		return errLarge
	}
	s.out.WriteString(text)
	return s.Step(len(text) / 16)
}

// capture gives what a statement prints instead of printing it.
func (s *scope) capture(body statement) (string, error) {
	kept, spans := s.out, s.spans
	s.out = new(strings.Builder)
	_, err := body.exec(s)
	text := s.out.String()
	s.out, s.spans = kept, spans
	return text, err
}
