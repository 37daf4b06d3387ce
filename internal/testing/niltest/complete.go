package niltest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Complete fails for every type with methods on its pointer, and every function with a pointer,
// an interface or a function among its parameters, that the package in dir exports and that
// known does not name: the test must learn of it. Generated files are left out.
func Complete(t *testing.T, dir string, known ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
				found = append(found, concerned(f)...)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	slices.Sort(known)
	assert.Equal(t, known, found, "exported, and known to the test")
}

// concerned is the name of what a function must be tested as: of its receiver, or its own.
func concerned(f *ast.FuncDecl) []string {
	if f.Recv != nil {
		star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
		if !ok {
			return nil
		}
		if name, ok := star.X.(*ast.Ident); ok && name.IsExported() {
			return []string{name.Name}
		}
		return nil
	}
	for _, p := range f.Type.Params.List {
		switch typ := p.Type.(type) {
		case *ast.StarExpr, *ast.FuncType, *ast.InterfaceType:
			return []string{f.Name.Name}
		case *ast.SelectorExpr: // of another package; context.Context is an interface
			if typ.Sel.Name == "Context" {
				return []string{f.Name.Name}
			}
		}
	}
	return nil
}
