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

// emitExports generates the emulator's C symbols and their lookup tables.
func emitExports(out files, t *abi.Table) error {
	var ops bytes.Buffer
	ops.WriteString(generatedMark + "#include \"export.h\"\n\n")
	for id, o := range t.Operators {
		prepare, execute := o.Phases()
		params := renamed(prepare.Params[:len(prepare.Params)-2], letters)
		args, err := words(params)
		if err != nil {
			return fmt.Errorf("%s: %w", prepare.Name, err)
		}
		fmt.Fprintf(&ops, "OPERATOR(%d, %s, %d, (%s), (%s))\n", id, execute.Name, len(prepare.Params), declared(params), args)
	}
	out[exportDir+"zz_operators.c"] = ops.Bytes()

	var fns, table bytes.Buffer
	fns.WriteString(generatedMark + "#include \"export.h\"\n")
	table.WriteString(generatedMark + "\npackage machine\n\n// functions are the C functions that are no phase of an operator; the index is the id.\nvar functions = [...]function{\n")
	for id, f := range t.Functions {
		f.Params = renamed(f.Params, letters)
		if err := exportFunction(&fns, t, id, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		fmt.Fprintf(&table, "\t{%q, %s},\n", f.Name, absent(f.Ret))
	}
	table.WriteString("}\n")
	out[exportDir+"zz_functions.c"] = fns.Bytes()
	if err := out.golang(machineDir+"zz_functions.go", table.Bytes()); err != nil {
		return err
	}

	var symbols bytes.Buffer
	symbols.WriteString(generatedMark + "#include \"export.h\"\n\n// Sorted by name, for the binary search of emu_lookup.\n#define SYMBOLS \\\n")
	names, later := t.Symbols(), laterSymbols(t)
	for _, n := range names {
		fmt.Fprintf(&symbols, "\tSYMBOL(%s, %d) \\\n", n, later[n])
	}
	fmt.Fprintf(&symbols, symbolTables, len(names))
	out[exportDir+"zz_symbols.c"] = symbols.Bytes()
	return nil
}

// symbolTables follows the list of symbols. Only their addresses count here, so their types are not
// declared.
const symbolTables = `
#define SYMBOL(name, later) void name(void);
SYMBOLS

#undef SYMBOL
#define SYMBOL(name, later) {#name, (void *)name, later},
const struct emu_symbol emu_symbols[] = {
	SYMBOLS
};

const int emu_symbol_count = %d;
`

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

// laterSymbols maps the symbols that CANN 8.1.RC1 lacks to 1.
func laterSymbols(t *abi.Table) map[string]int {
	later := make(map[string]int)
	mark := func(f abi.Function) {
		if f.Since() == abi.V2608 {
			later[f.Name] = 1
		}
	}
	for _, f := range t.Functions {
		mark(f)
	}
	for _, o := range t.Operators {
		prepare, execute := o.Phases()
		mark(prepare)
		mark(execute)
	}
	return later
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

func exportFunction(b *bytes.Buffer, t *abi.Table, id int, f abi.Function) error {
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
	call := fmt.Sprintf("emu_call(%d, 0, 0)", id)
	if len(f.Params) > 0 {
		call = fmt.Sprintf("emu_call(%d, WORDS(%s), %d)", id, args, len(f.Params))
	}
	if f.Ret == "void" {
		fmt.Fprintf(b, "\t%s;\n}\n", call)
		return nil
	}
	class, err := t.Class(f.Ret)
	if err != nil {
		return err
	}
	switch class {
	case abi.Float:
		call = "emu_float(" + call + ")"
	case abi.Int, abi.Uint, abi.Enum, abi.DType:
		call = "(" + f.Ret + ")" + call
	default:
		if !isPointer(class) {
			return fmt.Errorf("return type %s of class %v", f.Ret, class)
		}
		call = "(" + f.Ret + ")(uintptr_t)" + call
	}
	fmt.Fprintf(b, "\treturn %s;\n}\n", call)
	return nil
}

func isPointer(c abi.Class) bool {
	return slices.Contains([]abi.Class{
		abi.Tensor, abi.TensorList, abi.Scalar, abi.ScalarList,
		abi.IntArray, abi.FloatArray, abi.BoolArray, abi.String, abi.Pointer,
	}, c)
}

// absent returns the name of the constant that a function returns when the emulator does not
// implement it: an error code where the return type has one, else nothing. Package machine defines
// the constants.
func absent(ret string) string {
	switch ret {
	case "aclError":
		return "notSupported"
	case "aclnnStatus":
		return "innerError"
	case "HcclResult":
		return "hcclNotSupported"
	case "int":
		return "dcmiNotSupported"
	case "aclDataType":
		return "noDataType"
	case "aclFormat":
		return "noFormat"
	}
	return "nothing"
}
