package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// The headers of a package that the table knows must give the same operators as the table.
func TestHeadersAgreeWithTheTable(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	tree := fstest.MapFS{}
	want := map[string]abi.Operator{}
	for _, o := range table.Operators {
		one, two := o.Phases()
		if tree[o.Header] == nil {
			tree[o.Header] = &fstest.MapFile{}
		}
		text := prototype(one, one.Params) + ";\n" + prototype(two, two.Params) + ";\n"
		tree[o.Header].Data = append(tree[o.Header].Data, text...)
		want[o.Name] = o
	}
	ops, err := header.Operators(table, tree, "libopapi")
	require.NoError(t, err)
	require.Len(t, ops, len(want))
	for _, o := range ops {
		assert.Equal(t, want[o.Name].Params, o.Params, o.Name)
	}
}
