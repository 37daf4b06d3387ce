package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

const (
	exportDir  = "internal/emu/export/"
	machineDir = "internal/emu/machine/"
)

// emitExports generates the lists from which symbols.c makes the emulator's C symbols, the functions
// that its macros cannot make, and the names of functions for package machine.
func emitExports(out files, t *abi.Table) error {
	var ops bytes.Buffer
	ops.WriteString(generatedMark)
	most := 0
	for _, o := range t.Operators {
		most = max(most, len(o.Params))
		fmt.Fprintf(&ops, "OPERATOR(%d, %s, %s)\n", since(&o.Function), o.Symbol, typeList(o.Params))
	}
	out[exportDir+"zz_operator_list.h"] = ops.Bytes()

	var list, fns, table bytes.Buffer
	list.WriteString(generatedMark)
	fns.WriteString(generatedMark + "#include \"export.h\"\n")
	table.WriteString(generatedMark + "\npackage machine\n\n// functions are the C functions that are no phase of an operator; the index is the id.\nvar functions = [...]function{\n")
	for id, f := range t.Functions {
		most = max(most, len(f.Params))
		plain, err := packsItself(t, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		switch {
		case !plain:
			fmt.Fprintf(&list, "WRITTEN(%d, %d, %s)\n", since(&f), failure(f.Ret), f.Name)
			f.Params = renamed(f.Params, letters)
			if err := exportFunction(&fns, id, f); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		case len(f.Params) == 0:
			fmt.Fprintf(&list, "PLAIN(%d, %d, %s, %s)\n", since(&f), failure(f.Ret), f.Ret, f.Name)
		default:
			fmt.Fprintf(&list, "FUNCTION(%d, %d, %s, %s, %s)\n", since(&f), failure(f.Ret), f.Ret, f.Name, typeList(f.Params))
		}
		fmt.Fprintf(&table, "\t{%q, %d},\n", f.Name, failure(f.Ret))
	}
	table.WriteString("}\n")
	out[exportDir+"zz_function_list.h"] = list.Bytes()
	out[exportDir+"zz_functions.c"] = fns.Bytes()
	out[exportDir+"zz_each.h"] = each(most)
	return out.golang(machineDir+"zz_functions.go", table.Bytes())
}

// each returns the macros EACH, which applies another to each of its types and a name, and COUNT, for at
// most so many types.
func each(most int) []byte {
	var b bytes.Buffer
	b.WriteString(generatedMark + "#define EACH(f, ...) EACH_OF(COUNT(__VA_ARGS__), f, __VA_ARGS__)\n" +
		"#define EACH_OF(n, ...) EACH_JOIN(n, __VA_ARGS__)\n#define EACH_JOIN(n, ...) EACH_##n(__VA_ARGS__)\n" +
		"#define EACH_1(f, type) f(type, p1)\n")
	for i := 2; i <= most; i++ {
		fmt.Fprintf(&b, "#define EACH_%d(f, type, ...) f(type, p%[1]d), EACH_%d(f, __VA_ARGS__)\n", i, i-1)
	}
	b.WriteString("#define COUNT(...) COUNT_OF(__VA_ARGS__")
	for i := most; i >= 0; i-- {
		fmt.Fprintf(&b, ", %d", i)
	}
	b.WriteString(")\n#define COUNT_OF(")
	for i := range most {
		fmt.Fprintf(&b, "_%d, ", i+1)
	}
	b.WriteString("n, ...) n\n")
	return b.Bytes()
}

// typeList returns the types of parameters, as arguments of a macro.
func typeList(params []abi.Param) string { return declared(renamed(params, nameless)) }

// since returns the place of a function's first release in abi.Releases; 0 for what is not part of CANN.
func since(f *abi.Function) int { return max(slices.Index(abi.Releases(), f.Since()), 0) }

// packsItself says whether the macros of symbols.c can define a function: not if it takes a record by value or
// a varying number of arguments, or returns a floating-point number.
func packsItself(t *abi.Table, f abi.Function) (bool, error) {
	byValue := slices.ContainsFunc(f.Params, func(p abi.Param) bool { return p.Class == abi.ByValue })
	if f.Variadic || byValue || f.Ret == "void" {
		return !f.Variadic && !byValue, nil
	}
	class, err := t.Class(f.Ret)
	if err != nil {
		return false, err
	}
	whole := isPointer(class) || slices.Contains([]abi.Class{abi.Int, abi.Uint, abi.Enum, abi.DType}, class)
	if class != abi.Float && !whole {
		return false, fmt.Errorf("return type %s of class %v", f.Ret, class)
	}
	return whole, nil
}

// renamed returns parameters with the names that name gives. The real ones are in the table, and every
// user downloads these files.
func renamed(params []abi.Param, name func(i int) string) []abi.Param {
	params = slices.Clone(params)
	for i := range params {
		params[i].Name = name(i)
	}
	return params
}

// letters returns the name of parameter i: a to z, aa, ab and so on.
func letters(i int) string {
	last := string(rune('a' + i%26))
	if i < 26 {
		return last
	}
	return letters(i/26-1) + last
}

// words returns C code that packs parameters into 64-bit words with the macros of export.h.
func words(params []abi.Param) (string, error) {
	list := make([]string, len(params))
	for i, p := range params {
		macro, err := packing(p.Class)
		if err != nil {
			return "", fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		list[i] = macro + "(" + p.Name + ")"
	}
	return strings.Join(list, ", "), nil
}

func packing(c abi.Class) (string, error) {
	switch c {
	case abi.Int, abi.Enum, abi.DType:
		return "SIGNED", nil
	case abi.Uint, abi.Bool:
		return "UNSIGNED", nil
	case abi.Double:
		return "DOUBLE", nil
	case abi.Float:
		return "FLOAT", nil
	case abi.ByValue:
		return "RECORD", nil
	case abi.Tensor, abi.TensorList, abi.Scalar, abi.ScalarList, abi.IntArray, abi.FloatArray, abi.BoolArray,
		abi.String, abi.Pointer, abi.FuncPtr:
		return "POINTER", nil
	}
	return "", fmt.Errorf("no packing for class %v", c)
}

// exportFunction writes a function that packsItself is false for.
func exportFunction(b *bytes.Buffer, id int, f abi.Function) error {
	args, err := words(f.Params)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n%s\n{\n", prototype(f, f.Params))
	if f.Variadic {
		// The text is formatted in C; Go gets it as a format without arguments.
		format := f.Params[len(f.Params)-1].Name
		fmt.Fprintf(b, "\tchar text[1024] = \"\";\n\tif (%s) {\n\t\tva_list rest;\n\t\tva_start(rest, %[1]s);\n"+
			"\t\tvsnprintf(text, sizeof text, %[1]s, rest);\n\t\tva_end(rest);\n\t}\n", format)
		args = strings.TrimSuffix(args, "POINTER("+format+")") + "POINTER(text)"
	}
	call := fmt.Sprintf("emu_call(%d, WORDS(%s), %d)", id, args, len(f.Params))
	switch f.Ret {
	case "void":
	case "float":
		call = "return emu_float(" + call + ")"
	default:
		call = "return (" + f.Ret + ")" + call
	}
	fmt.Fprintf(b, "\t%s;\n}\n", call)
	return nil
}

func isPointer(c abi.Class) bool {
	return slices.Contains([]abi.Class{
		abi.Tensor, abi.TensorList, abi.Scalar, abi.ScalarList,
		abi.IntArray, abi.FloatArray, abi.BoolArray, abi.String, abi.Pointer,
	}, c)
}

// failure returns the result of a function that the emulator does not implement or cannot run, by
// its C type: an error code where the type has one, else nothing.
func failure(result string) int {
	switch result {
	case "aclError":
		return abi.ACL_ERROR_API_NOT_SUPPORT
	case "aclnnStatus":
		return abi.ACLNN_ERR_INNER
	case "HcclResult":
		return abi.HCCL_E_NOT_SUPPORT
	case "aclblasStatus_t":
		return abi.ACLBLAS_STATUS_NOT_SUPPORTED
	case "aclfftResult":
		return abi.ACLFFT_NOT_IMPLEMENTED
	case "int":
		return abi.DCMI_ERR_CODE_NOT_SUPPORT
	case "aclDataType":
		return abi.ACL_DT_UNDEFINED
	case "aclFormat":
		return abi.ACL_FORMAT_UNDEFINED
	}
	return 0
}
