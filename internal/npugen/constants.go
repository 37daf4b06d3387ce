package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

const constantsFile = "internal/abi/zz_constants.go"

// emitConstants generates the Go constants of the C enumerators and integer macros that the module's
// sources name.
func emitConstants(out files, t *abi.Table) error {
	named, err := namedConstants()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage abi\n")
	enum := "-"
	for _, c := range t.Constants {
		if !named[c.Name] {
			continue
		}
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
	return out.golang(constantsFile, b.Bytes())
}

var constantName = regexp.MustCompile(`\babi\.[A-Z]\w*|\b[A-Z]+_\w+`)

// namedConstants returns the words with the form of a constant's name in the module's Go files.
func namedConstants() (map[string]bool, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	return named, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "build"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, filepath.FromSlash(constantsFile)):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range constantName.FindAll(text, -1) {
			named[strings.TrimPrefix(string(name), "abi.")] = true
		}
		return err
	})
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
