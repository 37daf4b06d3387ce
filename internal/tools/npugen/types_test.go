package main

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/tools/npugen/docs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestElementTypes(t *testing.T) {
	e := make(elementTypes)
	require.NoError(t, e.parse("# comment\nCumsum: self,out float32 "+wholeTypes+" bool; other int64\nAbs: none: it is a test\n"))
	assert.Len(t, e, 2)

	table, err := abi.Load()
	require.NoError(t, err)
	for name, want := range map[string]string{
		"Cumsum":         "The emulator computes: Self, Out float32 integers bool; Other int64.",
		"Abs":            "The emulator computes it; its element types were not tested: it is a test.",
		"MatmulCompress": "The emulator does not implement it: the compressed format of weights is not public.",
	} {
		o, ok := table.Operator(name)
		require.True(t, ok, name)
		if name == "Cumsum" {
			o.Params = append(o.Params, abi.Param{Name: "other"})
		}
		assert.Equal(t, want, e.sentence(*o), name)
	}
	docs, err := docs.Load(table)
	require.NoError(t, err)
	assert.Equal(t, "source", origin(docs, "Acos"))
	assert.Regexp(t, `^source, \d+$`, origin(docs, "Amax"))
	assert.Equal(t, "unknown", origin(docs, "NoOperator"))
	assert.ErrorContains(t, e.parse("Abs self float32"), "no colon")
	assert.ErrorContains(t, e.parse("Abs: self"), "no types of self")
	assert.ErrorContains(t, e.parse("Abs: "), "neither types nor a reason")
}

// The list has a reason for each operator that the emulator does not implement, and for no other.
func TestAbsent(t *testing.T) {
	all, err := loadElementTypes()
	require.NoError(t, err)
	table, err := abi.Load()
	require.NoError(t, err)
	for _, o := range table.Operators {
		_, implemented := all[o.Name]
		assert.Equal(t, implemented, reasonFor(o.Name) == "", "%s: %q", o.Name, reasonFor(o.Name))
	}
}
