package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestGeluQuant(t *testing.T) {
	gelu := map[string]func(float64) float64{
		"none": func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) },
		"tanh": func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+.044715*x*x*x))) },
	}
	for n, shape := range [][]int64{{7}, {3, 5}, {2, 3, 17}} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				for approximate, f := range gelu {
					for _, scales := range []int64{0, 1, shape[len(shape)-1]} {
						last := shape[len(shape)-1]
						self, y := filled(t, uint64(n), d, l, shape), tensorIn(t, dtype.Int8, l, shape)
						a := args{"self": self, "approximate": approximate, "roundMode": "rint", "dstType": dtype.Int8, "y": y}
						factor, offset := make([]float64, last), make([]float64, last)
						for i := range factor {
							factor[i] = 1
						}
						if scales > 0 {
							given, moved := filled(t, 9, dtype.Float32, kerneltest.Contiguous, []int64{scales}), filled(t, 10, dtype.Float32, kerneltest.Contiguous, []int64{scales})
							a["inputScaleOptional"], a["inputOffsetOptional"] = given, moved
							for i := range factor {
								factor[i], offset[i] = values(given)[int64(i)%scales], values(moved)[int64(i)%scales]
							}
						}
						x, what := values(self), fmt.Sprint(shape, d, l, approximate, scales)
						if scales > 0 {
							run(t, "GeluQuant", a.with(args{"quantMode": "static"}))
							for i, got := range values(y) {
								require.InDelta(t, min(max(f(x[i])*factor[int64(i)%last]+offset[int64(i)%last], -128), 127), got, .501, what)
							}
						} else {
							refused(t, nullPointer, "GeluQuant", a.with(args{"quantMode": "static"}), "inputScaleOptional is null")
						}
						if len(shape) == 1 {
							continue
						}
						rows := tensorIn(t, dtype.Float32, l, shape[:len(shape)-1])
						run(t, "GeluQuant", a.with(args{"quantMode": "dynamic", "outScaleOptional": rows}))
						got, most := values(y), make([]float64, rows.Len())
						for i, v := range x {
							most[int64(i)/last] = max(most[int64(i)/last], math.Abs(f(v)*factor[int64(i)%last])/127)
						}
						closeTo(t, what, most, values(rows), 1e-5)
						for i, v := range x {
							require.InDelta(t, f(v)*factor[int64(i)%last]/most[int64(i)/last], got[i], .501, what)
						}
					}
				}
			}
		}
	}
	x := tensor(t, dtype.Float16, []int64{2, 3}, 1)
	one := tensor(t, dtype.Float16, []int64{1}, 1)
	a := args{"self": x, "inputScaleOptional": one, "approximate": "none", "quantMode": "static", "roundMode": "rint", "dstType": dtype.Int8, "y": tensor(t, dtype.Int8, []int64{2, 3})}
	run(t, "GeluQuant", a)
	for text, set := range map[string]args{
		"approximate": {"approximate": "erf"}, "quantMode": {"quantMode": "both"}, "roundMode": {"roundMode": "hybrid"}, "dstType": {"dstType": 34}, "one for each of the last": {"inputScaleOptional": tensor(t, dtype.Float16, []int64{2}, 1)},
		"dtypes differ": {"inputOffsetOptional": tensor(t, dtype.Float32, []int64{1}, 1)}, "without inputScaleOptional": {"quantMode": "dynamic", "outScaleOptional": tensor(t, dtype.Float32, []int64{2}), "inputScaleOptional": nil, "inputOffsetOptional": one},
		"is empty": {"self": tensor(t, dtype.Float16, []int64{0, 3}), "y": tensor(t, dtype.Int8, []int64{0, 3})}, "one for each row": {"quantMode": "dynamic", "outScaleOptional": tensor(t, dtype.Float32, []int64{3})},
	} {
		refused(t, invalidParam, "GeluQuant", a.with(set), text)
	}
	refused(t, nullPointer, "GeluQuant", a.with(args{"quantMode": "dynamic"}), "outScaleOptional is null")
}

// By channel the fourth version gives what rows of the transpose get.
func TestDynamicQuantByChannel(t *testing.T) {
	for _, d := range pairTypes {
		for _, l := range kerneltest.Layouts {
			for _, symmetric := range []bool{false, true} {
				x, smooth := filled(t, 1, d, l, []int64{2, 5, 3}), filled(t, 2, d, kerneltest.Contiguous, []int64{5})
				y, scale, offset := tensorIn(t, dtype.Int8, l, []int64{2, 5, 3}), tensorIn(t, dtype.Float32, l, []int64{2, 3}), tensorIn(t, dtype.Float32, l, []int64{2, 3})
				a := args{"x": x, "smoothScalesOptional": smooth, "dstType": dtype.Int8, "isSymmetrical": symmetric, "quantMode": "perchannel", "yOut": y, "scaleOut": scale}
				if !symmetric {
					a["offsetOut"] = offset
				}
				run(t, "DynamicQuantV4", a)
				var swapped []float64
				for b := range 2 {
					swapped = append(swapped, transposedMatrix(values(x)[b*15:(b+1)*15], 5, 3)...)
				}
				rows, rowScale, rowOffset := tensor(t, dtype.Int8, []int64{2, 3, 5}), tensor(t, dtype.Float32, []int64{2, 3}), tensor(t, dtype.Float32, []int64{2, 3})
				b := a.with(args{"x": tensor(t, d, []int64{2, 3, 5}, swapped...), "quantMode": "pertoken", "yOut": rows, "scaleOut": rowScale})
				if !symmetric {
					b["offsetOut"] = rowOffset
				}
				run(t, "DynamicQuantV4", b)
				var want []float64
				for b := range 2 {
					want = append(want, transposedMatrix(values(rows)[b*15:(b+1)*15], 3, 5)...)
				}
				require.Equal(t, want, values(y), "%v %v symmetric %v", d, l, symmetric)
				require.Equal(t, values(rowScale), values(scale))
				if !symmetric {
					require.Equal(t, values(rowOffset), values(offset))
				}
				refused(t, invalidParam, "DynamicQuantV4", a.with(args{"dstTypeMax": 15.0}), "dstTypeMax")
				refused(t, invalidParam, "DynamicQuantV4", a.with(args{"smoothScalesOptional": tensor(t, d, []int64{3}, 1)}), "must have shape [5] (one for each place of a column of x")
				refused(t, invalidParam, "DynamicQuantV4", b.with(args{"smoothScalesOptional": tensor(t, d, []int64{3}, 1)}), "must have shape [5] (one for each place of a row of x")
				refused(t, invalidParam, "DynamicQuantV4", a.with(args{"scaleOut": tensor(t, dtype.Float32, []int64{2, 5})}), "must have shape [2,3] (one for each column of x")
				refused(t, invalidParam, "DynamicQuantV4", a.with(args{"groupIndexOptional": tensor(t, dtype.Int32, []int64{1}, 2), "smoothScalesOptional": tensor(t, d, []int64{1, 5}, 1)}), "no groups")
				refused(t, invalidParam, "DynamicQuantV3", args{"x": x, "dstType": dtype.Int8, "isSymmetrical": true, "quantMode": "perchannel", "yOut": y, "scaleOut": scale}, "perchannel")
			}
		}
	}
}
