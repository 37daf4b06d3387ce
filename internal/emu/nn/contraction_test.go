package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestEinsum(t *testing.T) {
	for _, d := range einsumTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1, 1, 1, 1}, {2, 3, 2, 5, 4}, {1, 2, 3, 7, 1}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				rows, e, k := s[0]*s[1]*s[2], s[3], s[4]
				a, b, y := numbers(t, d, l, s[0], s[1], s[2], k), numbers(t, d, l, s...), tensorIn(t, d, l, s[:4])
				run(t, "Einsum", args{"tensors": []*Tensor{a, b}, "equation": "abcd,abced->abce", "output": y})
				var want []float64
				for r := range rows {
					for j := range e {
						sum := 0.0
						for i := range k {
							sum += values(a)[r*k+i] * values(b)[(r*e+j)*k+i]
						}
						want = append(want, sum)
					}
				}
				closeTo(t, what, want, values(y), 2*max(resultLimit(d), 1e-12))
				u, v, o := numbers(t, d, l, e), numbers(t, d, l, k), tensorIn(t, d, l, []int64{e, k})
				run(t, "Einsum", args{"tensors": []*Tensor{u, v}, "equation": "a,b->ab", "output": o})
				closeTo(t, what, timesOf(values(u), values(v), 1), values(o), 2*max(resultLimit(d), 1e-12))
			}
		}
	}
}

func TestEinsumRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"equation": "ab,bc->ac"}, invalidParam, "ab,bc->ac"},
		{args{"equation": nil}, nullPointer, "equation"},
		{args{"tensors": []*Tensor{tensor(t, f, []int64{2}, 1)}}, invalidParam, "1 members"},
		{args{"equation": "abcd,abced->abce"}, invalidParam, "dimensions"},
		{args{"output": tensor(t, dtype.Float16, []int64{2, 3})}, invalidParam, "dtypes differ"},
		{args{"output": tensor(t, f, []int64{3, 2})}, invalidParam, "shape [2,3]"},
		{args{"output": nil}, nullPointer, "output"},
	} {
		a := args{"tensors": []*Tensor{tensor(t, f, []int64{2}, 1), tensor(t, f, []int64{3}, 1)}, "equation": "a,b->ab", "output": tensor(t, f, []int64{2, 3})}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "Einsum", a, c.text)
	}
}

// transposedTrial is one product of transposed batches with its definition.
type transposedTrial struct{ b, m, k, n int64 }

// operand is a tensor [b, rows, cols], or with two dimensions exchanged.
func (transposedTrial) operand(t *testing.T, d dtype.Type, l kerneltest.Layout, seed uint64, shape []int64, perm []int64) (x *Tensor, plain []float64) {
	stored := make([]int64, 3)
	for i, p := range perm {
		stored[p] = shape[i]
	}
	x = filled(t, seed, d, l, stored)
	return x, values(of(permuted(x.View(), perm)))
}

func (p transposedTrial) define(a, b []float64) []float64 {
	out := make([]float64, p.m*p.b*p.n)
	for i := range p.b {
		c := timesOf(a[i*p.m*p.k:][:p.m*p.k], b[i*p.k*p.n:][:p.k*p.n], int(p.k))
		for r := range p.m {
			copy(out[(r*p.b+i)*p.n:], c[r*p.n:][:p.n])
		}
	}
	return out
}

func TestTransposeBatchMatMul(t *testing.T) {
	for _, p := range []transposedTrial{{1, 1, 1, 1}, {4, 3, 5, 2}, {2, 1, 16, 7}} {
		for _, d := range cubeTypes {
			for _, l := range kerneltest.Layouts {
				for _, p1 := range [][]int64{{0, 1, 2}, {1, 0, 2}} {
					for _, p2 := range [][]int64{{0, 1, 2}, {0, 2, 1}} {
						what := fmt.Sprintf("%+v %v %v %v %v", p, d, l, p1, p2)
						x1, a := p.operand(t, d, l, 1, []int64{p.b, p.m, p.k}, p1)
						x2, b := p.operand(t, d, l, 2, []int64{p.b, p.k, p.n}, p2)
						set := args{"x1": x1, "x2": x2, "permX1": p1, "permX2": p2, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1}
						want := p.define(a, b)
						set["out"] = tensorIn(t, d, l, []int64{p.m, p.b, p.n})
						run(t, "TransposeBatchMatMul", set)
						closeTo(t, what, want, values(set["out"].(*Tensor)), 4*resultLimit(d))
						if p.b%2 != 0 {
							continue
						}
						set["batchSplitFactor"], set["out"] = 2, tensorIn(t, d, l, []int64{2, p.m, p.b / 2 * p.n})
						run(t, "TransposeBatchMatMul", set)
						var halves []float64
						for h := range int64(2) {
							for r := range p.m {
								halves = append(halves, want[(r*p.b+h*p.b/2)*p.n:][:p.b/2*p.n]...)
							}
						}
						closeTo(t, what, halves, values(set["out"].(*Tensor)), 4*resultLimit(d))
					}
				}
			}
		}
	}
}

func TestTransposeBatchMatMulQuantised(t *testing.T) {
	p := transposedTrial{2, 3, 4, 5}
	f := dtype.Float16
	for _, l := range kerneltest.Layouts {
		x1, a := p.operand(t, f, l, 1, []int64{p.b, p.m, p.k}, []int64{1, 0, 2})
		x2, b := p.operand(t, f, l, 2, []int64{p.b, p.k, p.n}, []int64{0, 1, 2})
		scale, packed := tensor(t, dtype.Float32, []int64{p.b * p.n}, 8, 16, 0.5, 64, 4, 128, 2), tensor(t, dtype.Uint64, []int64{p.b * p.n})
		run(t, "TransQuantParamV2", args{"scale": scale, "out": packed})
		out := tensorIn(t, dtype.Int8, l, []int64{p.m, 1, p.b * p.n})
		run(t, "TransposeBatchMatMul", args{
			"x1": x1, "x2": x2, "scale": packed, "permX1": []int64{1, 0, 2}, "permX2": []int64{0, 1, 2}, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": out,
		})
		for i, w := range p.define(a, b) {
			w = min(max(w*values(scale)[int64(i)%(p.b*p.n)], -128), 127)
			assert.LessOrEqual(t, math.Abs(values(out)[i]-w), 0.501, "%v element %d", l, i)
		}
	}
}

func TestTransposeBatchMatMulRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"permX1": []int64{2, 1, 0}}, invalidParam, "permX1 is [2,1,0]"},
		{args{"permY": nil}, invalidParam, "permY"},
		{args{"batchSplitFactor": 3}, invalidParam, "batchSplitFactor is 3"},
		{args{"batchSplitFactor": 0}, invalidParam, "batchSplitFactor is 0"},
		{args{"bias": tensor(t, f, []int64{5}, 1)}, invalidParam, "no bias"},
		{args{"x2": tensor(t, f, []int64{4, 3, 5}, 1)}, invalidParam, "batches of 2 and 4"},
		{args{"x2": tensor(t, f, []int64{2, 3, 5}, 1)}, invalidParam, "inner dimensions"},
		{args{"out": tensor(t, f, []int64{2, 3, 5})}, invalidParam, "[M, B, N]"},
		{args{"scale": tensor(t, dtype.Uint64, []int64{10}, 1), "out": tensor(t, dtype.Int8, []int64{3, 1, 10})}, invalidParam, "float16"},
		{args{"x1": nil}, nullPointer, "x1 is null"},
	} {
		a := args{
			"x1": tensor(t, f, []int64{2, 3, 4}, 1), "x2": tensor(t, f, []int64{2, 4, 5}, 1), "permX1": []int64{0, 1, 2}, "permX2": []int64{0, 1, 2},
			"permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": tensor(t, f, []int64{3, 2, 5}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "TransposeBatchMatMul", a, c.text)
	}
}
