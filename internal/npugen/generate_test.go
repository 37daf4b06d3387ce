package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func generated(t *testing.T) files {
	t.Helper()
	table, err := abi.Load()
	require.NoError(t, err)
	out, err := generate(table)
	require.NoError(t, err)
	return out
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	require.NoError(t, generated(t).check(root))
}

func TestGenerationIsDeterministic(t *testing.T) {
	first := generated(t)
	for range 3 {
		again := generated(t)
		require.Len(t, again, len(first))
		for path := range first {
			require.True(t, bytes.Equal(first[path], again[path]), path)
		}
	}
}

func TestEveryGeneratedFileIsMarked(t *testing.T) {
	for path, text := range generated(t) {
		assert.True(t, strings.HasPrefix(filepath.Base(path), "zz_"), path)
		assert.True(t, bytes.HasPrefix(text, []byte(generatedMark)), path)
	}
}

func TestCheckNamesStaleFiles(t *testing.T) {
	root := t.TempDir()
	out := files{"aclnn/zz_a.go": []byte("a"), "aclnn/zz_b.go": []byte("b")}
	require.NoError(t, out.write(root))
	require.NoError(t, out.check(root))

	require.NoError(t, os.WriteFile(filepath.Join(root, "aclnn/zz_a.go"), []byte("edited"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(root, "aclnn/zz_b.go")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "aclnn/zz_orphan.go"), nil, 0o644))
	err := out.check(root)
	require.ErrorContains(t, err, "go generate")
	require.ErrorContains(t, err, "aclnn/zz_a.go aclnn/zz_b.go aclnn/zz_orphan.go")

	require.NoError(t, out.write(root))
	require.NoError(t, out.check(root))
	assert.NoFileExists(t, filepath.Join(root, "aclnn/zz_orphan.go"))
}

// Every operator has its function, its parameter struct with one field per C parameter, and
// no name is declared twice.
func TestBindingsAreComplete(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	declared, fields := map[string]int{}, map[string]int{}
	for path, text := range generated(t) {
		if !strings.HasPrefix(path, "aclnn/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					declared[d.Name.Name]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						declared[s.Name.Name]++
						fields[s.Name.Name] = s.Type.(*ast.StructType).Fields.NumFields()
					}
				}
			}
		}
	}
	for name, n := range declared {
		assert.Equal(t, 1, n, name)
	}
	for _, o := range table.Operators {
		assert.Contains(t, declared, o.Name)
		assert.Equal(t, len(o.Params), fields[o.Name+"Params"], o.Name)
	}
	assert.Len(t, declared, 2*len(table.Operators))
}

func TestFieldName(t *testing.T) {
	taken := map[string]bool{}
	for _, c := range []struct{ c, want string }{
		{"self", "Self"}, {"use_exp2", "UseExp2"}, {"query_rope", "QueryRope"}, {"dtype", "Dtype"},
		{"Self", "Self2"}, {"_self", "Self3"}, {"N", "N"}, {"_", "Arg"}, {"_1d", "Arg1d"},
	} {
		assert.Equal(t, c.want, fieldName(c.c, taken), c.c)
	}
}

func TestDeclarator(t *testing.T) {
	for _, c := range []struct{ ctype, want string }{
		{"int", "int n"}, {"void *", "void *n"}, {"const char **", "const char **n"},
		{"char[24]", "char n[24]"}, {"uint64_t[128][2]", "uint64_t n[128][2]"},
		{"int64_t ( *)[2]", "int64_t (*n)[2]"}, {"void ( *)(void *)", "void (*n)(void *)"},
	} {
		assert.Equal(t, c.want, declarator(c.ctype, "n"))
	}
}

func TestLiteral(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0", "-1": "(-1)", "2147483647": "2147483647", "2147483648": "2147483648U",
		"4294967295": "4294967295U", "4294967296": "4294967296ULL", "18446744073709551614": "18446744073709551614ULL",
	} {
		assert.Equal(t, want, literal(value))
	}
}

func TestRunRefuses(t *testing.T) {
	assert.ErrorContains(t, run([]string{"frob"}), `unknown command "frob"`)
	assert.ErrorContains(t, run([]string{"import"}), "name the JSON dumps")
	assert.ErrorContains(t, run([]string{"bind"}), "-headers and -out are required")
	assert.ErrorContains(t, run([]string{"bind", "-headers", ".", "-out", "x.go", "-package", "1x"}), "not a Go package name")
}
