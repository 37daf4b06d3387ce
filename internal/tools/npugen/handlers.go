package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// A handler is a Go function or method that emulates the C function of the same name (with its
// first letter in lower case, and without underscores). It takes the C parameters in order, under the same names and with
// matching Go types; the calling thread may come before them. The generated code decodes the words
// of a call, refuses null pointers, looks up the objects of handles and encodes the result. So a
// parameter with a wrong type is an error of this generator or of the compiler.
//
//	func (r *Runtime) aclrtStreamGetId(t *Thread, stream *Stream, streamID Out[int32]) Code
//
// Decoders look up the objects of handles. A decoder is a function with a comment //npugen:decode
// that lists the C types or parameter names that it decodes.

const (
	emulatorDir = "internal/emu"
	runtimeDir  = "internal/emu/rt"
)

// emitHandlers generates the table of functions of every emulator package that has handlers.
func emitHandlers(out files, t *abi.Table) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	core, err := parseEmulator(t, root, runtimeDir)
	if err != nil {
		return err
	}
	dirs, err := packageDirs(root)
	if err != nil {
		return err
	}
	homes := make(map[string]string)
	for _, dir := range dirs {
		p := core
		if dir != runtimeDir {
			if p, err = parseEmulator(t, root, dir); err != nil {
				return err
			}
			p.runtime, p.decoders = "rt.", append(p.decoders, core.exported()...)
		}
		if len(p.handlers) == 0 {
			continue
		}
		for _, h := range p.handlers {
			if home, twice := homes[h.c.Name]; twice {
				return fmt.Errorf("%s is emulated in %s and in %s", h.c.Name, home, dir)
			}
			homes[h.c.Name] = dir
		}
		src, err := p.source(t)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if err := out.golang(dir+"/zz_handlers.go", src); err != nil {
			return err
		}
	}
	return nil
}

// packageDirs returns the folders of the emulator that contain Go files, without support of tests,
// such as optest.
func packageDirs(root string) ([]string, error) {
	found := make(map[string]bool)
	err := fs.WalkDir(os.DirFS(root), emulatorDir, func(path string, d fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		if err == nil && strings.HasSuffix(path, ".go") && !strings.Contains(path, "testdata") && !strings.HasSuffix(dir, "test") {
			found[dir] = true
		}
		return err
	})
	return slices.Sorted(maps.Keys(found)), err
}

// emulator is the declarations of one package of the emulator.
type emulator struct {
	name     string
	runtime  string // qualifier of names of package rt: "" or "rt."
	receiver string // receiver type of handlers that are methods, without the star
	errors   bool   // refusals are errors: null makes one, answer converts it to a code
	handlers []handler
	decoders []decoder
}

// handler is a Go function that emulates a C function.
type handler struct {
	c      *abi.Function
	name   string
	method bool
	thread bool
	params []variable
	result string
	at     token.Position
}

// variable is a Go parameter with its type as written in the source.
type variable struct{ name, typ string }

// decoder is a function that returns the object of a handle.
type decoder struct {
	keys   []string // C types without const and star, or names of parameters
	name   string
	method bool
	params []variable
	typ    string // type of the object
	fails  string // type of the second result
}

// parseEmulator parses the hand-written Go files of a package.
func parseEmulator(t *abi.Table, root, dir string) (*emulator, error) {
	p := new(emulator)
	names, err := fs.Glob(os.DirFS(filepath.Join(root, dir)), "*.go")
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, base := range names {
		path := filepath.Join(root, dir, base)
		if strings.HasPrefix(base, "zz_") || strings.HasSuffix(base, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.name = file.Name.Name
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				if err := p.add(t, set, f); err != nil {
					return nil, err
				}
			}
		}
	}
	slices.SortFunc(p.handlers, func(a, b handler) int { return strings.Compare(a.c.Name, b.c.Name) })
	return p, nil
}

// directive is the comment that marks decoders.
const directive = "//npugen:decode "

func (p *emulator) add(t *abi.Table, set *token.FileSet, f *ast.FuncDecl) error {
	p.errors = p.errors || f.Name.Name == "null"
	params, results := variables(f.Type.Params), variables(f.Type.Results)
	if f.Doc != nil {
		for _, line := range f.Doc.List {
			if keys, ok := strings.CutPrefix(line.Text, directive); ok {
				if len(results) != 2 {
					return fmt.Errorf("%v: a decoder gives an object and a code or an error", set.Position(f.Pos()))
				}
				p.decoders = append(p.decoders, decoder{strings.Fields(keys), f.Name.Name, f.Recv != nil, params, results[0].typ, results[1].typ})
			}
		}
	}
	c := emulated(t, f.Name.Name)
	if c == nil {
		return nil
	}
	h := handler{c: c, name: f.Name.Name, method: f.Recv != nil, params: params, at: set.Position(f.Pos())}
	if len(results) > 1 {
		return fmt.Errorf("%v: %s has %d results; a C function has one at most", h.at, h.name, len(results))
	}
	if len(results) == 1 {
		h.result = results[0].typ
	}
	if len(params) > 0 && bare(params[0].typ) == "*Thread" {
		h.thread, h.params = true, params[1:]
	}
	if h.method {
		receiver := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
		if p.receiver != "" && p.receiver != receiver {
			return fmt.Errorf("%v: %s is a method of %s, others of %s; the handlers of a package have one receiver", h.at, h.name, receiver, p.receiver)
		}
		p.receiver = receiver
	}
	p.handlers = append(p.handlers, h)
	return nil
}

// emulated returns the C function that a Go function of this name emulates, or nil.
func emulated(t *abi.Table, name string) *abi.Function {
	for _, c := range []string{name, strings.ToUpper(name[:1]) + name[1:], cName(name)} {
		if f, ok := t.Function(c); ok {
			return f
		}
	}
	return nil
}

// variables returns parameters or results, one entry for each name.
func variables(list *ast.FieldList) []variable {
	var all []variable
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		typ := types.ExprString(f.Type)
		if len(f.Names) == 0 {
			all = append(all, variable{"_", typ})
		}
		for _, n := range f.Names {
			all = append(all, variable{n.Name, typ})
		}
	}
	return all
}

// bare removes the qualifier of package rt from a type.
func bare(typ string) string { return strings.ReplaceAll(typ, "rt.", "") }

// exported returns the decoders that other packages can call, with qualified names.
func (p *emulator) exported() []decoder {
	var all []decoder
	for _, d := range p.decoders {
		if !ast.IsExported(d.name) {
			continue
		}
		d.typ = qualified(d.typ)
		all = append(all, d)
	}
	return all
}

// qualified returns a type of package rt as other packages write it.
func qualified(typ string) string {
	star := strings.LastIndexAny(typ, "*]") + 1
	return typ[:star] + "rt." + typ[star:]
}

// source returns the Go source of a package's table of functions.
func (p *emulator) source(t *abi.Table) ([]byte, error) {
	var body bytes.Buffer
	for _, h := range p.handlers {
		if err := p.function(&body, t, h); err != nil {
			return nil, fmt.Errorf("%v: %s: %w", h.at, h.name, err)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\npackage %s\n\nimport (\n", generatedMark, p.name)
	for _, imported := range []struct{ name, path string }{
		{"math.", "math"}, {"dtype.", module + "/internal/dtype"}, {"rt.", module + "/" + runtimeDir},
	} {
		if bytes.Contains(body.Bytes(), []byte(imported.name)) || imported.name == p.runtime {
			fmt.Fprintf(&b, "%q\n", imported.path)
		}
	}
	receiver := ""
	if p.receiver != "" {
		receiver = "(x *" + p.receiver + ") "
	}
	fmt.Fprintf(&b, ")\n\n// Functions returns the functions that the package emulates, by C name.\n"+
		"func %sFunctions() map[string]%sFunc {\n\treturn map[string]%[2]sFunc{\n%s}\n}\n", receiver, p.runtime, body.Bytes())
	return b.Bytes(), nil
}

var usesThread = regexp.MustCompile(`\bt\b`)

// function writes the entry of one handler. It checks first the pointers and handles that may not be null
// (abi.NullCode, and those that the handler writes), in C order, then decodes the handles, then calls the handler.
func (p *emulator) function(b *bytes.Buffer, t *abi.Table, h handler) error {
	if len(h.params) != len(h.c.Params) {
		return fmt.Errorf("it takes %d parameters, the C function %d", len(h.params), len(h.c.Params))
	}
	result, err := p.resultOf(t, h)
	if err != nil {
		return err
	}
	var nulls, objects bytes.Buffer
	var args []string
	if h.thread {
		args = append(args, "t")
	}
	for i, v := range h.params {
		c := h.c.Params[i]
		d, decoded := p.decoderOf(c, v)
		if !named(v.name, c.Name) && !(decoded && named(v.name, strings.TrimSuffix(c.Name, "Id"))) {
			return fmt.Errorf("parameter %d is called %s, in C %s", i+1, v.name, c.Name)
		}
		word := fmt.Sprintf("a[%d]", i)
		refused, known := abi.NullCode(h.c.Name, c.Name)
		if refused != 0 {
			fmt.Fprintf(&nulls, "\tif %s == 0 {\n\t\t%s\n\t}\n", word, result.refuse(p.null(h, c)))
		}
		if decoded {
			args = append(args, c.Name)
			p.decode(&objects, d, h, c, word, result)
			continue
		}
		form, err := p.formOf(t, c, v.typ)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", c.Name, err)
		}
		if form.required && refused == 0 {
			refusal := p.null(h, c)
			if known {
				refusal.value = strings.Replace(refusal.value, "Null", "NullBelow", 1)
			}
			fmt.Fprintf(&nulls, "\tif %s == 0 {\n\t\t%s\n\t}\n", word, result.refuse(refusal))
		}
		args = append(args, fmt.Sprintf(form.decode, word))
	}
	callee := h.name
	if h.method {
		callee = "x." + callee
	}
	body := nulls.String() + objects.String() + fmt.Sprintf(result.give, callee+"("+strings.Join(args, ", ")+")")
	thread, words := "_", "_"
	if usesThread.MatchString(body) {
		thread = "t"
	}
	if len(h.params) > 0 {
		words = "a"
	}
	if n := len(h.params); n > 1 {
		body = fmt.Sprintf("\t_ = a[%d]\n", n-1) + body
	}
	fmt.Fprintf(b, "\t%q: func(%s *%sThread, %s []uint64) uint64 {\n%s\n\t},\n", h.c.Name, thread, p.runtime, words, body)
	return nil
}

// named reports whether a Go parameter matches the name of the C parameter. It ignores case and
// underscores; _ matches any name, and a C name that has another meaning in Go is matched by any
// name.
func named(name, c string) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	return name == "_" || plain(name) == plain(c) || token.IsKeyword(c) || types.Universe.Lookup(c) != nil
}

// decoderOf returns the decoder for the type of a parameter.
func (p *emulator) decoderOf(c abi.Param, v variable) (decoder, bool) {
	for _, d := range p.decoders {
		if d.typ == v.typ && (slices.Contains(d.keys, pointee(c.Type)) || slices.Contains(d.keys, c.Name)) {
			return d, true
		}
	}
	return decoder{}, false
}

// decode writes the call of a decoder.
func (p *emulator) decode(b *bytes.Buffer, d decoder, h handler, c abi.Param, word string, result result) {
	var args []string
	texts := []string{h.c.Name, c.Name}
	for _, v := range d.params {
		switch typ := bare(v.typ); typ {
		case "*Thread":
			args = append(args, "t")
		case "string":
			args = append(args, fmt.Sprintf("%q", texts[0]))
			texts = texts[1:]
		case "uint64":
			args = append(args, word)
		case "Handle":
			args = append(args, p.runtime+"Handle("+word+")")
		default:
			args = append(args, typ+"("+word+")")
		}
	}
	callee := d.name
	switch {
	case d.method:
		callee = "x." + callee
	case ast.IsExported(d.name):
		callee = p.runtime + callee
	}
	failure := refusal{"code", "0", false}
	if d.fails == "error" {
		failure = refusal{"err", "nil", true}
	}
	fmt.Fprintf(b, "\t%s, %s := %s(%s)\n\tif %[2]s != %[5]s {\n\t\t%[6]s\n\t}\n",
		c.Name, failure.value, callee, strings.Join(args, ", "), failure.none, result.refuse(failure))
}

// null returns the refusal of a null argument.
func (p *emulator) null(h handler, c abi.Param) refusal {
	if p.errors {
		return refusal{fmt.Sprintf("null(%q, %q)", h.c.Name, c.Name), "nil", true}
	}
	return refusal{fmt.Sprintf("t.Null(%q, %q)", h.c.Name, c.Name), "0", false}
}
