package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// dump is the JSON form of a table that a C parser made from CANN's headers; `npugen import` reads
// it.
type dump struct {
	Version   string
	Functions map[string]struct {
		Ret    string
		Params []struct{ Name, Type string }
		Header string
	}
	Constants map[string]json.Number
	Enums     map[string]map[string]json.Number
	Typedefs  map[string]string
	Records   map[string]struct {
		Kind   string
		Fields []struct {
			Name, Type string
			Offset     *int
		}
		Header string
		Size   int
	}
}

// importer merges dumps, oldest first, into lines of the table.
type importer struct {
	extra     map[string]bool // names in the hand-written part of the table, which takes precedence
	versions  []string
	functions map[string][]signature
	constants map[string][]string // name → value per version, "" when absent
	enums     map[string]string   // enumerator → enum
	typedefs  map[string][]string
	records   map[string][]string
}

// signature is a func or op line without its versions.
type signature struct {
	op       bool
	fixed    string   // header, name and return type
	params   []string // name:type
	versions []string
}

// importTables rewrites cann.txt in dir from JSON dumps. It keeps extra.txt, and skips names in the
// dumps that extra.txt defines.
func importTables(dir string, paths []string) error {
	extra, err := os.ReadFile(filepath.Join(dir, "extra.txt"))
	if err != nil {
		return err
	}
	var dumps []dump
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var d dump
		if err := json.Unmarshal(b, &d); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		dumps = append(dumps, d)
	}
	text := mergeDumps(string(extra), dumps)
	if _, err := abi.Parse(abi.Text{Name: "cann.txt", Data: text}, abi.Text{Name: "extra.txt", Data: string(extra)}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cann.txt"), []byte(text), 0o644)
}

func mergeDumps(extra string, dumps []dump) string {
	m := &importer{
		extra: defined(extra), functions: map[string][]signature{}, constants: map[string][]string{},
		enums: map[string]string{}, typedefs: map[string][]string{}, records: map[string][]string{},
	}
	for i, d := range dumps {
		version := d.Version
		if len(d.Constants) == 0 { // only operator packages define no constants
			version = abi.Custom
		}
		m.versions = append(m.versions, version)
		m.addFunctions(d, version)
		m.addConstants(d, i, len(dumps))
		m.addTypes(d, version)
	}
	return m.text()
}

// defined returns the names that lines of the table define.
func defined(text string) map[string]bool {
	at := map[string]int{"func": 3, "op": 3, "const": 3, "type": 2, "record": 4}
	names := make(map[string]bool)
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if i := at[fields[0]]; i > 0 && i < len(fields) {
			names[fields[i]] = true
		}
	}
	return names
}

// known reports whether the hand-written part defines a name.
func (m *importer) known(name string) bool { return m.extra[name] }

func (m *importer) addFunctions(d dump, version string) {
	for name, f := range d.Functions {
		base := strings.TrimSuffix(name, abi.PhaseOne)
		_, two := d.Functions[base]
		_, one := d.Functions[base+abi.PhaseOne]
		op := one && two
		if m.known(base) || op && name == base {
			continue
		}
		s := signature{op: op, fixed: f.Header + "\t" + base, versions: []string{version}}
		params := f.Params
		if op {
			params = params[:len(params)-2]
			if f.Header == abi.UsualHeader(base) {
				s.fixed = "\t" + base
			}
		} else {
			s.fixed = f.Header + "\t" + name + "\t" + f.Ret
		}
		for _, p := range params {
			s.params = append(s.params, p.Name+":"+canonicalType(p.Type))
		}
		m.functions[name] = mergeSignature(m.functions[name], s)
	}
}

// mergeSignature adds the form of a newer version. If the types equal those of the last form, it
// adds the versions to that form and takes the newer names; otherwise it adds a line.
func mergeSignature(old []signature, s signature) []signature {
	if len(old) == 0 {
		return []signature{s}
	}
	last := &old[len(old)-1]
	same := slices.EqualFunc(last.params, s.params, func(a, b string) bool {
		_, ta, _ := strings.Cut(a, ":")
		_, tb, _ := strings.Cut(b, ":")
		return ta == tb
	})
	if !same {
		return append(old, s)
	}
	s.versions = slices.Concat(last.versions, s.versions)
	*last = s
	return old
}

// canonicalType removes the const of a parameter itself, which is not part of a function's type:
// "const bool" becomes "bool", "void *const" becomes "void *".
func canonicalType(t string) string {
	t = strings.Replace(t, "( *const)", "( *)", 1)
	t = strings.TrimSuffix(t, "const")
	if strings.HasPrefix(t, "const ") && !strings.ContainsAny(t, "*") {
		t = strings.TrimPrefix(t, "const ")
	}
	return t
}

func (m *importer) addConstants(d dump, version, versions int) {
	for enum, members := range d.Enums {
		for name := range members {
			m.enums[name] = enum
		}
	}
	for name, value := range d.Constants {
		if strings.HasPrefix(name, "_") || m.known(name) { // enumerators of the C library
			continue
		}
		if m.constants[name] == nil {
			m.constants[name] = make([]string, versions)
		}
		m.constants[name][version] = value.String()
	}
}

func (m *importer) addTypes(d dump, version string) {
	for name, target := range d.Typedefs {
		_, record := d.Records[name]
		_, enum := d.Enums[name]
		if record || enum || m.known(name) {
			continue
		}
		if _, alias := d.Typedefs[target]; !alias && !strings.ContainsAny(target, " *") && target != name && d.Records[target].Size == 0 {
			if _, err := (&abi.Table{}).Class(target); err != nil { // a tag without a definition
				target = "struct " + target
			}
		}
		m.typedefs[name+"\t"+target] = append(m.typedefs[name+"\t"+target], version)
	}
	for name, r := range d.Records {
		if m.known(name) {
			continue
		}
		fields := []string{r.Header, r.Kind, name, fmt.Sprint(r.Size)}
		for _, f := range r.Fields {
			fields = append(fields, fmt.Sprintf("%s:%s@%d", f.Name, f.Type, *f.Offset))
		}
		// Newer versions only append members, so the newest form holds for all.
		was := m.records[name]
		if was == nil {
			was = []string{""}
		}
		m.records[name] = append(append([]string{strings.Join(fields, "\t")}, was[1:]...), version)
	}
}

func (m *importer) text() string {
	var b strings.Builder
	b.WriteString("# CANN's C interface. Made by `npugen import` from dumps of the headers; see parse.go for the grammar.\n")
	b.WriteString("\n# Types\n")
	for _, key := range slices.Sorted(maps.Keys(m.typedefs)) {
		fmt.Fprintf(&b, "type\t%s\t%s\n", strings.Join(m.typedefs[key], ","), key)
	}
	for _, name := range slices.Sorted(maps.Keys(m.records)) {
		fmt.Fprintf(&b, "record\t%s\t%s\n", strings.Join(m.records[name][1:], ","), m.records[name][0])
	}
	b.WriteString("\n# Constants, by enum and value\n")
	m.writeConstants(&b)
	b.WriteString("\n# Functions\n")
	m.writeFunctions(&b, false)
	b.WriteString("\n# Operators: two functions each, the parameters are those of the first\n")
	m.writeFunctions(&b, true)
	return b.String()
}

func (m *importer) writeConstants(b *strings.Builder) {
	names := slices.SortedFunc(maps.Keys(m.constants), func(x, y string) int {
		// macros last, then by enum, value and name
		return cmp.Or(
			cmp.Compare(boolInt(m.enums[x] == ""), boolInt(m.enums[y] == "")),
			cmp.Compare(m.enums[x], m.enums[y]),
			boolInt(m.enums[x] != "")*compareDecimal(m.last(x), m.last(y)),
			cmp.Compare(x, y))
	})
	for _, name := range names {
		values := m.constants[name]
		for i := 0; i < len(values); {
			if values[i] == "" {
				i++
				continue
			}
			from := []string{m.versions[i]}
			j := i + 1
			for ; j < len(values) && (values[j] == "" || values[j] == values[i]); j++ {
				if values[j] != "" {
					from = append(from, m.versions[j])
				}
			}
			fmt.Fprintf(b, "const\t%s\t%s\t%s\t%s\n", strings.Join(from, ","), cmp.Or(m.enums[name], "-"), name, values[i])
			i = j
		}
	}
}

// last returns the newest value of a constant.
func (m *importer) last(name string) string {
	v := slices.DeleteFunc(slices.Clone(m.constants[name]), func(s string) bool { return s == "" })
	return v[len(v)-1]
}

func (m *importer) writeFunctions(b *strings.Builder, op bool) {
	kind := "func"
	if op {
		kind = "op"
	}
	for _, name := range slices.Sorted(maps.Keys(m.functions)) {
		for _, s := range m.functions[name] {
			if s.op == op {
				line := append([]string{kind, strings.Join(s.versions, ","), s.fixed}, s.params...)
				b.WriteString(strings.Join(line, "\t") + "\n")
			}
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareDecimal orders decimal integers of any size.
func compareDecimal(a, b string) int {
	na, nb := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case na != nb:
		return boolInt(nb) - boolInt(na)
	case na:
		return -compareDecimal(a[1:], b[1:])
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
