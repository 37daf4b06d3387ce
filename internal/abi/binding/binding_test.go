package binding

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

func TestFieldNames(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"self use_exp2 query_rope dtype", "Self UseExp2 QueryRope Dtype"},
		{"self Self _self", "Self Self2 Self3"},
		{"N _ _1d", "N Arg Arg1d"},
		{"biasOptional selfRef softmaxOutOut outRef listOptionalRef optionalNoise", "Bias Self SoftmaxOut Out List Noise"},
		{"bias biasOptional y", "Bias BiasOptional Y"}, // two parameters do not become one
		{"attentionOut attentionOutOut", "AttentionOut AttentionOutOut"},
		{"optional ref preference", "Optional Ref Preference"},
	} {
		var o abi.Operator
		for _, name := range strings.Fields(c.names) {
			o.Params = append(o.Params, abi.Param{Name: name})
		}
		var got []string
		fields := FieldNames(o)
		for _, p := range o.Params {
			got = append(got, fields[p.Name])
		}
		assert.Equal(t, c.want, strings.Join(got, " "))
	}
}

// No field of package aclnn has a word of C's convention, and no two parameters of an operator share a field.
func TestFieldsOfOperators(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, o := range table.Operators {
		taken := map[string]bool{}
		for c, field := range FieldNames(o) {
			assert.NotRegexp(t, `Optional|OutOut|Ref$`, field, "%s: %s", o.Symbol, c)
			assert.False(t, taken[field], "%s: %s", o.Symbol, field)
			taken[field] = true
		}
		assert.Len(t, taken, len(o.Params), o.Symbol)
	}
}
