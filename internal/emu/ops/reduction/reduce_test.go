package reduction

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestReductions(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 7}
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		a     optest.Args
		out   dtype.Type
		shape []int64
		want  []float64
	}{
		{"ReduceSum", optest.Args{"dims": []int64{0}, "dtype": f}, f, []int64{3}, []float64{5, 7, 10}},
		{"ReduceSum", optest.Args{"dims": []int64{-1}, "keepDims": true, "dtype": f}, f, []int64{2, 1}, []float64{6, 16}},
		{"ReduceSum", optest.Args{"dims": []int64{}, "dtype": f}, f, []int64{}, []float64{22}},
		{"ReduceNansum", optest.Args{"dim": []int64{0, 1}, "dtype": f}, f, []int64{}, []float64{22}},
		{"Mean", optest.Args{"dim": []int64{1}, "dtype": f}, f, []int64{2}, []float64{2, 16 / 3.0}},
		{"MeanV2", optest.Args{"dim": []int64{}, "noopWithEmptyAxes": true}, f, []int64{2, 3}, x},
		{"Prod", optest.Args{"dtype": f}, f, []int64{}, []float64{840}},
		{"ProdDim", optest.Args{"dim": 0, "keepDim": true, "dtype": f}, f, []int64{1, 3}, []float64{4, 10, 21}},
		{"Max", optest.Args{}, f, []int64{}, []float64{7}}, {"Min", optest.Args{}, f, []int64{}, []float64{1}},
		{"Amax", optest.Args{"dim": []int64{0}}, f, []int64{3}, []float64{4, 5, 7}},
		{"Amin", optest.Args{"dim": []int64{1}, "keepDim": true}, f, []int64{2, 1}, []float64{1, 4}},
		{"MaxV2", optest.Args{"dims": []int64{1}}, f, []int64{2}, []float64{3, 7}},
		{"ArgMax", optest.Args{"dim": 1}, dtype.Int64, []int64{2}, []float64{2, 2}},
		{"ArgMin", optest.Args{"dim": 0, "keepdim": true}, dtype.Int32, []int64{1, 3}, []float64{0, 0, 0}},
		{"Any", optest.Args{"dim": []int64{1}}, dtype.Bool, []int64{2}, []float64{1, 1}},
		{"All", optest.Args{"dim": []int64{0, 1}}, dtype.Bool, []int64{}, []float64{1}},
		{"LogSumExp", optest.Args{"dim": []int64{0}}, f, []int64{3}, []float64{
			4 + math.Log1p(math.Exp(-3)), 5 + math.Log1p(math.Exp(-3)), 7 + math.Log1p(math.Exp(-4)),
		}},
		{"Norm", optest.Args{"pScalar": optest.Scalar(2), "dim": []int64{}}, f, []int64{}, []float64{math.Sqrt(104)}},
		{"Norm", optest.Args{"pScalar": optest.Scalar(1), "dim": []int64{1}}, f, []int64{2}, []float64{6, 16}},
		{"LinalgVectorNorm", optest.Args{"ord": optest.Scalar(math.Inf(1)), "dims": []int64{0}, "dtype": f}, f, []int64{3}, []float64{4, 5, 7}},
		{"LinalgVectorNorm", optest.Args{"ord": optest.Scalar(3.), "dims": []int64{1}, "dtype": f}, f, []int64{2}, []float64{math.Cbrt(36), math.Cbrt(532)}},
		{"Var", optest.Args{"dim": []int64{1}, "unbiased": true}, f, []int64{2}, []float64{1, 7 / 3.0}},
		{"VarCorrection", optest.Args{"dim": []int64{0}, "correction": 0}, f, []int64{3}, []float64{2.25, 2.25, 4}},
		{"Std", optest.Args{"dim": []int64{0}, "correction": 0}, f, []int64{3}, []float64{1.5, 1.5, 2}},
	} {
		for _, l := range kerneltest.Layouts {
			name := "self"
			if op.Find(c.name).Params[0].Name != name {
				name = op.Find(c.name).Params[0].Name
			}
			out := optest.Tensor(t, c.out, c.shape)
			c.a[name], c.a["out"] = optest.TensorIn(t, f, l, []int64{2, 3}, x...), out
			optest.Run(t, c.name, c.a)
			assert.InDeltaSlice(t, c.want, optest.Values(out), 1e-6, "%s %v", c.name, l)
		}
		c.a["out"] = optest.Tensor(t, c.out, []int64{9})
		optest.Refused(t, op.InvalidParam, c.name, c.a, "[9]")
		delete(c.a, "out")
		optest.Refused(t, op.NullPointer, c.name, c.a, "out is null")
	}
}

func TestReductionsWithTwoOutputs(t *testing.T) {
	x := optest.TensorIn(t, dtype.BFloat16, kerneltest.Transposed, []int64{2, 3}, 4, 2, 6, -1, -1, -3)
	a, b := optest.Tensor(t, dtype.BFloat16, []int64{2}), optest.Tensor(t, dtype.Int64, []int64{2})
	optest.Run(t, "MaxDim", optest.Args{"self": x, "dim": 1, "out": a, "indices": b})
	assert.Equal(t, []float64{6, -1, 2, 0}, append(optest.Values(a), optest.Values(b)...))
	optest.Run(t, "MinDim", optest.Args{"self": x, "dim": -1, "out": a, "indices": b})
	assert.Equal(t, []float64{2, -3, 1, 2}, append(optest.Values(a), optest.Values(b)...))
	lo, hi := optest.Tensor(t, dtype.BFloat16, []int64{}), optest.Tensor(t, dtype.BFloat16, []int64{})
	optest.Run(t, "AminmaxAll", optest.Args{"self": x, "minOut": lo, "maxOut": hi})
	assert.Equal(t, []float64{-3, 6}, append(optest.Values(lo), optest.Values(hi)...))
	lo, hi = optest.Tensor(t, dtype.BFloat16, []int64{1, 3}), optest.Tensor(t, dtype.BFloat16, []int64{1, 3})
	optest.Run(t, "AminmaxDim", optest.Args{"self": x, "dim": 0, "keepDim": true, "minOut": lo, "maxOut": hi})
	assert.Equal(t, []float64{-1, -1, -3, 4, 2, 6}, append(optest.Values(lo), optest.Values(hi)...))
	optest.Run(t, "Aminmax", optest.Args{"self": x, "dim": []int64{0}, "keepDim": true, "minOut": hi, "maxOut": lo})
	assert.Equal(t, []float64{-1, -1, -3, 4, 2, 6}, append(optest.Values(hi), optest.Values(lo)...))
	v, m := optest.Tensor(t, dtype.Float32, []int64{2}), optest.Tensor(t, dtype.Float32, []int64{2})
	wide := optest.Tensor(t, dtype.Float32, []int64{2, 3}, optest.Values(x)...)
	optest.Run(t, "StdMeanCorrection", optest.Args{"self": wide, "dim": []int64{1}, "correction": 1, "stdOut": v, "meanOut": m})
	assert.InDeltaSlice(t, []float64{2, 2 / math.Sqrt(3), 4, -5 / 3.0}, append(optest.Values(v), optest.Values(m)...), 1e-6)
	optest.Run(t, "VarMean", optest.Args{"self": wide, "dim": []int64{1}, "correction": 1, "varOut": v, "meanOut": m})
	assert.InDeltaSlice(t, []float64{4, 4 / 3.0, 4, -5 / 3.0}, append(optest.Values(v), optest.Values(m)...), 1e-6)
	optest.Refused(t, op.InvalidParam, "MaxDim", optest.Args{"self": x, "dim": 1, "out": a, "indices": m}, "integer")
}

func TestReductionsOfNothing(t *testing.T) {
	x, out := optest.Tensor(t, dtype.Float32, []int64{0, 3}), optest.Tensor(t, dtype.Float32, []int64{3}, 5)
	optest.Run(t, "ReduceSum", optest.Args{"self": x, "dims": []int64{0}, "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{0, 0, 0}, optest.Values(out))
	optest.Run(t, "Mean", optest.Args{"self": x, "dim": []int64{0}, "dtype": dtype.Float32, "out": out})
	assert.True(t, math.IsNaN(optest.Values(out)[0]))
	optest.Run(t, "Amax", optest.Args{"self": x, "dim": []int64{1}, "out": optest.Tensor(t, dtype.Float32, []int64{0})})
	kept := optest.Tensor(t, dtype.Float32, []int64{3}, 5)
	optest.Run(t, "Amax", optest.Args{"self": x, "dim": []int64{0}, "out": kept})
	assert.Equal(t, []float64{5, 5, 5}, optest.Values(kept), "CANN starts no kernel")
	optest.Refused(t, op.InvalidParam, "ReduceSum", optest.Args{"self": x, "dims": []int64{1, -1}, "dtype": dtype.Float32, "out": out}, "twice")
	optest.Refused(t, op.InvalidParam, "ReduceNansum", optest.Args{"self": out, "dim": []int64{0}, "dtype": dtype.Int32, "out": optest.Tensor(t, dtype.Int32, []int64{})}, "")
	optest.Refused(t, op.InvalidParam, "Mean", optest.Args{"self": out, "dim": []int64{0}, "dtype": dtype.Int32, "out": optest.Tensor(t, dtype.Int32, []int64{})}, "no integers")
}

// TestReduceToOneElement: a scalar result may also be given as a tensor of one element.
func TestReduceToOneElement(t *testing.T) {
	self := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1, 2, 3, 4)
	for name, want := range map[string]float64{"Prod": 24, "Max": 4, "Min": 1} {
		for _, shape := range [][]int64{{}, {1}, {1, 1, 1}} {
			out := optest.Tensor(t, dtype.Float32, shape)
			a := optest.Args{"self": self, "out": out}
			if name == "Prod" {
				a["dtype"] = dtype.Float32
			}
			optest.Run(t, name, a)
			require.Equal(t, []float64{want}, optest.Values(out), "%s to %v", name, shape)
		}
	}
	sum := optest.Tensor(t, dtype.Float32, []int64{})
	optest.Run(t, "ReduceSum", optest.Args{"self": self, "dims": []int64{}, "keepDims": true, "dtype": dtype.Float32, "out": sum})
	require.Equal(t, []float64{10}, optest.Values(sum))
	low, high := optest.Tensor(t, dtype.Float32, []int64{1}), optest.Tensor(t, dtype.Float32, []int64{1})
	optest.Run(t, "AminmaxAll", optest.Args{"self": self, "minOut": low, "maxOut": high})
	require.Equal(t, []float64{1, 4}, append(optest.Values(low), optest.Values(high)...))
}

// Means of integers are cut.
func TestMeansOfIntegers(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			x, rows, all := optest.TensorIn(t, d, l, []int64{2, 3}, 100, 100, 50, 1, 2, 5), optest.TensorIn(t, d, l, []int64{2}), optest.Tensor(t, d, []int64{})
			optest.Run(t, "Mean", optest.Args{"self": x, "dim": []int64{1}, "dtype": d, "out": rows})
			assert.Equal(t, []float64{83, 2}, optest.Values(rows), "%v %v", d, l)
			optest.Run(t, "MeanV2", optest.Args{"self": x, "dim": []int64{}, "out": all})
			assert.Equal(t, []float64{43}, optest.Values(all), "%v %v", d, l)
		}
	}
}
