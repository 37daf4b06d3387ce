package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestDequantSituQuant(t *testing.T) {
	const rows, half = 3, 5
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Int8, dtype.Int32, dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, dynamic := range []bool{false, true} {
				x := optest.TensorIn(t, d, l, []int64{rows, 2 * half}, 5, -3, 1, 0, 2, -7, 4, 6, -1, 3, 8)
				y, extent := optest.TensorIn(t, dtype.Int8, l, []int64{rows, half}, 99), optest.Tensor(t, f, []int64{rows}, 7)
				columns, bias, smooth := []float64{.5, .25, 1, 2, .125, 1, .5, .5, 1, .25}, []float64{1, 0, -1, .5, 2, 0, 1, 0, 0, -.5}, []float64{.125, .0625, .25, .5, .125}
				const beta, linear = 2.0, 3.0
				a := optest.Args{"x": x, "beta": beta, "linearBeta": linear, "activateLeft": !dynamic, "yOut": y, "yScaleOut": extent, "quantScaleOptional": optest.Tensor(t, f, []int64{half}, smooth...)}
				in := optest.Values(x)
				if d == dtype.Int8 || d == dtype.Int32 {
					a["weightScaleOptional"], a["biasOptional"] = optest.Tensor(t, f, []int64{2 * half}, columns...), optest.Tensor(t, f, []int64{2 * half}, bias...)
					for i := range in {
						in[i] *= columns[i%len(columns)]
						if d == dtype.Int32 {
							in[i] *= .5
						}
						in[i] += bias[i%len(bias)]
					}
				}
				if d == dtype.Int32 {
					a["activationScaleOptional"] = optest.Tensor(t, f, []int64{1}, .5)
				}
				a["quantTypeOptional"] = "static"
				if dynamic {
					a["quantTypeOptional"] = "dynamic"
				} else {
					a["quantOffsetOptional"] = optest.Tensor(t, f, []int64{1}, 3)
				}
				optest.Run(t, "DequantSituQuant", a)
				for row := range rows {
					out, most := make([]float64, half), 0.0
					for j := range half {
						gate, up := in[row*2*half+j], in[row*2*half+half+j]
						if dynamic {
							gate, up = up, gate
						}
						out[j] = beta * math.Tanh(gate/beta) / (1 + math.Exp(-gate)) * linear * math.Tanh(up/linear)
						if dynamic {
							out[j] *= smooth[j]
						}
						most = max(most, math.Abs(out[j]))
					}
					for j, v := range out {
						want := v/smooth[j] + 3
						if dynamic {
							want = v / (most / 127)
						}
						// Truncation may be off by one for values close to an integer.
						got := optest.Values(y)[row*half+j]
						assert.True(t, math.Abs(got-math.Trunc(min(max(want, -128), 127))) <= 1 && math.Abs(got-min(max(want, -128), 127)) <= 1.01, "%v: %v is not %v", d, got, want)
					}
					if dynamic {
						assert.InEpsilon(t, most/127, optest.Values(extent)[row], 1e-3, fmt.Sprint(d))
					}
				}
				for text, set := range map[string]optest.Args{
					"beta is 0": {"beta": 0.0}, "perrow": {"quantTypeOptional": "perrow"}, "one for each row": {"yScaleOut": optest.Tensor(t, f, []int64{rows + 1})},
					"half its last dimension": {"yOut": optest.Tensor(t, dtype.Int8, []int64{rows, half + 1})}, "one element or 5": {"quantScaleOptional": optest.Tensor(t, f, []int64{3}, 1)},
					"not supported": {"groupIndexOptional": optest.Tensor(t, dtype.Int64, []int64{1}, 1)},
				} {
					optest.Refused(t, op.InvalidParam, "DequantSituQuant", a.With(set), text)
				}
				if !dynamic {
					optest.Refused(t, op.NullPointer, "DequantSituQuant", a.With(optest.Args{"quantScaleOptional": nil}), "quantScaleOptional is null")
				}
				if d == dtype.Int32 {
					optest.Refused(t, op.NullPointer, "DequantSituQuant", a.With(optest.Args{"activationScaleOptional": nil}), "activationScaleOptional is null")
				}
			}
		}
	}
}
