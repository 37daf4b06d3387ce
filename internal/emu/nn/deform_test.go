package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestDeformableAttention(t *testing.T) {
	const channels = 8
	for _, s := range []struct {
		batch, heads, queries, points int64
		sizes                         []float64
	}{{1, 1, 1, 1, []float64{1, 1}}, {2, 2, 2, 1, []float64{3, 2, 2, 1}}, {1, 1, 2, 2, []float64{2, 2, 0, 3, 1, 3}}, {1, 1, 0, 1, []float64{2, 2}}} {
		levels, keys := int64(len(s.sizes)/2), int64(0)
		var starts []float64
		for i := range levels {
			starts = append(starts, float64(keys))
			keys += int64(s.sizes[2*i] * s.sizes[2*i+1])
		}
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%+v %v %v", s, d, l)
				value := filled(t, 1, d, l, []int64{s.batch, keys, s.heads, channels})
				place := filled(t, 2, d, l, []int64{s.batch, s.queries, s.heads, levels, s.points, 2})
				weight := filled(t, 3, d, l, place.Shape[:5])
				y := tensorIn(t, d, l, []int64{s.batch, s.queries, s.heads * channels})
				a := args{
					"value": value, "spatialShape": tensor(t, dtype.Int32, []int64{levels, 2}, s.sizes...), "levelStartIndex": tensor(t, dtype.Int64, []int64{levels}, starts...),
					"location": place, "attnWeight": weight, "output": y,
				}
				definition := func(v, at, w []float64) (y []float64) {
					for b := range s.batch {
						for q := range s.queries {
							for h := range s.heads {
								for c := range int64(channels) {
									sum := 0.0
									for level := range levels {
										height, width := s.sizes[2*level], s.sizes[2*level+1]
										for p := range s.points {
											k := (((b*s.queries+q)*s.heads+h)*levels+level)*s.points + p
											column, row := at[2*k]*width-0.5, at[2*k+1]*height-0.5
											for i := range int64(height) {
												for j := range int64(width) {
													share := hat(column-float64(j)) * hat(row-float64(i))
													key := int64(starts[level]) + i*int64(width) + j
													sum += w[k] * share * v[((b*keys+key)*s.heads+h)*channels+c]
												}
											}
										}
									}
									y = append(y, sum)
								}
							}
						}
					}
					return y
				}
				run(t, "MultiScaleDeformableAttnFunction", a)
				closeTo(t, what, definition(values(value), values(place), values(weight)), values(y), 2*resultLimit(d))
				if d == dtype.BFloat16 || l != kerneltest.Contiguous && d == dtype.Float16 {
					continue
				}
				delete(a, "output")
				dy, dv, da, dw := filled(t, 4, d, l, y.Shape), tensorIn(t, d, l, value.Shape), tensorIn(t, d, l, place.Shape), tensorIn(t, d, l, weight.Shape)
				a["gradOutput"], a["gradValue"], a["gradLocation"], a["gradAttnWeight"] = dy, dv, da, dw
				run(t, "MultiScaleDeformableAttentionGrad", a)
				v, at, w, g := values(value), values(place), values(weight), values(dy)
				closeTo(t, "value of "+what, gradient(func(x []float64) []float64 { return definition(x, at, w) }, g, v), values(dv), 4*resultLimit(d))
				closeTo(t, "weight of "+what, gradient(func(x []float64) []float64 { return definition(v, at, x) }, g, w), values(dw), 4*resultLimit(d))
				closeTo(t, "place of "+what, gradient(func(x []float64) []float64 { return definition(v, x, w) }, g, at), values(da), max(4*resultLimit(d), 1e-5))
				refused(t, invalidParam, "MultiScaleDeformableAttentionGrad", a.with(args{"gradValue": dw}), "differ")
			}
		}
	}
	f := dtype.Float32
	a := args{
		"value": tensor(t, f, []int64{1, 4, 1, 8}, 1), "spatialShape": tensor(t, dtype.Int32, []int64{1, 2}, 2, 2), "levelStartIndex": tensor(t, dtype.Int32, []int64{1}, 0),
		"location": tensor(t, f, []int64{1, 1, 1, 1, 1, 2}, math.NaN(), 0.5), "attnWeight": tensor(t, f, []int64{1, 1, 1, 1, 1}, 1), "output": tensor(t, f, []int64{1, 1, 8}),
	}
	run(t, "MultiScaleDeformableAttnFunction", a) // a place that is no number reads nothing
	assert.ErrorContains(t, execute(t, "MultiScaleDeformableAttnFunction", a.with(args{"levelStartIndex": tensor(t, dtype.Int32, []int64{1}, 1)})), "not within 4 keys")
	assert.ErrorContains(t, execute(t, "MultiScaleDeformableAttnFunction", a.with(args{"spatialShape": tensor(t, dtype.Int32, []int64{1, 2}, -1, 2)})), "-1 x 2")
	refused(t, invalidParam, "MultiScaleDeformableAttnFunction", a.with(args{"value": tensor(t, f, []int64{1, 4, 1, 9}, 1)}), "multiple of 8")
	refused(t, invalidParam, "MultiScaleDeformableAttnFunction", a.with(args{"attnWeight": tensor(t, f, []int64{1, 1, 1, 1, 2}, 1)}), "a weight for each place")
	refused(t, invalidParam, "MultiScaleDeformableAttnFunction", a.with(args{"location": tensor(t, dtype.Float16, []int64{1, 1, 1, 1, 1, 2}, 1)}), "dtypes differ")
	refused(t, nullPointer, "MultiScaleDeformableAttnFunction", a.with(args{"value": nil}), "value is null")
}
