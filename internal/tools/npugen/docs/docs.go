package docs

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// Doc holds what is known about an operator beyond its signature. Every field may be empty.
type Doc struct {
	Summary string            // what it computes; continues a sentence that starts with its name
	Page    abi.Page          // the vendor's page
	Shapes  map[string]string // by tensor: numbers of dimensions ("0-8", "2,4"), shapes ("(B,S,1) or BSND"), or "as x"
	Values  map[string]string // meanings of values, by integer or string parameter
}

// Table holds what is known about the operators of an abi.Table.
type Table struct {
	operators map[string]*Doc
	commits   map[string]string
}

// Of returns what is known about an operator, by its name without prefix. The result is never nil;
// it is empty when d is nil or the operator unknown.
func (d *Table) Of(name string) *Doc {
	if d != nil && d.operators[name] != nil {
		return d.operators[name]
	}
	return &Doc{}
}

//go:embed *.txt
var files embed.FS

// Load parses the embedded documentation of t's operators. It fails only when the embedded
// tables are invalid.
func Load(t *abi.Table) (*Table, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var texts []abi.Text
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		texts = append(texts, abi.Text{Name: e.Name(), Data: string(b)})
	}
	return Parse(t, texts...)
}

// Parse reads the lines of all texts. Fields are separated by tabs:
//
//	repository  owner/name  commit
//	page        symbol  owner/name  path  param:shape …
//	summary     symbol  words
//	values      param   operator …|*  words
//
// A summary goes on a sentence that starts with the operator's name and has no full stop.
// A values line names operators without prefix, "*" for all that have such a parameter;
// one that names them wins. "#" starts a comment line. Unknown operators and parameters,
// duplicates and stray fields are errors of type *abi.SyntaxError.
func Parse(t *abi.Table, texts ...abi.Text) (*Table, error) {
	p := &docParser{t: t, d: &Table{operators: map[string]*Doc{}, commits: map[string]string{}}}
	for _, text := range texts {
		for i, line := range strings.Split(text.Data, "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			if err := p.parse(strings.Split(line, "\t")); err != nil {
				return nil, &abi.SyntaxError{File: text.Name, Line: i + 1, Msg: err.Error()}
			}
		}
	}
	p.fillValues()
	p.fillInPlace()
	return p.d, nil
}

type docParser struct {
	t      *abi.Table
	d      *Table
	common []valuesLine // values lines that apply to all operators
}

type valuesLine struct{ param, words string }

func (p *docParser) parse(f []string) error {
	fields := map[string]int{"repository": 3, "page": 4, "summary": 3, "values": 4}
	n, ok := fields[f[0]]
	if !ok {
		return fmt.Errorf("unknown kind of line %q", f[0])
	}
	if len(f) < n || len(f) > n && f[0] != "page" {
		return fmt.Errorf("%s: %d fields, want %d", f[0], len(f)-1, n-1)
	}
	if i := slices.Index(f, ""); i >= 0 {
		return fmt.Errorf("%s: field %d is empty", f[0], i)
	}
	switch f[0] {
	case "repository":
		if p.d.commits[f[1]] != "" {
			return fmt.Errorf("repository %s given twice", f[1])
		}
		p.d.commits[f[1]] = f[2]
		return nil
	case "values":
		return p.values(f[1], strings.Fields(f[2]), f[3])
	}
	o, ok := p.t.Operator(strings.TrimPrefix(strings.TrimPrefix(f[1], "acl"), "nn"))
	if !ok || o.Symbol != f[1] {
		return fmt.Errorf("%s: no operator %q", f[0], f[1])
	}
	if f[0] == "summary" {
		return p.summary(o, f[2])
	}
	return p.page(o, f[2], f[3], f[4:])
}

func (p *docParser) of(o *abi.Operator) *Doc {
	doc := p.d.operators[o.Name]
	if doc == nil {
		doc = &Doc{Shapes: map[string]string{}, Values: map[string]string{}}
		p.d.operators[o.Name] = doc
	}
	return doc
}

func (p *docParser) summary(o *abi.Operator, words string) error {
	doc := p.of(o)
	switch {
	case doc.Summary != "":
		return fmt.Errorf("%s has two summaries", o.Symbol)
	case words != strings.TrimSpace(words) || strings.HasSuffix(words, "."):
		return fmt.Errorf("summary of %s: it must end without a full stop and without space", o.Symbol)
	}
	doc.Summary = words
	return nil
}

func (p *docParser) page(o *abi.Operator, repository, path string, shapes []string) error {
	doc := p.of(o)
	switch {
	case p.d.commits[repository] == "":
		return fmt.Errorf("page of %s: no repository line for %q", o.Symbol, repository)
	case doc.Page.Path != "":
		return fmt.Errorf("%s has two pages", o.Symbol)
	}
	doc.Page = abi.Page{Repository: repository, Commit: p.d.commits[repository], Path: path}
	for _, s := range shapes {
		name, shape, ok := strings.Cut(s, ":")
		if !ok || shape == "" {
			return fmt.Errorf("page of %s: %q is not param:shape", o.Symbol, s)
		}
		q, ok := paramOf(o, name)
		switch {
		case !ok || q.Class != abi.Tensor && q.Class != abi.TensorList:
			return fmt.Errorf("page of %s: it has no tensor %q", o.Symbol, name)
		case doc.Shapes[name] != "":
			return fmt.Errorf("page of %s: two shapes of %s", o.Symbol, name)
		}
		doc.Shapes[name] = shape
	}
	return nil
}

func (p *docParser) values(param string, operators []string, words string) error {
	if slices.Equal(operators, []string{"*"}) {
		if slices.ContainsFunc(p.common, func(v valuesLine) bool { return v.param == param }) {
			return fmt.Errorf("values of %s given twice for all operators", param)
		}
		if !slices.ContainsFunc(p.t.Operators, func(o abi.Operator) bool { return hasValues(&o, param) }) {
			return fmt.Errorf("values: no operator has an integer or string %q", param)
		}
		p.common = append(p.common, valuesLine{param, words})
		return nil
	}
	for _, name := range operators {
		o, ok := p.t.Operator(name)
		if !ok || !hasValues(o, param) {
			return fmt.Errorf("values: no operator %s with an integer or string %q", name, param)
		}
		doc := p.of(o)
		if doc.Values[param] != "" {
			return fmt.Errorf("values of %s given twice for %s", param, name)
		}
		doc.Values[param] = words
	}
	return nil
}

// fillValues adds the meanings that apply to all operators where an operator has no line of its
// own.
func (p *docParser) fillValues() {
	for _, v := range p.common {
		for i := range p.t.Operators {
			o := &p.t.Operators[i]
			if hasValues(o, v.param) && p.of(o).Values[v.param] == "" {
				p.of(o).Values[v.param] = v.words
			}
		}
	}
}

// fillInPlace gives an in-place operator without a summary the summary of the operator whose result
// it writes to its first argument.
func (p *docParser) fillInPlace() {
	for i := range p.t.Operators {
		o := &p.t.Operators[i]
		plain, ok := strings.CutPrefix(o.Name, "Inplace")
		if ok && p.of(o).Summary == "" && p.d.Of(plain).Summary != "" {
			p.of(o).Summary = "is " + plain + " with the result in place of the first argument"
		}
	}
}

func paramOf(o *abi.Operator, name string) (abi.Param, bool) {
	i := slices.IndexFunc(o.Params, func(p abi.Param) bool { return p.Name == name })
	if i < 0 {
		return abi.Param{}, false
	}
	return o.Params[i], true
}

// hasValues reports whether the operator has a parameter of that name whose values need an
// explanation.
func hasValues(o *abi.Operator, param string) bool {
	p, ok := paramOf(o, param)
	return ok && slices.Contains([]abi.Class{abi.Int, abi.Uint, abi.Enum, abi.String}, p.Class)
}
