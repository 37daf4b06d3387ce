package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestGeluQuant(t *testing.T) {
	gelu := map[string]func(float64) float64{
		"none": func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) },
		"tanh": func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+.044715*x*x*x))) },
	}
	for n, shape := range [][]int64{{7}, {3, 5}, {2, 3, 17}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for approximate, f := range gelu {
					for _, scales := range []int64{0, 1, shape[len(shape)-1]} {
						last := shape[len(shape)-1]
						self, y := optest.Filled(t, uint64(n), d, l, shape), optest.TensorIn(t, dtype.Int8, l, shape)
						a := optest.Args{"self": self, "approximate": approximate, "roundMode": "rint", "dstType": dtype.Int8, "y": y}
						factor, offset := make([]float64, last), make([]float64, last)
						for i := range factor {
							factor[i] = 1
						}
						if scales > 0 {
							given, offsets := optest.Filled(t, 9, dtype.Float32, kerneltest.Contiguous, []int64{scales}), optest.Filled(t, 10, dtype.Float32, kerneltest.Contiguous, []int64{scales})
							a["inputScaleOptional"], a["inputOffsetOptional"] = given, offsets
							for i := range factor {
								factor[i], offset[i] = optest.Values(given)[int64(i)%scales], optest.Values(offsets)[int64(i)%scales]
							}
						}
						x, what := optest.Values(self), fmt.Sprint(shape, d, l, approximate, scales)
						if scales > 0 {
							optest.Run(t, "GeluQuant", a.With(optest.Args{"quantMode": "static"}))
							for i, got := range optest.Values(y) {
								require.InDelta(t, min(max(f(x[i])*factor[int64(i)%last]+offset[int64(i)%last], -128), 127), got, .501, what)
							}
						} else {
							optest.Refused(t, op.NullPointer, "GeluQuant", a.With(optest.Args{"quantMode": "static"}), "inputScaleOptional is null")
						}
						if len(shape) == 1 {
							continue
						}
						rows := optest.TensorIn(t, dtype.Float32, l, shape[:len(shape)-1])
						optest.Run(t, "GeluQuant", a.With(optest.Args{"quantMode": "dynamic", "outScaleOptional": rows}))
						got, most := optest.Values(y), make([]float64, rows.Len())
						for i, v := range x {
							most[int64(i)/last] = max(most[int64(i)/last], math.Abs(f(v)*factor[int64(i)%last])/127)
						}
						optest.CloseTo(t, what, most, optest.Values(rows), 1e-5)
						for i, v := range x {
							require.InDelta(t, f(v)*factor[int64(i)%last]/most[int64(i)/last], got[i], .501, what)
						}
					}
				}
			}
		}
	}
	x := optest.Tensor(t, dtype.Float16, []int64{2, 3}, 1)
	one := optest.Tensor(t, dtype.Float16, []int64{1}, 1)
	a := optest.Args{"self": x, "inputScaleOptional": one, "approximate": "none", "quantMode": "static", "roundMode": "rint", "dstType": dtype.Int8, "y": optest.Tensor(t, dtype.Int8, []int64{2, 3})}
	optest.Run(t, "GeluQuant", a)
	for text, set := range map[string]optest.Args{
		"approximate": {"approximate": "erf"}, "quantMode": {"quantMode": "both"}, "roundMode": {"roundMode": "hybrid"}, "dstType": {"dstType": 34}, "one for each of the last": {"inputScaleOptional": optest.Tensor(t, dtype.Float16, []int64{2}, 1)},
		"dtypes differ": {"inputOffsetOptional": optest.Tensor(t, dtype.Float32, []int64{1}, 1)}, "without inputScaleOptional": {"quantMode": "dynamic", "outScaleOptional": optest.Tensor(t, dtype.Float32, []int64{2}), "inputScaleOptional": nil, "inputOffsetOptional": one},
		"is empty": {"self": optest.Tensor(t, dtype.Float16, []int64{0, 3}), "y": optest.Tensor(t, dtype.Int8, []int64{0, 3})}, "one for each row": {"quantMode": "dynamic", "outScaleOptional": optest.Tensor(t, dtype.Float32, []int64{3})},
	} {
		optest.Refused(t, op.InvalidParam, "GeluQuant", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "GeluQuant", a.With(optest.Args{"quantMode": "dynamic"}), "outScaleOptional is null")
}

// GeluQuant to floats of eight bits is near its definition, and the largest of a row is the largest of the type.
func TestGeluQuantToFloats(t *testing.T) {
	gelu := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	for _, c := range []struct {
		d               dtype.Type
		round           string
		most, precision float64
	}{{dtype.Float8E4M3, "rint", 448, 0x1p-4}, {dtype.Float8E5M2, "rint", 57344, 0x1p-3}, {dtype.HiFloat8, "round", 32768, 0x1p-2}, {dtype.HiFloat8, "hybrid", 32768, 0x1p-2}} {
		for _, in := range op.FloatTypes {
			what := fmt.Sprint(c.d, in)
			x, y := optest.Filled(t, 3, in, kerneltest.Gapped, []int64{2, 3, 5}), optest.Minifloat(t, c.d, []int64{2, 3, 5})
			factor, offset, rows := optest.Tensor(t, in, []int64{5}, 2, -.5, 3), optest.Tensor(t, in, []int64{5}, 1, -2), optest.Tensor(t, dtype.Float32, []int64{2, 3})
			a := optest.Args{"self": x, "inputScaleOptional": factor, "inputOffsetOptional": offset, "approximate": "none", "quantMode": "static", "roundMode": c.round, "dstType": c.d, "y": y}
			optest.Run(t, "GeluQuant", a)
			got, scaled, most := optest.MinifloatValues(t, y), optest.Values(x), make([]float64, 6)
			for i, v := range scaled {
				scaled[i] = gelu(v) * optest.Values(factor)[i%5]
				most[i/5] = max(most[i/5], math.Abs(scaled[i]))
				want := scaled[i] + optest.Values(offset)[i%5]
				require.InDelta(t, want, got[i], max(math.Abs(want)*c.precision, 0x1p-10), "%s: %d", what, i)
			}
			for _, smooth := range []bool{true, false} {
				if !smooth {
					clear(most)
					for i, v := range optest.Values(x) {
						scaled[i] = gelu(v)
						most[i/5] = max(most[i/5], math.Abs(scaled[i]))
					}
					a = a.With(optest.Args{"inputScaleOptional": nil, "inputOffsetOptional": nil})
				}
				optest.Run(t, "GeluQuant", a.With(optest.Args{"quantMode": "dynamic", "outScaleOptional": rows}))
				for i, v := range optest.MinifloatValues(t, y) {
					extent := optest.Values(rows)[i/5]
					require.InEpsilon(t, most[i/5]/c.most, extent, 1e-5, what)
					want := scaled[i] / (most[i/5] / c.most)
					require.InDelta(t, want, v, max(math.Abs(want)*c.precision, 0x1p-10), "%s: %d", what, i)
				}
			}
			optest.Refused(t, op.InvalidParam, "GeluQuant", a.With(optest.Args{"roundMode": "floor"}))
			optest.Refused(t, op.InvalidParam, "GeluQuant", a.With(optest.Args{"dstType": dtype.Int8}))
		}
	}
}

// By channel the last two versions quantise columns as the rows of the transpose.
func TestDynamicQuantByChannel(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			for _, symmetric := range []bool{false, true} {
				x, smooth := optest.Filled(t, 1, d, l, []int64{2, 5, 3}), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{5})
				y, scale, offset := optest.TensorIn(t, dtype.Int8, l, []int64{2, 5, 3}), optest.TensorIn(t, dtype.Float32, l, []int64{2, 3}), optest.TensorIn(t, dtype.Float32, l, []int64{2, 3})
				a := optest.Args{"x": x, "smoothScalesOptional": smooth, "dstType": dtype.Int8, "isSymmetrical": symmetric, "quantMode": "perchannel", "yOut": y, "scaleOut": scale}
				if !symmetric {
					a["offsetOut"] = offset
				}
				optest.Run(t, "DynamicQuantV4", a)
				var swapped []float64
				for b := range 2 {
					swapped = append(swapped, optest.Transposed(optest.Values(x)[b*15:(b+1)*15], 3)...)
				}
				rows, rowScale, rowOffset := optest.Tensor(t, dtype.Int8, []int64{2, 3, 5}), optest.Tensor(t, dtype.Float32, []int64{2, 3}), optest.Tensor(t, dtype.Float32, []int64{2, 3})
				b := a.With(optest.Args{"x": optest.Tensor(t, d, []int64{2, 3, 5}, swapped...), "quantMode": "pertoken", "yOut": rows, "scaleOut": rowScale})
				if !symmetric {
					b["offsetOut"] = rowOffset
				}
				optest.Run(t, "DynamicQuantV4", b)
				var want []float64
				for b := range 2 {
					want = append(want, optest.Transposed(optest.Values(rows)[b*15:(b+1)*15], 5)...)
				}
				require.Equal(t, want, optest.Values(y), "%v %v symmetric %v", d, l, symmetric)
				require.Equal(t, optest.Values(rowScale), optest.Values(scale))
				if !symmetric {
					require.Equal(t, optest.Values(rowOffset), optest.Values(offset))
				}
				optest.Refused(t, op.TilingRefused, "DynamicQuantV4", a.With(optest.Args{"dstTypeMax": 32769.0}), "dstTypeMax")
				optest.Refused(t, op.TilingRefused, "DynamicQuantV4", a.With(optest.Args{"dstTypeMax": -1.0}), "dstTypeMax")
				optest.Refused(t, op.InvalidParam, "DynamicQuantV4", a.With(optest.Args{"smoothScalesOptional": optest.Tensor(t, d, []int64{3}, 1)}), "must have shape [5] (one for each place of a column of x")
				optest.Refused(t, op.InvalidParam, "DynamicQuantV4", b.With(optest.Args{"smoothScalesOptional": optest.Tensor(t, d, []int64{3}, 1)}), "must have shape [5] (one for each place of a row of x")
				optest.Refused(t, op.InvalidParam, "DynamicQuantV4", a.With(optest.Args{"scaleOut": optest.Tensor(t, dtype.Float32, []int64{2, 5})}), "must have shape [2,3] (one for each column of x")
				optest.Refused(t, op.InvalidParam, "DynamicQuantV4", a.With(optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 2), "smoothScalesOptional": optest.Tensor(t, d, []int64{1, 5}, 1)}), "no groups")
				optest.Run(t, "DynamicQuantV3", a)
				require.Equal(t, want, optest.Values(y))
			}
		}
	}
}
