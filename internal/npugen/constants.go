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
	enum := "-"
	for _, c := range t.Constants {
		if c.Enum != enum {
			enum = c.Enum
			what := "Macros and enumerators of unnamed enums."
			if enum != "" {
				what = "Enumerators of " + enum + "."
			}
			fmt.Fprintf(&b, "\n// %s\n", what)
		}
		fmt.Fprintf(&b, "const %s = %s\n", c.Name, c.Value)
	}
	return out.golang("internal/abi/zz_constants.go", b.Bytes())
}

// emitOperatorTable generates the emulator's list of operators, in the form that package op reads.
func emitOperatorTable(out files, t *abi.Table) error {
	var b bytes.Buffer
	b.WriteString(strings.Replace(generatedMark, "//", "#", 1))
	for _, o := range t.Operators {
		b.WriteString(o.Name)
		if abi.Individual(o.Name) {
			b.WriteByte('*')
		}
		for _, p := range o.Params {
			class, ok := emulatorClass[p.Class]
			if !ok {
				return fmt.Errorf("%s: the emulator has no class for %s %s", o.Symbol, p.Type, p.Name)
			}
			fmt.Fprintf(&b, " %s:%c%s", p.Name, class, emulatorUse[p.Use])
		}
		b.WriteByte('\n')
	}
	out["internal/emu/op/zz_operators.txt"] = b.Bytes()
	return nil
}

// emulatorUse has the marks of written and updated tensors in that list.
var emulatorUse = [...]string{abi.Read: "", abi.Written: ">", abi.Updated: "&"}

// emulatorClass has the letters of classes in that list.
var emulatorClass = map[abi.Class]rune{
	abi.Tensor: 't', abi.TensorList: 'T', abi.Scalar: 's', abi.ScalarList: 'S', abi.IntArray: 'i', abi.FloatArray: 'f', abi.BoolArray: 'b', abi.String: 'c',
	abi.Int: 'I', abi.Uint: 'I', abi.Enum: 'I', abi.DType: 'I', abi.Bool: 'B', abi.Double: 'D', abi.Float: 'F', abi.Pointer: 'p',
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
