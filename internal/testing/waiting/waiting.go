package waiting

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rule lists the functions of a package that wait, methods as "Type.Method".
type Rule struct {
	// Waits take a context.
	Waits []string
	// Bounded wait without a context, for the reason given. Close, which has the form of io.Closer, is
	// not listed: where it waits for long, the type has CloseContext too.
	Bounded map[string]string
}

// Check compares the rule with what the package in dir exports. Generated files count.
func (r Rule) Check(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	exported, with := map[string]bool{}, []string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, ok := nameOf(f)
			if !ok || exported[name] { // a file for another system has the same functions
				continue
			}
			exported[name] = true
			for i, p := range f.Type.Params.List {
				if isContext(p.Type) {
					assert.Zero(t, i, "%s: the context is not the first parameter", name)
					with = append(with, name)
				}
			}
		}
	}
	assert.ElementsMatch(t, r.Waits, with, "functions with a context, and those that the rule lists")
	for _, name := range slices.Sorted(maps.Keys(r.Bounded)) {
		assert.True(t, exported[name], "%s is not exported", name)
		assert.NotEmpty(t, r.Bounded[name], "%s has no reason", name)
		assert.NotContains(t, with, name, "it takes a context")
	}
	for _, name := range with {
		if base, ok := strings.CutSuffix(name, "CloseContext"); ok {
			assert.True(t, exported[base+"Close"], "%s has no Close beside it", name)
		}
	}
}

// nameOf is "Function" or "Type.Method"; ok is false for what is not exported.
func nameOf(f *ast.FuncDecl) (name string, ok bool) {
	if f.Recv == nil {
		return f.Name.Name, f.Name.IsExported()
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name, x.IsExported() && f.Name.IsExported()
		default:
			return "", false
		}
	}
}

func isContext(t ast.Expr) bool {
	s, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "context" && s.Sel.Name == "Context"
}
