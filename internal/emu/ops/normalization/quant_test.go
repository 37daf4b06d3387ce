package normalization

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// quantisedTo asserts that each element of got is v · factor (or v / factor) + offset, rounded
// and saturated. Factors belong to the last dimension.
func quantisedTo(t *testing.T, what string, v, factor, offset, got []float64, divide bool) {
	t.Helper()
	for i, g := range got {
		f := factor[i%len(factor)]
		if divide {
			f = 1 / f
		}
		want := v[i] * f
		if offset != nil {
			want += offset[i%len(offset)]
		}
		assert.InDelta(t, min(max(want, -128), 127), g, 0.52, "%s: element %d", what, i)
	}
}

// fourBitsOf asserts that the numbers of four bits in got are v / factor + offset, rounded and saturated.
func fourBitsOf(t *testing.T, what string, v []float64, factor, offset float64, got *op.Tensor) {
	t.Helper()
	four := optest.LoadInt4(got)
	require.Len(t, four, len(v))
	for i, g := range four {
		assert.InDelta(t, min(max(v[i]/factor+offset, -8), 7), g, 0.52, "%s in %v: element %d", what, got, i)
	}
}

// fourBitTensors returns tensors for numbers of four bits of a shape: of int4 if the shape allows it, and of int32
// that hold eight of them if it allows that.
func fourBitTensors(t *testing.T, shape []int64) (tensors []*op.Tensor) {
	t.Helper()
	last := len(shape) - 1
	if shape[last]%2 == 0 {
		tensors = append(tensors, optest.Int4(t, shape...))
	}
	if shape[last]%8 == 0 {
		tensors = append(tensors, optest.Tensor(t, dtype.Int32, append(append([]int64{}, shape[:last]...), shape[last]/8)))
	}
	return tensors
}

func TestStaticQuantNorms(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{3, 7}, {1, 1}, {2, 3, 33}, {5}, {2, 6}, {3, 16}} {
				row := shape[len(shape)-1:]
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x1, x2 := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape)
				gamma, beta := optest.Filled(t, 3, d, kerneltest.Contiguous, row), optest.Filled(t, 4, d, kerneltest.Contiguous, row)
				scale1, scale2 := optest.Tensor(t, dtype.Float32, row, 0.02, 0.03), optest.Tensor(t, dtype.Float32, row, 20, 30, 25)
				zero := optest.Tensor(t, dtype.Int32, row, 3, -4)
				y1, y2, sum, plain := optest.TensorIn(t, dtype.Int8, l, shape), optest.Tensor(t, dtype.Int8, shape), optest.Tensor(t, d, shape), optest.Tensor(t, d, shape)
				total := optest.Added(optest.Values(x1), optest.Values(x2), 1)
				rms, _ := optest.RMSNorm(total, optest.Values(gamma))

				a := optest.Args{
					"x1": x1, "x2": x2, "gamma": gamma, "scales1": scale1, "zeroPoints1Optional": zero, "epsilon": epsilon, "divMode": true,
					"y1Out": y1, "y2Out": y2, "xOut": sum,
				}
				optest.Run(t, "AddRmsNormQuant", a)
				optest.CloseTo(t, "sum of "+what, total, optest.Values(sum), optest.ResultLimit(d))
				quantisedTo(t, what, rms, optest.Values(scale1), optest.Values(zero), optest.Values(y1), true)
				shifted := optest.Added(rms, optest.Values(beta), 1)
				optest.Run(t, "AddRmsNormQuantV2", a.With(optest.Args{"scales1": scale2, "scales2Optional": scale2, "divMode": false, "betaOptional": beta, "rmsNormOut": plain}))
				optest.CloseTo(t, "norm of "+what, rms, optest.Values(plain), 2*optest.ResultLimit(d))
				quantisedTo(t, what, shifted, optest.Values(scale2), optest.Values(zero), optest.Values(y1), false)
				quantisedTo(t, what, shifted, optest.Values(scale2), nil, optest.Values(y2), false)

				layer, _, _ := layerNormDefinition(optest.Added(total, optest.Values(beta), 1), optest.Values(gamma), optest.Values(beta))
				unused := optest.Tensor(t, dtype.Float32, shape[:len(shape)-1]) // in this mode, but not null
				optest.Run(t, "AddLayerNormQuant", optest.Args{
					"x1": x1, "x2": x2, "gamma": gamma, "beta": beta, "biasOptional": beta, "scales1Optional": scale1, "scales2Optional": scale1,
					"quantMode": "static", "epsilon": epsilon, "divMode": true, "y1Out": y1, "y2Out": y2, "xOut": sum,
					"outScales1Out": unused, "outScales2Out": unused,
				})
				quantisedTo(t, what, layer, optest.Values(scale1), nil, optest.Values(y1), true)
				assert.Equal(t, optest.Values(y1), optest.Values(y2))

				one, wide := optest.Tensor(t, d, []int64{1}, 0.25), optest.Of(gamma.View())
				wide.Shape, wide.Strides = []int64{1, row[0]}, []int64{0, 1}
				alone, _ := optest.RMSNorm(optest.Values(x1), optest.Values(gamma))
				a = optest.Args{"x": x1, "gamma": wide, "beta": beta, "scale": one, "offset": optest.Tensor(t, dtype.Int8, []int64{1}, 2), "epsilon": epsilon, "y": y1}
				optest.Run(t, "RmsNormQuant", a)
				shifted = optest.Added(alone, optest.Values(beta), 1)
				quantisedTo(t, what, shifted, []float64{0.25}, []float64{2}, optest.Values(y1), true)
				for _, four := range fourBitTensors(t, shape) {
					optest.Run(t, "RmsNormQuant", a.With(optest.Args{"y": four}))
					fourBitsOf(t, what, shifted, 0.25, 2, four)
					optest.Run(t, "RmsNormQuantV3", optest.Args{"x": x1, "gamma": gamma, "beta": beta, "scale": one, "offset": optest.Tensor(t, dtype.Int8, []int64{1}, 2), "epsilon": epsilon, "divMode": true, "y": four})
					fourBitsOf(t, what, shifted, 0.25, 2, four)
				}
				rstd := optest.Tensor(t, dtype.Float32, append(append([]int64{}, shape[:len(shape)-1]...), 1))
				optest.Run(t, "RmsNormQuantV3", optest.Args{"x": x1, "gamma": gamma, "scale": one, "epsilon": epsilon, "outputRstd": true, "y": y1, "rstd": rstd})
				quantisedTo(t, what, alone, []float64{0.25}, nil, optest.Values(y1), false)
				_, r := optest.RMSNorm(optest.Values(x1), optest.Values(gamma))
				optest.CloseTo(t, "rstd of "+what, r, optest.Values(rstd), 1e-5)
			}
		}
	}
}

func TestDynamicQuantNorms(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, shape := range [][]int64{{3, 7}, {2, 3, 33}, {1, 2}, {2, 3, 18}, {3, 24}} {
			row, rows := shape[len(shape)-1:], shape[:len(shape)-1]
			what := fmt.Sprintf("%v %v", d, shape)
			x1, x2 := optest.Filled(t, 1, d, kerneltest.Gapped, shape), optest.Filled(t, 2, d, kerneltest.Contiguous, shape)
			gamma, beta := optest.Filled(t, 3, d, kerneltest.Contiguous, row), optest.Filled(t, 4, d, kerneltest.Contiguous, row)
			smooth1, smooth2 := optest.Tensor(t, d, row, 0.5, 2), optest.Tensor(t, d, row, 3, 0.25, 1)
			y1, y2, sum := optest.Tensor(t, dtype.Int8, shape), optest.Tensor(t, dtype.Int8, shape), optest.Tensor(t, d, shape)
			extent1, extent2 := optest.Tensor(t, dtype.Float32, rows), optest.Tensor(t, dtype.Float32, []int64{optest.Elements(rows)})
			total := optest.Added(optest.Values(x1), optest.Values(x2), 1)
			rms, _ := optest.RMSNorm(total, optest.Values(gamma))
			a := optest.Args{
				"x1": x1, "x2": x2, "gamma": gamma, "smoothScale1Optional": smooth1, "smoothScale2Optional": smooth2, "epsilon": epsilon,
				"y1Out": y1, "y2Out": y2, "xOut": sum, "scale1Out": extent1, "scale2Out": extent2,
			}
			optest.Run(t, "AddRmsNormDynamicQuant", a)
			optest.CloseTo(t, "sum of "+what, total, optest.Values(sum), optest.ResultLimit(d))
			optest.Extremes(t, what, rms, optest.Values(smooth1), optest.Values(y1), optest.Values(extent1))
			optest.Extremes(t, what, rms, optest.Values(smooth2), optest.Values(y2), optest.Values(extent2))
			optest.Fill(y1, 7)
			optest.Run(t, "AddRmsNormDynamicQuantV2", a.With(optest.Args{"betaOptional": beta, "outputMask": []bool{false, true}, "smoothScale1Optional": nil}))
			optest.Extremes(t, what, optest.Added(rms, optest.Values(beta), 1), optest.Values(smooth2), optest.Values(y2), optest.Values(extent2))
			assert.Equal(t, 7.0, optest.Values(y1)[0])
			optest.Run(t, "AddRmsNormDynamicQuantV2", a)
			optest.Extremes(t, what, rms, optest.Values(smooth1), optest.Values(y1), optest.Values(extent1))
			optest.Extremes(t, what, rms, optest.Values(smooth2), optest.Values(y2), optest.Values(extent2))
			second := fourBitTensors(t, shape)
			for i, four := range fourBitTensors(t, shape) {
				optest.Run(t, "AddRmsNormDynamicQuantV2", a.With(optest.Args{"y1Out": four, "y2Out": second[i]}))
				optest.ExtremesTo(t, what, gemm.MostInt4, rms, optest.Values(smooth1), optest.LoadInt4(four), optest.Values(extent1))
				optest.ExtremesTo(t, what, gemm.MostInt4, rms, optest.Values(smooth2), optest.LoadInt4(second[i]), optest.Values(extent2))
			}

			layer, _, _ := layerNormDefinition(total, optest.Values(gamma), optest.Values(beta))
			optest.Run(t, "AddLayerNormQuantV2", optest.Args{
				"x1": x1, "x2": x2, "gamma": gamma, "beta": beta, "quantMode": "dynamic", "epsilon": epsilon, "y1Out": y1, "xOut": sum, "outScales1Out": extent1,
			})
			optest.Extremes(t, what, layer, nil, optest.Values(y1), optest.Values(extent1))
			rms, _ = optest.RMSNorm(optest.Values(x1), optest.Values(gamma))
			single := optest.Args{"x": x1, "gamma": gamma, "smoothScalesOptional": smooth1, "betaOptional": beta, "epsilon": epsilon, "dstType": dtype.Int8, "yOut": y1, "scaleOut": extent1}
			optest.Run(t, "RmsNormDynamicQuant", single)
			optest.Extremes(t, what, optest.Added(rms, optest.Values(beta), 1), optest.Values(smooth1), optest.Values(y1), optest.Values(extent1))
			optest.Refused(t, op.InvalidParam, "RmsNormDynamicQuant", single.With(optest.Args{"dstType": dtype.Int4}), "dstType")
			alone, _, _ := layerNormDefinition(optest.Values(x1), optest.Values(gamma), optest.Values(beta))
			optest.Run(t, "LayerNormQuant", optest.Args{"x": x1, "gammma": gamma, "beta": beta, "quantMode": 1, "epsilon": epsilon, "res": y1, "scaleOut": extent1})
			optest.Extremes(t, what, alone, nil, optest.Values(y1), optest.Values(extent1))
		}
	}
}

func TestQuantNormsRefuse(t *testing.T) {
	f := dtype.Float32
	x, row, rows := optest.Tensor(t, f, []int64{2, 4}, 1), optest.Tensor(t, f, []int64{4}, 1), optest.Tensor(t, f, []int64{2})
	y, one := optest.Tensor(t, dtype.Int8, []int64{2, 4}), optest.Tensor(t, f, []int64{1}, 1)
	static := optest.Args{"x1": x, "x2": x, "gamma": row, "scales1": row, "epsilon": epsilon, "divMode": true, "y1Out": y, "y2Out": y, "xOut": x}
	dynamic := optest.Args{"x1": x, "x2": x, "gamma": row, "epsilon": epsilon, "y1Out": y, "y2Out": y, "xOut": x, "scale1Out": rows, "scale2Out": rows}
	for _, r := range []struct {
		name  string
		code  int32
		a     optest.Args
		texts []string
	}{
		{"AddRmsNormQuant", op.NullPointer, static.With(optest.Args{"x1": nil}), []string{"x1 is null"}},
		{"AddRmsNormQuant", op.NullPointer, static.With(optest.Args{"x2": nil}), []string{"x2"}},
		{"AddRmsNormQuant", op.NullPointer, static.With(optest.Args{"scales1": nil}), []string{"scales"}},
		{"AddRmsNormQuant", op.NullPointer, static.With(optest.Args{"y1Out": nil}), []string{"y1Out is null"}},
		{"AddRmsNormQuant", op.InvalidParam, static.With(optest.Args{"scales1": rows}), []string{"scales1 float32[2]", "[4]"}},
		{"AddRmsNormQuant", op.InvalidParam, static.With(optest.Args{"y1Out": x}), []string{"y1Out float32"}},
		{"AddRmsNormQuant", op.InvalidParam, static.With(optest.Args{"gamma": rows}), []string{"gamma float32[2]"}},
		{"AddRmsNormQuant", op.InvalidParam, static.With(optest.Args{"zeroPoints2Optional": row}), []string{"no scales beside it"}},
		{"AddRmsNormDynamicQuant", op.InvalidParam, dynamic.With(optest.Args{"smoothScale2Optional": row}), []string{"second"}},
		{"AddRmsNormDynamicQuant", op.NullPointer, dynamic.With(optest.Args{"scale1Out": nil}), []string{"scale1Out is null"}},
		{"AddRmsNormDynamicQuant", op.InvalidParam, dynamic.With(optest.Args{"scale1Out": row}), []string{"scale1Out float32[4]"}},
		{"AddRmsNormDynamicQuantV2", op.InvalidParam, dynamic.With(optest.Args{"outputMask": []bool{false, false}}), []string{"no result"}},
		{"AddRmsNormDynamicQuantV2", op.InvalidParam, dynamic.With(optest.Args{"y1Out": optest.Int4(t, 2, 2)}), []string{"y1Out int4[2,2]"}},
		{"AddRmsNormDynamicQuantV2", op.InvalidParam, dynamic.With(optest.Args{"outputMask": []bool{true}}), []string{"outputMask has 1"}},
		{"AddRmsNormDynamicQuantV2", op.InvalidParam, dynamic.With(optest.Args{"outputMask": []bool{false, true}, "smoothScale1Optional": row}), []string{"leaves out"}},
		{"RmsNormQuantV3", op.InvalidParam, optest.Args{"x": x, "gamma": row, "scale": one, "y": optest.Int4(t, 2, 2)}, []string{"y int4[2,2]"}},
		{"RmsNormQuantV3", op.InvalidParam, optest.Args{"x": optest.Tensor(t, f, []int64{2, 3}, 1), "gamma": optest.Tensor(t, f, []int64{3}, 1), "scale": one, "y": optest.Int4(t, 2, 3)}, []string{"multiple of 2"}},
		{"RmsNormQuantV3", op.InvalidParam, optest.Args{"x": x, "gamma": row, "scale": one, "y": optest.Tensor(t, dtype.Int32, []int64{2, 1})}, []string{"multiple of 8"}},
		{"AddRmsNormDynamicQuant", op.InvalidParam, dynamic.With(optest.Args{"y1Out": optest.Int4(t, 2, 4)}), []string{"y1Out int4"}},
		{"LayerNormQuant", op.InvalidParam, optest.Args{"x": x, "gammma": row, "beta": row, "quantMode": 2, "res": y}, []string{"quantMode 2"}},
		{"AddLayerNormQuant", op.InvalidParam, optest.Args{"x1": x, "x2": x, "gamma": row, "beta": row, "quantMode": "no", "y1Out": y, "y2Out": y, "xOut": x, "outScales1Out": rows, "outScales2Out": rows}, []string{"quantMode \"no\""}},
	} {
		optest.Refused(t, r.code, r.name, r.a, r.texts...)
	}
}
