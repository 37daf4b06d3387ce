package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestFakeQuant(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, channel := range []bool{false, true} {
				x, out, mask := filled(t, 1, d, l, []int64{4, 3}), tensorIn(t, d, l, []int64{4, 3}), tensorIn(t, dtype.Bool, l, []int64{4, 3})
				name, a := "FakeQuantPerTensorAffineCachemask", args{"self": x, "quantMin": -3, "quantMax": 4, "out": out, "mask": mask}
				scale, zero := tensor(t, d, []int64{1}, .25), tensor(t, dtype.Int32, []int64{1}, 1)
				if channel {
					name, a["axis"] = "FakeQuantPerChannelAffineCachemask", -1
					scale, zero = tensor(t, d, []int64{3}, .25, .5, 1), tensor(t, dtype.Int32, []int64{3}, 1, 0, -2)
				} else {
					a["fakeQuantEnabled"] = 1.0
				}
				a["scale"], a["zeroPoint"] = scale, zero
				run(t, name, a)
				ss, zs, inside := values(scale), values(zero), values(mask)
				for i, v := range values(x) {
					s, z := ss[i%3%len(ss)], zs[i%3%len(zs)]
					q := math.RoundToEven(v/s) + z
					assert.Equal(t, q >= -3 && q <= 4, inside[i] != 0, "%s %v %v", name, d, l)
					assert.InDelta(t, (min(max(q, -3), 4)-z)*s, values(out)[i], 1e-6, "%s %v %v", name, d, l)
				}
				refused(t, invalidParam, name, a.with(args{"quantMin": 5}), "quantMin 5")
				refused(t, invalidParam, name, a.with(args{"scale": tensor(t, d, []int64{2}, 1)}), "scale")
				refused(t, invalidParam, name, a.with(args{"mask": out}), "mask")
				if !channel {
					run(t, name, a.with(args{"fakeQuantEnabled": 0.0}))
					assert.Equal(t, values(x), values(out))
				}
			}
		}
	}
}

func TestGroupQuant(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, y := filled(t, 1, d, l, []int64{5, 3}), tensorIn(t, dtype.Int8, l, []int64{5, 3})
			scale, offset := tensorIn(t, dtype.Float32, l, []int64{3, 3}, 10, 20, 30, 5, 6, 7, 40, 50, 60), tensor(t, dtype.Float32, []int64{1}, 2)
			a := args{"x": x, "scale": scale, "groupIndex": tensor(t, dtype.Int64, []int64{3}, 2, 2, 5), "offsetOptional": offset, "dstType": dtype.Int8, "y": y}
			run(t, "GroupQuant", a)
			group := []int{0, 0, 2, 2, 2}
			for i, q := range values(y) {
				want := values(x)[i]*values(scale)[group[i/3]*3+i%3] + 2
				assert.InDelta(t, min(max(want, -128), 127), q, .51, "%v %v", d, l)
			}
			require.ErrorContains(t, execute(t, "GroupQuant", a.with(args{"groupIndex": tensor(t, dtype.Int64, []int64{3}, 2, 1, 5)})), "must not fall")
			refused(t, invalidParam, "GroupQuant", a.with(args{"scale": offset}), "a row for each group")
			refused(t, invalidParam, "GroupQuant", a.with(args{"dstType": dtype.Int4}), "dstType is int4")
		}
	}
}

func TestSwiGLUQuant(t *testing.T) {
	for _, d := range transformerTypes {
		for _, left := range []bool{true, false} {
			for _, grouped := range []bool{false, true} {
				what := fmt.Sprintf("%v left %v grouped %v", d, left, grouped)
				x := filled(t, 1, d, kerneltest.Gapped, []int64{4, 6})
				act, _ := gatedDefinition(values(x), 6, left, func(x float64) float64 { return x / (1 + math.Exp(-x)) })
				y, scale := tensor(t, dtype.Int8, []int64{4, 3}), tensor(t, dtype.Float32, []int64{4})
				a := args{"x": x, "activateLeft": left, "quantModeOptional": "dynamic", "yOut": y, "scaleOut": scale}
				smooth, parts := tensor(t, dtype.Float32, []int64{1, 3}, .5, 1, 2), 1
				group := []int{0, 0, 0, 0}
				if grouped {
					a["groupIndexOptional"] = tensor(t, dtype.Int32, []int64{2}, 1, 4)
					smooth, parts, group = tensor(t, dtype.Float32, []int64{2, 3}, .5, 1, 2, 3, .25, 1), 2, []int{0, 1, 1, 1}
				}
				a["smoothScalesOptional"] = smooth
				run(t, "SwiGluQuant", a)
				smoothed := make([]float64, len(act))
				for i, v := range act {
					smoothed[i] = v * values(smooth)[group[i/3]*3+i%3]
				}
				extent := values(scale)
				for i := range extent {
					extent[i] = 1 / extent[i]
				}
				extremes(t, what, smoothed, nil, values(y), extent)
				old := values(y)
				newer := a.with(args{"dstType": dtype.Int8, "groupListType": 1})
				if grouped {
					newer["groupIndexOptional"] = tensor(t, dtype.Int32, []int64{2}, 1, 3) // numbers of rows
				}
				run(t, "SwiGluQuantV2", newer)
				assert.Equal(t, old, values(y), what)
				refused(t, invalidParam, "SwiGluQuantV2", newer.with(args{"dstType": dtype.Int4}), "dstType")
				refused(t, invalidParam, "SwiGluQuantV2", newer.with(args{"groupListType": 2}), "groupListType is 2")
				if grouped {
					many := newer.with(args{"groupIndexOptional": tensor(t, dtype.Int32, []int64{2}, 2, 3)})
					assert.ErrorContains(t, execute(t, "SwiGluQuantV2", many), "exceed 4 together")
				}

				factor := tensor(t, dtype.Float32, []int64{int64(parts)}, 10, 20)
				run(t, "SwiGluQuant", a.with(args{"quantModeOptional": "static", "smoothScalesOptional": factor, "offsetsOptional": factor}))
				for i, q := range values(y) {
					f := values(factor)[group[i/3]]
					assert.InDelta(t, min(max(act[i]*f+f, -128), 127), q, .52, what)
				}
				refused(t, invalidParam, "SwiGluQuant", a.with(args{"quantModeOptional": "dynamic_msd"}), "dynamic_msd")
				refused(t, nullPointer, "SwiGluQuant", a.with(args{"quantModeOptional": "static", "smoothScalesOptional": nil}), "needs scales")
				refused(t, invalidParam, "SwiGluQuant", a.with(args{"scaleOut": tensor(t, dtype.Float32, []int64{3})}), "scaleOut")
			}
		}
	}
}

func TestDequantBias(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, bias := range []*Tensor{nil, tensor(t, dtype.Int32, []int64{3}, 4, -5, 6), tensor(t, dtype.Float32, []int64{3}, .5, -1, 2)} {
			x, columns, rows, out := numbers(t, dtype.Int32, kerneltest.Transposed, 2, 3), tensor(t, dtype.Float32, []int64{3}, .5, 1, 2), tensor(t, dtype.Float32, []int64{2}, 1, .25), tensor(t, d, []int64{2, 3})
			a := args{"x": x, "weightScale": columns, "activateScaleOptional": rows, "biasOptional": bias, "outputDtype": d, "out": out}
			run(t, "DequantBias", a)
			for i, v := range values(x) {
				after := 0.0
				switch {
				case bias == nil:
				case bias.DType == dtype.Int32:
					v += values(bias)[i%3]
				default:
					after = values(bias)[i%3]
				}
				assert.Equal(t, v*values(columns)[i%3]*values(rows)[i/3]+after, values(out)[i], "%v bias %v", d, bias)
			}
			refused(t, invalidParam, "DequantBias", a.with(args{"outputDtype": dtype.Float32}), "outputDtype is float32")
			refused(t, invalidParam, "DequantBias", a.with(args{"weightScale": rows}), "one for each column")
		}
	}
}

func TestGroupedBiasGrad(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			dy, out := filled(t, 1, d, l, []int64{5, 3}), tensorIn(t, d, l, []int64{3, 3})
			a := args{"gradY": dy, "groupIdxOptional": tensor(t, dtype.Int32, []int64{3}, 2, 2, 5), "out": out}
			run(t, "GroupedBiasAddGrad", a)
			want := make([]float64, 9)
			for i, v := range values(dy) {
				want[[]int{0, 0, 2, 2, 2}[i/3]*3+i%3] += v
			}
			closeTo(t, fmt.Sprintf("%v %v", d, l), want, values(out), resultLimit(d))
			for kind, groups := range [][]float64{{2, 2, 5}, {2, 0, 3}} { // where they end, how many rows they have
				second := tensorIn(t, d, l, []int64{3, 3})
				run(t, "GroupedBiasAddGradV2", args{"gradY": dy, "groupIdxOptional": tensor(t, dtype.Int64, []int64{3}, groups...), "groupIdxType": kind, "out": second})
				require.Equal(t, values(out), values(second), "%v %v groupIdxType %d", d, l, kind)
			}
			refused(t, invalidParam, "GroupedBiasAddGradV2", a.with(args{"groupIdxType": 2}), "groupIdxType 2")
			require.ErrorContains(t, execute(t, "GroupedBiasAddGradV2", a.with(args{"groupIdxType": 1})), "not exceed 5")
			require.ErrorContains(t, execute(t, "GroupedBiasAddGrad", a.with(args{"groupIdxOptional": tensor(t, dtype.Int32, []int64{3}, 1, 2, 4)})), "row 4 of 5")
			cube, sums := filled(t, 2, d, l, []int64{3, 4, 2}), tensorIn(t, d, l, []int64{3, 2})
			run(t, "GroupedBiasAddGrad", args{"gradY": cube, "out": sums})
			want = make([]float64, 6)
			for i, v := range values(cube) {
				want[i/8*2+i%2] += v
			}
			closeTo(t, fmt.Sprintf("%v %v", d, l), want, values(sums), resultLimit(d))
			refused(t, invalidParam, "GroupedBiasAddGrad", args{"gradY": dy, "out": out}, "dimensions")
		}
	}
}

func TestScaleBias(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, y := filled(t, 1, d, l, []int64{2, 3, 4}), tensorIn(t, d, l, []int64{2, 3, 4})
			scale, bias := filled(t, 2, d, l, []int64{3}), filled(t, 3, d, l, []int64{3})
			for _, a := range []args{{"axis": 1, "scaleFromBlob": true, "numAxes": 1}, {"axis": -2}} {
				for _, b := range []*Tensor{nil, bias} {
					run(t, "Scale", a.with(args{"x": x, "scale": scale, "bias": b, "y": y}))
					want := values(x)
					for i := range want {
						want[i] *= values(scale)[i/4%3]
						if b != nil {
							want[i] += values(bias)[i/4%3]
						}
					}
					closeTo(t, fmt.Sprintf("%v %v %v", d, l, a), want, values(y), resultLimit(d))
				}
			}
			refused(t, invalidParam, "Scale", args{"x": x, "scale": scale, "axis": 2, "y": y}, "scale")
			refused(t, invalidParam, "Scale", args{"x": x, "scale": scale, "axis": 1, "numAxes": 5, "scaleFromBlob": true, "y": y}, "no 5 dimensions")
		}
	}
}

func TestModulate(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, dy, out := filled(t, 1, d, l, []int64{2, 3, 4}), filled(t, 2, d, l, []int64{2, 3, 4}), tensorIn(t, d, l, []int64{2, 3, 4})
			for _, form := range [][]int64{{2, 4}, {2, 1, 4}} {
				scale, shift := filled(t, 3, d, l, form), filled(t, 4, d, l, form)
				xs, ss, hs := values(x), values(scale), values(shift)
				want := make([]float64, len(xs))
				for i, v := range xs {
					want[i] = v*(1+ss[i/12*4+i%4]) + hs[i/12*4+i%4]
				}
				run(t, "Modulate", args{"self": x, "scaleOptional": scale, "shiftOptional": shift, "out": out})
				closeTo(t, fmt.Sprintf("%v %v", d, l), want, values(out), resultLimit(d))
				run(t, "Modulate", args{"self": x, "out": out})
				assert.Equal(t, xs, values(out))
				if len(form) == 3 {
					continue
				}
				dscale, dshift := tensorIn(t, d, l, form), tensorIn(t, d, l, form)
				run(t, "ModulateBackward", args{"grad_output": dy, "input": x, "scale": scale, "shift": shift, "grad_input": out, "grad_scale": dscale, "grad_shift": dshift})
				dx, wantScale, wantShift := make([]float64, len(xs)), make([]float64, 8), make([]float64, 8)
				for i, g := range values(dy) {
					k := i/12*4 + i%4
					dx[i] = g * ss[k]
					wantScale[k] += g * xs[i]
					wantShift[k] += g
				}
				closeTo(t, "dx", dx, values(out), resultLimit(d))
				closeTo(t, "dscale", wantScale, values(dscale), 2*resultLimit(d))
				closeTo(t, "dshift", wantShift, values(dshift), resultLimit(d))
				refused(t, nullPointer, "ModulateBackward", args{"grad_output": dy, "input": x, "scale": scale, "grad_input": out}, "grad_scale is null")
			}
			refused(t, invalidParam, "Modulate", args{"self": x, "scaleOptional": dy, "out": out}, "scaleOptional")
		}
	}
}
