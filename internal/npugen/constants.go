package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// emitConstants generates the Go constants of all C enumerators and integer macros.
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

// emitOperatorTable generates the emulator's list of operators: name and classes, by id.
func emitOperatorTable(out files, t *abi.Table) error {
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage op\n\n// Operators are all aclnn operators, sorted by name; the index is the id.\nvar Operators = [...]Operator{\n")
	for _, o := range t.Operators {
		individual := ""
		if abi.Individual(o.Name) {
			individual = "Individual: true, "
		}
		fmt.Fprintf(&b, "{Name: %q, %sParams: []Param{", o.Name, individual)
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
	return out.golang("internal/emu/op/zz_operators.go", b.Bytes())
}

// emulatorUse holds the names of the Use constants of internal/emu/op.
var emulatorUse = [...]string{abi.Read: "Read", abi.Written: "Written", abi.Updated: "Updated"}

// emulatorClass holds the names of the class constants of internal/emu/op.
var emulatorClass = map[abi.Class]string{
	abi.Tensor: "TensorClass", abi.TensorList: "TensorListClass", abi.Scalar: "ScalarClass",
	abi.ScalarList: "ScalarListClass", abi.IntArray: "IntArrayClass", abi.FloatArray: "FloatArrayClass",
	abi.BoolArray: "BoolArrayClass", abi.String: "StringClass", abi.Int: "IntClass", abi.Uint: "IntClass",
	abi.Enum: "IntClass", abi.DType: "IntClass", abi.Bool: "BoolClass", abi.Double: "DoubleClass",
	abi.Float: "FloatClass", abi.Pointer: "PointerClass",
}

// golang formats a Go file and adds it.
func (f files) golang(path string, src []byte) error {
	b, err := format.Source(src)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f[path] = b
	return nil
}
