package abi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Text is one file of the table.
type Text struct{ Name, Data string }

// SyntaxError is an invalid line of the table.
type SyntaxError struct {
	File string
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Parse reads the lines of all texts as one table. Fields are separated by tabs; a line
// starts with what it describes:
//
//	library  name  headerPrefix
//	split    versions  name  header|symbol                   (a further library that these releases have functions in)
//	func     versions  header  name  returnType  param:type …  [...]
//	op       versions  header  symbol  param:type …          (no header is the UsualHeader)
//	other    versions  header  symbol  param:type …          (a form that is not called, of releases without the operator)
//	ends     symbol  successor …                             (- is none)
//	outside  header|symbol  reason                           (what headers declare and the table lacks, or the reverse)
//	const    versions  enum|-  name  value  [header]         (of the header that alone declares it; no header is the common one)
//	type     versions  name  target
//	record   versions  header  struct|union  name  size  field:type@offset …
//
// "#" starts a comment line. A further func, op, const or record line for a name gives the form of
// newer versions. Parse is strict: unknown types, duplicates, impossible layouts and stray
// fields are errors of type *SyntaxError.
func Parse(texts ...Text) (*Table, error) {
	p := &parser{t: &Table{enums: map[string]bool{}, outside: map[string]string{}, typedefs: map[string]string{}, records: map[string]int{}, splits: map[string][]split{}}, constants: map[string]int{}, ends: map[string]*ending{}, splits: map[string]*ending{}}
	for _, text := range texts {
		for i, line := range strings.Split(text.Data, "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			p.file, p.line = text.Name, i+1
			if err := p.parse(strings.Split(line, "\t")); err != nil {
				return nil, p.at(err)
			}
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.t, nil
}

type parser struct {
	t    *Table
	file string
	line int

	functions []positioned
	others    []positioned   // other forms of operators
	constants map[string]int // places in t.Constants by name
	ends      map[string]*ending
	splits    map[string]*ending // the last split line of a header or an operator
}

// ending is an ends line, or the place of a split line, that is stored until all operators are known.
type ending struct {
	file       string
	line       int
	successors []string
}

// positioned is a func or op line that is stored until all types are known.
type positioned struct {
	file string
	line int
	op   bool
	Function
}

func (p *parser) at(err error) error { return &SyntaxError{p.file, p.line, err.Error()} }

func (p *parser) parse(f []string) error {
	kind, f := f[0], f[1:]
	fields := map[string]int{"library": 2, "split": 3, "func": 4, "op": 3, "other": 3, "const": 4, "type": 3, "record": 5, "ends": 2, "outside": 2}
	n, ok := fields[kind]
	if !ok {
		return fmt.Errorf("unknown kind of line %q", kind)
	}
	if rest := slices.Contains([]string{"func", "op", "other", "record"}, kind) || kind == "const" && len(f) == n+1; len(f) < n || len(f) > n && !rest {
		return fmt.Errorf("%s: %d fields, want %d", kind, len(f), n)
	}
	if kind == "ends" {
		if p.ends[f[0]] != nil {
			return fmt.Errorf("the end of %s is given twice", f[0])
		}
		p.ends[f[0]] = &ending{p.file, p.line, strings.Fields(strings.TrimPrefix(f[1], "-"))}
		return nil
	}
	if kind == "outside" {
		if p.t.outside[f[0]] != "" || f[0] == "" || f[1] == "" {
			return fmt.Errorf("outside: %q is given twice, or there is no reason", f[0])
		}
		p.t.outside[f[0]] = f[1]
		return nil
	}
	if kind == "library" {
		if f[0] == "" {
			return fmt.Errorf("library without a name")
		}
		p.t.libraries = append(p.t.libraries, library{f[0], f[1]})
		return nil
	}
	versions, err := ParseVersions(f[0])
	if err != nil {
		return err
	}
	switch kind {
	case "split":
		if f[1] == "" || f[2] == "" {
			return fmt.Errorf("split without a library or without a header or symbol")
		}
		if slices.ContainsFunc(p.t.splits[f[2]], func(s split) bool { return s.name == f[1] && overlap(s.versions, versions) }) {
			return fmt.Errorf("the split of %s to %s is given twice", f[2], f[1])
		}
		p.t.splits[f[2]] = append(p.t.splits[f[2]], split{versions, f[1]})
		p.splits[f[2]] = &ending{file: p.file, line: p.line}
		return nil
	case "func":
		return p.function(kind, Function{Versions: versions, Header: f[1], Name: f[2], Ret: f[3]}, f[4:])
	case "op", "other":
		return p.function(kind, Function{Versions: versions, Header: cmp.Or(f[1], UsualHeader(f[2])), Name: f[2], Ret: "aclnnStatus"}, f[3:])
	case "const":
		c := Constant{Versions: versions, Enum: strings.TrimPrefix(f[1], "-"), Name: f[2], Value: f[3]}
		if len(f) > n {
			c.Header = f[4]
		}
		return p.constant(c)
	case "type":
		return p.typedef(Typedef{Versions: versions, Name: f[1], Target: f[2]})
	}
	return p.record(Record{Versions: versions, Header: f[1], Kind: f[2], Name: f[3]}, f[4], f[5:])
}

// UsualHeader is the header of most operators: aclnnop/aclnn_adaptive_avg_pool2d.h of aclnnAdaptiveAvgPool2d.
func UsualHeader(symbol string) string {
	b := []byte("aclnnop/")
	for i := range len(symbol) {
		c := symbol[i]
		if 'A' <= c && c <= 'Z' {
			after := symbol[max(i-1, 0)]
			if !('A' <= after && after <= 'Z') || i+1 < len(symbol) && 'a' <= symbol[i+1] && symbol[i+1] <= 'z' {
				b = append(b, '_')
			}
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b) + ".h"
}

// ParseVersions reads releases: single ones, "8.5.0..9.0.0" with those between, or "9.0.0.." with all later ones.
func ParseVersions(s string) (versions []string, err error) {
	if s == Custom {
		return []string{Custom}, nil
	}
	known := Releases()
	last := -1
	for part := range strings.SplitSeq(s, ",") {
		first, end, span := strings.Cut(part, "..")
		from := slices.Index(known, first)
		to := from
		switch {
		case span && end == "":
			to = len(known) - 1
		case span:
			to = slices.Index(known, end)
		}
		if from <= last || to < from || span && to == from && end != "" {
			return nil, fmt.Errorf("versions %q: want some of %v in this order, or a span as in 8.5.0.. or 8.5.0..9.1.0", s, known)
		}
		versions, last = append(versions, known[from:to+1]...), to
	}
	return versions, nil
}

// VersionText returns the column of the table that Parse reads as these versions.
func VersionText(versions []string) string {
	if len(versions) == 1 && versions[0] == Custom {
		return Custom
	}
	known := Releases()
	var parts []string
	for i := 0; i < len(known); i++ {
		if !slices.Contains(versions, known[i]) {
			continue
		}
		j := i
		for j+1 < len(known) && slices.Contains(versions, known[j+1]) {
			j++
		}
		switch {
		case j == len(known)-1 && i < j:
			parts = append(parts, known[i]+"..")
		case i < j:
			parts = append(parts, known[i]+".."+known[j])
		default:
			parts = append(parts, known[i])
		}
		i = j
	}
	return strings.Join(parts, ",")
}

func (p *parser) function(kind string, f Function, params []string) error {
	op := kind != "func"
	if !isIdent(f.Name) {
		return fmt.Errorf("function name %q is not an identifier", f.Name)
	}
	if !isType(f.Ret) {
		return fmt.Errorf("%s: return type %q is not a C type", f.Name, f.Ret)
	}
	if op && !strings.HasPrefix(f.Name, "acl") {
		return fmt.Errorf("operator %s does not start with acl", f.Name)
	}
	f.Params = make([]Param, 0, len(params))
	for i, s := range params {
		if s == "..." {
			if op || i == 0 || i != len(params)-1 {
				return fmt.Errorf("%s: misplaced ellipsis", f.Name)
			}
			f.Variadic = true
			continue
		}
		name, ctype, ok := strings.Cut(s, ":")
		switch {
		case !ok || !isIdent(name) || !isType(ctype):
			return fmt.Errorf("%s: parameter %d %q is not name:type", f.Name, i+1, s)
		case slices.ContainsFunc(f.Params, func(p Param) bool { return p.Name == name }):
			return fmt.Errorf("%s: two parameters %s", f.Name, name)
		}
		f.Params = append(f.Params, Param{Name: name, Type: ctype})
	}
	if at := (positioned{p.file, p.line, op, f}); kind == "other" {
		p.others = append(p.others, at)
	} else {
		p.functions = append(p.functions, at)
	}
	return nil
}

func (p *parser) constant(c Constant) error {
	if !isIdent(c.Name) || c.Enum != "" && !isIdent(c.Enum) {
		return fmt.Errorf("constant %q of enum %q: not an identifier", c.Name, c.Enum)
	}
	if !isDecimal(c.Value) {
		return fmt.Errorf("%s: %q is not a decimal 64-bit integer", c.Name, c.Value)
	}
	if c.Enum != "" {
		p.t.enums[c.Enum] = true
	}
	i, again := p.constants[c.Name]
	if !again {
		p.constants[c.Name] = len(p.t.Constants)
		p.t.Constants = append(p.t.Constants, c)
		return nil
	}
	old := &p.t.Constants[i]
	if err := after("constant "+c.Name, old.Versions, c.Versions); err != nil {
		return err
	}
	c.Older = append(old.Older, Value{newest(old.Versions, old.Older, func(v Value) []string { return v.Versions }), old.Value})
	c.Versions = inOrder(old.Versions, c.Versions)
	*old = c
	return nil
}

func (p *parser) typedef(d Typedef) error {
	if !isIdent(d.Name) || !isType(d.Target) {
		return fmt.Errorf("typedef %q of %q: not a C name and type", d.Name, d.Target)
	}
	if _, ok := p.t.typedefs[d.Name]; ok {
		return fmt.Errorf("typedef %s given twice", d.Name)
	}
	p.t.typedefs[d.Name] = d.Target
	p.t.Typedefs = append(p.t.Typedefs, d)
	return nil
}

func (p *parser) record(r Record, size string, fields []string) error {
	switch {
	case r.Kind != "struct" && r.Kind != "union":
		return fmt.Errorf("record kind %q: want struct or union", r.Kind)
	case !isIdent(r.Name):
		return fmt.Errorf("record name %q is not an identifier", r.Name)
	}
	place, again := p.t.records[r.Name]
	if again {
		old := p.t.Records[place]
		if err := after("record "+r.Name, old.Versions, r.Versions); err != nil {
			return err
		}
		if r.Kind != old.Kind {
			return fmt.Errorf("record %s: a %s of %v, and a %s of %v", r.Name, old.Kind, old.Versions, r.Kind, r.Versions)
		}
	}
	var err error
	if r.Size, err = strconv.Atoi(size); err != nil || r.Size <= 0 {
		return fmt.Errorf("%s: size %q is not a positive number", r.Name, size)
	}
	last := 0
	for _, s := range fields {
		name, rest, ok1 := strings.Cut(s, ":")
		ctype, at, ok2 := strings.Cut(rest, "@")
		offset, err := strconv.Atoi(at)
		if !ok1 || !ok2 || err != nil || name != "" && !isIdent(name) || !isType(ctype) {
			return fmt.Errorf("%s: field %q is not name:type@offset", r.Name, s)
		}
		if offset < last || offset > r.Size || r.Kind == "union" && offset != 0 {
			return fmt.Errorf("%s: offset %d of %s does not fit", r.Name, offset, name)
		}
		last = offset
		r.Fields = append(r.Fields, Field{name, ctype, offset})
	}
	if !again {
		p.t.records[r.Name] = len(p.t.Records)
		p.t.Records = append(p.t.Records, r)
		return nil
	}
	old := &p.t.Records[place]
	r.Older = append(old.Older, RecordForm{newest(old.Versions, old.Older, func(f RecordForm) []string { return f.Versions }), old.Size, old.Fields})
	r.Versions = inOrder(old.Versions, r.Versions)
	*old = r
	return nil
}

// newest returns the versions that have the newest form: all of them without those of the older forms.
func newest[Form any](all []string, older []Form, versions func(Form) []string) []string {
	for _, form := range older {
		all = slices.DeleteFunc(slices.Clone(all), func(v string) bool { return slices.Contains(versions(form), v) })
	}
	return all
}

// finish resolves types and libraries, merges the forms of each function and sorts the table.
func (p *parser) finish() error {
	merged, bare, headers := map[string]*positioned{}, map[string]bool{}, map[string]bool{}
	var names []string
	for i := range p.functions {
		f := &p.functions[i]
		p.file, p.line = f.file, f.line
		if err := p.t.Resolve(&f.Function); err != nil {
			return p.at(err)
		}
		headers[f.Header] = true
		old, ok := merged[f.Name]
		if !ok {
			merged[f.Name] = f
			names = append(names, f.Name)
			if name := OperatorOf(f.Function).Name; f.op && bare[name] {
				return p.at(fmt.Errorf("two operators are called %s without their prefix", name))
			} else if f.op {
				bare[name] = true
			}
			continue
		}
		if err := after(f.Name, old.Versions, f.Versions); err != nil {
			return p.at(err)
		}
		switch {
		case old.op != f.op || old.Ret != f.Ret || f.op && len(old.Params) != len(f.Params):
			return p.at(fmt.Errorf("%s: the two forms differ in more than const", f.Name))
		}
		for i, was := range old.Params {
			if f.op && was.Class != f.Params[i].Class {
				return p.at(fmt.Errorf("%s: parameter %d changed from %s to %s", f.Name, i+1, was.Type, f.Params[i].Type))
			}
		}
		f.Older = append(old.Older, Signature{newest(old.Versions, old.Older, func(s Signature) []string { return s.Versions }), old.Params})
		f.Versions = inOrder(old.Versions, f.Versions)
		merged[f.Name] = f
	}
	for symbol, e := range p.ends {
		p.file, p.line = e.file, e.line
		for _, name := range append(slices.Clone(e.successors), symbol) {
			if f := merged[name]; f == nil || !f.op {
				return p.at(fmt.Errorf("%s ends: no operator %s", symbol, name))
			}
		}
	}
	for what, at := range p.splits {
		p.file, p.line = at.file, at.line
		if f := merged[what]; (f == nil || !f.op) && !headers[what] {
			return p.at(fmt.Errorf("split: %s is neither a header of functions nor an operator", what))
		}
	}
	others := map[string][]Signature{}
	for i := range p.others {
		f := &p.others[i]
		p.file, p.line = f.file, f.line
		if err := p.other(f, merged[f.Name], others[f.Name]); err != nil {
			return p.at(err)
		}
		others[f.Name] = append(others[f.Name], Signature{f.Versions, f.Params})
	}
	slices.Sort(names)
	for _, n := range names {
		if f := merged[n]; f.op {
			o := OperatorOf(f.Function)
			o.Others = others[n]
			if e := p.ends[n]; e != nil {
				o.Ends, o.Successors = true, e.successors
			}
			p.t.Operators = append(p.t.Operators, o)
		} else {
			p.t.Functions = append(p.t.Functions, f.Function)
		}
	}
	slices.SortFunc(p.t.Operators, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.t.Typedefs, func(a, b Typedef) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.t.Records, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// other checks another form of an operator: it belongs to releases of its own, and differs in more than const.
func (p *parser) other(f, of *positioned, before []Signature) error {
	if of == nil || !of.op {
		return fmt.Errorf("another form of %s, which is no operator", f.Name)
	}
	if err := p.t.Resolve(&f.Function); err != nil {
		return err
	}
	for _, s := range append(before, Signature{of.Versions, of.Params}) {
		if overlap(s.Versions, f.Versions) {
			return fmt.Errorf("two forms of %s in one of the releases %v", f.Name, f.Versions)
		}
	}
	if slices.EqualFunc(f.Params, of.Params, func(a, b Param) bool { return a.Class == b.Class }) {
		return fmt.Errorf("%s: the other form has the same parameters", f.Name)
	}
	return nil
}

// Resolve fills in what follows from the types, names and header of a function: the classes of its
// parameters, which of them are optional or written, and the library if it is empty.
func (t *Table) Resolve(f *Function) (err error) {
	for i := range f.Params {
		q := &f.Params[i]
		if q.Class, err = t.Class(q.Type); err != nil {
			return fmt.Errorf("%s: parameter %s: %w", f.Name, q.Name, err)
		}
		q.Optional, q.Use = isOptional(q.Name), useOf(f.Name, i, *q)
	}
	if f.Ret != "void" {
		if _, err = t.Class(f.Ret); err != nil {
			return fmt.Errorf("%s: return type: %w", f.Name, err)
		}
	}
	if f.Library == "" {
		f.Library, err = t.libraryOf(f.Header)
	}
	return err
}

// OperatorOf returns the operator with phase two f.Name whose phase one takes f.Params. Its name is
// the symbol without the prefix "aclnn" or "acl".
func OperatorOf(f Function) Operator {
	name := nameOf(f.Name)
	return Operator{Name: name, Symbol: f.Name, Function: f}
}

func nameOf(symbol string) string {
	return strings.TrimPrefix(strings.TrimPrefix(symbol, "acl"), "nn")
}

// after refuses versions of a further form that are those of an earlier one, or end before them.
func after(name string, earlier, versions []string) error {
	known := Releases()
	switch {
	case overlap(earlier, versions):
		return fmt.Errorf("%s given twice", name)
	case slices.Index(known, versions[len(versions)-1]) < slices.Index(known, earlier[len(earlier)-1]):
		return fmt.Errorf("%s: the form of %v comes after that of %v", name, versions, earlier)
	}
	return nil
}

// inOrder returns the versions of two lists, oldest first.
func inOrder(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y string) int {
		return cmp.Compare(slices.Index(Releases(), x), slices.Index(Releases(), y))
	})
	return all
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
}

func isIdent(s string) bool {
	for i, r := range s {
		if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9') {
			return false
		}
	}
	return s != ""
}

// isType accepts the characters that can occur in a C type here; the compiler checks the rest.
func isType(s string) bool {
	if s == "" || !isIdent(s[:1]) || s[len(s)-1] == ' ' {
		return false
	}
	for _, r := range s {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') && !strings.ContainsRune("_ *()[],", r) {
			return false
		}
	}
	return true
}

// isDecimal accepts exactly one spelling per value, so the text stays canonical.
func isDecimal(s string) bool {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(i, 10) == s
	}
	u, err := strconv.ParseUint(s, 10, 64)
	return err == nil && strconv.FormatUint(u, 10) == s
}
