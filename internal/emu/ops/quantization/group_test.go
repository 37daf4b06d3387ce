package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestFakeQuant(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, channel := range []bool{false, true} {
				x, out, mask := optest.Filled(t, 1, d, l, []int64{4, 3}), optest.TensorIn(t, d, l, []int64{4, 3}), optest.TensorIn(t, dtype.Bool, l, []int64{4, 3})
				name, a := "FakeQuantPerTensorAffineCachemask", optest.Args{"self": x, "quantMin": -3, "quantMax": 4, "out": out, "mask": mask}
				scale, zero := optest.Tensor(t, d, []int64{1}, .25), optest.Tensor(t, dtype.Int32, []int64{1}, 1)
				if channel {
					name, a["axis"] = "FakeQuantPerChannelAffineCachemask", -1
					scale, zero = optest.Tensor(t, d, []int64{3}, .25, .5, 1), optest.Tensor(t, dtype.Int32, []int64{3}, 1, 0, -2)
				} else {
					a["fakeQuantEnabled"] = 1.0
				}
				a["scale"], a["zeroPoint"] = scale, zero
				optest.Run(t, name, a)
				ss, zs, inside := optest.Values(scale), optest.Values(zero), optest.Values(mask)
				for i, v := range optest.Values(x) {
					s, z := ss[i%3%len(ss)], zs[i%3%len(zs)]
					q := math.RoundToEven(v/s) + z
					assert.Equal(t, q >= -3 && q <= 4, inside[i] != 0, "%s %v %v", name, d, l)
					assert.InDelta(t, (min(max(q, -3), 4)-z)*s, optest.Values(out)[i], 1e-6, "%s %v %v", name, d, l)
				}
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"quantMin": 5}), "quantMin 5")
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"scale": optest.Tensor(t, d, []int64{2}, 1)}), "scale")
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"mask": out}), "mask")
				if !channel {
					optest.Run(t, name, a.With(optest.Args{"fakeQuantEnabled": 0.0}))
					assert.Equal(t, optest.Values(x), optest.Values(out))
				}
			}
		}
	}
}

func TestGroupQuant(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, y := optest.Filled(t, 1, d, l, []int64{5, 3}), optest.TensorIn(t, dtype.Int8, l, []int64{5, 3})
			scale, offset := optest.TensorIn(t, dtype.Float32, l, []int64{3, 3}, 10, 20, 30, 5, 6, 7, 40, 50, 60), optest.Tensor(t, dtype.Float32, []int64{1}, 2)
			a := optest.Args{"x": x, "scale": scale, "groupIndex": optest.Tensor(t, dtype.Int64, []int64{3}, 2, 2, 5), "offsetOptional": offset, "dstType": dtype.Int8, "y": y}
			optest.Run(t, "GroupQuant", a)
			group := []int{0, 0, 2, 2, 2}
			for i, q := range optest.Values(y) {
				want := optest.Values(x)[i]*optest.Values(scale)[group[i/3]*3+i%3] + 2
				assert.InDelta(t, min(max(want, -128), 127), q, .51, "%v %v", d, l)
			}
			require.ErrorContains(t, optest.Execute(t, "GroupQuant", a.With(optest.Args{"groupIndex": optest.Tensor(t, dtype.Int64, []int64{3}, 2, 1, 5)})), "must not fall")
			optest.Refused(t, op.InvalidParam, "GroupQuant", a.With(optest.Args{"scale": offset}), "a row for each group")
			optest.Refused(t, op.InvalidParam, "GroupQuant", a.With(optest.Args{"dstType": dtype.Int4}), "dstType is int4")
		}
	}
}

func TestSwiGLUQuant(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, left := range []bool{true, false} {
			for _, grouped := range []bool{false, true} {
				what := fmt.Sprintf("%v left %v grouped %v", d, left, grouped)
				x := optest.Filled(t, 1, d, kerneltest.Gapped, []int64{4, 6})
				act, _ := optest.Gated(optest.Values(x), 6, left, func(x float64) float64 { return x / (1 + math.Exp(-x)) })
				y, scale := optest.Tensor(t, dtype.Int8, []int64{4, 3}), optest.Tensor(t, dtype.Float32, []int64{4})
				a := optest.Args{"x": x, "activateLeft": left, "quantModeOptional": "dynamic", "yOut": y, "scaleOut": scale}
				smooth, parts := optest.Tensor(t, dtype.Float32, []int64{1, 3}, .5, 1, 2), 1
				group := []int{0, 0, 0, 0}
				if grouped {
					a["groupIndexOptional"] = optest.Tensor(t, dtype.Int32, []int64{2}, 1, 4)
					smooth, parts, group = optest.Tensor(t, dtype.Float32, []int64{2, 3}, .5, 1, 2, 3, .25, 1), 2, []int{0, 1, 1, 1}
				}
				a["smoothScalesOptional"] = smooth
				optest.Run(t, "SwiGluQuant", a)
				smoothed := make([]float64, len(act))
				for i, v := range act {
					smoothed[i] = v * optest.Values(smooth)[group[i/3]*3+i%3]
				}
				extent := optest.Values(scale)
				for i := range extent {
					extent[i] = 1 / extent[i]
				}
				optest.Extremes(t, what, smoothed, nil, optest.Values(y), extent)
				old := optest.Values(y)
				newer := a.With(optest.Args{"dstType": dtype.Int8, "groupListType": 1})
				if grouped {
					newer["groupIndexOptional"] = optest.Tensor(t, dtype.Int32, []int64{2}, 1, 3) // row counts
				}
				optest.Run(t, "SwiGluQuantV2", newer)
				assert.Equal(t, old, optest.Values(y), what)
				optest.Refused(t, op.InvalidParam, "SwiGluQuantV2", newer.With(optest.Args{"dstType": dtype.Int4}), "dstType")
				optest.Refused(t, op.InvalidParam, "SwiGluQuantV2", newer.With(optest.Args{"dstType": dtype.Int4, "yOut": optest.Int4(t, 4, 2)}), "multiple of 2")
				optest.Refused(t, op.InvalidParam, "SwiGluQuant", a.With(optest.Args{"yOut": optest.Int4(t, 4, 2)}), "dtype")
				optest.Refused(t, op.InvalidParam, "SwiGluQuantV2", newer.With(optest.Args{"groupListType": 2}), "groupListType is 2")
				if grouped {
					many := newer.With(optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 3)})
					assert.ErrorContains(t, optest.Execute(t, "SwiGluQuantV2", many), "exceed 4 together")
				}

				factor := optest.Tensor(t, dtype.Float32, []int64{int64(parts)}, 10, 20)
				optest.Run(t, "SwiGluQuant", a.With(optest.Args{"quantModeOptional": "static", "smoothScalesOptional": factor, "offsetsOptional": factor}))
				for i, q := range optest.Values(y) {
					f := optest.Values(factor)[group[i/3]]
					assert.InDelta(t, min(max(act[i]*f+f, -128), 127), q, .52, what)
				}
				optest.Refused(t, op.InvalidParam, "SwiGluQuant", a.With(optest.Args{"quantModeOptional": "dynamic_msd"}), "dynamic_msd")
				optest.Refused(t, op.NullPointer, "SwiGluQuant", a.With(optest.Args{"quantModeOptional": "static", "smoothScalesOptional": nil}), "needs scales")
				optest.Refused(t, op.InvalidParam, "SwiGluQuant", a.With(optest.Args{"scaleOut": optest.Tensor(t, dtype.Float32, []int64{3})}), "scaleOut")
			}
		}
	}
}

// SwiGluQuantV2 to int4 has the values of the definition, with 7 as the largest.
func TestSwiGLUQuantToInt4(t *testing.T) {
	for _, d := range op.FloatTypes {
		x := optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{2, 3, 12})
		act, _ := optest.Gated(optest.Values(x), 12, true, func(x float64) float64 { return x / (1 + math.Exp(-x)) })
		y, scale := optest.Int4(t, 2, 3, 6), optest.Tensor(t, dtype.Float32, []int64{2, 3})
		smooth := optest.Tensor(t, dtype.Float32, []int64{2, 6}, .5, 1, 2, 3, .25, 1, 1, 4)
		a := optest.Args{
			"x": x, "smoothScalesOptional": smooth, "groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 6), "activateLeft": true,
			"quantModeOptional": "dynamic", "dstType": dtype.Int4, "yOut": y, "scaleOut": scale,
		}
		optest.Run(t, "SwiGluQuantV2", a)
		factors := optest.Values(smooth)
		for i := range act {
			act[i] *= factors[min(i/12, 1)*6+i%6]
		}
		extent := optest.Values(scale)
		for i := range extent {
			extent[i] = 1 / extent[i]
		}
		optest.ExtremesTo(t, d.String(), 7, act, nil, optest.LoadInt4(y), extent)
		factor := optest.Tensor(t, dtype.Float32, []int64{2}, 3, 20)
		optest.Run(t, "SwiGluQuantV2", a.With(optest.Args{"quantModeOptional": "static", "smoothScalesOptional": factor, "offsetsOptional": factor}))
		for i, q := range optest.LoadInt4(y) {
			f := optest.Values(factor)[min(i/12, 1)]
			v := act[i] / factors[min(i/12, 1)*6+i%6]
			assert.InDelta(t, min(max(v*f+f, -8), 7), q, .52, "%v element %d", d, i)
		}
	}
}

func TestDequantBias(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, bias := range []*op.Tensor{nil, optest.Tensor(t, dtype.Int32, []int64{3}, 4, -5, 6), optest.Tensor(t, dtype.Float32, []int64{3}, .5, -1, 2)} {
			x, columns, rows, out := optest.Numbers(t, dtype.Int32, kerneltest.Transposed, 2, 3), optest.Tensor(t, dtype.Float32, []int64{3}, .5, 1, 2), optest.Tensor(t, dtype.Float32, []int64{2}, 1, .25), optest.Tensor(t, d, []int64{2, 3})
			a := optest.Args{"x": x, "weightScale": columns, "activateScaleOptional": rows, "biasOptional": bias, "outputDtype": d, "out": out}
			optest.Run(t, "DequantBias", a)
			for i, v := range optest.Values(x) {
				after := 0.0
				switch {
				case bias == nil:
				case bias.DType == dtype.Int32:
					v += optest.Values(bias)[i%3]
				default:
					after = optest.Values(bias)[i%3]
				}
				assert.Equal(t, v*optest.Values(columns)[i%3]*optest.Values(rows)[i/3]+after, optest.Values(out)[i], "%v bias %v", d, bias)
			}
			optest.Refused(t, op.InvalidParam, "DequantBias", a.With(optest.Args{"outputDtype": dtype.Float32}), "outputDtype is float32")
			optest.Refused(t, op.InvalidParam, "DequantBias", a.With(optest.Args{"weightScale": rows}), "one for each column")
		}
	}
}
