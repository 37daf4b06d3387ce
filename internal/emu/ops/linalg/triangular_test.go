package linalg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The test multiplies the solution by the triangle that the operator uses.
func TestTriangularSolve(t *testing.T) {
	shapes := []struct{ a, b, x []int64 }{
		{[]int64{1, 1}, []int64{1, 1}, []int64{1, 1}},
		{[]int64{5, 5}, []int64{5, 3}, []int64{5, 3}},
		{[]int64{2, 3, 7, 7}, []int64{2, 3, 7, 70}, []int64{2, 3, 7, 70}},
		{[]int64{64, 64}, []int64{3, 64, 129}, []int64{3, 64, 129}},
		{[]int64{3, 1, 4, 4}, []int64{2, 4, 33}, []int64{3, 2, 4, 33}},
		{[]int64{0, 4, 4}, []int64{0, 4, 3}, []int64{0, 4, 3}},
		{[]int64{4, 4}, []int64{4, 0}, []int64{4, 0}},
	}
	for i, s := range shapes {
		for form := range 8 {
			upper, transpose, unit := form&1 != 0, form&2 != 0, form&4 != 0
			for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
				for li, l := range kerneltest.Layouts {
					t.Run(fmt.Sprintf("%v/%v/%v/%d", s.a, d, l, form), func(t *testing.T) {
						n := s.a[len(s.a)-1]
						av := optest.Normal(uint64(i), d, optest.Elements(s.a))
						for k := range av { // make the matrix diagonally dominant
							av[k] = kerneltest.Round(d, av[k]/float64(4*n))
							if r, c := int64(k)/n%n, int64(k)%n; r == c {
								av[k]++
							}
						}
						a := optest.TensorIn(t, d, l, s.a, append(av, 0)[:max(len(av), 1)]...)
						b := optest.Filled(t, uint64(form), d, kerneltest.Layouts[(li+1)%len(kerneltest.Layouts)], s.b)
						x := optest.TensorIn(t, d, kerneltest.Layouts[(li+2)%len(kerneltest.Layouts)], s.x)
						batch := s.x[:len(s.x)-2]
						m := optest.Tensor(t, d, append(append([]int64{}, batch...), n, n))
						args := optest.Args{"self": b, "A": a, "upper": upper, "transpose": transpose, "unitriangular": unit, "xOut": x, "mOut": m}
						if unit && d != dtype.Float32 && b.Len() > 0 && a.Len() > 0 {
							optest.Refused(t, op.InvalidParam, "TriangularSolve", args, "unitriangular")
							return
						}
						optest.Run(t, "TriangularSolve", args)
						columns := s.x[len(s.x)-1]
						xv, mv := optest.Values(x), optest.Values(m)
						require.Equal(t, broadcastValues(optest.Values(a), s.a, m.Shape), mv)
						want := broadcastValues(optest.Values(b), s.b, s.x)
						for k := range xv {
							at, r, c := int64(k)/columns/n, int64(k)/columns%n, int64(k)%columns
							sum := 0.
							for j := range n {
								p, q := r, j
								if transpose {
									p, q = j, r
								}
								f := mv[(at*n+p)*n+q]
								switch {
								case p == q && unit:
									f = 1
								case p != q && upper != (q > p):
									f = 0
								}
								sum += f * xv[(at*n+j)*columns+c]
							}
							limit := 2e-5
							if d == dtype.Float64 {
								limit = 1e-13
							}
							require.InDelta(t, want[k], sum, limit, "element %d", k)
						}
					})
				}
			}
		}
	}
}

// broadcastValues broadcasts the values of a row-major array along leading dimensions and
// dimensions of size one.
func broadcastValues(v []float64, from, to []int64) []float64 {
	out := make([]float64, optest.Elements(to))
	for i := range out {
		rest, at, step := int64(i), int64(0), int64(1)
		for d := len(to) - 1; d >= 0; d-- {
			x := rest % to[d]
			rest /= to[d]
			if k := d - len(to) + len(from); k >= 0 {
				if from[k] > 1 {
					at += x * step
				}
				step *= from[k]
			}
		}
		out[i] = v[at]
	}
	return out
}

func TestTriangularSolveRefuses(t *testing.T) {
	f32 := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape) }
	call := func(changes optest.Args) optest.Args {
		return optest.Args{"self": f32(2, 4, 3), "A": f32(2, 4, 4), "xOut": f32(2, 4, 3), "mOut": f32(2, 4, 4)}.With(changes)
	}
	optest.Refused(t, op.NoStep, "TriangularSolve", call(optest.Args{"A": nil}), "A is null")
	optest.Run(t, "TriangularSolve", call(optest.Args{"mOut": nil}))
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"self": optest.Tensor(t, dtype.Float16, []int64{2, 4, 3})}), "float16")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"A": optest.Tensor(t, dtype.Float64, []int64{2, 4, 4})}), "dtypes differ")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"A": f32(2, 4, 3)}), "square")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"self": f32(2, 5, 3)}), "as many rows")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"self": f32(4)}), "1 dimensions")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"A": f32(3, 4, 4)}), "do not broadcast")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"xOut": f32(4, 3)}), "xOut")
	optest.Refused(t, op.InvalidParam, "TriangularSolve", call(optest.Args{"mOut": f32(4, 4)}), "mOut")
}
