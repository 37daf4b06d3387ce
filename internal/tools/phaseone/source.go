package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// parameter is a parameter of a C++ function.
type parameter struct {
	name, typ string
	out       bool // a reference or a pointer that the function may write
	value     []token
}

// function is the definition of a C++ function.
type function struct {
	name   string
	ret    string
	params []parameter
	targs  []string // names of template parameters
	tokens []token
	file   *file
	static bool
	parsed []*statement
}

// file is a source file or a header with what it defines at file scope.
type file struct {
	path      string
	includes  []string
	macros    map[string]*macro
	functions map[string][]*function
	globals   map[string]*statement
	enums     map[string]int64
	records   map[string][]*statement // declarations of the members of structs
	tokens    []token
	linked    []*file // included files, direct and indirect, nearest first
}

// Repository is a checked-out repository of operators.
type Repository struct {
	Name, Dir, Commit string

	files  map[string]*file
	byName map[string][]string // base name to paths
	extern map[string][]*function
}

// Open reads the folder of a repository.
func Open(name, dir, commit string) (*Repository, error) {
	r := &Repository{Name: name, Dir: dir, Commit: commit, files: map[string]*file{}, byName: map[string][]string{}, extern: map[string][]*function{}}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			if slices.Contains([]string{"tests", "examples", ".git", "op_kernel", "experimental", "docs"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(rel, ".h") || strings.HasSuffix(rel, ".cpp") {
			r.byName[filepath.Base(rel)] = append(r.byName[filepath.Base(rel)], rel)
		}
		return nil
	})
	return r, err
}

// Sources lists the files that define phase one of operators.
func (r *Repository) Sources() (out []string) {
	for name, paths := range r.byName {
		if strings.HasPrefix(name, "aclnn") && strings.HasSuffix(name, ".cpp") {
			out = append(out, paths...)
		}
	}
	slices.Sort(out)
	return out
}

// load reads a file and what it includes.
func (r *Repository) load(path string) *file {
	if f := r.files[path]; f != nil {
		return f
	}
	f := &file{path: path, macros: map[string]*macro{}, functions: map[string][]*function{}, globals: map[string]*statement{}, enums: map[string]int64{}, records: map[string][]*statement{}}
	r.files[path] = f
	b, err := os.ReadFile(filepath.Join(r.Dir, path))
	if err != nil {
		return f
	}
	f.tokens = lex(string(b), func(line string) {
		define(f.macros, line)
		if rest, ok := strings.CutPrefix(line, "include"); ok {
			f.includes = append(f.includes, strings.Trim(strings.TrimSpace(rest), `"<>`))
		}
	})
	seen := map[*file]bool{f: true}
	// Headers use macros of CANN's base library that only those who include them have included.
	for _, name := range append(f.includes, "op_error_check.h") {
		if p := r.find(path, name); p != "" {
			for _, g := range append([]*file{r.load(p)}, r.load(p).linked...) {
				if !seen[g] {
					seen[g] = true
					f.linked = append(f.linked, g)
				}
			}
		}
	}
	f.scope(f.tokens)
	return f
}

// find returns the path of an included header: the one with the longest common ending, and of those
// the nearest.
func (r *Repository) find(from, name string) string {
	best, score := "", -1
	for _, p := range r.byName[filepath.Base(name)] {
		s := 0
		if strings.HasSuffix(p, "/"+strings.TrimLeft(name, "./")) {
			s = 1000
		}
		for i := 0; i < len(p) && i < len(from) && p[i] == from[i]; i++ {
			s++
		}
		if s > score {
			best, score = p, s
		}
	}
	return best
}

// macro returns the definition of a macro as the file sees it.
func (f *file) macro(name string) *macro {
	if m := builtin[name]; m != nil {
		return m
	}
	if m := f.macros[name]; m != nil {
		return m
	}
	for _, g := range f.linked {
		if m := g.macros[name]; m != nil {
			return m
		}
	}
	return nil
}

// scope finds the functions, variables, enums and structs at file scope.
func (f *file) scope(t []token) {
	start := 0
	for i := 0; i < len(t); i++ {
		switch {
		case t[i].is(";"):
			f.global(t[start:i])
			start = i + 1
		case t[i].is("("):
			i = closing(t, i)
		case t[i].is("{"):
			end := closing(t, i)
			inner := t[i+1 : min(end, len(t))]
			head := t[start:i]
			switch {
			case slices.ContainsFunc(head, func(x token) bool { return x.is("namespace") }) || len(head) == 2 && head[0].is("extern"):
				f.scope(inner)
				i, start = end, end+1
				continue
			case len(head) > 0 && head[0].is("enum"):
				f.enum(inner)
			case len(head) > 1 && (head[0].is("struct") || head[0].is("class")):
				f.record(head[1].s, inner)
			case len(head) > 1 && head[0].is("typedef") && head[1].is("struct") && end+1 < len(t):
				for _, name := range []token{head[len(head)-1], t[end+1]} {
					f.record(name.s, inner)
				}
			case f.define(head, inner):
				i, start = end, end+1
				continue
			}
			i = end
		}
	}
}

func (f *file) global(t []token) {
	if len(t) == 0 || t[0].is("using") || t[0].is("typedef") || t[0].is("extern") || t[0].is("template") {
		return
	}
	s := (&reader{t: expand(t, f.macro, 0)}).declaration()
	if s == nil {
		return
	}
	for _, d := range append([]*statement{s}, s.declare...) {
		if d.op == "decl" && d.x != nil {
			d.line = t[0].line
			f.globals[d.name] = d
		}
	}
}

func (f *file) enum(t []token) {
	next := int64(0)
	for _, p := range commas(t) {
		if len(p) == 0 {
			continue
		}
		if len(p) > 2 && p[1].is("=") {
			if v, ok := integer(p[2].s); ok {
				next = v
			} else if v, ok := f.enums[p[2].s]; ok {
				next = v
			}
			if p[2].is("-") && len(p) > 3 {
				v, _ := integer(p[3].s)
				next = -v
			}
		}
		f.enums[p[0].s] = next
		next++
	}
}

func (f *file) record(name string, t []token) {
	var fields []*statement
	start := 0
	for i := 0; i < len(t); i++ {
		switch {
		case t[i].is("("):
			i = closing(t, i)
		case t[i].is("{"):
			i = closing(t, i)
			if i+1 < len(t) && !t[i+1].is(";") {
				start = i + 1
			}
		case t[i].is(";"):
			p := t[start:i]
			if s := (&reader{t: p}).declaration(); s != nil && !slices.ContainsFunc(p, func(x token) bool { return x.is("(") }) {
				for _, d := range append([]*statement{s}, s.declare...) {
					if d.op == "decl" {
						fields = append(fields, d)
					}
				}
			}
			start = i + 1
		}
	}
	f.records[name] = fields
}

// define records a function and reports whether the tokens are one.
func (f *file) define(head, body []token) bool {
	fn := &function{file: f, tokens: body}
	if len(head) > 1 && head[0].is("template") {
		end := 1
		depth := 0
		for ; end < len(head); end++ {
			if head[end].is("<") {
				depth++
			}
			if head[end].is(">") {
				if depth--; depth == 0 {
					break
				}
			}
		}
		for _, p := range commas(head[2:min(end, len(head))]) {
			if k := slices.IndexFunc(p, func(x token) bool { return x.is("=") }); k > 0 {
				p = p[:k]
			}
			if len(p) > 0 {
				fn.targs = append(fn.targs, p[len(p)-1].s)
			}
		}
		head = head[min(end+1, len(head)):]
	}
	for len(head) > 2 && head[0].is("[") {
		head = head[min(closing(head, 0)+1, len(head)):]
	}
	open := slices.IndexFunc(head, func(x token) bool { return x.is("(") })
	if open < 1 || head[open-1].kind != ident {
		return false
	}
	if k := slices.IndexFunc(head[:open], func(x token) bool { return x.is("=") }); k >= 0 {
		return false
	}
	fn.name = head[open-1].s
	for _, x := range head[:open-1] {
		fn.static = fn.static || x.is("static")
		if x.kind == ident && !slices.Contains(qualifiers, x.s) {
			fn.ret = x.s
		}
	}
	for _, p := range split(head[open+1 : min(closing(head, open), len(head))]) {
		q := parameter{}
		if k := slices.IndexFunc(p, func(x token) bool { return x.is("=") }); k > 0 {
			q.value = p[k+1:]
			p = p[:k]
		}
		for len(p) > 1 && p[len(p)-1].is("]") {
			p = p[:len(p)-3]
		}
		if len(p) == 0 || len(p) == 1 && p[0].is("void") {
			continue
		}
		q.name = p[len(p)-1].s
		if k := slices.IndexFunc(p, func(x token) bool { return x.is("(") }); k >= 0 && k+2 < len(p) && p[k+1].is("*") { // a function
			q.name, p = p[k+2].s, p[:k+1]
		}
		q.out = !p[0].is("const")
		for _, x := range p[:len(p)-1] {
			if x.kind == ident && !slices.Contains(qualifiers, x.s) {
				q.typ = x.s
			}
			if x.is("&") || x.is("*") {
				q.typ += x.s
			}
		}
		q.out = q.out && strings.ContainsAny(q.typ, "&*") || strings.HasSuffix(q.typ, "*&") || strings.HasSuffix(q.typ, "**")
		fn.params = append(fn.params, q)
	}
	f.functions[fn.name] = append(f.functions[fn.name], fn)
	return true
}

// body returns the parsed body of the function.
func (fn *function) body() []*statement {
	if fn.parsed == nil {
		fn.parsed = statements(expand(fn.tokens, fn.file.macro, 0))
	}
	return fn.parsed
}

// lookup finds a function of this name with n arguments that the file can call.
func (r *Repository) lookup(f *file, name string, n int) *function {
	fits := func(list []*function) *function {
		for _, fn := range list {
			least := 0
			for _, p := range fn.params {
				if p.value == nil {
					least++
				}
			}
			if n >= least && n <= len(fn.params) {
				return fn
			}
		}
		return nil
	}
	for _, g := range append([]*file{f}, f.linked...) {
		if fn := fits(g.functions[name]); fn != nil {
			return fn
		}
	}
	for _, g := range f.linked { // the operator's folder has a header that declares it, and a source that defines it
		p := strings.TrimSuffix(g.path, ".h") + ".cpp"
		if filepath.Dir(p) == filepath.Dir(f.path) && slices.Contains(r.byName[filepath.Base(p)], p) {
			if fn := fits(r.load(p).functions[name]); fn != nil && !fn.static {
				return fn
			}
		}
	}
	return fits(near(f.path, r.extern[name]))
}

// near returns the functions that other files define for the file at path: those of the same
// operator's folder, or else the only one.
func near(path string, list []*function) (out []*function) {
	folder := func(p string) string {
		return strings.Join(strings.SplitN(p, "/", 4)[:min(2, strings.Count(p, "/"))], "/")
	}
	for _, fn := range list {
		if !fn.static && folder(fn.file.path) == folder(path) {
			out = append(out, fn)
		}
	}
	if out == nil && len(list) == 1 && !list[0].static {
		return list
	}
	return out
}
