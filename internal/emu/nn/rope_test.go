package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// rotaryDefinition is x·cos + partner(x)·sin of one head.
func rotaryDefinition(mode kernel.RotaryMode, x, cos, sin []float64) (y []float64) {
	n := len(x)
	from, turned := make([]float64, n), make([]float64, n)
	copy(from, x)
	pairs := func(a, b func(i int) int, count int) {
		for i := range count {
			turned[a(i)], turned[b(i)] = -from[b(i)], from[a(i)]
		}
	}
	offset := func(k, step int) func(int) int { return func(i int) int { return k + i*step } }
	switch mode {
	case kernel.RotaryHalf:
		pairs(offset(0, 1), offset(n/2, 1), n/2)
	case kernel.RotaryInterleave:
		pairs(offset(0, 2), offset(1, 2), n/2)
	case kernel.RotaryQuarter:
		pairs(offset(0, 1), offset(n/4, 1), n/4)
		pairs(offset(n/2, 1), offset(3*n/4, 1), n/4)
	case kernel.RotaryInterleaveHalf:
		for i := range n / 2 {
			from[i], from[n/2+i] = x[2*i], x[2*i+1]
		}
		pairs(offset(0, 1), offset(n/2, 1), n/2)
	}
	for i := range x {
		y = append(y, from[i]*cos[i]+turned[i]*sin[i])
	}
	return y
}

func TestRotary(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ x, table []int64 }{
				{[]int64{1, 1, 1, 4}, []int64{1, 1, 1, 4}}, {[]int64{2, 3, 5, 12}, []int64{1, 3, 1, 12}}, {[]int64{2, 3, 5, 12}, []int64{2, 3, 1, 12}},
				{[]int64{2, 3, 2, 68}, []int64{2, 1, 1, 68}}, {[]int64{3, 2, 8}, []int64{3, 1, 8}}, {[]int64{2, 3, 4, 64}, []int64{2, 3, 4, 64}},
				{[]int64{2, 0, 4, 64}, []int64{1, 0, 1, 64}},
			} {
				for mode := range kernel.RotaryInterleaveHalf + 1 {
					what := fmt.Sprintf("mode %d of %v %v %v with %v", mode, d, l, c.x, c.table)
					x, cos, sin := filled(t, 1, d, l, c.x), filled(t, 2, d, l, c.table), filled(t, 3, d, l, c.table)
					y := tensorIn(t, d, l, c.x)
					run(t, "RotaryPositionEmbedding", args{"x": x, "cos": cos, "sin": sin, "mode": int64(mode), "out": y})
					if x.Len() == 0 {
						continue
					}
					var want []float64
					wideCos, wideSin, n := repeated(t, cos, c.x), repeated(t, sin, c.x), int(x.Dim(-1))
					for lo := 0; lo < int(x.Len()); lo += n {
						want = append(want, rotaryDefinition(mode, values(x)[lo:lo+n], wideCos[lo:lo+n], wideSin[lo:lo+n])...)
					}
					closeTo(t, what, want, values(y), resultLimit(d))
					run(t, "RotaryPositionEmbedding", args{"x": x, "cos": cos, "sin": sin, "mode": int64(mode), "out": x})
					assert.Equal(t, values(y), values(x), "in place: %s", what)
				}
			}
		}
	}
}

func TestRotaryRefuses(t *testing.T) {
	f := dtype.Float32
	x, table := tensor(t, f, []int64{2, 3, 4, 6}, 1), tensor(t, f, []int64{1, 3, 1, 6}, 1)
	a := args{"x": x, "cos": table, "sin": table, "out": tensor(t, f, x.Shape)}
	for _, c := range []struct {
		code   int32
		change args
		texts  []string
	}{
		{nullPointer, args{"cos": nil}, []string{"cos is null"}},
		{nullPointer, args{"out": nil}, []string{"out is null"}},
		{invalidParam, args{"mode": 4}, []string{"mode 4 is unknown"}},
		{invalidParam, args{"mode": -1}, []string{"mode -1"}},
		{invalidParam, args{"mode": 2}, []string{"head dim of x float32[2,3,4,6]", "mode 2"}},
		{invalidParam, args{"sin": tensor(t, f, []int64{1, 1, 1, 6}, 1)}, []string{"shapes differ", "sin float32[1,1,1,6]"}},
		{invalidParam, args{"cos": tensor(t, dtype.Float16, []int64{1, 3, 1, 6}, 1)}, []string{"dtypes differ"}},
		{invalidParam, args{"cos": tensor(t, f, []int64{1, 2, 1, 6}, 1), "sin": tensor(t, f, []int64{1, 2, 1, 6}, 1)}, []string{"cos float32[1,2,1,6]", "broadcast"}},
		{invalidParam, args{"cos": tensor(t, f, []int64{1, 3, 1, 1}, 1), "sin": tensor(t, f, []int64{1, 3, 1, 1}, 1)}, []string{"head dim"}},
		{invalidParam, args{"x": tensor(t, f, []int64{6}, 1), "out": tensor(t, f, []int64{6})}, []string{"1 dimensions"}},
		{invalidParam, args{"out": tensor(t, f, []int64{2, 3, 4, 8})}, []string{"out float32[2,3,4,8]"}},
	} {
		refused(t, c.code, "RotaryPositionEmbedding", a.with(c.change), c.texts...)
	}
	odd := tensor(t, f, []int64{1, 1, 1, 5}, 1)
	refused(t, invalidParam, "RotaryPositionEmbedding", args{"x": odd, "cos": odd, "sin": odd, "out": odd}, "rotates pairs")
}

func TestRotaryGrad(t *testing.T) {
	for _, c := range []struct{ x, angle []int64 }{
		{[]int64{2, 3, 2, 8}, []int64{1, 3, 1, 8}}, {[]int64{2, 3, 2, 4}, []int64{2, 3, 2, 4}}, {[]int64{1, 1, 1, 4}, []int64{1, 1, 1, 4}},
		{[]int64{3, 2, 5, 4}, []int64{1, 1, 5, 4}}, {[]int64{2, 2, 3, 4}, []int64{2, 1, 3, 4}}, {[]int64{0, 2, 3, 4}, []int64{1, 1, 3, 4}},
	} {
		for mode := kernel.RotaryHalf; mode <= kernel.RotaryInterleaveHalf; mode++ {
			for _, d := range transformerTypes {
				for _, l := range kerneltest.Layouts {
					what := fmt.Sprintf("%v mode %d %v %v", c, mode, d, l)
					x, dy, cos, sin := filled(t, 1, d, l, c.x), filled(t, 2, d, l, c.x), filled(t, 3, d, l, c.angle), filled(t, 4, d, l, c.angle)
					dx, dcos, dsin := tensorIn(t, d, l, c.x), tensorIn(t, d, l, c.angle), tensorIn(t, d, l, c.angle)
					a := args{"dy": dy, "cos": cos, "sin": sin, "mode": int64(mode), "dxOut": dx}
					run(t, "RotaryPositionEmbeddingGrad", a)
					run(t, "RotaryPositionEmbeddingGrad", a.with(args{"xOptional": x, "dcosOut": dcos, "dsinOut": dsin}))
					size := c.x[3]
					rotated := func(x, cos, sin []float64) (y []float64) {
						walk(c.x[:3], func(at []int64) {
							place := int64(0)
							for i, k := range at {
								place = place * c.angle[i]
								if c.angle[i] != 1 {
									place += k
								}
							}
							row := ((at[0]*c.x[1]+at[1])*c.x[2] + at[2]) * size
							y = append(y, rotaryDefinition(mode, x[row:row+size], cos[place*size:][:size], sin[place*size:][:size])...)
						})
						return y
					}
					vx, vc, vs := values(x), values(cos), values(sin)
					limit := max(4*resultLimit(d), 1e-5)
					closeTo(t, what, gradient(func(v []float64) []float64 { return rotated(v, vc, vs) }, values(dy), vx), values(dx), limit)
					closeTo(t, "cos of "+what, gradient(func(v []float64) []float64 { return rotated(vx, v, vs) }, values(dy), vc), values(dcos), limit)
					closeTo(t, "sin of "+what, gradient(func(v []float64) []float64 { return rotated(vx, vc, v) }, values(dy), vs), values(dsin), limit)
				}
			}
		}
	}
	f := dtype.Float32
	x, angle := tensor(t, f, []int64{1, 2, 1, 4}, 1), tensor(t, f, []int64{1, 2, 1, 4}, 1)
	a := args{"dy": x, "cos": angle, "sin": angle, "dxOut": tensor(t, f, []int64{1, 2, 1, 4})}
	refused(t, invalidParam, "RotaryPositionEmbeddingGrad", a.with(args{"mode": 4}), "mode 4 is unknown")
	refused(t, nullPointer, "RotaryPositionEmbeddingGrad", a.with(args{"xOptional": x}), "dcosOut is null")
	refused(t, invalidParam, "RotaryPositionEmbeddingGrad", a.with(args{"cos": tensor(t, f, []int64{1, 3, 1, 4}, 1), "sin": tensor(t, f, []int64{1, 3, 1, 4}, 1)}), "broadcast")
}
