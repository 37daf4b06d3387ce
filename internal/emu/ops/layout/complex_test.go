package layout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestComplexCastAndPad(t *testing.T) {
	complexOf := func(d dtype.Type, parts ...float64) (x, of *op.Tensor) {
		of = optest.Tensor(t, op.PartTypes[d], []int64{int64(len(parts) / 2), 2}, parts...)
		x = optest.Of(of.View())
		x.DType, x.Shape, x.Strides, x.Storage = d, of.Shape[:1], []int64{1}, of.Shape[:1]
		return x, of
	}
	x, _ := complexOf(dtype.Complex64, 1.5, 2, 0, -4, 0, 0)
	wide, parts := complexOf(dtype.Complex128, 0, 0, 0, 0, 0, 0)
	optest.Run(t, "Cast", optest.Args{"self": x, "dtype": dtype.Complex128, "out": wide})
	assert.Equal(t, []float64{1.5, 2, 0, -4, 0, 0}, optest.Values(parts))
	for d, want := range map[dtype.Type][]float64{dtype.Float32: {1.5, 0, 0}, dtype.Int32: {1, 0, 0}, dtype.Bool: {1, 1, 0}} {
		out := optest.Tensor(t, d, []int64{3})
		optest.Run(t, "Cast", optest.Args{"self": wide, "dtype": d, "out": out})
		assert.Equal(t, want, optest.Values(out), d)
	}
	optest.Run(t, "Cast", optest.Args{"self": optest.Tensor(t, dtype.Int64, []int64{3}, 7, 8, 9), "dtype": dtype.Complex128, "out": wide})
	assert.Equal(t, []float64{7, 0, 8, 0, 9, 0}, optest.Values(parts))

	copied, of := complexOf(dtype.Complex64, 0, 0, 0, 0, 0, 0)
	optest.Run(t, "InplaceCopy", optest.Args{"selfRef": copied, "src": optest.Tensor(t, dtype.Float32, []int64{1}, 2.5)})
	assert.Equal(t, []float64{2.5, 0, 2.5, 0, 2.5, 0}, optest.Values(of))
	optest.Run(t, "InplaceCopy", optest.Args{"selfRef": wide, "src": x})
	assert.Equal(t, []float64{1.5, 2, 0, -4, 0, 0}, optest.Values(parts))

	reals := optest.Tensor(t, dtype.Float32, []int64{2, 3})
	optest.Run(t, "InplaceCopy", optest.Args{"selfRef": reals, "src": x})
	assert.Equal(t, []float64{1.5, 0, 0, 1.5, 0, 0}, optest.Values(reals))

	padded, parts := complexOf(dtype.Complex64, 0, 0, 0, 0, 0, 0, 0, 0)
	optest.Run(t, "ConstantPadNd", optest.Args{"self": x, "pad": []int64{2, -1}, "value": optest.Scalar(7.0), "out": padded})
	assert.Equal(t, []float64{7, 0, 7, 0, 1.5, 2, 0, -4}, optest.Values(parts))
}

// The gradient of a padded element goes to the element that the padding repeats.
func TestComplexPadBackward(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		of := func(values ...complex128) *op.Tensor {
			x := optest.Tensor(t, d, []int64{1, 1, int64(len(values))})
			require.NoError(t, x.SetNumbers(values))
			return x
		}
		grad, self, out := of(1, 2i, 3, 4i, 5+1i), of(0, 0, 0), of(9, 9, 9)
		for name, want := range map[string][]complex128{"ReflectionPad1dBackward": {3, 6i, 6 + 1i}, "ReplicationPad1dBackward": {1 + 2i, 3, 5 + 5i}} {
			padding := []int64{1, 1}
			if name == "ReflectionPad1dBackward" {
				padding = []int64{2, 0}
			}
			optest.Run(t, name, optest.Args{"gradOutput": grad, "self": self, "padding": padding, "gradInput": out})
			got, err := out.Numbers(out.Shape)
			require.NoError(t, err)
			assert.Equal(t, want, got, name)
		}
	}
}
