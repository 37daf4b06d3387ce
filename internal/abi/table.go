package abi

import (
	"embed"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Releases of CANN that the table covers, oldest first. Unreleased marks what only the newest sources have, Custom
// operators of packages that are not part of CANN.
const (
	V81RC1     = "8.1.RC1"
	V850       = "8.5.0"
	V900       = "9.0.0"
	V910       = "9.1.0"
	V920Beta1  = "9.2.0-beta.1"
	Unreleased = "unreleased"
	Custom     = "custom"
)

// Releases returns the releases, oldest first; the last one is Unreleased.
func Releases() []string { return []string{V81RC1, V850, V900, V910, V920Beta1, Unreleased} }

// Param is one parameter of a C function.
type Param struct {
	Name     string
	Type     string // C type; an array or function pointer has no name inside
	Class    Class
	Optional bool // the name indicates that the pointer may be null
	Use      Use  // of a tensor (list)
}

// Signature is a parameter list that some versions use.
type Signature struct {
	Versions []string
	Params   []Param
}

// Function is one C function.
type Function struct {
	Name     string
	Ret      string
	Params   []Param // as in the newest version
	Variadic bool
	Header   string
	Library  string
	Versions []string    // that have the function, oldest first
	Older    []Signature // other parameter lists, of older versions; those of operators differ only in const
	// Others are forms of an operator with other C parameters that some releases have under the symbol. A call would
	// pass them wrong arguments, so Versions lacks these releases.
	Others []Signature
}

// Since returns the first version in which the function was seen.
func (f *Function) Since() string { return f.Versions[0] }

// At returns the parameters in one version; ok is false when that version lacks the function.
func (f *Function) At(version string) (params []Param, ok bool) {
	for _, s := range f.Older {
		if slices.Contains(s.Versions, version) {
			return s.Params, true
		}
	}
	return f.Params, slices.Contains(f.Versions, version)
}

// Declared returns the parameters that a release declares, those of another form too.
func (f *Function) Declared(release string) ([]Param, bool) {
	for _, s := range f.Others {
		if slices.Contains(s.Versions, release) {
			return s.Params, true
		}
	}
	return f.At(release)
}

// Operator is an operator that is called in two phases. Params lacks the trailing workspaceSize and
// executor, which all operators have.
type Operator struct {
	Name   string // C name without "aclnn" (or "acl")
	Symbol string // C name of phase two
	// Ends reports that CANN announces the operator's end, Successors has the C names that it recommends in its place.
	Ends       bool
	Successors []string
	Function
}

// Foreign returns the releases that have another form of an operator under its symbol, oldest first.
func (f *Function) Foreign() (releases []string) {
	for _, s := range f.Others {
		releases = inOrder(releases, s.Versions)
	}
	return releases
}

// Constant is an enumerator or an integer macro.
type Constant struct {
	Name     string
	Value    string // in the newest version, decimal; one value needs the full range of uint64
	Enum     string // the C enum, "" for macros and unnamed enums
	Header   string // which alone declares it, "" for the common one
	Versions []string
	Older    []Value // values of older versions, when it changed
}

// Value is the value of a constant in some versions.
type Value struct {
	Versions []string
	Value    string
}

// At returns the value in one version; ok is false when that version lacks the constant.
func (c *Constant) At(version string) (value string, ok bool) {
	for _, v := range c.Older {
		if slices.Contains(v.Versions, version) {
			return v.Value, true
		}
	}
	return c.Value, slices.Contains(c.Versions, version)
}

// Typedef is a C type name. The target of an opaque struct or an enum is its own name.
type Typedef struct {
	Name, Target string
	Versions     []string
}

// Field is a member of a record.
type Field struct {
	Name   string
	Type   string
	Offset int
}

// Record is a struct or union whose layout is part of the ABI.
type Record struct {
	Name     string
	Kind     string // "struct" or "union"
	Header   string
	Size     int // in the newest version, as the fields
	Fields   []Field
	Versions []string
	Older    []RecordForm // other layouts, of older versions
}

// RecordForm describes the layout of a record in some versions.
type RecordForm struct {
	Versions []string
	Size     int
	Fields   []Field
}

// At returns the layout in one version; ok is false when that version lacks the record.
func (r *Record) At(version string) (l RecordForm, ok bool) {
	for _, l := range r.Older {
		if slices.Contains(l.Versions, version) {
			return l, true
		}
	}
	return RecordForm{r.Versions, r.Size, r.Fields}, slices.Contains(r.Versions, version)
}

// Table is the whole interface. Slices are sorted by name.
type Table struct {
	Operators []Operator
	Functions []Function // that are not a phase of an operator
	Constants []Constant
	Typedefs  []Typedef
	Records   []Record

	libraries []library
	splits    map[string][]split // by header, or by symbol of an operator
	outside   map[string]string  // reasons by header or symbol
	enums     map[string]bool
	typedefs  map[string]string
	records   map[string]int // places in Records by name, until they are sorted
}

// split assigns functions to a further library, in some releases.
type split struct {
	versions []string
	name     string
}

// library assigns functions whose header starts with prefix to the shared library name.
type library struct{ name, prefix string }

//go:embed table/*.txt
var files embed.FS

// Load parses the embedded table. It fails only when the embedded table is invalid.
func Load() (*Table, error) {
	entries, err := files.ReadDir("table")
	if err != nil {
		return nil, err
	}
	var texts []Text
	for _, e := range entries {
		b, err := files.ReadFile("table/" + e.Name())
		if err != nil {
			return nil, err
		}
		texts = append(texts, Text{Name: e.Name(), Data: string(b)})
	}
	return Parse(texts...)
}

// ParamNames returns the names of an operator's parameters, separated by spaces, as the newest version has
// them. It looks for the operator's lines and does not parse the table.
func ParamNames(symbol string) (names string) {
	for _, file := range []string{"table/cann.txt", "table/extra.txt"} {
		text, _ := files.ReadFile(file) // embedded
		for rest := string(text); ; {
			_, after, found := strings.Cut(rest, "\t"+symbol+"\t")
			if !found {
				break
			}
			var line string
			line, rest, _ = strings.Cut(after, "\n")
			names = ""
			for param := range strings.SplitSeq(line, "\t") {
				name, _, _ := strings.Cut(param, ":")
				names += " " + name
			}
		}
	}
	return strings.TrimPrefix(names, " ")
}

// Outside returns why a function of a header is not compared with the table: why the table lacks it, or why no header
// that is installed declares it. It returns "" for what is compared.
func (t *Table) Outside(name, header string) string {
	for _, key := range []string{name, strings.TrimSuffix(name, PhaseOne), header} {
		if reason := t.outside[key]; reason != "" {
			return reason
		}
	}
	return ""
}

// Operator returns an operator by its name without prefix.
func (t *Table) Operator(name string) (*Operator, bool) {
	i, ok := sort.Find(len(t.Operators), func(i int) int { return strings.Compare(name, t.Operators[i].Name) })
	if !ok {
		return nil, false
	}
	return &t.Operators[i], true
}

// Function returns a plain function by its C name.
func (t *Table) Function(name string) (*Function, bool) {
	i, ok := sort.Find(len(t.Functions), func(i int) int { return strings.Compare(name, t.Functions[i].Name) })
	if !ok {
		return nil, false
	}
	return &t.Functions[i], true
}

// Symbols returns every exported C symbol: both phases of each operator and each function.
func (t *Table) Symbols() []string {
	s := make([]string, 0, 2*len(t.Operators)+len(t.Functions))
	for i := range t.Operators {
		s = append(s, t.Operators[i].Symbol, t.Operators[i].Symbol+PhaseOne)
	}
	for i := range t.Functions {
		s = append(s, t.Functions[i].Name)
	}
	slices.Sort(s)
	return s
}

// PhaseOne is the suffix of an operator's first C function.
const PhaseOne = "GetWorkspaceSize"

// phaseOneTail holds the last parameters of every phase one, phaseTwo all parameters of every phase
// two.
var (
	phaseOneTail = []Param{
		{Name: "workspaceSize", Type: "uint64_t *", Class: Pointer},
		{Name: "executor", Type: "aclOpExecutor **", Class: Pointer},
	}
	phaseTwo = []Param{
		{Name: "workspace", Type: "void *", Class: Pointer},
		{Name: "workspaceSize", Type: "uint64_t", Class: Uint},
		{Name: "executor", Type: "aclOpExecutor *", Class: Pointer},
		{Name: "stream", Type: "aclrtStream", Class: Pointer},
	}
)

// Phases returns the two C functions of the operator.
func (o *Operator) Phases() (prepare, execute Function) {
	prepare, execute = o.Function, o.Function
	prepare.Name = o.Symbol + PhaseOne
	prepare.Params = slices.Concat(o.Params, phaseOneTail)
	prepare.Older, prepare.Others, execute.Others = nil, nil, nil
	for _, s := range o.Older {
		prepare.Older = append(prepare.Older, Signature{s.Versions, slices.Concat(s.Params, phaseOneTail)})
	}
	for _, s := range o.Others {
		prepare.Others = append(prepare.Others, Signature{s.Versions, slices.Concat(s.Params, phaseOneTail)})
		execute.Others = append(execute.Others, Signature{s.Versions, phaseTwo})
	}
	execute.Name, execute.Params, execute.Older = o.Symbol, phaseTwo, nil
	return prepare, execute
}

// AllFunctions returns every C function of the table, including the phases of operators, sorted by
// name.
func (t *Table) AllFunctions() []Function {
	all := slices.Clone(t.Functions)
	for i := range t.Operators {
		prepare, execute := t.Operators[i].Phases()
		all = append(all, prepare, execute)
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Libraries returns the shared libraries that export a function in a release, sorted; of any release if it is "".
// Releases up to 8.1.RC1 have each function in the library of its header; later ones divide some of these, and keep
// the older library for programs that were linked with it.
func (t *Table) Libraries(f *Function, release string) []string {
	names := []string{f.Library}
	for _, s := range slices.Concat(t.splits[strings.TrimSuffix(f.Name, PhaseOne)], t.splits[f.Header]) {
		if (release == "" || slices.Contains(s.versions, release)) && !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	return names
}

// libraryOf returns the shared library of a header; the longest matching prefix decides.
func (t *Table) libraryOf(header string) (string, error) {
	best := library{}
	for _, l := range t.libraries {
		if strings.HasPrefix(header, l.prefix) && len(l.prefix) >= len(best.prefix) {
			best = l
		}
	}
	if best.name == "" {
		return "", fmt.Errorf("no library line covers header %q", header)
	}
	return best.name, nil
}
