package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestDequantRopeQuantKvcache(t *testing.T) {
	const batch, heads, keyHeads, dim, room = 3, 2, 1, 16, 5
	const width = (heads + 2*keyHeads) * dim
	for _, d := range pairTypes {
		for _, whole := range []bool{false, true} {
			for _, paged := range []bool{false, true} {
				for _, length := range []int64{0, 2} { // 0 is x without a length
					for _, l := range kerneltest.Layouts {
						shape, angles, outs := []int64{batch, length, width}, []int64{batch, length, 1, dim}, []int64{batch, length}
						n := batch * length
						if length == 0 {
							shape, angles, outs, n = []int64{batch, width}, []int64{batch, dim}, []int64{batch}, batch
						}
						x, cos, sin := filled(t, 1, d, l, shape), filled(t, 2, d, l, angles), filled(t, 3, d, l, angles)
						scales, offset := filled(t, 4, dtype.Float32, kerneltest.Contiguous, []int64{keyHeads, dim}), filled(t, 5, dtype.Float32, kerneltest.Contiguous, []int64{dim})
						columns, rowScale, bias := filled(t, 6, dtype.Float32, kerneltest.Contiguous, []int64{width}), filled(t, 7, dtype.Float32, kerneltest.Contiguous, []int64{n}), filled(t, 8, d, kerneltest.Contiguous, []int64{width})
						plain := values(x)
						if whole {
							numbers := int8s(1, int(n*width))
							x = tensorIn(t, dtype.Int32, l, shape, numbers...)
							for i, v := range numbers {
								plain[i] = v*values(columns)[i%width]*values(rowScale)[i/width] + values(bias)[i%width]
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
						caches := [2]*Tensor{tensorIn(t, dtype.Int8, l, []int64{batch, room, keyHeads, dim}, 9), tensorIn(t, dtype.Int8, l, []int64{batch, room, keyHeads, dim}, 9)}
						q, k, v := tensorIn(t, d, l, append(append([]int64{}, outs...), heads, dim)), tensorIn(t, d, l, append(append([]int64{}, outs...), keyHeads, dim)), tensorIn(t, d, l, append(append([]int64{}, outs...), keyHeads, dim))
						a := args{
							"x": x, "cos": cos, "sin": sin, "kCacheRef": caches[0], "vCacheRef": caches[1], "indices": tensor(t, dtype.Int32, []int64{int64(len(places))}, places...),
							"scaleK": scales, "scaleV": scales, "offsetVOptional": offset, "sizeSplits": []int64{heads * dim, keyHeads * dim, keyHeads * dim},
							"quantModeOptional": "static", "layoutOptional": "BSND", "qOut": q, "kOut": k, "vOut": v, "kvOutput": true,
						}
						if paged {
							a["cacheModeOptional"] = "page"
						}
						if whole {
							a["weightScaleOptional"], a["activationScaleOptional"], a["biasOptional"] = columns, rowScale, bias
						}
						run(t, "DequantRopeQuantKvcache", a)
						var want [3][]float64
						wantCache := [2][]float64{kerneltest.Values(tensor(t, dtype.Int8, caches[0].Shape, 9).View()), kerneltest.Values(tensor(t, dtype.Int8, caches[0].Shape, 9).View())}
						vc, vs, ve, vo := values(cos), values(sin), values(scales), values(offset)
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
									wantCache[part-1][at(row)*dim+j] = toInt8(quantised)
								}
							}
						}
						what := fmt.Sprintf("%v whole %v paged %v length %d %v", d, whole, paged, length, l)
						for i, out := range []*Tensor{q, k, v} {
							closeTo(t, what, want[i], values(out), 4*resultLimit(d))
						}
						for i, cache := range caches {
							for j, got := range values(cache) {
								// Rotations round to float32: ties may fall either way.
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
	one := tensor(t, dtype.Float32, []int64{16}, 1)
	a := args{
		"x": tensor(t, f, []int64{2, 64}, 1), "cos": tensor(t, f, []int64{2, 16}, 1), "sin": tensor(t, f, []int64{2, 16}, 0), "kCacheRef": tensor(t, i8, []int64{2, 4, 1, 16}), "vCacheRef": tensor(t, i8, []int64{2, 4, 1, 16}),
		"indices": tensor(t, dtype.Int32, []int64{2}, 1), "scaleK": one, "scaleV": one, "sizeSplits": []int64{32, 16, 16}, "qOut": tensor(t, f, []int64{2, 2, 16}),
	}
	run(t, "DequantRopeQuantKvcache", a)
	for text, set := range map[string]args{
		"quantModeOptional": {"quantModeOptional": "dynamic"}, "layoutOptional": {"layoutOptional": "TND"}, "cacheModeOptional": {"cacheModeOptional": "PA"}, "sizeSplits": {"sizeSplits": []int64{16, 32, 16}},
		"multiple of 64": {"x": tensor(t, f, []int64{2, 48}, 1), "sizeSplits": []int64{16, 16, 16}}, "no room": {"kCacheRef": tensor(t, i8, []int64{1, 4, 1, 16}), "vCacheRef": tensor(t, i8, []int64{1, 4, 1, 16})},
		"an angle": {"cos": tensor(t, f, []int64{2, 1, 16}, 1)}, "dtypes differ": {"sin": tensor(t, dtype.BFloat16, []int64{2, 16})}, "element of a key": {"scaleV": tensor(t, dtype.Float32, []int64{1}, 1)},
		"heads of x": {"qOut": tensor(t, f, []int64{2, 1, 16})}, "place for each": {"indices": tensor(t, dtype.Int32, []int64{3})},
	} {
		refused(t, invalidParam, "DequantRopeQuantKvcache", a.with(set), text)
	}
	for text, set := range map[string]args{
		"sizeSplits is null": {"sizeSplits": nil}, "kOut is null": {"kvOutput": true}, "weightScaleOptional is null": {"x": tensor(t, dtype.Int32, []int64{2, 64}, 1)}, "scaleK is null": {"scaleK": nil},
	} {
		refused(t, nullPointer, "DequantRopeQuantKvcache", a.with(set), text)
	}
	require.ErrorContains(t, execute(t, "DequantRopeQuantKvcache", a.with(args{"indices": tensor(t, dtype.Int32, []int64{2}, 4)})), "4 places")
	require.ErrorContains(t, execute(t, "DequantRopeQuantKvcache", a.with(args{"indices": tensor(t, dtype.Int32, []int64{2}, 8), "cacheModeOptional": "page"})), "8 places")
}
