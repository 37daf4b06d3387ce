package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestApplyRotary(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct {
				layout            int
				query, key, angle []int64
			}{
				{1, []int64{2, 3, 4, 8}, []int64{2, 3, 1, 8}, []int64{2, 3, 1, 8}},
				{2, []int64{3, 2, 4, 8}, []int64{3, 2, 2, 8}, []int64{3, 1, 1, 8}},
				{3, []int64{2, 4, 3, 8}, []int64{2, 1, 3, 8}, []int64{1, 1, 3, 8}},
				{4, []int64{5, 2, 8}, []int64{5, 1, 8}, []int64{5, 1, 8}},
			} {
				for name, mode := range map[string]kernel.RotaryMode{"half": kernel.RotaryHalf, "interleave": kernel.RotaryInterleave, "quarter": kernel.RotaryQuarter} {
					q, k := optest.Filled(t, 1, d, l, c.query), optest.Filled(t, 2, d, l, c.key)
					cos, sin := optest.Filled(t, 3, d, l, c.angle), optest.Filled(t, 4, d, l, c.angle)
					turned := func(x *op.Tensor) (y []float64) {
						wideCos, wideSin, n := optest.Repeated(t, cos, x.Shape), optest.Repeated(t, sin, x.Shape), int(x.Dim(-1))
						values := optest.Values(x)
						for lo := 0; lo < len(values); lo += n {
							y = append(y, rotaryDefinition(mode, values[lo:lo+n], wideCos[lo:lo+n], wideSin[lo:lo+n])...)
						}
						return y
					}
					wantQ, wantK := turned(q), turned(k)
					optest.Run(t, "ApplyRotaryPosEmbV2", optest.Args{"queryRef": q, "keyRef": k, "cos": cos, "sin": sin, "layout": c.layout, "rotaryMode": name})
					what := fmt.Sprintf("%v %v layout %d %s", d, l, c.layout, name)
					optest.CloseTo(t, what, wantQ, optest.Values(q), optest.ResultLimit(d))
					optest.CloseTo(t, what, wantK, optest.Values(k), optest.ResultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	x, angle := optest.Tensor(t, f, []int64{1, 2, 1, 4}, 1, 2, 3, 4), optest.Tensor(t, f, []int64{1, 2, 1, 4}, 0)
	a := optest.Args{"queryRef": x, "keyRef": cloned(x, t), "cos": angle, "sin": optest.Tensor(t, f, []int64{1, 2, 1, 4}, 1), "layout": 1}
	optest.Run(t, "ApplyRotaryPosEmb", a)
	assert.Equal(t, []float64{-3, -4, 1, 2, -3, -4, 1, 2}, optest.Values(x))
	optest.Refused(t, op.InvalidParam, "ApplyRotaryPosEmb", a.With(optest.Args{"layout": 5}), "layout 5")
	optest.Refused(t, op.InvalidParam, "ApplyRotaryPosEmb", a.With(optest.Args{"layout": 4}), "dimensions")
	optest.Refused(t, op.InvalidParam, "ApplyRotaryPosEmbV2", a.With(optest.Args{"rotaryMode": "no"}), "rotaryMode \"no\"")
	optest.Refused(t, op.NullPointer, "ApplyRotaryPosEmb", a.With(optest.Args{"keyRef": nil}), "keyRef is null")
}

// cloned returns a contiguous copy of a tensor.
func cloned(t *op.Tensor, tb testing.TB) *op.Tensor {
	return optest.Tensor(tb, t.DType, t.Shape, optest.Values(t)...)
}

func TestCachedRotary(t *testing.T) {
	const size, limit = 8, 6
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, rotated := range []int64{8, 4} {
				for _, halves := range []bool{true, false} {
					angles := make([]float64, 0, limit*rotated)
					for p := range limit {
						for i := range rotated {
							angle := float64(p) / (1 + float64(i%(rotated/2)))
							if i < rotated/2 {
								angles = append(angles, kerneltest.Round(d, math.Cos(angle)))
							} else {
								angles = append(angles, kerneltest.Round(d, math.Sin(angle)))
							}
						}
					}
					q, k := optest.Filled(t, 1, d, l, []int64{3, 2 * size}), optest.Filled(t, 2, d, l, []int64{3, size})
					qOut, kOut := optest.TensorIn(t, d, l, q.Shape), optest.TensorIn(t, d, l, k.Shape)
					positions := []int{5, 0, 2}
					a := optest.Args{
						"positions": optest.Tensor(t, dtype.Int64, []int64{3}, 5, 0, 2), "queryIn": q, "keyIn": k, "cosSinCache": optest.TensorIn(t, d, l, []int64{limit, rotated}, angles...),
						"headSize": size, "isNeoxStyle": halves, "queryOut": qOut, "keyOut": kOut,
					}
					optest.Run(t, "RopeWithSinCosCache", a)
					for _, x := range []struct{ in, out *op.Tensor }{{q, qOut}, {k, kOut}} {
						want := optest.Values(x.in)
						in := optest.Values(x.in)
						for head := 0; head < len(in); head += size {
							position := positions[head/int(x.in.Shape[1])]
							for i := range int(rotated / 2) {
								first, second := head+i, head+i+int(rotated/2)
								if !halves {
									first, second = head+2*i, head+2*i+1
								}
								cos, sin := angles[position*int(rotated)+i], angles[position*int(rotated)+int(rotated/2)+i]
								want[first] = in[first]*cos - in[second]*sin
								want[second] = in[second]*cos + in[first]*sin
							}
						}
						optest.CloseTo(t, fmt.Sprintf("%v %v, %d rotated, halves %v", d, l, rotated, halves), want, optest.Values(x.out), 2*optest.ResultLimit(d))
					}
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"headSize": 3}), "headSize 3")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"mropeSection": []int64{1, 1, 2}}), "mropeSection")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"queryIn": k}), "shapes differ")
					require.Error(t, optest.Execute(t, "RopeWithSinCosCache", a.With(optest.Args{"positions": optest.Tensor(t, dtype.Int32, []int64{3}, 6)})))
				}
			}
		}
	}
}
