package matmul

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestEinsum(t *testing.T) {
	for _, d := range append([]dtype.Type{dtype.Uint16, dtype.Uint32, dtype.Uint64}, einsumTypes...) {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][]int64{{1, 1, 1, 1, 1}, {2, 3, 2, 5, 4}, {1, 2, 3, 7, 1}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				rows, e, k := s[0]*s[1]*s[2], s[3], s[4]
				a, b, y := optest.Numbers(t, d, l, s[0], s[1], s[2], k), optest.Numbers(t, d, l, s...), optest.TensorIn(t, d, l, s[:4])
				optest.Run(t, "Einsum", optest.Args{"tensors": []*op.Tensor{a, b}, "equation": "abcd,abced->abce", "output": y})
				var want []float64
				for r := range rows {
					for j := range e {
						sum := 0.0
						for i := range k {
							sum += optest.Values(a)[r*k+i] * optest.Values(b)[(r*e+j)*k+i]
						}
						want = append(want, sum)
					}
				}
				optest.CloseTo(t, what, want, optest.Values(y), 2*max(optest.ResultLimit(d), 1e-12))
				u, v, o := optest.Numbers(t, d, l, e), optest.Numbers(t, d, l, k), optest.TensorIn(t, d, l, []int64{e, k})
				optest.Run(t, "Einsum", optest.Args{"tensors": []*op.Tensor{u, v}, "equation": "a,b->ab", "output": o})
				optest.CloseTo(t, what, optest.Times(optest.Values(u), optest.Values(v), 1), optest.Values(o), 2*max(optest.ResultLimit(d), 1e-12))
			}
		}
	}
}

func TestEinsumRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"equation": "ab,bc->ac"}, op.InvalidParam, "ab,bc->ac"},
		{optest.Args{"equation": nil}, op.NullPointer, "equation"},
		{optest.Args{"tensors": []*op.Tensor{optest.Tensor(t, f, []int64{2}, 1)}}, op.InvalidParam, "1 members"},
		{optest.Args{"equation": "abcd,abced->abce"}, op.InvalidParam, "dimensions"},
		{optest.Args{"output": optest.Tensor(t, dtype.Float16, []int64{2, 3})}, op.InvalidParam, "dtypes differ"},
		{optest.Args{"output": optest.Tensor(t, f, []int64{3, 2})}, op.InvalidParam, "shape [2,3]"},
		{optest.Args{"output": nil}, op.NullPointer, "output"},
	} {
		a := optest.Args{"tensors": []*op.Tensor{optest.Tensor(t, f, []int64{2}, 1), optest.Tensor(t, f, []int64{3}, 1)}, "equation": "a,b->ab", "output": optest.Tensor(t, f, []int64{2, 3})}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "Einsum", a, c.text)
	}
}

// transposedTrial compares one product of transposed batches with its definition.
type transposedTrial struct{ b, m, k, n int64 }

// operand returns a tensor [b, rows, cols], optionally stored with two dimensions swapped.
func (transposedTrial) operand(t *testing.T, d dtype.Type, l kerneltest.Layout, seed uint64, shape []int64, perm []int64) (x *op.Tensor, plain []float64) {
	stored := make([]int64, 3)
	for i, p := range perm {
		stored[p] = shape[i]
	}
	x = optest.Filled(t, seed, d, l, stored)
	return x, optest.Values(optest.Of(op.Permuted(x.View(), perm)))
}

func (p transposedTrial) define(a, b []float64) []float64 {
	out := make([]float64, p.m*p.b*p.n)
	for i := range p.b {
		c := optest.Times(a[i*p.m*p.k:][:p.m*p.k], b[i*p.k*p.n:][:p.k*p.n], int(p.k))
		for r := range p.m {
			copy(out[(r*p.b+i)*p.n:], c[r*p.n:][:p.n])
		}
	}
	return out
}

// runTransposed multiplies on the Ascend950 if it alone takes the order of the dimensions.
func runTransposed(t *testing.T, set optest.Args) {
	t.Helper()
	name, transposed := "TransposeBatchMatMul", set["permX2"].([]int64)[1] == 2
	if !transposed || set["permX1"].([]int64)[0] == 1 && set["batchSplitFactor"] == 1 {
		optest.Run(t, name, set)
		return
	}
	optest.Refused(t, op.InvalidParam, name, set, "permX2")
	optest.RunOn(t, acceptance.Ascend950, name, set)
}

func TestTransposeBatchMatMul(t *testing.T) {
	for _, p := range []transposedTrial{{1, 1, 1, 1}, {4, 3, 5, 2}, {2, 1, 16, 7}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for _, p1 := range [][]int64{{0, 1, 2}, {1, 0, 2}} {
					for _, p2 := range [][]int64{{0, 1, 2}, {0, 2, 1}} {
						what := fmt.Sprintf("%+v %v %v %v %v", p, d, l, p1, p2)
						x1, a := p.operand(t, d, l, 1, []int64{p.b, p.m, p.k}, p1)
						x2, b := p.operand(t, d, l, 2, []int64{p.b, p.k, p.n}, p2)
						set := optest.Args{"x1": x1, "x2": x2, "permX1": p1, "permX2": p2, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1}
						want := p.define(a, b)
						set["out"] = optest.TensorIn(t, d, l, []int64{p.m, p.b, p.n})
						runTransposed(t, set)
						optest.CloseTo(t, what, want, optest.Values(set["out"].(*op.Tensor)), 4*optest.ResultLimit(d))
						if p.b%2 != 0 {
							continue
						}
						set["batchSplitFactor"], set["out"] = 2, optest.TensorIn(t, d, l, []int64{2, p.m, p.b / 2 * p.n})
						runTransposed(t, set)
						var halves []float64
						for h := range int64(2) {
							for r := range p.m {
								halves = append(halves, want[(r*p.b+h*p.b/2)*p.n:][:p.b/2*p.n]...)
							}
						}
						optest.CloseTo(t, what, halves, optest.Values(set["out"].(*op.Tensor)), 4*optest.ResultLimit(d))
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
		scale, packed := optest.Tensor(t, dtype.Float32, []int64{p.b * p.n}, 8, 16, 0.5, 64, 4, 128, 2), []float64(nil)
		for _, s := range optest.Values(scale) {
			packed = append(packed, float64(op.PackScale(float32(s), nil, false)))
		}
		out := optest.TensorIn(t, dtype.Int8, l, []int64{p.m, 1, p.b * p.n})
		optest.Run(t, "TransposeBatchMatMul", optest.Args{
			"x1": x1, "x2": x2, "scale": optest.Tensor(t, dtype.Uint64, []int64{p.b * p.n}, packed...), "permX1": []int64{1, 0, 2}, "permX2": []int64{0, 1, 2}, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": out,
		})
		for i, w := range p.define(a, b) {
			w = min(max(w*optest.Values(scale)[int64(i)%(p.b*p.n)], -128), 127)
			assert.LessOrEqual(t, math.Abs(optest.Values(out)[i]-w), 0.501, "%v element %d", l, i)
		}
	}
}

func TestTransposeBatchMatMulRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"permX1": []int64{2, 1, 0}}, op.InvalidParam, "permX1 is [2,1,0]"},
		{optest.Args{"permY": nil}, op.NullPointer, "permY"},
		{optest.Args{"batchSplitFactor": 3}, op.InvalidParam, "batchSplitFactor is 3"},
		{optest.Args{"batchSplitFactor": 0}, op.InvalidParam, "batchSplitFactor is 0"},
		{optest.Args{"bias": optest.Tensor(t, f, []int64{5}, 1)}, op.InvalidParam, "no bias"},
		{optest.Args{"x2": optest.Tensor(t, f, []int64{4, 3, 5}, 1)}, op.InvalidParam, "batches of 2 and 4"},
		{optest.Args{"x2": optest.Tensor(t, f, []int64{2, 3, 5}, 1)}, op.InvalidParam, "inner dimensions"},
		{optest.Args{"out": optest.Tensor(t, f, []int64{2, 3, 5})}, op.InvalidParam, "[M, B, N]"},
		{optest.Args{"scale": optest.Tensor(t, dtype.Uint64, []int64{10}, 1), "out": optest.Tensor(t, dtype.Int8, []int64{3, 1, 10})}, op.InvalidParam, "float16"},
		{optest.Args{"x1": nil}, op.NullPointer, "x1 is null"},
	} {
		a := optest.Args{
			"x1": optest.Tensor(t, f, []int64{2, 3, 4}, 1), "x2": optest.Tensor(t, f, []int64{2, 4, 5}, 1), "permX1": []int64{0, 1, 2}, "permX2": []int64{0, 1, 2},
			"permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": optest.Tensor(t, f, []int64{3, 2, 5}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "TransposeBatchMatMul", a, c.text)
	}
}
