package layout

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// cast950 casts numbers on a 950 and returns those of the result.
func cast950(t *testing.T, from, to dtype.Type, values ...float64) ([]float64, error) {
	tensor := func(d dtype.Type, values ...float64) *op.Tensor {
		n := []int64{int64(len(values))}
		if d.Bits() > 8 {
			return optest.Tensor(t, d, n, values...)
		}
		return optest.Minifloat(t, d, n, values...)
	}
	self, out := tensor(from, values...), tensor(to, make([]float64, len(values))...)
	e, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "Cast", optest.Args{"self": self, "dtype": int(to), "out": out})
	require.NoError(t, err, "%v to %v", from, to)
	err = optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)})
	return optest.MinifloatValues(t, out), err
}

func TestCastMinifloat(t *testing.T) {
	plain := []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}
	for to, numbers := range map[dtype.Type][2][]float64{ // what is cast, and what becomes of it
		dtype.Float8E4M3: {{0, -1.5, 448, 1.0625, 1.1875, -1.0625}, {0, -1.5, 448, 1, 1.25, -1}},
		dtype.Float8E5M2: {{0, -1.5, 57344, 1.125, 1.375, -1.125}, {0, -1.5, 57344, 1, 1.5, -1}},
		dtype.HiFloat8:   {{0, -1.5, 32768, 1.0625, 1.1875, -1.0625}, {0, -1.5, 32768, 1.125, 1.25, -1.125}},
		dtype.Float4E2M1: {{0, -1.5, 6, 2.5, 5, -7, 3.5, 100}, {0, -1.5, 6, 2, 4, -6, 4, 6}},
		dtype.Float4E1M2: {{0, -1.5, 1.75, .125, .375, -7}, {0, -1.5, 1.75, 0, .5, -1.75}},
	} {
		for _, from := range plain {
			got, err := cast950(t, from, to, numbers[0]...)
			require.NoError(t, err)
			assert.Equal(t, numbers[1], got, "%v to %v", from, to)
			back, err := cast950(t, to, from, numbers[1]...)
			require.NoError(t, err)
			assert.Equal(t, numbers[1], back, "%v to %v", to, from)
		}
	}
	for _, eight := range eightBits {
		for _, four := range fourBits {
			got, err := cast950(t, four, eight, 0, .5, -1.5, 1)
			require.NoError(t, err)
			assert.Equal(t, []float64{0, .5, -1.5, 1}, got, "%v to %v", four, eight)
			got, err = cast950(t, eight, four, 0, .5, -1.5, 32)
			require.NoError(t, err)
			assert.Equal(t, []float64{0, .5, -1.5, map[dtype.Type]float64{dtype.Float4E2M1: 6, dtype.Float4E1M2: 1.75}[four]}, got, "%v to %v", eight, four)
		}
		for _, x := range []float64{1e6, math.Inf(-1), math.NaN()} {
			_, err := cast950(t, dtype.Float32, eight, 1, x)
			assert.ErrorContains(t, err, "does not know", "%v to %v", x, eight)
		}
	}
	// float32 is rounded to bfloat16 first, which makes a tie of it.
	got, err := cast950(t, dtype.Float32, dtype.Float4E2M1, 2.5+1.0/1024, 0)
	require.NoError(t, err)
	assert.Equal(t, []float64{2, 0}, got)

	odd := optest.Minifloat(t, dtype.Float4E2M1, []int64{4})
	odd.Shape = []int64{3}
	_, err = optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "Cast", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}), "dtype": int(dtype.Float4E2M1), "out": odd})
	assert.ErrorContains(t, err, "an even number of elements")
	_, err = optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B}, "Cast", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{4}), "dtype": int(dtype.HiFloat8), "out": optest.Minifloat(t, dtype.HiFloat8, []int64{4})})
	assert.Error(t, err)
}

// The 950 casts complex32 from and to complex64 and float16.
func TestCastComplex32(t *testing.T) {
	complexOf := func(d dtype.Type, values ...complex128) *op.Tensor {
		x := optest.Tensor(t, d, []int64{int64(len(values))})
		require.NoError(t, x.SetNumbers(values))
		return x
	}
	cast := func(self, out *op.Tensor) []complex128 {
		e, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "Cast", optest.Args{"self": self, "dtype": int(out.DType), "out": out})
		require.NoError(t, err, "%v to %v", self, out)
		require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
		got, err := out.Numbers(out.Shape)
		require.NoError(t, err)
		return got
	}
	half := complexOf(dtype.Complex32, 0, 0, 0)
	// 2049 lies between two float16 numbers and becomes the even one.
	assert.Equal(t, []complex128{1.5 - 2i, 2048 + 0.25i, -1i}, cast(complexOf(dtype.Complex64, 1.5-2i, 2049+0.25i, -1i), half))
	assert.Equal(t, []complex128{1.5 - 2i, 2048 + 0.25i, -1i}, cast(half, complexOf(dtype.Complex64, 0, 0, 0)))
	assert.Equal(t, []complex128{1.5, 2048, 0}, cast(half, optest.Tensor(t, dtype.Float16, []int64{3})))
	assert.Equal(t, []complex128{4, -5, 6}, cast(optest.Tensor(t, dtype.Float16, []int64{3}, 4, -5, 6), half))
	assert.Equal(t, []complex128{1.5, 2048, 0}, cast(complexOf(dtype.Complex64, 1.5-2i, 2049+0.25i, -1i), optest.Tensor(t, dtype.BFloat16, []int64{3})))
}

// The 950 keeps the low four bits of an int32, the first of two in the low half of a byte.
func TestCastInt4(t *testing.T) {
	in950 := func(self, out *op.Tensor) (*op.Executor, error) {
		return optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "Cast", optest.Args{"self": self, "dtype": int(out.DType), "out": out})
	}
	bytes := optest.Tensor(t, dtype.Uint8, []int64{2, 2})
	out := optest.Of(bytes.View())
	out.DType, out.Shape, out.Storage, out.Strides = dtype.Int4, []int64{2, 4}, []int64{2, 4}, []int64{4, 1}
	self := optest.Tensor(t, dtype.Int32, []int64{2, 4}, 1, -2, 7, -8, 8, 16, -9, 1<<20+3)
	e, err := in950(self, out)
	require.NoError(t, err)
	require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
	assert.Equal(t, []float64{0xe1, 0x87, 0x08, 0x37}, optest.Values(bytes))

	three := *out
	three.Shape, three.Storage, three.Strides = []int64{2, 3}, []int64{2, 3}, []int64{3, 1}
	gapped := optest.Tensor(t, dtype.Int32, []int64{4, 2})
	gapped.Shape, gapped.Strides = []int64{2, 4}, []int64{1, 2}
	for _, tc := range []struct {
		code      int32
		self, out *op.Tensor
		text      string
	}{
		{op.TilingRefused, optest.Tensor(t, dtype.Int32, []int64{2, 3}), &three, "must be even"},
		{op.InvalidParam, gapped, out, "must be contiguous"},
		{op.NoStep, optest.Tensor(t, dtype.Int8, []int64{2, 4}), out, "int32 alone"},
		{op.NoStep, optest.Tensor(t, dtype.Float32, []int64{2}), optest.Tensor(t, dtype.Complex32, []int64{2}), "no kernel for that pair"},
		{op.NoStep, optest.Tensor(t, dtype.Int8, []int64{2}), optest.Minifloat(t, dtype.HiFloat8, []int64{2}), "no kernel for that pair"},
		{op.NoStep, optest.Tensor(t, dtype.Complex64, []int64{2}), optest.Minifloat(t, dtype.HiFloat8, []int64{2}), "no kernel for that pair"},
	} {
		_, err := in950(tc.self, tc.out)
		var refused *op.Error
		require.ErrorAs(t, err, &refused, "%v to %v", tc.self, tc.out)
		assert.Equal(t, tc.code, refused.Code, "%v to %v: %v", tc.self, tc.out, err)
		assert.ErrorContains(t, err, tc.text)
	}
}
