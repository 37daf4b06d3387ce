package abi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAICore(t *testing.T) {
	a, err := LoadAICore()
	require.NoError(t, err)
	table, err := Load()
	require.NoError(t, err)
	for name := range a.operators {
		_, known := table.Operator(name)
		require.True(t, known, name)
	}
	for _, c := range []struct {
		operator, kernel string
		core, cpu        []string
	}{
		{"Sort", "Sort", []string{"float32", "float16", "bfloat16"}, []string{"int32", "int64", "int8"}},
		{"Cumsum", "Cumsum", []string{"float32", "int32"}, []string{"int64", "float64"}},
		{"InplaceMaskedFillScalar", "MaskedFill", []string{"float32", "int32", "bool"}, []string{"int64"}},
		{"TriangularSolve", "TriangularSolve", nil, []string{"float32", "float64"}},
		{"Add", "Add", []string{"float32", "int64"}, []string{"float64", "int16"}},
		{"IndexSelect", "GatherV2", []string{"float32", "bfloat16", "int64"}, []string{"complex128"}},
		{"Exp", "Exp", []string{"float32", "int32"}, []string{"float64"}},
		{"Cast", "Cast", []string{"int64>int32", "float32>bfloat16"}, []string{"float64>float32"}},
	} {
		kernels := a.Of(c.operator)
		require.Len(t, kernels, 1, c.operator)
		k := kernels[0]
		require.Equal(t, c.kernel, k.Name, c.operator)
		require.NotEmpty(t, k.Source.Commit)
		require.Contains(t, k.Source.Path, "/op_api/")
		for _, d := range c.core {
			require.True(t, k.Takes(d), "%s of %s is on the AI Core", c.operator, d)
		}
		for _, d := range c.cpu {
			require.False(t, k.Takes(d), "%s of %s is on the AI CPU", c.operator, d)
		}
	}
	require.True(t, a.Of("Cast")[0].Casts())
	require.Empty(t, a.Of("Matmul"), "it has no AI CPU form")
}

func TestAICoreRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"operator\tSort\tSort":                      "aicore.txt:1: there is no kernel Sort",
		"\nkernel\tSort\tfloat32\thicann/x\tsort.c": "aicore.txt:2: cannot parse",
		"something": "aicore.txt:1: cannot parse",
	} {
		_, err := parseAICore(text)
		require.ErrorContains(t, err, want)
	}
}
