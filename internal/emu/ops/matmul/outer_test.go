package matmul

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// CANN computes outer products element by element, so it takes bools, complex numbers and mixed types.
func TestMixedOuterProducts(t *testing.T) {
	yes, no := optest.Tensor(t, dtype.Bool, []int64{2}, 1, 0), optest.Tensor(t, dtype.Bool, []int64{3}, 1, 1, 0)
	out := optest.Tensor(t, dtype.Bool, []int64{2, 3})
	optest.Run(t, "Ger", optest.Args{"self": yes, "vec2": no, "out": out})
	assert.Equal(t, []float64{1, 1, 0, 0, 0, 0}, optest.Values(out))
	set := &op.Scalar{DType: dtype.Bool, Bits: [16]byte{1}}
	optest.Run(t, "Addr", optest.Args{
		"self": optest.Tensor(t, dtype.Bool, []int64{3}, 0, 0, 1), "vec1": yes, "vec2": no, "betaOptional": set, "alphaOptional": set, "out": out,
	})
	assert.Equal(t, []float64{1, 1, 1, 0, 0, 1}, optest.Values(out))

	x := optest.Tensor(t, dtype.Complex64, []int64{2})
	require.NoError(t, x.SetNumbers([]complex128{1 + 1i, 2}))
	square := optest.Tensor(t, dtype.Complex64, []int64{2, 2})
	optest.Run(t, "Ger", optest.Args{"self": x, "vec2": x, "out": square})
	got, err := square.Numbers(square.Shape)
	require.NoError(t, err)
	assert.Equal(t, []complex128{2i, 2 + 2i, 2 + 2i, 4}, got)

	f, whole := optest.Tensor(t, dtype.Float32, []int64{2}, .5, 2), optest.Tensor(t, dtype.Int16, []int64{2}, 3, -4)
	sum := optest.Tensor(t, dtype.Float32, []int64{2, 2})
	optest.Run(t, "Addr", optest.Args{"self": f, "vec1": f, "vec2": whole, "betaOptional": optest.Scalar(2), "alphaOptional": optest.Scalar(4), "out": sum})
	assert.Equal(t, []float64{7, -4, 25, -28}, optest.Values(sum))
	optest.Refused(t, op.InvalidParam, "Ger", optest.Args{"self": x, "vec2": x, "out": sum}, "")
}

// Nothing happens to out if one of the vectors is empty.
func TestAddrOfEmptyVectors(t *testing.T) {
	vector, none := optest.Tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), optest.Tensor(t, dtype.Float32, []int64{0})
	one := optest.Scalar(1)
	for _, c := range []struct {
		shape      []int64
		vec1, vec2 *op.Tensor
	}{{[]int64{1, 3}, none, vector}, {[]int64{3, 1}, vector, none}} {
		self, out := optest.Tensor(t, dtype.Float32, c.shape, 7, 8, 9), optest.Tensor(t, dtype.Float32, c.shape, 4, 5, 6)
		optest.Run(t, "Addr", optest.Args{"self": self, "vec1": c.vec1, "vec2": c.vec2, "betaOptional": one, "alphaOptional": one, "out": out})
		assert.Equal(t, []float64{4, 5, 6}, optest.Values(out))
	}
}
