package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// emitConstants makes the Go constants of all C enumerators and integer macros.
func emitConstants(out files, t *abi.Table) error {
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage abi\n")
	enum, open := "", false
	for _, c := range t.Constants {
		if !open || c.Enum != enum {
			if open {
				b.WriteString(")\n")
			}
			enum, open = c.Enum, true
			what := "Macros and enumerators of unnamed enums."
			if enum != "" {
				what = "Enumerators of " + enum + "."
			}
			fmt.Fprintf(&b, "\n// %s\nconst (\n", what)
		}
		fmt.Fprintf(&b, "\t%s = %s // %s\n", c.Name, c.Value, strings.Join(c.Versions, ", "))
	}
	b.WriteString(")\n")
	return out.golang("internal/abi/zz_constants.go", b.Bytes())
}

// emitOperatorTable makes the emulator's list of operators: name and classes, by id.
func emitOperatorTable(out files, t *abi.Table) error {
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage nn\n\n// operators are all aclnn operators, sorted by name; the index is the id.\nvar operators = [...]operator{\n")
	for _, o := range t.Operators {
		fmt.Fprintf(&b, "{name: %q, params: []param{", o.Name)
		for _, p := range o.Params {
			class, ok := emulatorClass[p.Class]
			if !ok {
				return fmt.Errorf("%s: the emulator has no class for %s %s", o.Symbol, p.Type, p.Name)
			}
			fmt.Fprintf(&b, "{%q, %s, %s}, ", p.Name, class, emulatorUse[p.Use])
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return out.golang("internal/emu/nn/zz_operators.go", b.Bytes())
}

// emulatorUse names the uses of internal/emu/nn.
var emulatorUse = [...]string{abi.Read: "read", abi.Written: "written", abi.Updated: "updated"}

// emulatorClass names the class constants of internal/emu/nn.
var emulatorClass = map[abi.Class]string{
	abi.Tensor: "tensorClass", abi.TensorList: "tensorListClass", abi.Scalar: "scalarClass",
	abi.ScalarList: "scalarListClass", abi.IntArray: "intArrayClass", abi.FloatArray: "floatArrayClass",
	abi.BoolArray: "boolArrayClass", abi.String: "stringClass", abi.Int: "intClass", abi.Uint: "intClass",
	abi.Enum: "intClass", abi.DType: "intClass", abi.Bool: "boolClass", abi.Double: "doubleClass",
	abi.Float: "floatClass", abi.Pointer: "pointerClass",
}

// golang adds a Go file, formatted.
func (f files) golang(path string, src []byte) error {
	b, err := format.Source(src)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f[path] = b
	return nil
}
