package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestReductions(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 7}
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		a     args
		out   dtype.Type
		shape []int64
		want  []float64
	}{
		{"ReduceSum", args{"dims": []int64{0}, "dtype": f}, f, []int64{3}, []float64{5, 7, 10}},
		{"ReduceSum", args{"dims": []int64{-1}, "keepDims": true, "dtype": f}, f, []int64{2, 1}, []float64{6, 16}},
		{"ReduceSum", args{"dims": []int64{}, "dtype": f}, f, []int64{}, []float64{22}},
		{"ReduceNansum", args{"dim": []int64{0, 1}, "dtype": f}, f, []int64{}, []float64{22}},
		{"Mean", args{"dim": []int64{1}, "dtype": f}, f, []int64{2}, []float64{2, 16 / 3.0}},
		{"MeanV2", args{"dim": []int64{}, "noopWithEmptyAxes": true}, f, []int64{2, 3}, x},
		{"Prod", args{"dtype": f}, f, []int64{}, []float64{840}},
		{"ProdDim", args{"dim": 0, "keepDim": true, "dtype": f}, f, []int64{1, 3}, []float64{4, 10, 21}},
		{"Max", args{}, f, []int64{}, []float64{7}}, {"Min", args{}, f, []int64{}, []float64{1}},
		{"Amax", args{"dim": []int64{0}}, f, []int64{3}, []float64{4, 5, 7}},
		{"Amin", args{"dim": []int64{1}, "keepDim": true}, f, []int64{2, 1}, []float64{1, 4}},
		{"MaxV2", args{"dims": []int64{1}}, f, []int64{2}, []float64{3, 7}},
		{"ArgMax", args{"dim": 1}, dtype.Int64, []int64{2}, []float64{2, 2}},
		{"ArgMin", args{"dim": 0, "keepdim": true}, dtype.Int32, []int64{1, 3}, []float64{0, 0, 0}},
		{"Any", args{"dim": []int64{1}}, dtype.Bool, []int64{2}, []float64{1, 1}},
		{"All", args{"dim": []int64{0, 1}}, dtype.Bool, []int64{}, []float64{1}},
		{"LogSumExp", args{"dim": []int64{0}}, f, []int64{3}, []float64{
			4 + math.Log1p(math.Exp(-3)), 5 + math.Log1p(math.Exp(-3)), 7 + math.Log1p(math.Exp(-4)),
		}},
		{"Norm", args{"pScalar": scalar(2)}, f, []int64{}, []float64{math.Sqrt(104)}},
		{"Norm", args{"pScalar": scalar(1), "dim": []int64{1}}, f, []int64{2}, []float64{6, 16}},
		{"LinalgVectorNorm", args{"ord": scalar(math.Inf(1)), "dims": []int64{0}, "dtype": f}, f, []int64{3}, []float64{4, 5, 7}},
		{"LinalgVectorNorm", args{"ord": scalar(3.), "dims": []int64{1}, "dtype": f}, f, []int64{2}, []float64{math.Cbrt(36), math.Cbrt(532)}},
		{"Var", args{"dim": []int64{1}, "unbiased": true}, f, []int64{2}, []float64{1, 7 / 3.0}},
		{"VarCorrection", args{"dim": []int64{0}, "correction": 0}, f, []int64{3}, []float64{2.25, 2.25, 4}},
		{"Std", args{"dim": []int64{0}, "correction": 0}, f, []int64{3}, []float64{1.5, 1.5, 2}},
	} {
		for _, l := range kerneltest.Layouts {
			name := "self"
			if find(c.name).params[0].name != name {
				name = find(c.name).params[0].name
			}
			out := tensor(t, c.out, c.shape)
			c.a[name], c.a["out"] = tensorIn(t, f, l, []int64{2, 3}, x...), out
			run(t, c.name, c.a)
			assert.InDeltaSlice(t, c.want, values(out), 1e-6, "%s %v", c.name, l)
		}
		c.a["out"] = tensor(t, c.out, []int64{9})
		refused(t, invalidParam, c.name, c.a, "[9]")
		delete(c.a, "out")
		refused(t, nullPointer, c.name, c.a, "out is null")
	}
}

func TestReductionsWithTwoOutputs(t *testing.T) {
	x := tensorIn(t, dtype.BFloat16, kerneltest.Transposed, []int64{2, 3}, 4, 2, 6, -1, -1, -3)
	a, b := tensor(t, dtype.BFloat16, []int64{2}), tensor(t, dtype.Int64, []int64{2})
	run(t, "MaxDim", args{"self": x, "dim": 1, "out": a, "indices": b})
	assert.Equal(t, []float64{6, -1, 2, 0}, append(values(a), values(b)...))
	run(t, "MinDim", args{"self": x, "dim": -1, "out": a, "indices": b})
	assert.Equal(t, []float64{2, -3, 1, 2}, append(values(a), values(b)...))
	lo, hi := tensor(t, dtype.BFloat16, []int64{}), tensor(t, dtype.BFloat16, []int64{})
	run(t, "AminmaxAll", args{"self": x, "minOut": lo, "maxOut": hi})
	assert.Equal(t, []float64{-3, 6}, append(values(lo), values(hi)...))
	lo, hi = tensor(t, dtype.BFloat16, []int64{1, 3}), tensor(t, dtype.BFloat16, []int64{1, 3})
	run(t, "AminmaxDim", args{"self": x, "dim": 0, "keepDim": true, "minOut": lo, "maxOut": hi})
	assert.Equal(t, []float64{-1, -1, -3, 4, 2, 6}, append(values(lo), values(hi)...))
	v, m := tensor(t, dtype.Float32, []int64{2}), tensor(t, dtype.Float32, []int64{2})
	run(t, "VarMean", args{"self": x, "dim": []int64{1}, "correction": 1, "varOut": v, "meanOut": m})
	assert.InDeltaSlice(t, []float64{4, 4 / 3.0, 4, -5 / 3.0}, append(values(v), values(m)...), 1e-6)
	refused(t, invalidParam, "MaxDim", args{"self": x, "dim": 1, "out": a, "indices": m}, "integer")
}

func TestReductionsOfNothing(t *testing.T) {
	x, out := tensor(t, dtype.Float32, []int64{0, 3}), tensor(t, dtype.Float32, []int64{3}, 5)
	run(t, "ReduceSum", args{"self": x, "dims": []int64{0}, "dtype": dtype.Float32, "out": out})
	assert.Equal(t, []float64{0, 0, 0}, values(out))
	run(t, "Mean", args{"self": x, "dim": []int64{0}, "dtype": dtype.Float32, "out": out})
	assert.True(t, math.IsNaN(values(out)[0]))
	run(t, "Amax", args{"self": x, "dim": []int64{1}, "out": tensor(t, dtype.Float32, []int64{0})})
	refused(t, invalidParam, "Amax", args{"self": x, "dim": []int64{0}, "out": out}, "empty", "self float32[0,3]")
	refused(t, invalidParam, "ReduceSum", args{"self": x, "dims": []int64{1, -1}, "dtype": dtype.Float32, "out": out}, "twice")
	refused(t, invalidParam, "ReduceSum", args{"self": out, "dims": []int64{0}, "dtype": dtype.Int32, "out": tensor(t, dtype.Int32, []int64{})}, "float32")
	refused(t, invalidParam, "Mean", args{"self": out, "dim": []int64{0}, "dtype": dtype.Int32, "out": tensor(t, dtype.Int32, []int64{})}, "floating-point")
}

// TestReduceToOneElement: a result without dimensions may come as a tensor of one.
func TestReduceToOneElement(t *testing.T) {
	self := tensor(t, dtype.Float32, []int64{2, 2}, 1, 2, 3, 4)
	for name, want := range map[string]float64{"Prod": 24, "Max": 4, "Min": 1} {
		for _, shape := range [][]int64{{}, {1}} {
			out := tensor(t, dtype.Float32, shape)
			a := args{"self": self, "out": out}
			if name == "Prod" {
				a["dtype"] = dtype.Float32
			}
			run(t, name, a)
			require.Equal(t, []float64{want}, values(out), "%s to %v", name, shape)
		}
	}
	low, high := tensor(t, dtype.Float32, []int64{1}), tensor(t, dtype.Float32, []int64{1})
	run(t, "AminmaxAll", args{"self": self, "minOut": low, "maxOut": high})
	require.Equal(t, []float64{1, 4}, append(values(low), values(high)...))
}
