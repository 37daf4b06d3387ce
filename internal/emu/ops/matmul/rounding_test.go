package matmul

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// cubeMathType rounds float32 factors as aclnnMatmul's document says, chip by chip.
func TestCubeMathType(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13) // HF32 makes 1 + 2^-11 of it, float16 1 + 2^-10
	const hf32, half = 1 + 1.0/(1<<11), 1 + 1.0/(1<<10)
	for _, c := range []struct {
		chip acceptance.Chip
		mode int
		want float64 // of fine
		huge float64 // of 1e5
	}{
		{acceptance.Ascend910B, 0, fine, 1e5}, {acceptance.Ascend910B, 1, hf32, 1e5}, {acceptance.Ascend910B, 2, half, math.Inf(1)}, {acceptance.Ascend910B, 3, hf32, 1e5}, {acceptance.Ascend910B, 4, fine, 1e5},
		{acceptance.Ascend950, 1, hf32, 1e5}, {acceptance.Ascend310P, 1, half, math.Inf(1)}, {acceptance.Ascend310P, 2, half, math.Inf(1)}, {acceptance.Ascend910, 1, half, math.Inf(1)},
	} {
		for _, plain := range []bool{false, true} {
			for value, want := range map[float64]float64{fine: c.want, 1e5: c.huge} {
				if plain {
					want = float64(float32(value))
				}
				out := optest.Tensor(t, dtype.Float32, []int64{1, 1})
				e, err := optest.PrepareIn(t, op.Env{Chip: c.chip, PlainCube: plain}, "Mm", optest.Args{
					"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, value), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "out": out, "cubeMathType": c.mode,
				})
				require.NoError(t, err)
				require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
				assert.Equal(t, []float64{want}, optest.Values(out), "%v mode %d plain %v of %v", c.chip, c.mode, plain, value)
			}
		}
	}
	// Results of USE_FP16 are float16; two bfloat16 factors have no effect on the mode.
	out := optest.Tensor(t, dtype.Float32, []int64{1, 1})
	optest.Run(t, "Mm", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 2049), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 3), "out": out, "cubeMathType": 2})
	assert.Equal(t, []float64{6144}, optest.Values(out), "2048 times 3")
	optest.Run(t, "Mm", optest.Args{"self": optest.Tensor(t, dtype.BFloat16, []int64{1, 1}, 1e5), "mat2": optest.Tensor(t, dtype.BFloat16, []int64{1, 1}, 1), "out": out, "cubeMathType": 2})
	assert.Equal(t, []float64{99840}, optest.Values(out))
	// The cubes of the 910 and the 310P do not multiply float32.
	for _, chip := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend310P} {
		for _, mode := range []int{0, 3} {
			_, err := optest.PrepareIn(t, op.Env{Chip: chip}, "Mm", optest.Args{
				"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "out": out, "cubeMathType": mode,
			})
			assert.ErrorContains(t, err, "this chip multiplies float16", "%v %d", chip, mode)
		}
	}
}

// Every operator with cubeMathType rounds by it, and refuses values that do not exist. Those of the other families are
// listed with the place of their tests.
func TestCubeMathTypeOfEachOperator(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13)
	f := func(value float64, shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, value) }
	sum := func(left, right string, a, b []int64, self, out *op.Tensor) optest.Args {
		x := optest.Args{left: f(fine, a...), right: f(1, b...), "beta": optest.Scalar(0.0), "alpha": optest.Scalar(1.0)}
		if self != nil {
			x["self"], x["out"] = self, out
		} else {
			x["selfRef"] = out
		}
		return x
	}
	one, two, three := []int64{1}, []int64{1, 1}, []int64{1, 1, 1}
	rows := map[string]struct {
		args optest.Args
		out  *op.Tensor
	}{}
	add := func(name string, out *op.Tensor, a optest.Args) {
		rows[name] = struct {
			args optest.Args
			out  *op.Tensor
		}{a, out}
	}
	for name, shape := range map[string][]int64{"Matmul": two, "Mm": two, "BatchMatMul": three} {
		out := f(0, shape...)
		add(name, out, optest.Args{"self": f(fine, shape...), "mat2": f(1, shape...), "out": out})
	}
	out := f(0, two...)
	add("Addmm", out, sum("mat1", "mat2", two, two, f(0, two...), out))
	out = f(0, two...)
	add("InplaceAddmm", out, sum("mat1", "mat2", two, two, nil, out))
	for _, name := range []string{"Addbmm", "Baddbmm"} {
		shape := map[string][]int64{"Addbmm": two, "Baddbmm": three}[name]
		out := f(0, shape...)
		add(name, out, sum("batch1", "batch2", three, three, f(0, shape...), out))
		out = f(0, shape...)
		add("Inplace"+name, out, sum("batch1", "batch2", three, three, nil, out))
	}
	out = f(0, one...)
	add("Mv", out, optest.Args{"self": f(fine, two...), "vec": f(1, one...), "out": out})
	out = f(0, one...)
	add("Addmv", out, optest.Args{"self": f(0, one...), "mat": f(fine, two...), "vec": f(1, one...), "beta": optest.Scalar(0.0), "alpha": optest.Scalar(1.0), "out": out})
	out = f(0, two...)
	add("Gemm", out, optest.Args{"A": f(fine, two...), "B": f(1, two...), "C": f(0, two...), "alpha": 1.0, "beta": 0.0, "out": out})
	out = f(0, two...)
	add("FusedMatmul", out, optest.Args{"x1": f(fine, two...), "x2": f(1, two...), "fusedOpType": "relu", "y": out})
	out = f(0, three...)
	add("TransposeBatchMatMul", out, optest.Args{"x1": f(fine, three...), "x2": f(1, three...), "permX1": []int64{1, 0, 2}, "permX2": []int64{0, 1, 2}, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": out})
	elsewhere := map[string]string{
		"MatmulWeightNz": "16 bits only", "BatchMatMulWeightNz": "16 bits only", "AddmmWeightNz": "16 bits only", "TransposeBatchMatMulWeightNz": "16 bits only",
		"Convolution": "package convolution", "ConvolutionBackward": "package convolution", "ConvTbc": "package convolution", "ConvTbcBackward": "package convolution",
		"ConvDepthwise2d": "package convolution", "AvgPool2d": "package pooling", "AvgPool2dBackward": "package pooling",
	}
	for i := range op.Operators {
		o := &op.Operators[i]
		if !slices.ContainsFunc(o.Params, func(p op.Param) bool { return p.Name == "cubeMathType" }) || elsewhere[o.Name] != "" {
			continue
		}
		row, ok := rows[o.Name]
		if !assert.True(t, ok, "%s has a cubeMathType and no row", o.Name) {
			continue
		}
		for mode, want := range map[int]float64{0: fine, 1: 1 + 1.0/(1<<11), 2: 1 + 1.0/(1<<10), 3: 1 + 1.0/(1<<11), 4: fine} {
			a := row.args.With(optest.Args{"cubeMathType": mode})
			if o.Name == "FusedMatmul" && mode != 3 { // CANN's check takes float32 only where it may be rounded
				optest.Refused(t, op.InvalidParam, o.Name, a, "cubeMathType")
				continue
			}
			optest.Run(t, o.Name, a)
			assert.InDelta(t, want, optest.Values(row.out)[0], 1e-7, "%s, mode %d", o.Name, mode)
		}
		for _, mode := range []int{-1, 5} {
			optest.Refused(t, op.InvalidParam, o.Name, row.args.With(optest.Args{"cubeMathType": mode}), "cubeMathType")
		}
	}
}
