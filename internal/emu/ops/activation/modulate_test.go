package activation

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestScaleBias(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, y := optest.Filled(t, 1, d, l, []int64{2, 3, 4}), optest.TensorIn(t, d, l, []int64{2, 3, 4})
			scale, bias := optest.Filled(t, 2, d, l, []int64{3}), optest.Filled(t, 3, d, l, []int64{3})
			for _, a := range []optest.Args{{"axis": 1, "scaleFromBlob": true, "numAxes": 1}, {"axis": -2}} {
				for _, b := range []*op.Tensor{nil, bias} {
					optest.Run(t, "Scale", a.With(optest.Args{"x": x, "scale": scale, "bias": b, "y": y}))
					want := optest.Values(x)
					for i := range want {
						want[i] *= optest.Values(scale)[i/4%3]
						if b != nil {
							want[i] += optest.Values(bias)[i/4%3]
						}
					}
					optest.CloseTo(t, fmt.Sprintf("%v %v %v", d, l, a), want, optest.Values(y), optest.ResultLimit(d))
				}
			}
			optest.Refused(t, op.InvalidParam, "Scale", optest.Args{"x": x, "scale": scale, "axis": 2, "y": y}, "scale")
			optest.Refused(t, op.InvalidParam, "Scale", optest.Args{"x": x, "scale": scale, "axis": 1, "numAxes": 5, "scaleFromBlob": true, "y": y}, "no 5 dimensions")
		}
	}
}

func TestModulate(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, dy, out := optest.Filled(t, 1, d, l, []int64{2, 3, 4}), optest.Filled(t, 2, d, l, []int64{2, 3, 4}), optest.TensorIn(t, d, l, []int64{2, 3, 4})
			for _, form := range [][]int64{{2, 4}, {2, 1, 4}} {
				scale, shift := optest.Filled(t, 3, d, l, form), optest.Filled(t, 4, d, l, form)
				xs, ss, hs := optest.Values(x), optest.Values(scale), optest.Values(shift)
				want := make([]float64, len(xs))
				for i, v := range xs {
					want[i] = v*(1+ss[i/12*4+i%4]) + hs[i/12*4+i%4]
				}
				optest.Run(t, "Modulate", optest.Args{"self": x, "scaleOptional": scale, "shiftOptional": shift, "out": out})
				optest.CloseTo(t, fmt.Sprintf("%v %v", d, l), want, optest.Values(out), optest.ResultLimit(d))
				for _, name := range []string{"scaleOptional", "shiftOptional"} {
					alone := optest.Args{"self": x, "scaleOptional": scale, "shiftOptional": shift, "out": out}
					alone[name] = nil
					optest.Refused(t, op.InvalidParam, "Modulate", alone)
				}
				if len(form) == 3 {
					continue
				}
				dscale, dshift := optest.TensorIn(t, d, l, form), optest.TensorIn(t, d, l, form)
				optest.Run(t, "ModulateBackward", optest.Args{"grad_output": dy, "input": x, "scale": scale, "shift": shift, "grad_input": out, "grad_scale": dscale, "grad_shift": dshift})
				dx, wantScale, wantShift := make([]float64, len(xs)), make([]float64, 8), make([]float64, 8)
				for i, g := range optest.Values(dy) {
					k := i/12*4 + i%4
					dx[i] = g * ss[k]
					wantScale[k] += g * xs[i]
					wantShift[k] += g
				}
				optest.CloseTo(t, "dx", dx, optest.Values(out), optest.ResultLimit(d))
				optest.CloseTo(t, "dscale", wantScale, optest.Values(dscale), 2*optest.ResultLimit(d))
				optest.CloseTo(t, "dshift", wantShift, optest.Values(dshift), optest.ResultLimit(d))
				optest.Refused(t, op.NullPointer, "ModulateBackward", optest.Args{"grad_output": dy, "input": x, "scale": scale, "grad_input": out}, "grad_scale is null")
			}
			optest.Refused(t, op.InvalidParam, "Modulate", optest.Args{"self": x, "scaleOptional": dy, "shiftOptional": dy, "out": out}, "scaleOptional")
		}
	}
}
