package main

import (
	"errors"
	"fmt"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/binding"
)

// codes are the result types that are error codes.
var codes = []string{"aclError", "aclnnStatus", "HcclResult", "int", "aclblasStatus_t", "aclfftResult"}

// returned returns the Go type of a result; ok is false when the result is an error code.
func (w *callWriter) returned(ctype string) (gotype string, ok bool, err error) {
	if slices.Contains(codes, ctype) {
		return "", false, nil
	}
	if ctype == "const char *" {
		return "string", true, nil
	}
	if object, ok := w.object(ctype); ok {
		return object, true, nil
	}
	if gotype, err = w.word(ctype); err != nil {
		err = fmt.Errorf("result: %w", err)
	}
	return gotype, true, err
}

// parameter returns the Go type of a parameter and how it is passed.
func (w *callWriter) parameter(f abi.Function, p abi.Param) (gotype string, how passing, err error) {
	if gotype, ok := hostPointers[f.Name+"."+p.Name]; ok {
		return gotype, asHost, nil
	}
	if f.Library == "libops_blas" {
		gotype, host := hostNames[p.Name]
		complex := pointee(p.Type) == "aclblasComplex"
		switch pointer := p.Class == abi.Pointer && strings.HasSuffix(p.Type, "*"); {
		case p.Class == abi.Float:
			return "float32", asWord, nil
		case p.Class == abi.ByValue:
			return "complex64", asWord, nil
		case pointer && host && complex:
			return "*complex64", asHost, nil
		case pointer && host:
			return gotype, asHost, nil
		case pointer && pointee(p.Type) != "aclblasHandle_t" && pointee(p.Type) != "aclrtStream" && p.Name != "version":
			return "uint64", asWord, nil
		}
	}
	if gotype, how, err = w.byType(p); err != nil {
		err = fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	return gotype, how, err
}

// objects lists opaque structs of CANN: pointers to them are handles.
var objects = []string{"aclprofAicoreEvents", "aclprofConfig"}

// object returns the Go type of a pointer to an opaque struct.
func (w *callWriter) object(ctype string) (gotype string, ok bool) {
	pointee, pointer := strings.CutSuffix(strings.TrimPrefix(ctype, "const "), " *")
	if !pointer || !slices.Contains(objects, pointee) {
		return "", false
	}
	w.types[pointee] = "uint64"
	return pointee, true
}

// byType decides from the C type alone. A pointer to a constant, a string or a record is a pointer
// to host memory; a pointer to void is a word, since it may be a device address; any other pointer
// is a result, as is the address of an object on the device, which C writes as a pointer to a pointer. A
// record of more than two words by value is copied from its address.
func (w *callWriter) byType(p abi.Param) (gotype string, how passing, err error) {
	if object, ok := w.object(p.Type); ok {
		return object, asWord, nil
	}
	pointee, constant := strings.CutPrefix(strings.TrimRight(strings.TrimSuffix(p.Type, "*"), " "), "const ")
	switch {
	case p.Class == abi.String:
		return "*byte", asHost, nil
	case p.Class == abi.Float || p.Class == abi.Double:
		return "", 0, errors.New("a runtime call passes no floating-point numbers")
	case p.Class == abi.ByValue:
		if r, ok := w.recordOf(p.Type); ok && r.Kind == "struct" && r.Size > 16 {
			gotype, err = w.structure(p.Type, r)
			return "*" + gotype, asRecord, err
		}
		gotype, err = w.word(p.Type)
		return gotype, asWord, err
	case !strings.HasSuffix(p.Type, "*") || pointee == "void":
		gotype, err = w.word(p.Type)
		return gotype, asWord, err
	case strings.HasSuffix(pointee, "*"):
		return "uintptr", asResult, nil
	}
	if gotype, err = w.record(pointee); err == nil {
		return "*" + gotype, asHost, nil
	}
	gotype, err = w.word(pointee)
	if constant {
		return "*" + gotype, asHost, err
	}
	return gotype, asResult, err
}

// recordOf returns the layout of a C struct or union and follows typedefs.
func (w *callWriter) recordOf(ctype string) (abi.Record, bool) {
	name := ctype
	if i := slices.IndexFunc(w.table.Typedefs, func(d abi.Typedef) bool { return d.Name == ctype }); i >= 0 {
		name = w.table.Typedefs[i].Target
	}
	i := slices.IndexFunc(w.table.Records, func(r abi.Record) bool { return r.Name == name })
	if i < 0 {
		return abi.Record{}, false
	}
	return w.table.Records[i], true
}

// record returns the Go type of a C struct that is larger than a word, with the same fields at the
// same offsets and explicit padding.
func (w *callWriter) record(ctype string) (string, error) {
	r, ok := w.recordOf(ctype)
	if !ok || r.Kind != "struct" || r.Size <= 8 {
		return "", fmt.Errorf("%s is no record larger than a word", ctype)
	}
	return w.structure(ctype, r)
}

// structure returns the Go type of a C struct.
func (w *callWriter) structure(ctype string, r abi.Record) (string, error) {
	var fields strings.Builder
	at := 0
	pad := func(to int) {
		if to > at {
			fmt.Fprintf(&fields, "\t_ [%d]byte\n", to-at)
		}
	}
	for _, f := range r.Fields {
		gotype, size, err := w.field(f.Type)
		if err != nil {
			return "", fmt.Errorf("%s.%s: %w", r.Name, f.Name, err)
		}
		pad(f.Offset)
		name := goName(f.Name)
		if token.IsKeyword(name) {
			name += "Arg"
		}
		fmt.Fprintf(&fields, "\t%s %s\n", name, gotype)
		at = f.Offset + size
	}
	pad(r.Size)
	name := goName(ctype)
	w.types[name] = "struct {\n" + fields.String() + "}"
	w.sizes[name] = r.Size
	return name, nil
}

// wordSizes holds the sizes in bytes of the basic Go types.
var wordSizes = map[string]int{
	"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "float32": 4, "float64": 8,
}

// field returns the Go type of a member of a record and its size in bytes.
func (w *callWriter) field(ctype string) (gotype string, size int, err error) {
	base, length, array := strings.Cut(strings.TrimSuffix(ctype, "]"), "[")
	if r, ok := w.recordOf(base); ok && !array && r.Kind == "struct" {
		gotype, err = w.structure(base, r)
		return gotype, r.Size, err
	}
	if strings.HasSuffix(base, "*") {
		gotype = "uintptr"
	} else if gotype, err = w.word(base); err != nil {
		return "", 0, err
	}
	if gotype == "uintptr" { // smaller on 32-bit systems; packages compile there without CANN
		gotype = "uint64"
	}
	underlying := gotype
	if u, named := w.types[gotype]; named {
		underlying = u
	}
	if size = wordSizes[underlying]; size == 0 {
		return "", 0, fmt.Errorf("%s has no size", gotype)
	}
	if !array {
		return gotype, size, nil
	}
	if base == "char" {
		gotype = "byte"
	}
	n, err := strconv.Atoi(length)
	return "[" + length + "]" + gotype, n * size, err
}

// word returns the Go type of a C type whose values fit an argument word.
func (w *callWriter) word(ctype string) (string, error) {
	bare := strings.TrimPrefix(ctype, "const ")
	if bare == "void *" {
		return "uintptr", nil
	}
	class, err := w.table.Class(bare)
	if err != nil {
		return "", err
	}
	named := func(underlying string) (string, error) {
		w.types[goName(bare)] = underlying
		return goName(bare), nil
	}
	switch class {
	case abi.Int, abi.Uint:
		if g, ok := binding.Integers[bare]; ok {
			return g, nil
		}
		for _, d := range w.table.Typedefs {
			if g, ok := binding.Integers[d.Target]; ok && d.Name == bare {
				return named(g)
			}
		}
	case abi.Float:
		return "float32", nil
	case abi.Double:
		return "float64", nil
	case abi.Enum, abi.DType:
		return named("int32")
	case abi.FuncPtr:
		return named("uintptr")
	case abi.Pointer:
		if !strings.Contains(bare, "*") { // a handle
			return named("uint64")
		}
	case abi.ByValue:
		if r, ok := w.recordOf(bare); ok && r.Size == 4 {
			return named("uint32")
		}
	}
	return "", fmt.Errorf("%s has no Go form in one word", ctype)
}
