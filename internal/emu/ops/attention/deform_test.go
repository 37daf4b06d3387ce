package attention

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
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%+v %v %v", s, d, l)
				value := optest.Filled(t, 1, d, l, []int64{s.batch, keys, s.heads, channels})
				place := optest.Filled(t, 2, d, l, []int64{s.batch, s.queries, s.heads, levels, s.points, 2})
				weight := optest.Filled(t, 3, d, l, place.Shape[:5])
				y := optest.TensorIn(t, d, l, []int64{s.batch, s.queries, s.heads * channels})
				a := optest.Args{
					"value": value, "spatialShape": optest.Tensor(t, dtype.Int32, []int64{levels, 2}, s.sizes...), "levelStartIndex": optest.Tensor(t, dtype.Int64, []int64{levels}, starts...),
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
													share := optest.Hat(column-float64(j)) * optest.Hat(row-float64(i))
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
				optest.Run(t, "MultiScaleDeformableAttnFunction", a)
				optest.CloseTo(t, what, definition(optest.Values(value), optest.Values(place), optest.Values(weight)), optest.Values(y), 2*optest.ResultLimit(d))
				if d == dtype.BFloat16 || l != kerneltest.Contiguous && d == dtype.Float16 {
					continue
				}
				delete(a, "output")
				dy, dv, da, dw := optest.Filled(t, 4, d, l, y.Shape), optest.TensorIn(t, d, l, value.Shape), optest.TensorIn(t, d, l, place.Shape), optest.TensorIn(t, d, l, weight.Shape)
				a["gradOutput"], a["gradValue"], a["gradLocation"], a["gradAttnWeight"] = dy, dv, da, dw
				optest.Run(t, "MultiScaleDeformableAttentionGrad", a)
				v, at, w, g := optest.Values(value), optest.Values(place), optest.Values(weight), optest.Values(dy)
				optest.CloseTo(t, "value of "+what, optest.Gradient(func(x []float64) []float64 { return definition(x, at, w) }, g, v), optest.Values(dv), 4*optest.ResultLimit(d))
				optest.CloseTo(t, "weight of "+what, optest.Gradient(func(x []float64) []float64 { return definition(v, at, x) }, g, w), optest.Values(dw), 4*optest.ResultLimit(d))
				optest.CloseTo(t, "place of "+what, optest.Gradient(func(x []float64) []float64 { return definition(v, x, w) }, g, at), optest.Values(da), max(4*optest.ResultLimit(d), 1e-5))
				optest.Refused(t, op.InvalidParam, "MultiScaleDeformableAttentionGrad", a.With(optest.Args{"gradValue": dw}), "differ")
			}
		}
	}
	f := dtype.Float32
	a := optest.Args{
		"value": optest.Tensor(t, f, []int64{1, 4, 1, 8}, 1), "spatialShape": optest.Tensor(t, dtype.Int32, []int64{1, 2}, 2, 2), "levelStartIndex": optest.Tensor(t, dtype.Int32, []int64{1}, 0),
		"location": optest.Tensor(t, f, []int64{1, 1, 1, 1, 1, 2}, math.NaN(), 0.5), "attnWeight": optest.Tensor(t, f, []int64{1, 1, 1, 1, 1}, 1), "output": optest.Tensor(t, f, []int64{1, 1, 8}),
	}
	optest.Run(t, "MultiScaleDeformableAttnFunction", a) // a NaN location contributes nothing
	assert.ErrorContains(t, optest.Execute(t, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"levelStartIndex": optest.Tensor(t, dtype.Int32, []int64{1}, 1)})), "not within 4 keys")
	assert.ErrorContains(t, optest.Execute(t, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"spatialShape": optest.Tensor(t, dtype.Int32, []int64{1, 2}, -1, 2)})), "-1 x 2")
	optest.Refused(t, op.InvalidParam, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"value": optest.Tensor(t, f, []int64{1, 4, 1, 9}, 1)}), "multiple of 8")
	optest.Refused(t, op.InvalidParam, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"attnWeight": optest.Tensor(t, f, []int64{1, 1, 1, 1, 2}, 1)}), "a weight for each place")
	optest.Refused(t, op.InvalidParam, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"location": optest.Tensor(t, dtype.Float16, []int64{1, 1, 1, 1, 1, 2}, 1)}), "dtypes differ")
	optest.Refused(t, op.NullPointer, "MultiScaleDeformableAttnFunction", a.With(optest.Args{"value": nil}), "value is null")
}
