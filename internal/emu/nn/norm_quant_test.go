package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// quantisedTo asserts that each of got is v · factor (or v / factor) + offset, rounded and
// saturated, with factors of the last dimension.
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

// extremes asserts that got · extent, row by row, is v within half a step, and that the
// extent is the largest magnitude over 127.
func extremes(t *testing.T, what string, v, smooth, got, extent []float64) {
	t.Helper()
	width := len(v) / len(extent)
	for r, e := range extent {
		most := 0.0
		for j := range width {
			x := v[r*width+j]
			if smooth != nil {
				x *= smooth[j]
			}
			most = max(most, math.Abs(x))
			assert.InDelta(t, x, got[r*width+j]*e, 0.52*e, "%s: row %d", what, r)
		}
		assert.InEpsilon(t, most/127, e, 1e-4, "%s: row %d", what, r)
	}
}

func TestStaticQuantNorms(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{3, 7}, {1, 1}, {2, 3, 33}, {5}} {
				row := shape[len(shape)-1:]
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x1, x2 := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape)
				gamma, beta := filled(t, 3, d, kerneltest.Contiguous, row), filled(t, 4, d, kerneltest.Contiguous, row)
				scale1, scale2 := tensor(t, dtype.Float32, row, 0.02, 0.03), tensor(t, dtype.Float32, row, 20, 30, 25)
				zero := tensor(t, dtype.Int32, row, 3, -4)
				y1, y2, sum, plain := tensorIn(t, dtype.Int8, l, shape), tensor(t, dtype.Int8, shape), tensor(t, d, shape), tensor(t, d, shape)
				total := added(values(x1), values(x2), 1)
				rms, _ := rmsNormDefinition(total, values(gamma))

				a := args{
					"x1": x1, "x2": x2, "gamma": gamma, "scales1": scale1, "zeroPoints1Optional": zero, "epsilon": epsilon, "divMode": true,
					"y1Out": y1, "y2Out": y2, "xOut": sum,
				}
				run(t, "AddRmsNormQuant", a)
				closeTo(t, "sum of "+what, total, values(sum), resultLimit(d))
				quantisedTo(t, what, rms, values(scale1), values(zero), values(y1), true)
				shifted := added(rms, values(beta), 1)
				run(t, "AddRmsNormQuantV2", a.with(args{"scales1": scale2, "scales2Optional": scale2, "divMode": false, "betaOptional": beta, "rmsNormOut": plain}))
				closeTo(t, "norm of "+what, rms, values(plain), 2*resultLimit(d))
				quantisedTo(t, what, shifted, values(scale2), values(zero), values(y1), false)
				quantisedTo(t, what, shifted, values(scale2), nil, values(y2), false)

				layer, _, _ := layerNormDefinition(added(total, values(beta), 1), values(gamma), values(beta))
				run(t, "AddLayerNormQuant", args{
					"x1": x1, "x2": x2, "gamma": gamma, "beta": beta, "biasOptional": beta, "scales1Optional": scale1, "scales2Optional": scale1,
					"quantMode": "static", "epsilon": epsilon, "divMode": true, "y1Out": y1, "y2Out": y2, "xOut": sum,
				})
				quantisedTo(t, what, layer, values(scale1), nil, values(y1), true)
				assert.Equal(t, values(y1), values(y2))

				one, wide := tensor(t, d, []int64{1}, 0.25), of(gamma.View())
				wide.Shape, wide.Strides = []int64{1, row[0]}, []int64{0, 1}
				alone, _ := rmsNormDefinition(values(x1), values(gamma))
				run(t, "RmsNormQuant", args{"x": x1, "gamma": wide, "beta": beta, "scale": one, "offset": tensor(t, dtype.Int8, []int64{1}, 2), "epsilon": epsilon, "y": y1})
				quantisedTo(t, what, added(alone, values(beta), 1), []float64{0.25}, []float64{2}, values(y1), true)
				rstd := tensor(t, dtype.Float32, append(append([]int64{}, shape[:len(shape)-1]...), 1))
				run(t, "RmsNormQuantV3", args{"x": x1, "gamma": gamma, "scale": one, "epsilon": epsilon, "outputRstd": true, "y": y1, "rstd": rstd})
				quantisedTo(t, what, alone, []float64{0.25}, nil, values(y1), false)
				_, r := rmsNormDefinition(values(x1), values(gamma))
				closeTo(t, "rstd of "+what, r, values(rstd), 1e-5)
			}
		}
	}
}

func TestDynamicQuantNorms(t *testing.T) {
	for _, d := range transformerTypes {
		for _, shape := range [][]int64{{3, 7}, {2, 3, 33}, {1, 2}} {
			row, rows := shape[len(shape)-1:], shape[:len(shape)-1]
			what := fmt.Sprintf("%v %v", d, shape)
			x1, x2 := filled(t, 1, d, kerneltest.Gapped, shape), filled(t, 2, d, kerneltest.Contiguous, shape)
			gamma, beta := filled(t, 3, d, kerneltest.Contiguous, row), filled(t, 4, d, kerneltest.Contiguous, row)
			smooth1, smooth2 := tensor(t, d, row, 0.5, 2), tensor(t, d, row, 3, 0.25, 1)
			y1, y2, sum := tensor(t, dtype.Int8, shape), tensor(t, dtype.Int8, shape), tensor(t, d, shape)
			extent1, extent2 := tensor(t, dtype.Float32, rows), tensor(t, dtype.Float32, []int64{elements(rows)})
			total := added(values(x1), values(x2), 1)
			rms, _ := rmsNormDefinition(total, values(gamma))
			a := args{
				"x1": x1, "x2": x2, "gamma": gamma, "smoothScale1Optional": smooth1, "smoothScale2Optional": smooth2, "epsilon": epsilon,
				"y1Out": y1, "y2Out": y2, "xOut": sum, "scale1Out": extent1, "scale2Out": extent2,
			}
			run(t, "AddRmsNormDynamicQuant", a)
			closeTo(t, "sum of "+what, total, values(sum), resultLimit(d))
			extremes(t, what, rms, values(smooth1), values(y1), values(extent1))
			extremes(t, what, rms, values(smooth2), values(y2), values(extent2))
			fill(y1, 7)
			run(t, "AddRmsNormDynamicQuantV2", a.with(args{"betaOptional": beta, "outputMask": []bool{false, true}, "smoothScale1Optional": nil}))
			extremes(t, what, added(rms, values(beta), 1), values(smooth2), values(y2), values(extent2))
			assert.Equal(t, 7.0, values(y1)[0])

			layer, _, _ := layerNormDefinition(total, values(gamma), values(beta))
			run(t, "AddLayerNormQuantV2", args{
				"x1": x1, "x2": x2, "gamma": gamma, "beta": beta, "quantMode": "dynamic", "epsilon": epsilon, "y1Out": y1, "xOut": sum, "outScales1Out": extent1,
			})
			extremes(t, what, layer, nil, values(y1), values(extent1))
			rms, _ = rmsNormDefinition(values(x1), values(gamma))
			single := args{"x": x1, "gamma": gamma, "smoothScalesOptional": smooth1, "betaOptional": beta, "epsilon": epsilon, "dstType": dtype.Int8, "yOut": y1, "scaleOut": extent1}
			run(t, "RmsNormDynamicQuant", single)
			extremes(t, what, added(rms, values(beta), 1), values(smooth1), values(y1), values(extent1))
			refused(t, invalidParam, "RmsNormDynamicQuant", single.with(args{"dstType": dtype.Int4}), "dstType")
			alone, _, _ := layerNormDefinition(values(x1), values(gamma), values(beta))
			run(t, "LayerNormQuant", args{"x": x1, "gammma": gamma, "beta": beta, "quantMode": 1, "epsilon": epsilon, "res": y1, "scaleOut": extent1})
			extremes(t, what, alone, nil, values(y1), values(extent1))
		}
	}
}

func TestQuantNormsRefuse(t *testing.T) {
	f := dtype.Float32
	x, row, rows := tensor(t, f, []int64{2, 4}, 1), tensor(t, f, []int64{4}, 1), tensor(t, f, []int64{2})
	y := tensor(t, dtype.Int8, []int64{2, 4})
	static := args{"x1": x, "x2": x, "gamma": row, "scales1": row, "epsilon": epsilon, "divMode": true, "y1Out": y, "y2Out": y, "xOut": x}
	dynamic := args{"x1": x, "x2": x, "gamma": row, "epsilon": epsilon, "y1Out": y, "y2Out": y, "xOut": x, "scale1Out": rows, "scale2Out": rows}
	for _, r := range []struct {
		name  string
		code  int32
		a     args
		texts []string
	}{
		{"AddRmsNormQuant", nullPointer, static.with(args{"x1": nil}), []string{"x1 is null"}},
		{"AddRmsNormQuant", nullPointer, static.with(args{"x2": nil}), []string{"x2"}},
		{"AddRmsNormQuant", nullPointer, static.with(args{"scales1": nil}), []string{"scales"}},
		{"AddRmsNormQuant", nullPointer, static.with(args{"y1Out": nil}), []string{"y1Out is null"}},
		{"AddRmsNormQuant", invalidParam, static.with(args{"scales1": rows}), []string{"scales1 float32[2]", "[4]"}},
		{"AddRmsNormQuant", invalidParam, static.with(args{"y1Out": x}), []string{"y1Out float32"}},
		{"AddRmsNormQuant", invalidParam, static.with(args{"gamma": rows}), []string{"gamma float32[2]"}},
		{"AddRmsNormQuant", invalidParam, static.with(args{"zeroPoints2Optional": row}), []string{"no scales beside it"}},
		{"AddRmsNormDynamicQuant", invalidParam, dynamic.with(args{"smoothScale2Optional": row}), []string{"second"}},
		{"AddRmsNormDynamicQuant", nullPointer, dynamic.with(args{"scale1Out": nil}), []string{"scale1Out is null"}},
		{"AddRmsNormDynamicQuant", invalidParam, dynamic.with(args{"scale1Out": row}), []string{"scale1Out float32[4]"}},
		{"AddRmsNormDynamicQuantV2", invalidParam, dynamic.with(args{"outputMask": []bool{false, false}}), []string{"no result"}},
		{"AddRmsNormDynamicQuantV2", invalidParam, dynamic.with(args{"outputMask": []bool{true}}), []string{"outputMask has 1"}},
		{"AddRmsNormDynamicQuantV2", invalidParam, dynamic.with(args{"outputMask": []bool{false, true}, "smoothScale1Optional": row}), []string{"leaves out"}},
		{"LayerNormQuant", invalidParam, args{"x": x, "gammma": row, "beta": row, "quantMode": 2, "res": y}, []string{"quantMode 2"}},
		{"AddLayerNormQuant", invalidParam, args{"x1": x, "x2": x, "gamma": row, "beta": row, "quantMode": "no", "y1Out": y, "xOut": x}, []string{"quantMode \"no\""}},
	} {
		refused(t, r.code, r.name, r.a, r.texts...)
	}
}
