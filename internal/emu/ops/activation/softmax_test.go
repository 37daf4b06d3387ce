package activation

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

// softmaxDefinition normalises an axis of the given size; n is the number of elements in the
// dimensions after it.
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
	for _, d := range op.RealTypes {
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
					x, dy := optest.Filled(t, 1, d, l, c.shape), optest.Filled(t, 2, d, l, c.shape)
					y, dx := optest.TensorIn(t, d, l, c.shape), optest.TensorIn(t, d, l, c.shape)
					optest.Run(t, name, optest.Args{"self": x, "dim": c.dim, "out": y})
					if d != dtype.Float64 {
						optest.Run(t, name+"Backward", optest.Args{"gradOutput": dy, "output": y, "dim": c.dim, "out": dx})
					}
					if x.Len() == 0 {
						continue
					}
					definition := func(x []float64) []float64 {
						if len(c.shape) == 0 {
							return softmaxDefinition(x, 1, 1, logarithm)
						}
						axis := (c.dim + int64(len(c.shape))) % int64(len(c.shape))
						return softmaxDefinition(x, c.shape[axis], optest.Elements(c.shape[axis+1:]), logarithm)
					}
					optest.CloseTo(t, what, definition(optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
					if d != dtype.Float64 {
						optest.CloseTo(t, "gradient of "+what, optest.Gradient(definition, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
					}
					optest.Run(t, name, optest.Args{"self": x, "dim": c.dim, "out": x})
					assert.Equal(t, optest.Values(y), optest.Values(x), "in place: %s", what)
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
		x, y := optest.Tensor(t, dtype.Float32, []int64{3}, c.x...), optest.Tensor(t, dtype.Float32, []int64{3})
		optest.Run(t, "Softmax", optest.Args{"self": x, "dim": 0, "out": y})
		assert.InDeltaSlice(t, c.softmax, optest.Values(y), 1e-7)
		optest.Run(t, "LogSoftmax", optest.Args{"self": x, "dim": 0, "out": y})
		for i, want := range c.logSoftmax {
			assert.True(t, want == optest.Values(y)[i] || math.Abs(want-optest.Values(y)[i]) < 1e-6*max(1, math.Abs(want)), "want %v, got %v", want, optest.Values(y)[i])
		}
	}
	// The result is NaN for a row of negative infinities.
	x, y := optest.Tensor(t, dtype.Float32, []int64{1, 2}, -inf, -inf), optest.Tensor(t, dtype.Float32, []int64{1, 2})
	optest.Run(t, "Softmax", optest.Args{"self": x, "dim": 1, "out": y})
	assert.True(t, math.IsNaN(optest.Values(y)[0]))
}

func TestSoftmaxRefuses(t *testing.T) {
	f := dtype.Float32
	x := optest.Tensor(t, f, []int64{2, 3}, 1)
	for _, name := range []string{"Softmax", "LogSoftmax"} {
		a := optest.Args{"self": x, "dim": 1, "out": optest.Tensor(t, f, []int64{2, 3})}
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"self": nil}), "self is null")
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"out": nil}), "out is null")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"dim": 2}), "dimension 2 is out of range for self float32[2,3]")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"dim": -3}), "use -2 to 1")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"out": optest.Tensor(t, f, []int64{3})}), "out float32[3]")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{2, 3}, 1)}), "int32")
		b := optest.Args{"gradOutput": x, "output": x, "dim": 1, "out": optest.Tensor(t, f, []int64{2, 3})}
		optest.Refused(t, op.NullPointer, name+"Backward", b.With(optest.Args{"output": nil}), "output is null")
		optest.Refused(t, op.InvalidParam, name+"Backward", b.With(optest.Args{"gradOutput": optest.Tensor(t, f, []int64{3, 2}, 1)}), "gradOutput float32[3,2]")
		optest.Refused(t, op.InvalidParam, name+"Backward", b.With(optest.Args{"dim": 5}), "dimension 5")
	}
}
