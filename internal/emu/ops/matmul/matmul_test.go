package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// random fills a tensor. Integer types get values small enough that products of up to a thousand
// terms are exact in float32; other types get normally distributed values.
func random(r *rand.Rand, d dtype.Type, shape []int64) []float64 {
	v := make([]float64, max(1, op.Count(shape)))
	for i := range v {
		v[i] = r.NormFloat64()
		switch {
		case d == dtype.Bool:
			v[i] = float64(r.IntN(2))
		case d.IsInteger():
			v[i] = float64(r.IntN(10))
		}
	}
	return v
}

// naiveMatmul multiplies [batch…, m, k] by [batch…, k, n] given as flat values, with batch
// dimensions that broadcast, and returns [batch…, m, n].
func naiveMatmul(a []float64, as []int64, b []float64, bs []int64) ([]float64, []int64) {
	m, k, n := as[len(as)-2], as[len(as)-1], bs[len(bs)-1]
	batch, _ := op.BroadcastShape(as[:len(as)-2], bs[:len(bs)-2])
	at := func(shape []int64, index int64) (offset int64) {
		own := shape[:len(shape)-2]
		step := int64(1)
		for i := len(batch) - 1; i >= 0; i-- {
			x := index % batch[i]
			index /= batch[i]
			if j := i - len(batch) + len(own); j >= 0 {
				if own[j] != 1 {
					offset += x * step
				}
				step *= own[j]
			}
		}
		return offset
	}
	out := make([]float64, op.Count(batch)*m*n)
	for x := range op.Count(batch) {
		ao, bo := at(as, x)*m*k, at(bs, x)*k*n
		for i := range m {
			for j := range n {
				for p := range k {
					out[(x*m+i)*n+j] += a[ao+i*k+p] * b[bo+p*n+j]
				}
			}
		}
	}
	return out, append(slices.Clone(batch), m, n)
}

// near asserts that values agree to a few roundings of type d.
func near(t *testing.T, d dtype.Type, want, got []float64, what ...any) {
	t.Helper()
	tolerance := map[dtype.Type]float64{dtype.Float32: 1e-5, dtype.Float16: 2e-3, dtype.BFloat16: 1.6e-2, dtype.Float64: 1e-12}[d]
	require.Len(t, got, len(want), what...)
	for i := range want {
		require.InDelta(t, want[i], got[i], tolerance*max(1, math.Abs(want[i])), "element %d of %v", i, fmt.Sprint(what...))
	}
}

func TestMatmul(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		op             string
		self, mat, out []int64
	}{
		{"Mm", []int64{3, 4}, []int64{4, 5}, []int64{3, 5}},
		{"Mm", []int64{0, 4}, []int64{4, 5}, []int64{0, 5}},
		{"Mm", []int64{3, 0}, []int64{0, 5}, []int64{3, 5}},
		{"Matmul", []int64{3}, []int64{3}, []int64{}},
		{"Matmul", []int64{3}, []int64{3}, []int64{1}},
		{"Matmul", []int64{0}, []int64{0}, []int64{}},
		{"Matmul", []int64{3}, []int64{3, 4}, []int64{4}},
		{"Matmul", []int64{2, 3}, []int64{3}, []int64{2}},
		{"Matmul", []int64{3}, []int64{5, 3, 4}, []int64{5, 4}},
		{"Matmul", []int64{5, 2, 3}, []int64{3}, []int64{5, 2}},
		{"Matmul", []int64{17, 33}, []int64{33, 19}, []int64{17, 19}},
		{"Matmul", []int64{2, 5, 17, 33}, []int64{33, 19}, []int64{2, 5, 17, 19}},
		{"Matmul", []int64{17, 33}, []int64{2, 1, 33, 19}, []int64{2, 1, 17, 19}},
		{"Matmul", []int64{2, 1, 4, 3}, []int64{5, 3, 2}, []int64{2, 5, 4, 2}},
		{"Matmul", []int64{2, 1, 3, 1, 4, 3}, []int64{1, 2, 1, 2, 3, 2}, []int64{2, 2, 3, 2, 4, 2}},
		{"Matmul", []int64{0, 4, 3}, []int64{3, 2}, []int64{0, 4, 2}},
		{"BatchMatMul", []int64{3, 4, 5}, []int64{3, 5, 6}, []int64{3, 4, 6}},
		{"BatchMatMul", []int64{1, 4, 5}, []int64{3, 5, 6}, []int64{3, 4, 6}},
		{"BatchMatMul", []int64{3, 4, 5}, []int64{1, 5, 6}, []int64{3, 4, 6}},
		{"BatchMatMul", []int64{3, 4, 0}, []int64{3, 0, 6}, []int64{3, 4, 6}},
	} {
		as, bs := c.self, c.mat
		if len(as) == 1 {
			as = []int64{1, as[0]}
		}
		if len(bs) == 1 {
			bs = []int64{bs[0], 1}
		}
		for _, d := range op.FloatTypes {
			for i, l := range kerneltest.Layouts {
				t.Run(fmt.Sprintf("%s/%v·%v/%v/%v", c.op, c.self, c.mat, d, l), func(t *testing.T) {
					self := optest.TensorIn(t, d, l, c.self, random(r, d, c.self)...)
					mat2 := optest.TensorIn(t, d, kerneltest.Layouts[(i+1)%4], c.mat, random(r, d, c.mat)...)
					out := optest.TensorIn(t, d, kerneltest.Layouts[(i+2)%4], c.out)
					want, _ := naiveMatmul(optest.Values(self), as, optest.Values(mat2), bs)
					optest.Run(t, c.op, optest.Args{"self": self, "mat2": mat2, "out": out})
					near(t, d, want, optest.Values(out))
				})
			}
		}
	}
}

func TestMatmulDeducesTypes(t *testing.T) {
	for _, c := range []struct{ self, mat, out dtype.Type }{
		{dtype.Float16, dtype.Float32, dtype.Float32}, {dtype.Float32, dtype.Float16, dtype.Float32},
		{dtype.BFloat16, dtype.BFloat16, dtype.Float32}, {dtype.Float32, dtype.Float32, dtype.BFloat16},
	} {
		out := optest.Tensor(t, c.out, []int64{1, 1})
		optest.Run(t, "Mm", optest.Args{
			"self": optest.Tensor(t, c.self, []int64{1, 2}, 2, 3), "mat2": optest.Tensor(t, c.mat, []int64{2, 1}, 5, 7),
			"out": out, "cubeMathType": 1,
		})
		require.Equal(t, []float64{31}, optest.Values(out))
	}
}

func TestAddmm(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	a, b := []int64{5, 7}, []int64{7, 3}
	for _, d := range op.FloatTypes {
		for _, self := range [][]int64{{5, 3}, {1, 3}, {5, 1}, {3}, {1}} {
			mat1, mat2 := optest.Tensor(t, d, a, random(r, d, a)...), optest.TensorIn(t, d, kerneltest.Transposed, b, random(r, d, b)...)
			s := optest.Tensor(t, d, self, random(r, d, self)...)
			out := optest.Tensor(t, d, []int64{5, 3})
			product, _ := naiveMatmul(optest.Values(mat1), a, optest.Values(mat2), b)
			want := make([]float64, len(product))
			for i, v := range optest.Repeated(t, s, []int64{5, 3}) {
				want[i] = 0.5*v + 2*product[i]
			}
			optest.Run(t, "Addmm", optest.Args{"self": s, "mat1": mat1, "mat2": mat2, "beta": optest.Scalar(0.5), "alpha": optest.Scalar(2), "out": out})
			near(t, d, want, optest.Values(out), self)
			if slices.Equal(self, []int64{5, 3}) {
				optest.Run(t, "InplaceAddmm", optest.Args{"selfRef": s, "mat1": mat1, "mat2": mat2, "beta": optest.Scalar(0.5), "alpha": optest.Scalar(2)})
				require.Equal(t, optest.Values(out), optest.Values(s))
			}
		}
	}
}

// With beta 0 a NaN of self does not reach the result. With K 0 only beta·self remains.
func TestAddmmEdges(t *testing.T) {
	d := dtype.Float32
	nan := optest.Tensor(t, d, []int64{1, 1}, math.NaN())
	optest.Run(t, "InplaceAddmm", optest.Args{
		"selfRef": nan, "mat1": optest.Tensor(t, d, []int64{1, 1}, 3), "mat2": optest.Tensor(t, d, []int64{1, 1}, 4),
		"beta": optest.Scalar(0), "alpha": optest.Scalar(1),
	})
	require.Equal(t, []float64{12}, optest.Values(nan))
	out := optest.Tensor(t, d, []int64{2, 2})
	optest.Run(t, "Addmm", optest.Args{
		"self": optest.Tensor(t, d, []int64{2}, 3, 4), "mat1": optest.Tensor(t, d, []int64{2, 0}), "mat2": optest.Tensor(t, d, []int64{0, 2}),
		"beta": optest.Scalar(2), "alpha": optest.Scalar(1), "out": out,
	})
	require.Equal(t, []float64{6, 8, 6, 8}, optest.Values(out))
}

func TestBatchedAdditions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	as, bs := []int64{4, 5, 7}, []int64{4, 7, 3}
	for _, d := range op.FloatTypes {
		batch1, batch2 := optest.Tensor(t, d, as, random(r, d, as)...), optest.Tensor(t, d, bs, random(r, d, bs)...)
		product, shape := naiveMatmul(optest.Values(batch1), as, optest.Values(batch2), bs)
		a := optest.Args{"batch1": batch1, "batch2": batch2, "beta": optest.Scalar(3), "alpha": optest.Scalar(-1)}
		for _, self := range [][]int64{{4, 5, 3}, {1, 5, 3}, {5, 1}, {3}} {
			s := optest.Tensor(t, d, self, random(r, d, self)...)
			want := make([]float64, len(product))
			for i, v := range optest.Repeated(t, s, shape) {
				want[i] = 3*v - product[i]
			}
			a["self"], a["out"] = s, optest.Tensor(t, d, shape)
			optest.Run(t, "Baddbmm", a)
			near(t, d, want, optest.Values(a["out"].(*op.Tensor)), self)
		}
		sum := make([]float64, 15)
		s := optest.Tensor(t, d, []int64{5, 3}, random(r, d, []int64{5, 3})...)
		for i, v := range optest.Values(s) {
			sum[i] = 3 * v
			for x := range 4 {
				sum[i] -= product[x*15+i]
			}
		}
		a["self"], a["out"] = s, optest.Tensor(t, d, []int64{5, 3})
		optest.Run(t, "Addbmm", a)
		near(t, d, sum, optest.Values(a["out"].(*op.Tensor)))
		delete(a, "self")
		delete(a, "out")
		a["selfRef"] = s
		optest.Run(t, "InplaceAddbmm", a)
		near(t, d, sum, optest.Values(s))
		three := optest.Tensor(t, d, shape, 1)
		a["selfRef"] = three
		optest.Run(t, "InplaceBaddbmm", a)
		for i := range product {
			product[i] = 3 - product[i]
		}
		near(t, d, product, optest.Values(three))
	}
}

func TestGemmTransposes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, ta := range []bool{false, true} {
		for _, tb := range []bool{false, true} {
			as, bs := []int64{6, 4}, []int64{4, 9}
			av, bv := random(r, dtype.Float32, as), random(r, dtype.Float32, bs)
			want, _ := naiveMatmul(av, as, bv, bs)
			for i := range want {
				want[i] = 2*want[i] + 0.5
			}
			la, lb := kerneltest.Contiguous, kerneltest.Contiguous
			a, b := optest.TensorIn(t, dtype.Float32, la, as, av...), optest.TensorIn(t, dtype.Float32, lb, bs, bv...)
			flip := func(x *op.Tensor) { slices.Reverse(x.Shape); slices.Reverse(x.Strides) }
			transA, transB := 0, 0
			if ta {
				flip(a)
				transA = 1
			}
			if tb {
				flip(b)
				transB = 1
			}
			out := optest.Tensor(t, dtype.Float32, []int64{6, 9})
			optest.Run(t, "Gemm", optest.Args{
				"A": a, "B": b, "C": optest.Tensor(t, dtype.Float32, []int64{1, 9}, 1), "alpha": 2.0, "beta": 0.5,
				"transA": transA, "transB": transB, "out": out,
			})
			near(t, dtype.Float32, want, optest.Values(out))
		}
	}
}

func TestVectorProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, d := range vectorTypes {
		wide := d
		switch d {
		case dtype.Bool, dtype.Int8, dtype.Uint8, dtype.Int16:
			wide = dtype.Int32
		}
		mat, vec := optest.Tensor(t, d, []int64{5, 7}, random(r, d, []int64{5, 7})...), optest.Tensor(t, d, []int64{7}, random(r, d, []int64{7})...)
		product, _ := naiveMatmul(optest.Values(mat), mat.Shape, optest.Values(vec), []int64{7, 1})
		self := optest.Tensor(t, wide, []int64{5}, random(r, wide, []int64{5})...)
		want := make([]float64, 5)
		for i, v := range optest.Values(self) {
			want[i] = 2*v + 3*product[i]
		}
		out := optest.Tensor(t, wide, []int64{5})
		optest.Run(t, "Addmv", optest.Args{"self": self, "mat": mat, "vec": vec, "alpha": optest.Scalar(3), "beta": optest.Scalar(2), "out": out})
		near(t, wide, want, optest.Values(out), d)

		outer := optest.Tensor(t, wide, []int64{5, 7})
		optest.Run(t, "Addr", optest.Args{"self": asColumn(self), "vec1": self, "vec2": vec, "out": outer, "alphaOptional": optest.Scalar(2)})
		outerWant := make([]float64, 35)
		for i, x := range optest.Values(self) {
			for j, y := range optest.Values(vec) {
				outerWant[i*7+j] = x + 2*x*y
			}
		}
		near(t, wide, outerWant, optest.Values(outer), d)
		optest.Run(t, "AddrV2", optest.Args{"self": asColumn(self), "vec1": self, "vec2": vec, "out": outer, "alphaOptional": optest.Scalar(2)})
		near(t, wide, outerWant, optest.Values(outer), d)
		optest.Run(t, "InplaceAddrV2", optest.Args{"selfRef": outer, "vec1": self, "vec2": vec, "alphaOptional": optest.Scalar(0)})
		near(t, wide, outerWant, optest.Values(outer), d)
		optest.Run(t, "InplaceAddr", optest.Args{"selfRef": outer, "vec1": self, "vec2": vec, "betaOptional": optest.Scalar(0)})
		args := optest.Args{"self": self, "vec2": vec, "out": optest.Tensor(t, wide, []int64{5, 7})}
		if d == dtype.BFloat16 {
			optest.Refused(t, op.InvalidParam, "Ger", args, "dtype")
		} else {
			optest.Run(t, "Ger", args)
		}
		for i, x := range optest.Values(self) {
			for j, y := range optest.Values(vec) {
				outerWant[i*7+j] = x * y
			}
		}
		near(t, wide, outerWant, optest.Values(outer), d)

		if slices.Contains([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int32, dtype.Uint8}, d) {
			inner := optest.Tensor(t, d, []int64{})
			small := optest.Tensor(t, d, []int64{3}, 1, 2, 3)
			optest.Run(t, "Dot", optest.Args{"self": small, "tensor": small, "out": inner})
			require.Equal(t, []float64{14}, optest.Values(inner), d)
		}
	}
	for _, d := range op.FloatTypes {
		out := optest.Tensor(t, d, []int64{2})
		optest.Run(t, "Mv", optest.Args{"self": optest.Tensor(t, d, []int64{2, 3}, 1, 2, 3, 4, 5, 6), "vec": optest.Tensor(t, d, []int64{3}, 1, 1, 1), "out": out})
		require.Equal(t, []float64{6, 15}, optest.Values(out))
	}
	f, h := dtype.Float32, dtype.Float16
	zeros := optest.Tensor(t, f, []int64{3}, 1, 2, 3) // a matrix without elements may have another type
	optest.Run(t, "Mv", optest.Args{"self": optest.Tensor(t, h, []int64{3, 0}), "vec": optest.Tensor(t, f, []int64{0}), "out": zeros})
	require.Equal(t, []float64{0, 0, 0}, optest.Values(zeros))
	optest.Refused(t, op.InvalidParam, "Mv", optest.Args{"self": optest.Tensor(t, h, []int64{3, 1}), "vec": optest.Tensor(t, f, []int64{1}), "out": zeros}, "float16[3,1]")
	empty := optest.Args{"A": optest.Tensor(t, f, []int64{2, 0}), "B": optest.Tensor(t, f, []int64{0, 0}), "C": optest.Tensor(t, f, []int64{1}), "alpha": 2.0, "beta": 2.0}
	optest.Run(t, "Gemm", empty.With(optest.Args{"out": optest.Tensor(t, f, []int64{0, 0})})) // an empty product needs an empty result
	added := optest.Args{"self": optest.Tensor(t, f, []int64{1}), "mat1": empty["A"], "mat2": empty["B"], "beta": optest.Scalar(2.0), "alpha": optest.Scalar(2.0)}
	optest.Run(t, "Addmm", added.With(optest.Args{"out": optest.Tensor(t, f, []int64{0, 0})}))
	optest.Refused(t, op.InvalidParam, "Addmm", added.With(optest.Args{"out": optest.Tensor(t, f, []int64{2, 1})}), "out float32[2,1]")
	optest.Refused(t, op.InvalidParam, "Gemm", empty.With(optest.Args{"out": optest.Tensor(t, f, []int64{2, 1})}), "out float32[2,1]")
}

// asColumn views a vector as a matrix with one column.
func asColumn(t *op.Tensor) *op.Tensor {
	c := *t
	c.Shape, c.Strides = []int64{t.Shape[0], 1}, []int64{t.Strides[0], 1}
	return &c
}

func TestMatmulRefuses(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape) }
	of := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	nz := f(16, 16)
	nz.Format, nz.Storage = dtype.FractalNZ, []int64{1, 1, 16, 8}
	odd := f(16, 16)
	odd.Format = dtype.FractalZ
	for _, c := range []struct {
		name string
		op   string
		code int32
		args optest.Args
		text string
	}{
		{"null", "Mm", op.NullPointer, optest.Args{"mat2": f(2, 2), "out": f(2, 2)}, "self is null"},
		{"null out", "Matmul", op.NullPointer, optest.Args{"self": f(2, 2), "mat2": f(2, 2)}, "out is null"},
		{"null scalar", "Addmm", op.NullPointer, optest.Args{"self": f(2), "mat1": f(2, 2), "mat2": f(2, 2), "beta": optest.Scalar(1), "out": f(2, 2)}, "alpha is null"},
		{"rank", "Mm", op.InvalidParam, optest.Args{"self": f(2), "mat2": f(2, 2), "out": f(2)}, "dimensions"},
		{"rank 7", "Matmul", op.InvalidParam, optest.Args{"self": f(1, 1, 1, 1, 1, 2, 2), "mat2": f(2, 2), "out": f(2, 2)}, "dimensions"},
		{"inner", "Mm", op.InvalidParam, optest.Args{"self": f(2, 3), "mat2": f(2, 2), "out": f(2, 2)}, "inner dimensions are 3 and 2"},
		{"batch", "Matmul", op.InvalidParam, optest.Args{"self": f(3, 2, 2), "mat2": f(2, 2, 2), "out": f(3, 2, 2)}, "do not broadcast"},
		{"out shape", "Mm", op.InvalidParam, optest.Args{"self": f(2, 3), "mat2": f(3, 2), "out": f(3, 2)}, "[2,2]"},
		{"in place broadcast", "InplaceAddmm", op.InvalidParam, optest.Args{"selfRef": f(1, 2), "mat1": f(2, 2), "mat2": f(2, 2), "beta": optest.Scalar(1), "alpha": optest.Scalar(1)}, "[2,2]"},
		{"self broadcast", "Addmm", op.InvalidParam, optest.Args{"self": f(3), "mat1": f(2, 2), "mat2": f(2, 2), "beta": optest.Scalar(1), "alpha": optest.Scalar(1), "out": f(2, 2)}, "does not broadcast"},
		{"bf16 and fp16", "Addmv", op.InvalidParam, optest.Args{"self": f(2), "mat": of(dtype.BFloat16, 2, 2), "vec": of(dtype.Float16, 2), "alpha": optest.Scalar(1), "beta": optest.Scalar(1), "out": f(2)}, "no common element type"},
		{"int", "Mm", op.InvalidParam, optest.Args{"self": of(dtype.Int32, 2, 2), "mat2": of(dtype.Int32, 2, 2), "out": of(dtype.Int32, 2, 2)}, "not supported"},
		{"double", "Matmul", op.InvalidParam, optest.Args{"self": of(dtype.Float64, 2, 2), "mat2": of(dtype.Float64, 2, 2), "out": of(dtype.Float64, 2, 2)}, "not supported"},
		{"int and float", "Addmv", op.InvalidParam, optest.Args{"self": f(2), "mat": of(dtype.Int32, 2, 2), "vec": f(2), "alpha": optest.Scalar(1), "beta": optest.Scalar(1), "out": f(2)}, "no common element type"},
		{"fraction of int", "Addmv", op.InvalidParam, optest.Args{"self": of(dtype.Int32, 2), "mat": of(dtype.Int32, 2, 2), "vec": of(dtype.Int32, 2), "alpha": optest.Scalar(0.5), "beta": optest.Scalar(1), "out": of(dtype.Int32, 2)}, "must be integers"},
		{"int out", "Dot", op.InvalidParam, optest.Args{"self": f(2), "tensor": f(2), "out": of(dtype.Int32)}, "dtypes differ"},
		{"cubeMathType", "Mm", op.InvalidParam, optest.Args{"self": f(2, 2), "mat2": f(2, 2), "out": f(2, 2), "cubeMathType": 5}, "cubeMathType 5"},
		{"self in NZ", "Mm", op.InvalidParam, optest.Args{"self": nz, "mat2": f(16, 2), "out": f(16, 2)}, "must be in ND format"},
		{"NZ too small", "Mm", op.InvalidParam, optest.Args{"self": f(2, 16), "mat2": nz, "out": f(2, 16)}, "FRACTAL_NZ needs [2,1,16,8]"},
		{"format", "Mm", op.InvalidParam, optest.Args{"self": f(2, 16), "mat2": odd, "out": f(2, 16)}, "use ND or FRACTAL_NZ"},
	} {
		t.Run(c.name, func(t *testing.T) { optest.Refused(t, c.code, c.op, c.args, c.text) })
	}
}

// bfloat16 with float16 and float32: the product is computed in float32 and rounded to the output.
func TestMixedFloats(t *testing.T) {
	const m, k, n = 3, 5, 4
	for _, a := range op.FloatTypes {
		for _, b := range op.FloatTypes {
			for _, o := range op.FloatTypes {
				x, y := optest.Filled(t, 1, a, kerneltest.Contiguous, []int64{m, k}), optest.Filled(t, 2, b, kerneltest.Transposed, []int64{k, n})
				want := optest.Times(optest.Values(x), optest.Values(y), k)
				for _, name := range []string{"Mm", "Matmul"} {
					out := optest.Tensor(t, o, []int64{m, n})
					optest.Run(t, name, optest.Args{"self": x, "mat2": y, "out": out})
					optest.CloseTo(t, name, want, optest.Values(out), 2*optest.ResultLimit(o))
				}
			}
		}
	}
}
