package main

import (
	"bytes"
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/binding"
)

// emitEnumerations generates the Go types of the enumerations, with their constants.
func emitEnumerations(out files, enums *abi.Enumerations) error {
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage aclnn\n")
	for _, e := range enums.List {
		b.WriteString("\n")
		binding.Comment(&b, e.Doc)
		gotype := "string"
		if !e.Text {
			gotype = fmt.Sprintf("int%d", e.Bits)
		}
		fmt.Fprintf(&b, "type %s %s\n\n// Values of %[1]s.\nconst (\n", e.Name, gotype)
		for _, v := range e.Values {
			fmt.Fprintf(&b, "\t%s %s = %s", v.Name, e.Name, v.Value)
			if v.Doc != "" {
				b.WriteString(" // " + v.Doc)
			}
			b.WriteString("\n")
		}
		b.WriteString(")\n")
		if e.Text {
			continue
		}
		fmt.Fprintf(&b, "\n// String returns the constant's name.\nfunc (v %s) String() string {\n\tswitch v {\n", e.Name)
		for _, v := range e.Values {
			fmt.Fprintf(&b, "\tcase %s:\n\t\treturn %[1]q\n", v.Name)
		}
		fmt.Fprintf(&b, "\t}\n\treturn unnamed(%q, int64(v))\n}\n", e.Name)
	}
	return out.golang("aclnn/zz_enums.go", b.Bytes())
}
