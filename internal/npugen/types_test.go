package main

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
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
		"Cumsum":  "The emulator verified: Self, Out float32 integers bool; Other int64.",
		"Abs":     "The emulator implements it. Its element types are not verified: it is a test.",
		"Softmax": "The emulator does not implement it.",
	} {
		o, ok := table.Operator(name)
		require.True(t, ok, name)
		if name == "Cumsum" {
			o.Params = append(o.Params, abi.Param{Name: "other"})
		}
		assert.Equal(t, want, e.sentence(*o), name)
	}
	docs, err := abi.LoadDocs(table)
	require.NoError(t, err)
	assert.Equal(t, "source", origin(docs, "Acos"))
	assert.Regexp(t, `^source, \d+$`, origin(docs, "Amax"))
	assert.Equal(t, "unknown", origin(docs, "NoOperator"))
	e["Acos"] = verified{none: "it is a test"}
	assert.Equal(t, "Its checks follow CANN's source.", e.checks(docs, "Acos"))
	assert.Empty(t, e.checks(docs, "Softmax"), "not implemented")
	assert.ErrorContains(t, e.parse("Abs self float32"), "no colon")
	assert.ErrorContains(t, e.parse("Abs: self"), "no types of self")
	assert.ErrorContains(t, e.parse("Abs: "), "neither types nor a reason")
}
