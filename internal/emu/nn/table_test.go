package nn

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
)

// Every implemented operator is part of the C interface.
func TestTablesNameOperators(t *testing.T) {
	for name := range implementations {
		assert.NotNil(t, op.Find(name), "aclnn%s", name)
	}
}

// borders lists the permitted imports of one family by another. Package op gives the reasons.
var borders = map[string]bool{"communication matmul": true, "communication normalization": true, "moe normalization": true}

// No family imports another, not even in tests, so that a change of one family compiles and tests
// only that family. The folders are the families of package abi.
func TestFamiliesStandAlone(t *testing.T) {
	const families = "github.com/goascend/cann/internal/emu/ops/"
	files, err := filepath.Glob("../ops/*/*.go")
	require.NoError(t, err)
	folders := make(map[string]bool)
	for _, file := range files {
		family := filepath.Base(filepath.Dir(file))
		folders[family] = true
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range source.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if other, ok := strings.CutPrefix(path, families); ok {
				assert.True(t, borders[family+" "+other], "%s imports family %s; what both need belongs in package op", file, other)
			}
		}
	}
	table, err := abi.Load()
	require.NoError(t, err)
	for _, o := range table.Operators {
		assert.True(t, folders[string(o.Family())], "there is no folder for %s, the family of %s", o.Family(), o.Symbol)
	}
}
