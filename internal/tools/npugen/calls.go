package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// callers lists the packages with generated calls of C functions. A package gets the calls that its
// source names: aclrtMalloc calls the function, and fnAclrtMalloc is the *cshim.Func.
var callers = []string{"acl", "hccl", "aclnn/blas", "aclnn/fft"}

// libraries maps the libraries to their names in package cshim.
var libraries = map[string]string{
	"libascendcl": "cshim.ACL", "libnnopbase": "cshim.NNOp", "libhccl": "cshim.HCCL",
	"libmsprofiler": "cshim.Profiler", "libms_tools_ext": "cshim.Marks", "libdcmi": "cshim.Driver", "libops_blas": "cshim.BLAS", "libcann_ops_fft": "cshim.FFT",
}

// Properties of functions that the C types do not show.
var (
	rebinds = []string{ // functions that change the thread's current context
		"aclrtSetDevice", "aclrtResetDevice", "aclrtCreateContext", "aclrtDestroyContext", "HcclCommInitAll",
	}
	fresh = []string{ // functions that run on a thread made for the call: see package hccl
		"HcclGetRootInfo", "HcclCommInitRootInfo", "HcclCommInitRootInfoConfig", "HcclCommInitClusterInfo",
		"HcclCommInitClusterInfoConfig", "HcclCommInitAll", "HcclCreateSubCommConfig", "HcclCommDestroy",
	}
	callsBack = []string{ // functions that may run Go code on the calling thread
		"aclrtLaunchHostFunc", "aclrtLaunchCallback", "aclrtProcessReport",
	}
)

// hostPointers holds the parameters that point to host memory of the caller, with their Go types.
// Their C types alone could also mean a device address or an out-parameter.
var hostPointers = map[string]string{
	"HcclAllGatherV.recvCounts": "*uint64", "HcclAllGatherV.recvDispls": "*uint64",
	"HcclReduceScatterV.sendCounts": "*uint64", "HcclReduceScatterV.sendDispls": "*uint64",
	"HcclAlltoAllV.sendCounts": "*uint64", "HcclAlltoAllV.sdispls": "*uint64",
	"HcclAlltoAllV.recvCounts": "*uint64", "HcclAlltoAllV.rdispls": "*uint64",
	"HcclAlltoAllVC.sendCountMatrix": "*uint64",
	"aclrtIpcMemSetImportPid.pid":    "*int32",
	"aclrtMemPoolGetAttr.value":      "*uint64",
	"HcclCommInitAll.devices":        "*int32", "HcclCommInitAll.comms": "*hcclComm",
	"aclprofCreateConfig.deviceIdList": "*uint32",
	"HcclCreateSubCommConfig.comm":     "*hcclComm", "HcclCreateSubCommConfig.rankIds": "*uint32",
	"dcmi_get_device_errorcode_v2.error_code_list": "*uint32", "dcmi_get_device_errorcode_string.error_info": "*uint8",
	"aclblasSgeqrfBatched.info": "*int32", "aclblasSgetrsBatched.info": "*int32",
	"aclfftExecC2C.idata": "*complex64", "aclfftExecC2C.odata": "*complex64",
	"aclfftExecR2C.idata": "*float32", "aclfftExecR2C.odata": "*complex64",
	"aclfftExecC2R.idata": "*complex64", "aclfftExecC2R.odata": "*float32",
}

// hostNames holds the parameters of libops_blas that point to host memory, in whatever function; its other pointers
// are device addresses.
var hostNames = map[string]string{
	"alpha": "*float32", "beta": "*float32", "param": "*float32", "c": "*uint32", "s": "*uint32",
}

// emitCalls generates the typed calls of C functions.
func emitCalls(out files, t *abi.Table) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for _, pkg := range callers {
		named, err := identifiers(filepath.Join(root, pkg))
		if err != nil {
			return err
		}
		src, err := calls(t, pkg, named)
		if err != nil {
			return err
		} else if src == nil {
			continue
		}
		if err := out.golang(pkg+"/zz_calls.go", src); err != nil {
			return err
		}
	}
	return nil
}

// identifiers returns the names that occur in the hand-written source of a package.
func identifiers(dir string) (map[string]bool, error) {
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, name := range names {
		if strings.HasPrefix(name, "zz_") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				named[id.Name] = true
			}
			return true
		})
	}
	return named, nil
}

// callWriter generates the file of one package.
type callWriter struct {
	table   *abi.Table
	symbols []string          // declarations of *cshim.Func
	types   map[string]string // Go types of handles, enums and records, by name
	sizes   map[string]int    // sizes of records, by name
	body    bytes.Buffer
}

func newCallWriter(t *abi.Table) *callWriter {
	return &callWriter{table: t, types: map[string]string{}, sizes: map[string]int{}}
}

// calls returns the Go source of the calls that a package names, or nil if there are none.
func calls(t *abi.Table, pkg string, named map[string]bool) ([]byte, error) {
	w := newCallWriter(t)
	for _, f := range t.Functions {
		call, symbol := goName(f.Name), symbolName(f.Name)
		if !named[call] && !named[symbol] {
			continue
		}
		library, ok := libraries[f.Library]
		if !ok {
			return nil, fmt.Errorf("%s: package cshim does not look for functions in %s", f.Name, f.Library)
		}
		w.symbols = append(w.symbols, fmt.Sprintf("%s = cshim.NewFunc(%s, %q)", symbol, library, f.Name))
		if !named[call] {
			continue
		}
		if err := w.function(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(w.symbols) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\npackage %s\n\nimport (\n", generatedMark, path.Base(pkg))
	for _, std := range []string{"math", "runtime", "slices", "unsafe"} {
		if bytes.Contains(w.body.Bytes(), []byte(std+".")) || std == "unsafe" && len(w.sizes) > 0 {
			fmt.Fprintf(&b, "\t%q\n", std)
		}
	}
	fmt.Fprintf(&b, "\n\t%q\n)\n\n// Handles, enumerations and records have types of their own, so that the compiler sees arguments\n// that change places.\ntype (\n", module+"/cshim")
	for _, name := range slices.Sorted(maps.Keys(w.types)) {
		fmt.Fprintf(&b, "\t%s %s\n", name, w.types[name])
	}
	b.WriteString(")\n")
	for _, name := range slices.Sorted(maps.Keys(w.sizes)) {
		fmt.Fprintf(&b, "\n// A record of another size does not compile.\nvar _ [%d]byte = [unsafe.Sizeof(%s{})]byte{}\n", w.sizes[name], name)
	}
	fmt.Fprintf(&b, "\n// The C functions, each looked for when it is first called.\nvar (\n\t%s\n)\n", strings.Join(w.symbols, "\n\t"))
	b.Write(w.body.Bytes())
	return b.Bytes(), nil
}

// goName returns the unexported Go name of a C name, without underscores.
func goName(c string) string {
	words := strings.Split(c, "_")
	for i, word := range words {
		if i > 0 && word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	name := strings.Join(words, "")
	return strings.ToLower(name[:1]) + name[1:]
}

// cName undoes goName for a C name in lower case.
func cName(name string) string {
	return strings.ToLower(capital.ReplaceAllString(name, "_$0"))
}

var capital = regexp.MustCompile(`[A-Z]`)

// symbolName returns the name of the Go variable for a C function.
func symbolName(c string) string {
	name := goName(c)
	return "fn" + strings.ToUpper(name[:1]) + name[1:]
}

// passing is the way in which a parameter is passed.
type passing uint8

const (
	asWord   passing = iota // by value
	asResult                // C writes to its address; a result in Go
	asHost                  // a pointer to host memory that C uses during the call
	asRecord                // a pointer to a record that C gets by value
)

// callParam is a C parameter with its Go form.
type callParam struct {
	name, gotype string
	passing      passing
}

// function writes one Go function. It packs the argument words, makes one cgo call, and unpacks the
// results.
func (w *callWriter) function(f abi.Function) error {
	params := make([]callParam, len(f.Params))
	taken := []string{"c", "err", "pin", "current"}
	for i, p := range f.Params {
		gotype, how, err := w.parameter(f, p)
		if err != nil {
			return err
		}
		name := goName(p.Name)
		if token.IsKeyword(name) || slices.Contains(taken, name) {
			name += "Arg"
		}
		params[i], taken = callParam{name, gotype, how}, append(taken, name)
	}
	w.types["aclrtContext"] = "uint64"
	b := &w.body
	fmt.Fprintf(b, "\n// %s calls %s.\n", goName(f.Name), prototype(f, f.Params))
	if f.Ret == "void" {
		return w.valueFunction(f, params, "")
	} else if isWide(f) {
		return w.wideFunction(f, params)
	} else if value, ok, err := w.returned(f.Ret); err != nil {
		return err
	} else if ok {
		return w.valueFunction(f, params, value)
	}
	inputs, results := []string{"current aclrtContext"}, []string{}
	for _, p := range params {
		if p.passing == asResult {
			results = append(results, p.name+" "+p.gotype)
		} else {
			inputs = append(inputs, p.name+" "+p.gotype)
		}
	}
	outputs := "error"
	if len(results) > 0 {
		outputs = "(" + strings.Join(append(results, "err error"), ", ") + ")"
	}
	fmt.Fprintf(b, "func %s(%s) %s {\n", goName(f.Name), strings.Join(inputs, ", "), outputs)
	if err := writeCall(b, f, params); err != nil {
		return err
	}
	if len(results) == 0 {
		fmt.Fprintf(b, "\treturn c.Do(%s, uint64(current))\n}\n", symbolName(f.Name))
		return nil
	}
	fmt.Fprintf(b, "\tif err = c.Do(%s, uint64(current)); err != nil {\n\t\treturn\n\t}\n", symbolName(f.Name))
	for i, p := range params {
		if p.passing == asResult {
			fmt.Fprintf(b, "\t%s = %s\n", p.name, unpacked(p.gotype, fmt.Sprintf("c.Args[%d]", i)))
		}
	}
	b.WriteString("\treturn\n}\n")
	return nil
}

// isWide reports whether a call does not fit a cshim.Call.
func isWide(f abi.Function) bool {
	return f.Library == "libops_blas" && (len(f.Params) > 12 || slices.ContainsFunc(f.Params, func(p abi.Param) bool { return p.Class == abi.Float || p.Class == abi.ByValue }))
}

// wideFunction is function for a call that does not fit a cshim.Call.
func (w *callWriter) wideFunction(f abi.Function, params []callParam) error {
	inputs, words, numbers := []string{"current aclrtContext"}, []string{}, []string{}
	var pinned bytes.Buffer
	for _, p := range params {
		inputs = append(inputs, p.name+" "+p.gotype)
		switch {
		case p.passing == asResult:
			return fmt.Errorf("an out-parameter %s in a wide call", p.name)
		case p.passing == asHost:
			fmt.Fprintf(&pinned, "\tpin.Pin(%s)\n", p.name)
			words = append(words, "uint64(uintptr(unsafe.Pointer("+p.name+")))")
		case p.gotype == "complex64":
			numbers = append(numbers, "cshim.Complex("+p.name+")")
		case p.gotype == "float32":
			numbers = append(numbers, "[]uint64{uint64(math.Float32bits("+p.name+"))}")
		default:
			words = append(words, "uint64("+p.name+")")
		}
	}
	fmt.Fprintf(&w.body, "func %s(%s) error {\n", goName(f.Name), strings.Join(inputs, ", "))
	if pinned.Len() > 0 {
		fmt.Fprintf(&w.body, "\tvar pin runtime.Pinner\n\tdefer pin.Unpin()\n%s", pinned.String())
	}
	rest := ""
	if len(numbers) > 0 {
		rest = ", slices.Concat(" + strings.Join(numbers, ", ") + ")..."
	}
	fmt.Fprintf(&w.body, "\treturn cshim.Wide(%s, uint64(current), []uint64{%s}%s)\n}\n", symbolName(f.Name), strings.Join(words, ", "), rest)
	return nil
}

// valueFunction is function for a C function that returns a value instead of a code, or nothing if
// value is "".
func (w *callWriter) valueFunction(f abi.Function, params []callParam, value string) error {
	inputs := []string{"current aclrtContext"}
	for _, p := range params {
		if p.passing == asResult {
			return fmt.Errorf("a value and the out-parameter %s", p.name)
		}
		inputs = append(inputs, p.name+" "+p.gotype)
	}
	if value == "" {
		fmt.Fprintf(&w.body, "func %s(%s) error {\n", goName(f.Name), strings.Join(inputs, ", "))
		if err := writeCall(&w.body, f, params); err != nil {
			return err
		}
		fmt.Fprintf(&w.body, "\t_, err := c.Value(%s, uint64(current))\n\treturn err\n}\n", symbolName(f.Name))
		return nil
	}
	fmt.Fprintf(&w.body, "func %s(%s) (%s, error) {\n", goName(f.Name), strings.Join(inputs, ", "), value)
	if err := writeCall(&w.body, f, params); err != nil {
		return err
	}
	fmt.Fprintf(&w.body, "\tv, err := c.Value(%s, uint64(current))\n\treturn %s, err\n}\n", symbolName(f.Name), unpacked(value, "v"))
	return nil
}

// writeRecordCall declares the call block of a function whose first parameter is a record by value.
func writeRecordCall(b *bytes.Buffer, params []callParam) error {
	list := []string{"unsafe.Pointer(" + params[0].name + ")", "unsafe.Sizeof(*" + params[0].name + ")"}
	for _, p := range params[1:] {
		if p.passing != asWord {
			return fmt.Errorf("%s: beside a record by value stand words only", p.name)
		}
		list = append(list, "uint64("+p.name+")")
	}
	fmt.Fprintf(b, "\tvar pin runtime.Pinner\n\tdefer pin.Unpin()\n\tpin.Pin(%s)\n", params[0].name)
	fmt.Fprintf(b, "\tc := cshim.Call{Args: cshim.WithRecord(%s)}\n", strings.Join(list, ", "))
	return nil
}

// writeCall declares the call block c. A single host pointer is passed next to the words; several
// are pinned and passed as words.
func writeCall(b *bytes.Buffer, f abi.Function, params []callParam) error {
	if i := slices.IndexFunc(params, func(p callParam) bool { return p.passing == asRecord }); i == 0 {
		return writeRecordCall(b, params)
	} else if i > 0 {
		return fmt.Errorf("%s: a record by value must be the first parameter", params[i].name)
	}
	var words, pinned, set []string
	out, host := []string{}, 0
	hosts := 0
	for _, p := range params {
		if p.passing == asHost {
			hosts++
		}
	}
	for i, p := range params {
		word := "uint64(" + p.name + ")"
		switch {
		case p.passing == asResult:
			word = "0"
			out = append(out, fmt.Sprintf("1<<%d", i))
		case p.passing == asHost && hosts == 1:
			word = "0"
			host = i + 1
		case p.passing == asHost:
			word = "uint64(uintptr(unsafe.Pointer(" + p.name + ")))"
			pinned = append(pinned, p.name)
		}
		words = append(words, word)
	}
	if len(out) > 0 {
		set = append(set, "c.Out = "+strings.Join(out, "|"))
	}
	if host > 0 {
		set = append(set, fmt.Sprintf("c.HostArg, c.Host = %d, unsafe.Pointer(%s)", host, params[host-1].name))
	}
	for _, flag := range []struct {
		name string
		of   []string
	}{{"Rebinds", rebinds}, {"CallsBack", callsBack}, {"Fresh", fresh}} {
		if slices.Contains(flag.of, f.Name) {
			set = append(set, "c."+flag.name+" = true")
		}
	}
	if len(pinned) > 0 {
		b.WriteString("\tvar pin runtime.Pinner\n\tdefer pin.Unpin()\n")
		for _, name := range pinned {
			fmt.Fprintf(b, "\tpin.Pin(%s)\n", name)
		}
	}
	// The compiler builds a literal elsewhere and copies it, which costs as much as the rest of the
	// call block: the fields are set one by one.
	b.WriteString("\tvar c cshim.Call\n")
	for i, word := range words {
		if word != "0" {
			set = append(set, fmt.Sprintf("c.Args[%d] = %s", i, word))
		}
	}
	for _, s := range set {
		b.WriteString("\t" + s + "\n")
	}
	return nil
}

// unpacked returns the Go expression that converts a word to a Go type.
func unpacked(gotype, word string) string {
	switch gotype {
	case "string":
		return "cshim.CString(" + word + ")"
	case "float32":
		return "math.Float32frombits(uint32(" + word + "))"
	case "float64":
		return "math.Float64frombits(" + word + ")"
	case "uint64":
		return word
	}
	return gotype + "(" + word + ")"
}
