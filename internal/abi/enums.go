package abi

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Enumeration is a set of values, with names, that parameters of C's integers or strings take.
type Enumeration struct {
	Name   string // of the Go type
	Doc    string // sentences that begin with the name
	Text   bool   // a C string
	Bits   int    // of the narrowest C integer that takes it
	Values []EnumValue
}

// EnumValue is one value of a Enumeration.
type EnumValue struct {
	Name  string // of the Go constant
	Value string // a Go literal
	Doc   string // may be empty
}

// Enumerations holds the enumerations of all operators.
type Enumerations struct {
	List   []*Enumeration
	params map[string]*Enumeration // by operator and parameter, separated by a space
}

// DTypeEnumeration is the enumeration of parameters that are integers in C and hold an aclDataType. It is not in the list.
var DTypeEnumeration = &Enumeration{Name: "DType"}

// Of returns the enumeration that a parameter of an operator takes, by its name without prefix, or nil.
func (c *Enumerations) Of(operator, param string) *Enumeration {
	if c == nil {
		return nil
	}
	return c.params[operator+" "+param]
}

//go:embed table/enums/enums.txt
var enumsText string

// LoadEnumerations parses the embedded enumerations. It fails only when they are invalid.
func LoadEnumerations(t *Table) (*Enumerations, error) { return parseEnumerations(t, enumsText) }

// parseEnumerations reads lines of fields that tabs separate:
//
//	enum   NAME  int|text  DOC
//	value  NAME  VALUE  DOC
//	param  PARAM  OPERATORS
//	dtype  PARAM  OPERATORS
//
// Values and parameters belong to the enum before them. A value is an integer, the name of a C constant, or a text
// in quotes. Operators are names without prefix, or * for all that have such an integer or text, without
// those that follow with a minus. An operator that a line names has the enumeration of that line, and not that of a
// line for all.
func parseEnumerations(t *Table, text string) (*Enumerations, error) {
	p := enumParser{t: t, all: &Enumerations{params: map[string]*Enumeration{}}, named: map[string]bool{}}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(strings.Split(line, "\t")); err != nil {
			return nil, fmt.Errorf("enums.txt:%d: %w", i+1, err)
		}
	}
	return p.all, p.finish()
}

type enumParser struct {
	t     *Table
	all   *Enumerations
	named map[string]bool // parameters whose operator a line names
}

func (p *enumParser) line(f []string) error {
	var last *Enumeration
	if n := len(p.all.List); n > 0 {
		last = p.all.List[n-1]
	}
	switch {
	case f[0] == "enum" && len(f) == 4 && (f[2] == "int" || f[2] == "text") && strings.HasPrefix(f[3], f[1]+" is "):
		p.all.List = append(p.all.List, &Enumeration{Name: f[1], Doc: f[3], Text: f[2] == "text", Bits: 64})
		return nil
	case f[0] == "value" && last != nil && (len(f) == 3 || len(f) == 4):
		return p.value(last, f[1], f[2], strings.Join(f[3:], ""))
	case f[0] == "param" && last != nil && len(f) == 3:
		return p.param(last, f[1], strings.Fields(f[2]))
	case f[0] == "dtype" && len(f) == 3:
		return p.param(DTypeEnumeration, f[1], strings.Fields(f[2]))
	}
	return fmt.Errorf("cannot parse %q", f)
}

func (p *enumParser) value(c *Enumeration, name, value, doc string) error {
	if i := slices.IndexFunc(p.t.Constants, func(k Constant) bool { return k.Name == value }); i >= 0 {
		value = p.t.Constants[i].Value
	}
	if _, err := strconv.ParseInt(value, 10, 64); (err != nil) != c.Text || c.Text && value[0] != '"' {
		return fmt.Errorf("%s: %s is no value of %s", name, value, c.Name)
	}
	for _, other := range p.all.List {
		if slices.ContainsFunc(other.Values, func(v EnumValue) bool { return v.Name == name || other == c && v.Value == value }) {
			return fmt.Errorf("%s or its value is given twice", name)
		}
	}
	c.Values = append(c.Values, EnumValue{name, value, doc})
	return nil
}

// widths holds the bits of the C integers that enumerations may have.
var widths = map[string]int{"int8_t": 8, "int": 32, "int32_t": 32, "int64_t": 64}

// takes reports whether a parameter can have the values of an enumeration.
func (p *enumParser) takes(c *Enumeration, q Param) bool {
	if c.Text {
		return q.Class == String
	}
	return q.Class == Int && widths[strings.TrimPrefix(q.Type, "const ")] > 0
}

func (p *enumParser) param(c *Enumeration, param string, operators []string) error {
	everyone := operators[0] == "*"
	found := 0
	for i := range p.t.Operators {
		o := &p.t.Operators[i]
		at := slices.IndexFunc(o.Params, func(q Param) bool { return q.Name == param })
		if at < 0 || !p.takes(c, o.Params[at]) {
			continue
		}
		key := o.Name + " " + param
		switch {
		case everyone && (p.named[key] || slices.Contains(operators, "-"+o.Name)):
			found++
			continue
		case !everyone && !slices.Contains(operators, o.Name):
			continue
		case everyone && p.all.params[key] != nil, p.named[key]:
			return fmt.Errorf("two enumerations for parameter %s of %s", param, o.Name)
		}
		p.all.params[key], p.named[key] = c, !everyone
		found++
	}
	if found == 0 || !everyone && found != len(operators) {
		return fmt.Errorf("an operator of %q has no parameter %s for %s", operators, param, c.Name)
	}
	return nil
}

// finish finds the width of each enumeration, and refuses values that it does not hold.
func (p *enumParser) finish() error {
	used := map[*Enumeration]bool{DTypeEnumeration: true}
	for _, o := range p.t.Operators {
		for _, q := range o.Params {
			if c := p.all.Of(o.Name, q.Name); c != nil && c != DTypeEnumeration {
				used[c] = true
				if !c.Text {
					c.Bits = min(c.Bits, widths[strings.TrimPrefix(q.Type, "const ")])
				}
			}
		}
	}
	for _, c := range p.all.List {
		if !used[c] || len(c.Values) == 0 {
			return fmt.Errorf("enums.txt: %s has no value or no parameter", c.Name)
		}
		for _, v := range c.Values {
			if _, err := strconv.ParseInt(v.Value, 10, c.Bits); !c.Text && err != nil {
				return fmt.Errorf("enums.txt: %s: %w", v.Name, err)
			}
		}
	}
	return nil
}
