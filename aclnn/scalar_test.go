package aclnn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// TestScalarOf fills a tensor with a scalar and reads what CANN made of it.
func TestScalarOf(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	for name, c := range map[string]struct {
		s    aclnn.Scalar
		to   aclnn.DType // of the tensor that is filled
		want float64
	}{
		"float32":                        {aclnn.ScalarOf(aclnn.Float32, 0.1), aclnn.Float32, float64(float32(0.1))},
		"float32 of integer":             {aclnn.ScalarOf(aclnn.Float32, -3), aclnn.Float32, -3},
		"float64":                        {aclnn.ScalarOf(aclnn.Float64, float32(0.5)), aclnn.Float64, 0.5},
		"float16":                        {aclnn.ScalarOf(aclnn.Float16, 1.0/3), aclnn.Float32, 0.333251953125},
		"bfloat16":                       {aclnn.ScalarOf(aclnn.BFloat16, 1.0/3), aclnn.Float32, 0.333984375},
		"int8":                           {aclnn.ScalarOf(aclnn.Int8, -128), aclnn.Int32, -128},
		"uint8":                          {aclnn.ScalarOf(aclnn.Uint8, uint64(255)), aclnn.Int32, 255},
		"int32 of float":                 {aclnn.ScalarOf(aclnn.Int32, -7.0), aclnn.Int32, -7},
		"int64":                          {aclnn.ScalarOf(aclnn.Int64, int32(7)), aclnn.Int64, 7},
		"bool":                           {aclnn.ScalarOf(aclnn.Bool, true), aclnn.Int32, 1},
		"float32 of bool":                {aclnn.ScalarOf(aclnn.Float32, false), aclnn.Float32, 0},
		"Float":                          {aclnn.Float(0.1), aclnn.Float32, float64(float32(0.1))},
		"Int":                            {aclnn.Int(-5), aclnn.Int64, -5},
		"complex without imaginary part": {aclnn.ScalarOf(aclnn.Float32, complex64(2)), aclnn.Float32, 2},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.s.Err())
			x := made(t)(aclnn.Full(st, c.to, c.s, 2))
			if c.to.IsInteger() {
				got, err := aclnn.ToSlice[int64](ctx, st, x)
				require.NoError(t, err)
				require.Equal(t, []int64{int64(c.want), int64(c.want)}, got)
				return
			}
			got, err := aclnn.ToSlice[float64](ctx, st, x)
			require.NoError(t, err)
			require.Equal(t, []float64{c.want, c.want}, got)
		})
	}
	require.Equal(t, aclnn.ScalarOf(aclnn.Float32, 0.1), aclnn.Float(0.1))
	require.Equal(t, aclnn.ScalarOf(aclnn.Int64, -5), aclnn.Int(-5))
	require.Equal(t, aclnn.Complex64, aclnn.ScalarOf(aclnn.Complex64, 1i).DType())
	require.NotEqual(t, aclnn.ScalarOf(aclnn.Complex128, 1i), aclnn.ScalarOf(aclnn.Complex128, 1))
	require.Equal(t, aclnn.ScalarOf(aclnn.Int64, int64(math.MaxInt64)), aclnn.Int(math.MaxInt64), "no float64 in between")
	require.NoError(t, aclnn.ScalarOf(aclnn.Uint64, uint64(math.MaxUint64)).Err())
}

// TestImpossibleScalars: they carry their error to the launch, in a list too, as impossible views do.
func TestImpossibleScalars(t *testing.T) {
	st := openStream(t)
	x := made(t)(aclnn.Zeros(st, aclnn.Float32, 2))
	for name, c := range map[string]struct {
		s    aclnn.Scalar
		want string
	}{
		"too large":         {aclnn.ScalarOf(aclnn.Int8, 128), "a scalar of dtype int8 does not hold 128"},
		"too small":         {aclnn.ScalarOf(aclnn.Int16, -32769), "does not hold -32769"},
		"negative":          {aclnn.ScalarOf(aclnn.Uint8, -1), "does not hold -1"},
		"beyond int64":      {aclnn.ScalarOf(aclnn.Int64, uint64(1)<<63), "does not hold"},
		"a fraction":        {aclnn.ScalarOf(aclnn.Int32, 0.5), "does not hold 0.5"},
		"not a number":      {aclnn.ScalarOf(aclnn.Int32, math.NaN()), "does not hold NaN"},
		"infinite":          {aclnn.ScalarOf(aclnn.Uint64, math.Inf(1)), "does not hold +Inf"},
		"no bool":           {aclnn.ScalarOf(aclnn.Bool, 2), "a scalar of dtype bool does not hold 2"},
		"an imaginary part": {aclnn.ScalarOf(aclnn.Float32, 1i), "does not hold"},
		"four bits":         {aclnn.ScalarOf(aclnn.Int4, 1), "a scalar cannot have dtype int4"},
		"eight bits":        {aclnn.ScalarOf(aclnn.Float8E5M2, 1.0), "a scalar cannot have dtype"},
		"no dtype":          {aclnn.ScalarOf(aclnn.Undefined, 1), "a scalar cannot have dtype"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{
				c.s.Err(),
				aclnn.InplaceAdds(st, aclnn.InplaceAddsParams{Self: x, Other: c.s, Alpha: aclnn.Float(1)}),
				aclnn.ForeachAddScalarList(st, aclnn.ForeachAddScalarListParams{X: []*aclnn.Tensor{x}, Scalars: []aclnn.Scalar{c.s}, Out: []*aclnn.Tensor{x}}),
			} {
				require.ErrorIs(t, err, acl.ErrInvalidArgument)
				assert.ErrorContains(t, err, c.want)
			}
			_, err := aclnn.Full(st, aclnn.Float32, c.s, 2)
			require.ErrorIs(t, err, acl.ErrInvalidArgument)
		})
	}
	require.NoError(t, aclnn.Scalar{}.Err(), "absent is not impossible")
}
