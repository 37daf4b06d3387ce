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

// pNorm is the norm of v of order p.
func pNorm(v []float64, p float64) float64 {
	sum := 0.0
	for _, x := range v {
		switch x = math.Abs(x); {
		case p == 0 && x != 0:
			sum++
		case p == 0:
		case math.IsInf(p, 1):
			sum = max(sum, x)
		default:
			sum += math.Pow(x, p)
		}
	}
	if p == 0 || math.IsInf(p, 1) {
		return sum
	}
	return math.Pow(sum, 1/p)
}

// distanceDefinition has the distances of rows of a from rows of b, in each of n sets.
func distanceDefinition(a, b []float64, n, width int, p float64) (d []float64) {
	rowsA, rowsB := len(a)/n/width, len(b)/n/width
	for k := range n {
		for i := range rowsA {
			for j := range rowsB {
				diff := make([]float64, width)
				for m := range diff {
					diff[m] = a[(k*rowsA+i)*width+m] - b[(k*rowsB+j)*width+m]
				}
				d = append(d, pNorm(diff, p))
			}
		}
	}
	return d
}

func TestDistances(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ a, b []int64 }{{[]int64{3, 5}, []int64{4, 5}}, {[]int64{2, 1, 3}, []int64{2, 7, 3}}, {[]int64{1, 1}, []int64{1, 1}}} {
				for _, p := range []float64{0, 1, 2, 3.5, math.Inf(1)} {
					what := fmt.Sprintf("%v %v %v and %v, p %g", d, l, s.a, s.b, p)
					n, width := int(elements(s.a[:len(s.a)-2])), int(s.a[len(s.a)-1])
					out := append(append([]int64{}, s.a[:len(s.a)-1]...), s.b[len(s.b)-2])
					x1, x2, dist := filled(t, 1, d, l, s.a), filled(t, 2, d, l, s.b), tensorIn(t, d, l, out)
					run(t, "Cdist", args{"x1": x1, "x2": x2, "p": p, "compute_mode": 2, "out": dist})
					want := distanceDefinition(values(x1), values(x2), n, width, p)
					closeTo(t, what, want, values(dist), 2*resultLimit(d))
					if d != dtype.Float32 {
						continue // the slope is taken at the rounded distance
					}
					dy, dx := filled(t, 3, d, l, out), tensor(t, d, s.a)
					run(t, "CdistBackward", args{"grad": dy, "x1": x1, "x2": x2, "cdist": dist, "p": p, "out": dx})
					grad := gradient(func(x []float64) []float64 { return distanceDefinition(x, values(x2), n, width, p) }, values(dy), values(x1))
					closeTo(t, "gradient of "+what, grad, values(dx), 2e-5)
				}
			}
		}
	}
	f := dtype.Float32
	x := tensor(t, f, []int64{2, 3}, 1, 2, 3)
	same, grad, dx := tensor(t, f, []int64{2, 2}, 0), tensor(t, f, []int64{2, 2}, 1), tensor(t, f, []int64{2, 3})
	run(t, "CdistBackward", args{"grad": grad, "x1": x, "x2": x, "cdist": same, "p": 2.0, "out": dx})
	assert.Equal(t, make([]float64, 6), values(dx), "points that coincide have no slope")
	none := tensor(t, f, []int64{0, 3})
	run(t, "Cdist", args{"x1": none, "x2": x, "p": 2.0, "out": tensor(t, f, []int64{0, 2})})
	refused(t, invalidParam, "Cdist", args{"x1": x, "x2": x, "p": -1.0, "out": same}, "p is -1")
	refused(t, invalidParam, "Cdist", args{"x1": x, "x2": same, "p": 1.0, "out": same}, "no points of one space")
	refused(t, invalidParam, "Cdist", args{"x1": x, "x2": x, "p": 1.0, "out": x}, "out float32[2,3]")
	refused(t, nullPointer, "Cdist", args{"x1": x, "p": 1.0, "out": same}, "x2 is null")
}

func TestPairDistances(t *testing.T) {
	for _, d := range transformerTypes {
		for _, rows := range []int64{0, 1, 2, 5} {
			x, out := filled(t, 1, d, kerneltest.Transposed, []int64{rows, 3}), tensor(t, d, []int64{rows * max(rows-1, 0) / 2})
			for name, order := range map[string]args{"Pdist": {"p": 1.5}, "PdistForward": {"pScalar": scalar(1.5)}} {
				run(t, name, order.with(args{"self": x, "out": out}))
				var want []float64
				all := distanceDefinition(values(x), values(x), 1, 3, 1.5)
				for i := range int(rows) {
					want = append(want, all[i*int(rows)+i+1:(i+1)*int(rows)]...)
				}
				closeTo(t, name, want, values(out), 2*resultLimit(d))
			}
		}
	}
	refused(t, invalidParam, "Pdist", args{"self": tensor(t, dtype.Float32, []int64{3}, 1), "p": 1.0, "out": tensor(t, dtype.Float32, []int64{3})}, "dimensions")
}

func TestRenorm(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for axis := range 3 {
				x := filled(t, 1, d, l, []int64{3, 4, 2})
				out, n := tensorIn(t, d, l, x.Shape), int(x.Shape[axis])
				inner := int(elements(x.Shape[axis+1:]))
				xs := values(x)
				want := make([]float64, len(xs))
				for k := range n {
					var part []float64
					for i, v := range xs {
						if i/inner%n == k {
							part = append(part, v)
						}
					}
					norm := pNorm(part, 2)
					for i, v := range xs {
						if i/inner%n == k {
							want[i] = v * min(1, 2.25/norm)
						}
					}
				}
				a := args{"self": x, "p": scalar(2.0), "dim": axis, "maxNorm": scalar(2.25)}
				run(t, "Renorm", a.with(args{"out": out}))
				closeTo(t, fmt.Sprintf("%v %v along %d", d, l, axis), want, values(out), resultLimit(d))
				run(t, "InplaceRenorm", args{"selfRef": x, "p": scalar(2.0), "dim": axis, "maxNorm": scalar(2.25)})
				assert.Equal(t, values(out), values(x))
				refused(t, invalidParam, "Renorm", a.with(args{"out": out, "maxNorm": scalar(-1.0)}), "maxNorm -1")
			}
		}
	}
	weight := tensor(t, dtype.Float32, []int64{3, 2}, 3, 4, 3, 4, .3, .4)
	run(t, "EmbeddingRenorm", args{"selfRef": weight, "indices": tensor(t, dtype.Int64, []int64{2, 2}, 0, 2, 2, 0), "maxNorm": 1.0, "normType": 2.0})
	closeTo(t, "rows", []float64{.6, .8, 3, 4, .3, .4}, values(weight), 1e-6)
	err := execute(t, "EmbeddingRenorm", args{"selfRef": weight, "indices": tensor(t, dtype.Int32, []int64{1}, 3), "maxNorm": 1.0, "normType": 2.0})
	require.ErrorContains(t, err, "index 3 is out of range")
}
