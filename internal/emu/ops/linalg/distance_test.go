package linalg

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

// distanceDefinition computes the distances between the rows of a and b in each of n sets.
func distanceDefinition(a, b []float64, n, width int, p float64) (d []float64) {
	rowsA, rowsB := len(a)/n/width, len(b)/n/width
	for k := range n {
		for i := range rowsA {
			for j := range rowsB {
				diff := make([]float64, width)
				for m := range diff {
					diff[m] = a[(k*rowsA+i)*width+m] - b[(k*rowsB+j)*width+m]
				}
				d = append(d, optest.PNorm(diff, p))
			}
		}
	}
	return d
}

func TestDistances(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ a, b []int64 }{{[]int64{3, 5}, []int64{4, 5}}, {[]int64{2, 1, 3}, []int64{2, 7, 3}}, {[]int64{1, 1}, []int64{1, 1}}} {
				for _, p := range []float64{0, 1, 2, 3.5, math.Inf(1)} {
					what := fmt.Sprintf("%v %v %v and %v, p %g", d, l, s.a, s.b, p)
					n, width := int(optest.Elements(s.a[:len(s.a)-2])), int(s.a[len(s.a)-1])
					out := append(append([]int64{}, s.a[:len(s.a)-1]...), s.b[len(s.b)-2])
					x1, x2, dist := optest.Filled(t, 1, d, l, s.a), optest.Filled(t, 2, d, l, s.b), optest.TensorIn(t, d, l, out)
					optest.Run(t, "Cdist", optest.Args{"x1": x1, "x2": x2, "p": p, "compute_mode": 2, "out": dist})
					want := distanceDefinition(optest.Values(x1), optest.Values(x2), n, width, p)
					optest.CloseTo(t, what, want, optest.Values(dist), 2*optest.ResultLimit(d))
					if d != dtype.Float32 {
						continue // the gradient is evaluated at the rounded distance
					}
					dy, dx := optest.Filled(t, 3, d, l, out), optest.Tensor(t, d, s.a)
					optest.Run(t, "CdistBackward", optest.Args{"grad": dy, "x1": x1, "x2": x2, "cdist": dist, "p": p, "out": dx})
					grad := optest.Gradient(func(x []float64) []float64 { return distanceDefinition(x, optest.Values(x2), n, width, p) }, optest.Values(dy), optest.Values(x1))
					optest.CloseTo(t, "gradient of "+what, grad, optest.Values(dx), 2e-5)
				}
			}
		}
	}
	f := dtype.Float32
	x := optest.Tensor(t, f, []int64{2, 3}, 1, 2, 3)
	same, grad, dx := optest.Tensor(t, f, []int64{2, 2}, 0), optest.Tensor(t, f, []int64{2, 2}, 1), optest.Tensor(t, f, []int64{2, 3})
	optest.Run(t, "CdistBackward", optest.Args{"grad": grad, "x1": x, "x2": x, "cdist": same, "p": 2.0, "out": dx})
	assert.Equal(t, make([]float64, 6), optest.Values(dx), "points that coincide have no slope")
	none := optest.Tensor(t, f, []int64{0, 3})
	optest.Run(t, "Cdist", optest.Args{"x1": none, "x2": x, "p": 2.0, "compute_mode": 2, "out": optest.Tensor(t, f, []int64{0, 2})})
	optest.Refused(t, op.InvalidParam, "Cdist", optest.Args{"x1": x, "x2": x, "p": 2.0, "compute_mode": 0, "out": same}, "compute_mode")
	optest.Refused(t, op.InvalidParam, "Cdist", optest.Args{"x1": x, "x2": x, "p": math.NaN(), "out": same}, "")
	optest.Refused(t, op.InvalidParam, "Cdist", optest.Args{"x1": x, "x2": x, "p": -1.0, "out": same}, "p is -1")
	optest.Refused(t, op.InvalidParam, "Cdist", optest.Args{"x1": x, "x2": same, "p": 1.0, "out": same}, "no points of one space")
	optest.Refused(t, op.NoStep, "Cdist", optest.Args{"x1": x, "x2": x, "p": 1.0, "out": x}, "out float32[2,3]")
	optest.Refused(t, op.NullPointer, "Cdist", optest.Args{"x1": x, "p": 1.0, "out": same}, "x2 is null")
}

func TestPairDistances(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, rows := range []int64{0, 1, 2, 5} {
			x, out := optest.Filled(t, 1, d, kerneltest.Transposed, []int64{rows, 3}), optest.Tensor(t, d, []int64{rows * max(rows-1, 0) / 2})
			for name, order := range map[string]optest.Args{"Pdist": {"p": 1.5}, "PdistForward": {"pScalar": optest.Scalar(1.5)}} {
				optest.Run(t, name, order.With(optest.Args{"self": x, "out": out}))
				var want []float64
				all := distanceDefinition(optest.Values(x), optest.Values(x), 1, 3, 1.5)
				for i := range int(rows) {
					want = append(want, all[i*int(rows)+i+1:(i+1)*int(rows)]...)
				}
				optest.CloseTo(t, name, want, optest.Values(out), 2*optest.ResultLimit(d))
			}
		}
	}
	optest.Refused(t, op.InvalidParam, "Pdist", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "p": 1.0, "out": optest.Tensor(t, dtype.Float32, []int64{3})}, "dimensions")
}
