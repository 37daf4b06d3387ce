package attention

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

func TestDequantRopeQuantKvcache(t *testing.T) {
	const batch, heads, keyHeads, dim, room = 3, 2, 1, 16, 5
	const width = (heads + 2*keyHeads) * dim
	for _, d := range op.HalfTypes {
		for _, whole := range []bool{false, true} {
			for _, paged := range []bool{false, true} {
				for _, length := range []int64{0, 2} { // 0 is x without a length
					for _, l := range kerneltest.Layouts {
						shape, angles, outs := []int64{batch, length, width}, []int64{batch, length, 1, dim}, []int64{batch, length}
						n := batch * length
						if length == 0 {
							shape, angles, outs, n = []int64{batch, width}, []int64{batch, dim}, []int64{batch}, batch
						}
						x, cos, sin := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, angles), optest.Filled(t, 3, d, l, angles)
						scales, offset := optest.Filled(t, 4, dtype.Float32, kerneltest.Contiguous, []int64{keyHeads, dim}), optest.Filled(t, 5, dtype.Float32, kerneltest.Contiguous, []int64{dim})
						columns, rowScale, bias := optest.Filled(t, 6, dtype.Float32, kerneltest.Contiguous, []int64{width}), optest.Filled(t, 7, dtype.Float32, kerneltest.Contiguous, []int64{n}), optest.Filled(t, 8, d, kerneltest.Contiguous, []int64{width})
						plain := optest.Values(x)
						if whole {
							numbers := optest.Int8s(1, int(n*width))
							x = optest.TensorIn(t, dtype.Int32, l, shape, numbers...)
							for i, v := range numbers {
								plain[i] = v*optest.Values(columns)[i%width]*optest.Values(rowScale)[i/width] + optest.Values(bias)[i%width]
							}
						}
						places, at := []float64{3, 0, 1}, func(row int64) int64 { return row*room + []int64{3, 0, 1}[row] }
						if length > 0 {
							at = func(row int64) int64 { return row/length*room + []int64{3, 0, 1}[row/length] + row%length }
						}
						if paged {
							places = nil
							for i := range n {
								places = append(places, float64(2*i+1))
							}
							places[1] = -1
							at = func(row int64) int64 {
								if row == 1 {
									return -1
								}
								return 2*row + 1
							}
						}
						caches := [2]*op.Tensor{optest.TensorIn(t, dtype.Int8, l, []int64{batch, room, keyHeads, dim}, 9), optest.TensorIn(t, dtype.Int8, l, []int64{batch, room, keyHeads, dim}, 9)}
						q, k, v := optest.TensorIn(t, d, l, append(append([]int64{}, outs...), heads, dim)), optest.TensorIn(t, d, l, append(append([]int64{}, outs...), keyHeads, dim)), optest.TensorIn(t, d, l, append(append([]int64{}, outs...), keyHeads, dim))
						a := optest.Args{
							"x": x, "cos": cos, "sin": sin, "kCacheRef": caches[0], "vCacheRef": caches[1], "indices": optest.Tensor(t, dtype.Int32, []int64{int64(len(places))}, places...),
							"scaleK": scales, "scaleV": scales, "offsetVOptional": offset, "sizeSplits": []int64{heads * dim, keyHeads * dim, keyHeads * dim},
							"quantModeOptional": "static", "layoutOptional": "BSND", "qOut": q, "kOut": k, "vOut": v, "kvOutput": true,
						}
						if paged {
							a["cacheModeOptional"] = "page"
						}
						if whole {
							a["weightScaleOptional"], a["activationScaleOptional"], a["biasOptional"] = columns, rowScale, bias
						}
						optest.Run(t, "DequantRopeQuantKvcache", a)
						var want [3][]float64
						wantCache := [2][]float64{kerneltest.Values(optest.Tensor(t, dtype.Int8, caches[0].Shape, 9).View()), kerneltest.Values(optest.Tensor(t, dtype.Int8, caches[0].Shape, 9).View())}
						vc, vs, ve, vo := optest.Values(cos), optest.Values(sin), optest.Values(scales), optest.Values(offset)
						for row := range n {
							for column := range int64(width) {
								head, j := column/dim, column%dim
								y := plain[row*width+column]
								if head < heads+keyHeads {
									other := plain[row*width+head*dim+(j+dim/2)%dim]
									if j < dim/2 {
										other = -other
									}
									y = y*vc[row*dim+j] + other*vs[row*dim+j]
								}
								part := min(max(int(head)-heads+1, 0), 2)
								want[part] = append(want[part], y)
								if part > 0 && at(row) >= 0 {
									quantised := y / ve[j]
									if part == 2 {
										quantised += vo[j]
									}
									wantCache[part-1][at(row)*dim+j] = optest.ToInt8(quantised)
								}
							}
						}
						what := fmt.Sprintf("%v whole %v paged %v length %d %v", d, whole, paged, length, l)
						for i, out := range []*op.Tensor{q, k, v} {
							optest.CloseTo(t, what, want[i], optest.Values(out), 4*optest.ResultLimit(d))
						}
						for i, cache := range caches {
							for j, got := range optest.Values(cache) {
								// Rotations are rounded to float32, so ties may be rounded either
								// way.
								require.LessOrEqual(t, math.Abs(got-wantCache[i][j]), 1.0, "%s cache %d [%d]", what, i, j)
								if wantCache[i][j] == 9 {
									require.Equal(t, 9.0, got, "%s cache %d [%d]", what, i, j)
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestDequantRopeQuantKvcacheRefuses(t *testing.T) {
	f, i8 := dtype.Float16, dtype.Int8
	one := optest.Tensor(t, dtype.Float32, []int64{16}, 1)
	a := optest.Args{
		"x": optest.Tensor(t, f, []int64{2, 64}, 1), "cos": optest.Tensor(t, f, []int64{2, 16}, 1), "sin": optest.Tensor(t, f, []int64{2, 16}, 0), "kCacheRef": optest.Tensor(t, i8, []int64{2, 4, 1, 16}), "vCacheRef": optest.Tensor(t, i8, []int64{2, 4, 1, 16}),
		"indices": optest.Tensor(t, dtype.Int32, []int64{2}, 1), "scaleK": one, "scaleV": one, "sizeSplits": []int64{32, 16, 16}, "qOut": optest.Tensor(t, f, []int64{2, 2, 16}),
	}
	optest.Run(t, "DequantRopeQuantKvcache", a)
	for text, set := range map[string]optest.Args{
		"quantModeOptional": {"quantModeOptional": "dynamic"}, "layoutOptional": {"layoutOptional": "TND"}, "cacheModeOptional": {"cacheModeOptional": "PA"}, "sizeSplits": {"sizeSplits": []int64{16, 32, 16}},
		"multiple of 64": {"x": optest.Tensor(t, f, []int64{2, 48}, 1), "sizeSplits": []int64{16, 16, 16}}, "no room": {"kCacheRef": optest.Tensor(t, i8, []int64{1, 4, 1, 16}), "vCacheRef": optest.Tensor(t, i8, []int64{1, 4, 1, 16})},
		"an angle": {"cos": optest.Tensor(t, f, []int64{2, 1, 16}, 1)}, "dtypes differ": {"sin": optest.Tensor(t, dtype.BFloat16, []int64{2, 16})}, "element of a key": {"scaleV": optest.Tensor(t, dtype.Float32, []int64{1}, 1)},
		"heads of x": {"qOut": optest.Tensor(t, f, []int64{2, 1, 16})}, "place for each": {"indices": optest.Tensor(t, dtype.Int32, []int64{3})},
	} {
		optest.Refused(t, op.InvalidParam, "DequantRopeQuantKvcache", a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"sizeSplits is null": {"sizeSplits": nil}, "kOut is null": {"kvOutput": true}, "weightScaleOptional is null": {"x": optest.Tensor(t, dtype.Int32, []int64{2, 64}, 1)}, "scaleK is null": {"scaleK": nil},
	} {
		optest.Refused(t, op.NullPointer, "DequantRopeQuantKvcache", a.With(set), text)
	}
	require.ErrorContains(t, optest.Execute(t, "DequantRopeQuantKvcache", a.With(optest.Args{"indices": optest.Tensor(t, dtype.Int32, []int64{2}, 4)})), "4 places")
	require.ErrorContains(t, optest.Execute(t, "DequantRopeQuantKvcache", a.With(optest.Args{"indices": optest.Tensor(t, dtype.Int32, []int64{2}, 8), "cacheModeOptional": "page"})), "8 places")
}
