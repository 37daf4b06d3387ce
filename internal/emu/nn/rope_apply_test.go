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

func TestApplyRotary(t *testing.T) {
	for _, d := range transformerTypes {
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
				for name, mode := range map[string]int{"half": 0, "interleave": 1, "quarter": 2} {
					q, k := filled(t, 1, d, l, c.query), filled(t, 2, d, l, c.key)
					cos, sin := filled(t, 3, d, l, c.angle), filled(t, 4, d, l, c.angle)
					// What the operator on one tensor gives, which has a test of its own.
					wantQ, wantK := tensor(t, d, c.query), tensor(t, d, c.key)
					run(t, "RotaryPositionEmbedding", args{"x": q, "cos": cos, "sin": sin, "mode": mode, "out": wantQ})
					run(t, "RotaryPositionEmbedding", args{"x": k, "cos": cos, "sin": sin, "mode": mode, "out": wantK})
					run(t, "ApplyRotaryPosEmbV2", args{"queryRef": q, "keyRef": k, "cos": cos, "sin": sin, "layout": c.layout, "rotaryMode": name})
					assert.Equal(t, values(wantQ), values(q), "%v %v layout %d %s", d, l, c.layout, name)
					assert.Equal(t, values(wantK), values(k), "%v %v layout %d %s", d, l, c.layout, name)
				}
			}
		}
	}
	f := dtype.Float32
	x, angle := tensor(t, f, []int64{1, 2, 1, 4}, 1, 2, 3, 4), tensor(t, f, []int64{1, 2, 1, 4}, 0)
	a := args{"queryRef": x, "keyRef": x.cloned(t), "cos": angle, "sin": tensor(t, f, []int64{1, 2, 1, 4}, 1), "layout": 1}
	run(t, "ApplyRotaryPosEmb", a)
	assert.Equal(t, []float64{-3, -4, 1, 2, -3, -4, 1, 2}, values(x))
	refused(t, invalidParam, "ApplyRotaryPosEmb", a.with(args{"layout": 5}), "layout 5")
	refused(t, invalidParam, "ApplyRotaryPosEmb", a.with(args{"layout": 4}), "dimensions")
	refused(t, invalidParam, "ApplyRotaryPosEmbV2", a.with(args{"rotaryMode": "no"}), "rotaryMode \"no\"")
	refused(t, nullPointer, "ApplyRotaryPosEmb", a.with(args{"keyRef": nil}), "keyRef is null")
}

// cloned is a contiguous tensor of the same elements.
func (t *Tensor) cloned(tb testing.TB) *Tensor { return tensor(tb, t.DType, t.Shape, values(t)...) }

func TestCachedRotary(t *testing.T) {
	const size, limit = 8, 6
	for _, d := range transformerTypes {
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
					q, k := filled(t, 1, d, l, []int64{3, 2 * size}), filled(t, 2, d, l, []int64{3, size})
					qOut, kOut := tensorIn(t, d, l, q.Shape), tensorIn(t, d, l, k.Shape)
					positions := []int{5, 0, 2}
					a := args{
						"positions": tensor(t, dtype.Int64, []int64{3}, 5, 0, 2), "queryIn": q, "keyIn": k, "cosSinCache": tensorIn(t, d, l, []int64{limit, rotated}, angles...),
						"headSize": size, "isNeoxStyle": halves, "queryOut": qOut, "keyOut": kOut,
					}
					run(t, "RopeWithSinCosCache", a)
					for _, x := range []struct{ in, out *Tensor }{{q, qOut}, {k, kOut}} {
						want := values(x.in)
						in := values(x.in)
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
						closeTo(t, fmt.Sprintf("%v %v, %d rotated, halves %v", d, l, rotated, halves), want, values(x.out), 2*resultLimit(d))
					}
					refused(t, invalidParam, "RopeWithSinCosCache", a.with(args{"headSize": 3}), "headSize 3")
					refused(t, invalidParam, "RopeWithSinCosCache", a.with(args{"mropeSection": []int64{1, 1, 2}}), "mropeSection")
					refused(t, invalidParam, "RopeWithSinCosCache", a.with(args{"queryIn": k}), "shapes differ")
					require.Error(t, execute(t, "RopeWithSinCosCache", a.with(args{"positions": tensor(t, dtype.Int32, []int64{3}, 6)})))
				}
			}
		}
	}
}
