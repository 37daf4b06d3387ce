package header

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// Comparison is how headers differ from the table's account of a release.
type Comparison struct {
	Equal     int          // functions, constants and types that agree
	Missing   []string     // that the release has by the table and no header declares
	Different []Difference // that a header declares in another way
	Unknown   []string     // that a header declares and the table lacks in the release
	Outside   []Outside    // that the table leaves out, or that no header declares, on purpose
	Kinds     Kinds
	Headers   []Count // the same by header, sorted by path
}

// Kinds counts what agrees by its kind.
type Kinds struct{ Functions, Constants, Types, Records int }

// Count counts the declarations of one header. What no header declares counts at the header of the table.
type Count struct {
	Header                                      string // from the folder acl, aclnn, aclnnop, hccl or hcomm on
	Equal, Missing, Different, Unknown, Outside int
}

// Outside is a declaration that is not compared, with the reason.
type Outside struct{ Name, Reason string }

// Difference is a declaration that is not that of the table.
type Difference struct {
	Name, Table, Header string
}

// String returns the difference in words.
func (d Difference) String() string {
	return fmt.Sprintf("%s: the table has (%s), the header (%s)", d.Name, d.Table, d.Header)
}

// file is a header that was read.
type file struct{ name, text string }

// folders of CANN's headers. A header that is in none of them has a group of its own.
var folders = []string{"acl", "aclnn", "aclnnop", "hccl", "hcomm"}

// Compare compares the C headers below fsys with a release of the table. It compares what the folders of CANN's headers
// that exist there declare (acl, aclnn, aclnnop, hccl, hcomm), and the headers of the table without a folder: types of
// the parameters of functions without const, which does not change a call; values of constants; names of enums; types;
// and records with the types and places of their fields.
func Compare(t *abi.Table, release string, fsys fs.FS) (c Comparison, err error) {
	if !slices.Contains(abi.Releases(), release) {
		return c, fmt.Errorf("release %q is unknown; known are %s", release, strings.Join(abi.Releases(), ", "))
	}
	q, err := compare(t, release, fsys)
	if err != nil {
		return c, err
	}
	slices.Sort(q.c.Missing)
	slices.Sort(q.c.Unknown)
	slices.SortFunc(q.c.Different, func(a, b Difference) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(q.c.Outside, func(a, b Outside) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range slices.Sorted(maps.Keys(q.counts)) {
		q.c.Headers = append(q.c.Headers, *q.counts[name])
	}
	return q.c, nil
}

// Lacking returns the names that headers declare and the table lacks in all releases, except what it leaves out, with the
// headers, and all declarations.
func Lacking(t *abi.Table, release string, fsys fs.FS) (map[string]string, Declared, error) {
	q, err := compare(t, release, fsys)
	if err != nil {
		return nil, Declared{}, err
	}
	names := map[string]string{}
	for _, name := range q.c.Unknown {
		names[name] = q.at[name]
	}
	for _, d := range t.Typedefs { // opaque in the table, and a record in the headers
		if _, record := q.all.Records[d.Name]; record && q.compared(d.Name) {
			names[d.Name] = q.at[d.Name]
		}
	}
	return names, q.all, nil
}

func compare(t *abi.Table, release string, fsys fs.FS) (*comparer, error) {
	q := &comparer{table: t, release: release, all: NewDeclared(), at: map[string]string{}, groups: map[string]bool{}, counts: map[string]*Count{}, known: map[string]bool{}}
	if err := q.read(fsys); err != nil {
		return nil, err
	}
	q.index()
	q.functions()
	q.constants()
	q.types()
	q.records()
	q.unknown()
	return q, nil
}

type comparer struct {
	table   *abi.Table
	release string
	all     Declared
	at      map[string]string // headers by name of a declaration
	groups  map[string]bool   // folders, and headers without a folder, that were read
	counts  map[string]*Count
	known   map[string]bool   // names that the comparison met in the table
	enums   map[string]string // the enums of enumerators, "" for unnamed ones
	homes   map[string]string // headers of the table by name of a type that a function or record of it mentions
	inline  map[string]bool   // records that are declared in a field of another
	c       Comparison
}

// group returns the folder of a header, or the header itself if it has none.
func group(header string) string {
	folder, _, ok := strings.Cut(header, "/")
	if !ok {
		return header
	}
	return folder
}

// read reads the headers of a tree.
func (q *comparer) read(fsys fs.FS) error {
	alone := map[string]bool{} // the table's headers without a folder, and what such a header includes
	for _, f := range q.table.AllFunctions() {
		if !strings.Contains(f.Header, "/") {
			alone[f.Header] = true
		}
	}
	var texts []file
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".h" {
			return err
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		name := p
		if alone[path.Base(p)] {
			name = path.Base(p)
			q.groups[name] = true
		}
		for _, folder := range folders {
			if i := strings.LastIndex("/"+p, "/"+folder+"/"); i >= 0 {
				q.groups[folder], name = true, p[i:]
			}
		}
		texts = append(texts, file{name, string(text)})
		return nil
	})
	if err != nil {
		return err
	}
	if len(q.groups) == 0 {
		return fmt.Errorf("no folder %s with headers", strings.Join(folders, ", "))
	}
	slices.SortStableFunc(texts, func(a, b file) int { // of two declarations the first counts
		left := func(f file) int {
			if q.table.Outside("", f.name) != "" {
				return 1
			}
			return 0
		}
		return cmp.Compare(left(a), left(b))
	})
	for range 2 { // a constant may refer to one of a header that is read later
		for _, f := range texts {
			d, err := Declarations(f.text, q.all.Constants)
			if err != nil {
				continue // C++ that no declaration of CANN is in
			}
			for _, names := range []iter.Seq[string]{maps.Keys(d.Functions), maps.Keys(d.Constants), maps.Keys(d.Typedefs), maps.Keys(d.Records)} {
				for name := range names {
					if q.at[name] == "" {
						q.at[name] = f.name
					}
				}
			}
			q.all.Add(d)
		}
	}
	return nil
}

// index notes where the table mentions types, and which enums the headers' enumerators belong to.
func (q *comparer) index() {
	q.enums, q.homes, q.inline = map[string]string{}, map[string]string{}, map[string]bool{}
	for _, e := range q.all.Enums {
		for _, m := range e.Members {
			q.enums[m] = e.Name
		}
	}
	home := func(ctype, header string) {
		for _, word := range strings.FieldsFunc(ctype, func(r rune) bool { return strings.ContainsRune(" *()[],", r) }) {
			if q.homes[word] == "" {
				q.homes[word] = header
			}
		}
	}
	for _, f := range q.table.AllFunctions() {
		home(f.Ret, f.Header)
		for _, p := range f.Params {
			home(p.Type, f.Header)
		}
	}
	for _, r := range q.table.Records {
		q.homes[r.Name] = r.Header
		for _, f := range r.Fields {
			home(f.Type, r.Header)
			if _, declared := q.all.Record(f.Type); !declared {
				base, _, _ := strings.Cut(f.Type, "[")
				q.inline[base] = true
			}
		}
	}
	for _, d := range q.table.Typedefs {
		if header := q.homes[d.Name]; header != "" {
			home(d.Target, header)
		}
	}
}

// home returns the header at which a type or constant of the table counts that no header declares.
func (q *comparer) home(name, enum string) string {
	lower := strings.ToLower(cmp.Or(enum, name))
	for prefix, header := range map[string]string{
		"dcmi": "dcmi_interface_api.h", "aclblas": "cann_ops_blas.h", "aclfft": "cann_ops_fft.h", "hccl": "hccl/hccl_types.h", "mstx": "mstx/ms_tools_ext.h",
		"aclnn_": "aclnn/aclnn_base.h",
	} {
		if strings.HasPrefix(lower, prefix) || strings.HasPrefix(strings.ToLower(name), prefix) {
			return header
		}
	}
	for _, n := range []string{enum, name} {
		if header := q.homes[n]; header != "" {
			return header
		}
	}
	return "acl/acl.h"
}

func (q *comparer) count(header string) *Count {
	if q.counts[header] == nil {
		q.counts[header] = &Count{Header: header}
	}
	return q.counts[header]
}

func (q *comparer) missing(name, header string) {
	if reason := q.table.Outside(name, ""); reason != "" {
		q.c.Outside = append(q.c.Outside, Outside{name, reason})
		q.count(header).Outside++
		return
	}
	q.c.Missing = append(q.c.Missing, name)
	q.count(header).Missing++
}

func (q *comparer) lacking(name string) {
	if reason := q.table.Outside(name, q.at[name]); reason != "" {
		q.c.Outside = append(q.c.Outside, Outside{name, reason})
		q.count(q.at[name]).Outside++
		return
	}
	q.c.Unknown = append(q.c.Unknown, name)
	q.count(q.at[name]).Unknown++
}

func (q *comparer) different(name, table, header string) {
	if reason := q.table.Outside(name, ""); reason != "" {
		q.c.Outside = append(q.c.Outside, Outside{name, reason})
		q.count(q.at[name]).Outside++
		return
	}
	q.c.Different = append(q.c.Different, Difference{name, table, header})
	q.count(q.at[name]).Different++
}

func (q *comparer) equal(name string, kind *int) {
	*kind++
	q.c.Equal++
	q.count(q.at[name]).Equal++
}

func (q *comparer) functions() {
	for _, f := range q.table.AllFunctions() {
		q.known[f.Name] = true
		got, declared := q.all.Functions[f.Name]
		params, ok := f.Declared(q.release)
		if declared && !ok && f.Since() == abi.Custom { // CANN has it now
			params, ok = f.Params, true
		}
		want := Prototype{Params: params}.Types()
		switch {
		case !q.groups[group(f.Header)]:
		case !ok && declared:
			q.lacking(f.Name)
		case !ok:
		case !declared:
			q.missing(f.Name, f.Header)
		case got.Unread != "" || !q.sameTypes(params, got.Params) && !f.Variadic:
			q.different(f.Name, want, got.Types()+got.Unread)
		default:
			q.equal(f.Name, &q.c.Kinds.Functions)
		}
	}
}

func (q *comparer) constants() {
	for i := range q.table.Constants {
		k := &q.table.Constants[i]
		q.known[k.Name] = true
		value, ok := k.At(q.release)
		got, declared := q.all.Constants[k.Name]
		enum, enumerator := q.enums[k.Name]
		switch {
		case !ok && declared:
			q.lacking(k.Name)
		case !ok:
		case !declared:
			if header := cmp.Or(k.Header, q.home(k.Name, k.Enum)); q.groups[group(header)] {
				q.missing(k.Name, header)
			}
		case got != value:
			q.different(k.Name, value, got)
		case enumerator && enum != "" && !q.sameType(k.Enum, enum) && !q.named(k.Enum, enum):
			q.different(k.Name, "of "+cmp.Or(k.Enum, "no enum"), "of "+enum)
		default:
			q.equal(k.Name, &q.c.Kinds.Constants)
		}
	}
}

func (q *comparer) types() {
	for _, d := range q.table.Typedefs {
		q.known[d.Name] = true
		ok := slices.Contains(d.Versions, q.release)
		got, declared := q.all.Typedefs[d.Name]
		_, record := q.all.Records[d.Name]
		header := q.home(d.Name, "")
		switch {
		case !ok && (declared || record):
			q.lacking(d.Name)
		case !ok:
		case !declared && !record:
			if q.groups[group(header)] {
				q.missing(d.Name, header)
			}
		case record: // opaque in the table
			q.different(d.Name, d.Target, "a record")
		case !q.sameType(d.Target, got) && (d.Target != d.Name || strings.HasSuffix(got, "*")):
			q.different(d.Name, d.Target, got)
		default:
			q.equal(d.Name, &q.c.Kinds.Types)
		}
	}
}

func (q *comparer) records() {
	for i := range q.table.Records {
		r := &q.table.Records[i]
		q.known[r.Name] = true
		form, ok := r.At(q.release)
		got, declared := q.all.Record(r.Name)
		switch {
		case !q.groups[group(r.Header)]:
		case !ok && declared:
			q.lacking(r.Name)
		case !ok:
		case !declared && q.inline[r.Name]: // a part of another record
		case !declared:
			q.missing(r.Name, r.Header)
		case got.Kind != r.Kind:
			q.different(r.Name, r.Kind, got.Kind)
		default:
			if q.at[r.Name] == "" {
				q.at[r.Name] = r.Header
			}
			if table, header, same := q.sameRecord(form, &got); !same {
				q.different(r.Name, table, header)
			} else {
				q.equal(r.Name, &q.c.Kinds.Records)
			}
		}
	}
}

// unknown finds what the headers declare under names that the table lacks in all releases.
func (q *comparer) unknown() {
	for name := range q.all.Functions {
		if !q.known[name] && q.compared(name) {
			q.lacking(name)
		}
	}
	for name := range q.all.Constants {
		if !q.known[name] && q.compared(name) {
			q.lacking(name)
		}
	}
	for _, names := range []iter.Seq[string]{maps.Keys(q.all.Typedefs), maps.Keys(q.all.Records)} {
		for name := range names {
			if !q.known[name] && !q.tableEnum(name) && q.compared(name) && !q.alias(name) {
				q.known[name] = true
				q.lacking(name)
			}
		}
	}
}

// compared reports whether the header that declares a name is one of those that are compared.
func (q *comparer) compared(name string) bool { return q.groups[group(q.at[name])] }

// tableEnum reports whether the table has enumerators of an enum.
func (q *comparer) tableEnum(name string) bool {
	return slices.ContainsFunc(q.table.Constants, func(c abi.Constant) bool { return c.Enum == name })
}

// alias reports whether a type of the headers is the tag of one that the table has under the name of its typedef.
func (q *comparer) alias(tag string) bool {
	for name, target := range q.all.Typedefs {
		if target == tag && name != tag && (q.known[name] || q.tableEnum(name)) {
			return true
		}
	}
	return false
}

// sameRecord compares a record of the table with one of the headers. If they differ it returns the first difference.
func (q *comparer) sameRecord(want abi.RecordForm, got *Record) (table, header string, same bool) {
	l, err := q.all.Layout(got)
	if err != nil {
		return fmt.Sprintf("%d bytes", want.Size), err.Error(), false
	}
	for i := range max(len(want.Fields), len(got.Fields)) {
		table, header = "no further field", "no further field"
		if i < len(want.Fields) {
			f := want.Fields[i]
			table = fmt.Sprintf("%s %s at %d", f.Type, cmp.Or(f.Name, "unnamed"), f.Offset)
		}
		if i < len(got.Fields) {
			f := got.Fields[i]
			header = fmt.Sprintf("%s %s at %d", f.Type, cmp.Or(f.Name, "unnamed"), l.Offsets[i])
			if f.Inner != nil {
				header = f.Inner.Kind + " " + header
			}
		}
		if i >= len(want.Fields) || i >= len(got.Fields) {
			return table, header, false
		}
		w, g := want.Fields[i], got.Fields[i]
		if w.Name != g.Name || w.Offset != l.Offsets[i] {
			return table, header, false
		}
		if g.Inner == nil {
			if !q.sameType(w.Type, g.Type) {
				return table, header, false
			}
			continue
		}
		base, sizes := w.Type, ""
		if n := strings.Index(base, "["); n >= 0 {
			base, sizes = base[:n], base[n:]
		}
		n := slices.IndexFunc(q.table.Records, func(r abi.Record) bool { return r.Name == base })
		if n < 0 || sizes != g.Type {
			return table, header, false
		}
		form, ok := q.table.Records[n].At(q.release)
		if !ok {
			return table + " without a form in the release", header, false
		}
		if table, header, same = q.sameRecord(form, g.Inner); !same {
			return table, header, false
		}
	}
	if want.Size != l.Size {
		return fmt.Sprintf("%d bytes", want.Size), fmt.Sprintf("%d bytes", l.Size), false
	}
	return "", "", true
}

// sameTypes reports whether the types of parameters are the same.
func (q *comparer) sameTypes(table, header []abi.Param) bool {
	return slices.EqualFunc(table, header, func(a, b abi.Param) bool { return q.sameType(a.Type, b.Type) })
}

// sameType reports whether a type of the table and one of the headers are the same for a compiler.
func (q *comparer) sameType(table, header string) bool {
	of := func(name string) string {
		for _, d := range q.table.Typedefs {
			if d.Name == name {
				return d.Target
			}
		}
		return name
	}
	names := func(name string, next func(string) string) (all []string) {
		for range 8 {
			name = called(name)
			if all = append(all, name); next(name) == name {
				break
			}
			name = next(name)
		}
		return all
	}
	declared := func(name string) string { return cmp.Or(q.all.Typedefs[name], name) }
	table, header = withoutConst(table), withoutConst(header)
	if a, ok := strings.CutSuffix(table, "*"); ok {
		if b, ok := strings.CutSuffix(header, "*"); ok {
			return q.sameType(a, b)
		}
	}
	for _, a := range names(table, of) {
		for _, b := range names(header, declared) {
			if a == b {
				return true
			}
		}
	}
	return false
}

// named reports whether the headers have a name for a type of theirs.
func (q *comparer) named(name, ctype string) bool {
	for range 8 {
		if name == ctype {
			return true
		}
		name = q.all.Typedefs[name]
	}
	return false
}

// withoutConst returns a type without const and without spaces around it and before stars.
func withoutConst(ctype string) string {
	var words []string
	for _, w := range strings.Fields(strings.ReplaceAll(ctype, "*", " * ")) {
		if w != "const" {
			words = append(words, w)
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "* *", "**")
}

// called returns types as a call sees them: without const and spaces, and with the names that CANN gave one type in turn.
func called(types string) string {
	return strings.NewReplacer("const ", "", "struct ", "", " ", "", "aclrtDim3", "dim3").Replace(types)
}
