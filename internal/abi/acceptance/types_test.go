package acceptance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// rulesOf parses rules such as "161002 (null self)".
func rulesOf(t *testing.T, lines ...string) (list []Rule) {
	for _, l := range lines {
		code, cond := int32(161002), l
		if l[0] == '0' {
			code, cond = 0, l[2:]
		}
		n, err := Parse(cond)
		require.NoError(t, err, l)
		list = append(list, Rule{code, n})
	}
	return list
}

func TestLeft(t *testing.T) {
	f32, f16, bf16 := dtype.Float32, dtype.Float16, dtype.BFloat16
	for _, c := range []struct {
		rules []string
		want  map[string][]dtype.Type
	}{
		{[]string{"(null x)", "(not (in (dt x) f32 f16))"}, map[string][]dtype.Type{"x": {f32, f16}}},
		{[]string{"(and (not (null y)) (not (in (dt y) f32)))"}, map[string][]dtype.Type{"y": {f32}}},                                                                                 // optional
		{[]string{"(or (lt n 3) (ne (dt x) bf16))"}, map[string][]dtype.Type{"x": {bf16}}},                                                                                            // either alone
		{[]string{"(and (lt n 3) (ne (dt x) bf16))", "(not (in (dt x) f32 f16))"}, map[string][]dtype.Type{"x": {f32, f16}}},                                                          // depends on n
		{[]string{"(any $1 0 (count x) (not (in (dt (at x $1)) f16)))"}, map[string][]dtype.Type{"x": {f16}}},                                                                         // a list
		{[]string{"(if (null x) 0 (ne (dt x) f16))"}, map[string][]dtype.Type{"x": {f16}}},                                                                                            //
		{[]string{"(null x)", "(not (in (dt x) f32 f16))", "(not (in (dt y) f16))", "(and (not (null y)) (ne (dt y) (dt x)))"}, map[string][]dtype.Type{"x": {f32, f16}, "y": {f16}}}, // x without y
		{[]string{"0 (eq (dt x) bf16)", "(not (in (dt x) f32))"}, map[string][]dtype.Type{"x": {f32, bf16}}},                                                                          // accepted before
		{[]string{"(or (null x) (null y))", "(not (in (dt x) f32 f16))", "(ne (dt y) (dt x))"}, map[string][]dtype.Type{"x": {f32, f16}, "y": {f32, f16}}},                            // passed on
		{[]string{"(null x)", "(null y)", "(ne (dt z) (dt y))", "(ne (dt y) (dt x))", "(ne (dt x) f16)"}, map[string][]dtype.Type{"x": {f16}, "y": {f16}, "z": {f16}}},
	} {
		got, missing := left(rulesOf(t, c.rules...))
		assert.False(t, missing)
		assert.Equal(t, c.want, got, c.rules)
	}
	_, missing := left(rulesOf(t, "(null x)", "1"))
	assert.True(t, missing)
	_, missing = left(rulesOf(t, "0 1", "1"))
	assert.False(t, missing)
}

// Facts of the tables: bfloat16 is the 910B's, and an operator is not on every chip.
func TestTypes(t *testing.T) {
	on := func(chip Chip, tensor string) []dtype.Type {
		types, missing, err := Types("Abs", chip)
		require.NoError(t, err)
		require.False(t, missing)
		return types[tensor]
	}
	assert.Contains(t, on(Ascend910B, "self"), dtype.BFloat16)
	assert.NotContains(t, on(Ascend310P, "self"), dtype.BFloat16)
	assert.NotContains(t, on(Ascend310P, "out"), dtype.BFloat16)
	_, missing, err := Types("QuantMatmulDequant", Ascend910)
	require.NoError(t, err)
	assert.True(t, missing)
	_, missing, err = Types("FusedMatmul", Ascend910B)
	require.NoError(t, err)
	assert.True(t, missing)
	for name, want := range map[string]Chip{"Abs": Ascend910B, "FusedMatmul": Ascend950, "MrgbaCustom": Ascend310P, "MoeUpdateExpert": Ascend910_93, "NormalFloatFloat": Ascend910B, "NoSuchOperator": Ascend910B} {
		home, err := Home(name)
		require.NoError(t, err)
		assert.Equal(t, want, home, name)
	}
	for _, name := range Names() {
		for _, chip := range chips {
			_, _, err := Types(name, chip)
			require.NoError(t, err)
		}
	}
}
