package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/binding"
	"github.com/goascend/cann/internal/tools/npugen/docs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBindingDoc(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	docs, err := docs.Parse(table, abi.Text{Name: "docs", Data: strings.Join([]string{
		"repository\ta/b\t12",
		"page\taclnnCumsum\ta/b\tmath/cumsum.md\tself:0-8\tout:as self",
		"summary\taclnnCumsum\tsums up the elements of Self along Dim, so that each element of Out is the sum of those up to its place",
		"values\tdim\t*\ta dimension",
	}, "\n")})
	require.NoError(t, err)
	o, ok := table.Operator("Cumsum")
	require.True(t, ok)
	types := elementTypes{"Cumsum": {groups: []typed{{params: []string{"self", "out"}, types: []string{"float32", "int32"}}}}}
	of := func(p binding.Package) string {
		source, err := p.File([]abi.Operator{*o})
		require.NoError(t, err)
		return string(source)
	}
	with := of(described(docs, types, binding.Package{Name: "aclnn", Tool: "npugen"}))
	assert.Contains(t, with, `
// Cumsum sums up the elements of Self along Dim, so that each element of Out is the sum of those up
// to its place. C: aclnnCumsum, CANN since 8.1.RC1. The emulator computes: Self, Out float32 int32.
func Cumsum(`)
	assert.Contains(t, with, `
type CumsumParams struct {
	Self  *Tensor // 0 to 8 dimensions
	Dim   int64   // a dimension
	Dtype DType
	Out   *Tensor // output, dimensions as Self
}
`)
	without := of(binding.Package{Name: "aclnn", Tool: "npugen"})
	assert.Contains(t, without, "\n// Cumsum launches aclnnCumsum, CANN since 8.1.RC1.\nfunc Cumsum(")
	assert.Contains(t, without, `
type CumsumParams struct {
	Self  *Tensor
	Dim   int64
	Dtype DType
	Out   *Tensor // output
}
`)
}

func TestDimensions(t *testing.T) {
	for shape, want := range map[string]string{
		"1": "1 dimension", "0": "0 dimensions", "0-8": "0 to 8 dimensions", "2,4": "2 or 4 dimensions",
		"(B,N,1)": "(B,N,1)", "BSND or TND": "BSND or TND", "as query_rope": "dimensions as QueryRope",
	} {
		assert.Equal(t, want, dimensions(shape, map[string]string{"query_rope": "QueryRope"}), shape)
	}
}

// The constants that the comments of fields name must exist.
func TestValuesNameConstants(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	paths := []string{filepath.Join(root, "aclnn/zz_enums.go"), filepath.Join(root, "aclnn/dtype.go")}
	declared := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				declared[v.Names[0].Name] = true
			}
			return true
		})
	}
	table, err := abi.Load()
	require.NoError(t, err)
	docs, err := docs.Load(table)
	require.NoError(t, err)
	quoted, name := regexp.MustCompile(`"[^"]*"`), regexp.MustCompile(`\b[A-Z]\w*[a-z]\w*`)
	named := 0
	for _, o := range table.Operators {
		for param, values := range docs.Of(o.Name).Values {
			for _, word := range name.FindAllString(quoted.ReplaceAllString(values, ""), -1) {
				named++
				assert.True(t, declared[word], "%s, parameter %s: package aclnn has no constant %s", o.Symbol, param, word)
			}
		}
	}
	assert.Greater(t, named, 200)
}
