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

// golang formats a Go file and adds it.
func (f files) golang(path string, src []byte) error {
	b, err := format.Source(src)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f[path] = b
	return nil
}
