package abi

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

func TestFormats(t *testing.T) {
	f, err := LoadFormats()
	require.NoError(t, err)
	table, err := Load()
	require.NoError(t, err)
	require.Greater(t, len(f.Operators()), 40)
	for _, name := range f.Operators() {
		o, known := table.Operator(name)
		require.True(t, known, name)
		rule := f.Of(name)
		require.NotEmpty(t, rule.Source.Commit, name)
		for _, p := range slices.Concat(rule.Params, rule.Also) {
			require.True(t, slices.ContainsFunc(o.Params, func(q Param) bool { return q.Name == p && q.Class == Tensor }), "%s has no tensor %s", name, p)
		}
		for _, formats := range rule.Ranks {
			for _, format := range formats {
				_, err := dtype.ParseFormat(format)
				require.NoError(t, err, name)
			}
		}
	}
	conv := f.Of("Convolution")
	require.Equal(t, "NCL", conv.Format("input", 3))
	require.Equal(t, "NCHW", conv.Format("weight", 4))
	require.Equal(t, "NCDHW", conv.Format("output", 5))
	require.Empty(t, conv.Format("bias", 1))
	require.Empty(t, conv.Format("input", 2))
	require.Equal(t, "NCHW", f.Of("AdaptiveMaxPool2d").Format("self", 3))
	require.Equal(t, []string{"ND"}, f.Of("SignBitsPack").Ranks[AnyRank])
	require.True(t, f.Of("Abs").Same && f.Of("Abs").Blind)
	require.Empty(t, f.Of("Add").Format("self", 4), "it has no rule")
	for text, want := range map[string]string{
		"format\tX\ta\t4:NCHW\t\to/n\tp.cpp":                    "formats.txt:1: cannot parse",
		"repository\to/n\tc\nformat\tX\ta\t4\t\to/n\tp.cpp":     `formats.txt:2: cannot parse "4"`,
		"repository\to/n\tc\nformat\tX\ta\t4:A\tor\to/n\tp.cpp": "formats.txt:2: cannot parse",
	} {
		_, err := parseFormats(text)
		require.ErrorContains(t, err, want)
	}
}
