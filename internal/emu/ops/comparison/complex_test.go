package comparison

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Complex numbers are equal if both parts are.
func TestComplexEquality(t *testing.T) {
	complexOf := func(d dtype.Type, parts ...float64) *op.Tensor {
		x := optest.Tensor(t, op.PartTypes[d], []int64{int64(len(parts))}, parts...)
		x.DType, x.Shape, x.Storage = d, []int64{int64(len(parts) / 2)}, []int64{int64(len(parts) / 2)}
		return x
	}
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, y := complexOf(d, 1, 2, 3, 4, 5, 6), complexOf(d, 1, 2, 3, 0, 0, 6)
		out := optest.Tensor(t, dtype.Bool, []int64{3})
		optest.Run(t, "EqTensor", optest.Args{"self": x, "other": y, "out": out})
		assert.Equal(t, []float64{1, 0, 0}, optest.Values(out))
		optest.Run(t, "EqScalar", optest.Args{"self": complexOf(d, 1, 0, 1, 2, 2, 0), "other": optest.Scalar(1), "out": out})
		assert.Equal(t, []float64{1, 0, 0}, optest.Values(out))
		optest.Run(t, "NeTensor", optest.Args{"self": x, "other": y, "out": out})
		assert.Equal(t, []float64{0, 1, 1}, optest.Values(out))
		x, y = complexOf(d, 0, 2, 0, 0, 5, 6), complexOf(d, 1, 0, 0, 0, 0, 0)
		for name, want := range map[string][]float64{"LogicalAnd": {1, 0, 0}, "LogicalOr": {1, 0, 1}, "LogicalXor": {0, 0, 1}} {
			optest.Run(t, name, optest.Args{"self": x, "other": y, "out": out})
			assert.Equal(t, want, optest.Values(out), name)
		}
	}
}

// A complex output gets the truth as its real part.
func TestTruthAsComplex(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Int32, []int64{3}, 1, 2, 3), optest.Tensor(t, dtype.Int32, []int64{3}, 2)
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		for name, want := range map[string][]float64{"Gt": {0, 0, 0, 0, 1, 0}, "Ge": {0, 0, 1, 0, 1, 0}} {
			for form, other := range map[string]any{"Tensor": y, "Scalar": optest.Scalar(2)} {
				parts := optest.Tensor(t, op.PartTypes[d], []int64{3, 2}, 9)
				out := optest.Of(parts.View())
				out.DType, out.Shape, out.Strides, out.Storage = d, []int64{3}, []int64{1}, []int64{3}
				optest.Run(t, name+form, optest.Args{"self": x, "other": other, "out": out})
				assert.Equal(t, want, optest.Values(parts), name+form)
			}
		}
	}
	optest.Refused(t, op.InvalidParam, "LtTensor", optest.Args{"self": x, "other": y, "out": optest.Of(kernel.View{DType: dtype.Complex64, Shape: []int64{3}, Strides: []int64{1}})})
}
