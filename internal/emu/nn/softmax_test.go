package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// softmaxDefinition normalises an axis of a size that has n elements after each of its own.
func softmaxDefinition(x []float64, size, n int64, logarithm bool) []float64 {
	y := make([]float64, len(x))
	for lo := int64(0); lo < int64(len(x)); lo += size * n {
		for i := range n {
			most, sum := math.Inf(-1), 0.0
			for k := range size {
				most = max(most, x[lo+k*n+i])
			}
			for k := range size {
				sum += math.Exp(x[lo+k*n+i] - most)
			}
			for k := range size {
				at := lo + k*n + i
				y[at] = x[at] - most - math.Log(sum)
				if !logarithm {
					y[at] = math.Exp(y[at])
				}
			}
		}
	}
	return y
}

func TestSoftmax(t *testing.T) {
	for _, d := range softmaxTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct {
				shape []int64
				dim   int64
			}{
				{[]int64{}, -1}, {[]int64{1}, 0}, {[]int64{33}, -1}, {[]int64{3, 67}, 1}, {[]int64{3, 67}, 0}, {[]int64{2, 3, 5}, 1}, {[]int64{2, 2, 2, 2, 2, 1, 1, 3}, -8}, {[]int64{0, 3}, 1}, {[]int64{3, 0}, 1},
			} {
				for _, logarithm := range []bool{false, true} {
					name := map[bool]string{false: "Softmax", true: "LogSoftmax"}[logarithm]
					what := fmt.Sprintf("%s of %v %v %v along %d", name, d, l, c.shape, c.dim)
					x, dy := filled(t, 1, d, l, c.shape), filled(t, 2, d, l, c.shape)
					y, dx := tensorIn(t, d, l, c.shape), tensorIn(t, d, l, c.shape)
					run(t, name, args{"self": x, "dim": c.dim, "out": y})
					run(t, name+"Backward", args{"gradOutput": dy, "output": y, "dim": c.dim, "out": dx})
					if x.Len() == 0 {
						continue
					}
					definition := func(x []float64) []float64 {
						if len(c.shape) == 0 {
							return softmaxDefinition(x, 1, 1, logarithm)
						}
						axis := (c.dim + int64(len(c.shape))) % int64(len(c.shape))
						return softmaxDefinition(x, c.shape[axis], elements(c.shape[axis+1:]), logarithm)
					}
					closeTo(t, what, definition(values(x)), values(y), resultLimit(d))
					closeTo(t, "gradient of "+what, gradient(definition, values(dy), values(x)), values(dx), 4*resultLimit(d))
					run(t, name, args{"self": x, "dim": c.dim, "out": x})
					assert.Equal(t, values(y), values(x), "in place: %s", what)
				}
			}
		}
	}
}

func TestSoftmaxExtremes(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ x, softmax, logSoftmax []float64 }{
		{[]float64{1e30, 1e30, 0}, []float64{.5, .5, 0}, []float64{-math.Ln2, -math.Ln2, -1e30}},
		{[]float64{-inf, 0, -inf}, []float64{0, 1, 0}, []float64{-inf, 0, -inf}},
		{[]float64{-1e30, -1e30, -1e30}, []float64{1. / 3, 1. / 3, 1. / 3}, []float64{-math.Log(3), -math.Log(3), -math.Log(3)}},
	} {
		x, y := tensor(t, dtype.Float32, []int64{3}, c.x...), tensor(t, dtype.Float32, []int64{3})
		run(t, "Softmax", args{"self": x, "dim": 0, "out": y})
		assert.InDeltaSlice(t, c.softmax, values(y), 1e-7)
		run(t, "LogSoftmax", args{"self": x, "dim": 0, "out": y})
		for i, want := range c.logSoftmax {
			assert.True(t, want == values(y)[i] || math.Abs(want-values(y)[i]) < 1e-6*max(1, math.Abs(want)), "want %v, got %v", want, values(y)[i])
		}
	}
	// No number comes out of a row without a largest finite value.
	x, y := tensor(t, dtype.Float32, []int64{1, 2}, -inf, -inf), tensor(t, dtype.Float32, []int64{1, 2})
	run(t, "Softmax", args{"self": x, "dim": 1, "out": y})
	assert.True(t, math.IsNaN(values(y)[0]))
}

func TestSoftmaxRefuses(t *testing.T) {
	f := dtype.Float32
	x := tensor(t, f, []int64{2, 3}, 1)
	for _, name := range []string{"Softmax", "LogSoftmax"} {
		a := args{"self": x, "dim": 1, "out": tensor(t, f, []int64{2, 3})}
		refused(t, nullPointer, name, a.with(args{"self": nil}), "self is null")
		refused(t, nullPointer, name, a.with(args{"out": nil}), "out is null")
		refused(t, invalidParam, name, a.with(args{"dim": 2}), "dimension 2 is out of range for self float32[2,3]")
		refused(t, invalidParam, name, a.with(args{"dim": -3}), "use -2 to 1")
		refused(t, invalidParam, name, a.with(args{"out": tensor(t, f, []int64{3})}), "out float32[3]")
		refused(t, invalidParam, name, a.with(args{"self": tensor(t, dtype.Int32, []int64{2, 3}, 1)}), "int32")
		b := args{"gradOutput": x, "output": x, "dim": 1, "out": tensor(t, f, []int64{2, 3})}
		refused(t, nullPointer, name+"Backward", b.with(args{"output": nil}), "output is null")
		refused(t, invalidParam, name+"Backward", b.with(args{"gradOutput": tensor(t, f, []int64{3, 2}, 1)}), "gradOutput float32[3,2]")
		refused(t, invalidParam, name+"Backward", b.with(args{"dim": 5}), "dimension 5")
	}
}
