package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestTransformBiasRescaleQkv(t *testing.T) {
	for _, s := range []struct{ batch, tokens, heads, dim int64 }{{2, 3, 2, 5}, {1, 1, 1, 1}, {0, 2, 2, 2}} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %v", s, d, l)
				width := 3 * s.heads * s.dim
				x, bias := filled(t, 1, d, l, []int64{s.batch, s.tokens, width}), filled(t, 2, d, l, []int64{width})
				shape := []int64{s.batch, s.heads, s.tokens, s.dim}
				outs := []*Tensor{tensorIn(t, d, l, shape), tensorIn(t, d, l, shape), tensorIn(t, d, l, shape)}
				a := args{"qkv": x, "qkvBias": bias, "numHeads": s.heads, "qOut": outs[0], "kOut": outs[1], "vOut": outs[2]}
				run(t, "TransformBiasRescaleQkv", a)
				for i, out := range outs {
					var want []float64
					walk(shape, func(at []int64) {
						column := (int64(i)*s.heads+at[1])*s.dim + at[3]
						v := values(x)[(at[0]*s.tokens+at[2])*width+column] + values(bias)[column]
						if i == 0 {
							v /= math.Sqrt(float64(s.dim))
						}
						want = append(want, v)
					})
					closeTo(t, what, want, values(out), resultLimit(d))
				}
				refused(t, invalidParam, "TransformBiasRescaleQkv", a.with(args{"numHeads": 7}), "numHeads is 7")
				refused(t, invalidParam, "TransformBiasRescaleQkv", a.with(args{"qkvBias": tensor(t, d, []int64{1}, 1)}), "one for each column")
				refused(t, nullPointer, "TransformBiasRescaleQkv", a.with(args{"kOut": nil}), "kOut is null")
			}
		}
	}
}

func TestSquaredRelu(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, y := tensorIn(t, d, l, []int64{2, 3}, -2, 0, 1.5, math.Inf(1), math.Inf(-1), 3), tensorIn(t, d, l, []int64{2, 3})
			run(t, "SquaredRelu", args{"input": x, "out": y})
			assert.Equal(t, []float64{0, 0, 2.25, math.Inf(1), 0, 9}, values(y), "%v %v", d, l)
		}
	}
	refused(t, invalidParam, "SquaredRelu", args{"input": tensor(t, dtype.Int32, []int64{1}, 1), "out": tensor(t, dtype.Int32, []int64{1})}, "dtype")
}

func TestAngle(t *testing.T) {
	for _, d := range append([]dtype.Type{dtype.Int8, dtype.Int32, dtype.Int64}, transformerTypes...) {
		out := dtype.Float32
		if floating := kerneltest.Round(d, 0.5) == 0.5; floating {
			out = d
		}
		for _, l := range kerneltest.Layouts {
			x, y := tensorIn(t, d, l, []int64{2, 2}, -2, 0, 3, math.Copysign(0, -1)), tensorIn(t, out, l, []int64{2, 2})
			run(t, "AngleV2", args{"x": x, "out": y})
			closeTo(t, fmt.Sprintf("%v %v", d, l), []float64{math.Pi, 0, 0, 0}, values(y), resultLimit(out))
		}
	}
	x, y := tensor(t, dtype.Float32, []int64{3}, math.NaN(), math.Inf(1), math.Inf(-1)), tensor(t, dtype.Float32, []int64{3})
	run(t, "AngleV2", args{"x": x, "out": y})
	assert.True(t, math.IsNaN(values(y)[0]))
	assert.InDeltaSlice(t, []float64{0, math.Pi}, values(y)[1:], 1e-6)
	z := tensor(t, dtype.Complex64, []int64{2}, 0)
	run(t, "Complex", args{"real": tensor(t, dtype.Float32, []int64{2}, 0, -1), "imag": tensor(t, dtype.Float32, []int64{2}, 2, -1), "out": z})
	angles := tensor(t, dtype.Float32, []int64{2})
	run(t, "AngleV2", args{"x": z, "out": angles})
	assert.InDeltaSlice(t, []float64{math.Pi / 2, -3 * math.Pi / 4}, values(angles), 1e-6)
	refused(t, invalidParam, "AngleV2", args{"x": z, "out": tensor(t, dtype.Float16, []int64{2})}, "complex64")
	refused(t, invalidParam, "AngleV2", args{"x": x, "out": tensor(t, dtype.Int32, []int64{3})}, "dtype")
}

func TestQuantizedBatchNorm(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int8, dtype.Uint8, dtype.Int32} {
		for _, l := range kerneltest.Layouts {
			for _, affine := range []bool{false, true} {
				shape, f := []int64{2, 3, 2, 2}, func(v ...float64) *Tensor { return tensor(t, dtype.Float32, []int64{3}, v...) }
				x, y := numbers(t, d, l, shape...), tensorIn(t, d, l, shape)
				mean, variance, w, b := []float64{1, 0.5, -1}, []float64{1, 4, 0.25}, []float64{1, 1, 1}, []float64{0, 0, 0}
				a := args{
					"input": x, "mean": f(mean...), "var": f(variance...), "inputScale": scalar(float32(0.5)), "inputZeroPoint": scalar(3), "outputScale": scalar(float32(0.25)),
					"outputZeroPoint": scalar(7), "epsilon": 0.01, "output": y,
				}
				if affine {
					w, b = []float64{2, 0.5, -1}, []float64{1, 0, -2}
					a["weight"], a["bias"] = f(w...), f(b...)
				}
				run(t, "QuantizedBatchNorm", a)
				bounds := map[dtype.Type][2]float64{dtype.Int8: {-128, 127}, dtype.Uint8: {0, 255}, dtype.Int32: {math.MinInt32, math.MaxInt32}}[d]
				for i, v := range values(x) {
					k := i / 4 % 3
					n := ((v-3)*0.5-mean[k])/math.Sqrt(variance[k]+0.01)*w[k] + b[k]
					assert.InDelta(t, min(max(n/0.25+7, bounds[0]), bounds[1]), values(y)[i], 0.501, "%v %v %v", d, l, affine)
				}
				refused(t, invalidParam, "QuantizedBatchNorm", a.with(args{"mean": tensor(t, dtype.Float32, []int64{2}, 1)}), "one for each channel")
				refused(t, nullPointer, "QuantizedBatchNorm", a.with(args{"inputScale": nil}), "inputScale is null")
				if d == dtype.Int8 {
					refused(t, invalidParam, "QuantizedBatchNorm", a.with(args{"outputZeroPoint": scalar(200)}), "zero point is 200")
				}
			}
		}
	}
}
