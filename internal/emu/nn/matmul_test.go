package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// random fills a tensor with values that products of up to a thousand terms keep exact in
// float32 for integer types, and with normal ones else.
func random(r *rand.Rand, d dtype.Type, shape []int64) []float64 {
	v := make([]float64, max(1, count(shape)))
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
	batch, _ := broadcastShape(as[:len(as)-2], bs[:len(bs)-2])
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
	out := make([]float64, count(batch)*m*n)
	for x := range count(batch) {
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

// repeated are the values of a tensor broadcast to a shape.
func repeated(t testing.TB, x *Tensor, shape []int64) []float64 {
	t.Helper()
	v, err := x.View().Broadcast(shape)
	require.NoError(t, err)
	return kerneltest.Values(v)
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
		for _, d := range cubeTypes {
			for i, l := range kerneltest.Layouts {
				t.Run(fmt.Sprintf("%s/%v·%v/%v/%v", c.op, c.self, c.mat, d, l), func(t *testing.T) {
					self := tensorIn(t, d, l, c.self, random(r, d, c.self)...)
					mat2 := tensorIn(t, d, kerneltest.Layouts[(i+1)%4], c.mat, random(r, d, c.mat)...)
					out := tensorIn(t, d, kerneltest.Layouts[(i+2)%4], c.out)
					want, _ := naiveMatmul(values(self), as, values(mat2), bs)
					run(t, c.op, args{"self": self, "mat2": mat2, "out": out})
					near(t, d, want, values(out))
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
		out := tensor(t, c.out, []int64{1, 1})
		run(t, "Mm", args{
			"self": tensor(t, c.self, []int64{1, 2}, 2, 3), "mat2": tensor(t, c.mat, []int64{2, 1}, 5, 7),
			"out": out, "cubeMathType": 1,
		})
		require.Equal(t, []float64{31}, values(out))
	}
}

func TestAddmm(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	a, b := []int64{5, 7}, []int64{7, 3}
	for _, d := range cubeTypes {
		for _, self := range [][]int64{{5, 3}, {1, 3}, {5, 1}, {3}, {1}} {
			mat1, mat2 := tensor(t, d, a, random(r, d, a)...), tensorIn(t, d, kerneltest.Transposed, b, random(r, d, b)...)
			s := tensor(t, d, self, random(r, d, self)...)
			out := tensor(t, d, []int64{5, 3})
			product, _ := naiveMatmul(values(mat1), a, values(mat2), b)
			want := make([]float64, len(product))
			for i, v := range repeated(t, s, []int64{5, 3}) {
				want[i] = 0.5*v + 2*product[i]
			}
			run(t, "Addmm", args{"self": s, "mat1": mat1, "mat2": mat2, "beta": scalar(0.5), "alpha": scalar(2), "out": out})
			near(t, d, want, values(out), self)
			if slices.Equal(self, []int64{5, 3}) {
				run(t, "InplaceAddmm", args{"selfRef": s, "mat1": mat1, "mat2": mat2, "beta": scalar(0.5), "alpha": scalar(2)})
				require.Equal(t, values(out), values(s))
			}
		}
	}
}

// With beta 0 a NaN of self does not reach the result; with K 0 only beta·self remains.
func TestAddmmEdges(t *testing.T) {
	d := dtype.Float32
	nan := tensor(t, d, []int64{1, 1}, math.NaN())
	run(t, "InplaceAddmm", args{
		"selfRef": nan, "mat1": tensor(t, d, []int64{1, 1}, 3), "mat2": tensor(t, d, []int64{1, 1}, 4),
		"beta": scalar(0), "alpha": scalar(1),
	})
	require.Equal(t, []float64{12}, values(nan))
	out := tensor(t, d, []int64{2, 2})
	run(t, "Addmm", args{
		"self": tensor(t, d, []int64{2}, 3, 4), "mat1": tensor(t, d, []int64{2, 0}), "mat2": tensor(t, d, []int64{0, 2}),
		"beta": scalar(2), "alpha": scalar(1), "out": out,
	})
	require.Equal(t, []float64{6, 8, 6, 8}, values(out))
}

func TestBatchedAdditions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	as, bs := []int64{4, 5, 7}, []int64{4, 7, 3}
	for _, d := range cubeTypes {
		batch1, batch2 := tensor(t, d, as, random(r, d, as)...), tensor(t, d, bs, random(r, d, bs)...)
		product, shape := naiveMatmul(values(batch1), as, values(batch2), bs)
		a := args{"batch1": batch1, "batch2": batch2, "beta": scalar(3), "alpha": scalar(-1)}
		for _, self := range [][]int64{{4, 5, 3}, {1, 5, 3}, {5, 1}, {3}} {
			s := tensor(t, d, self, random(r, d, self)...)
			want := make([]float64, len(product))
			for i, v := range repeated(t, s, shape) {
				want[i] = 3*v - product[i]
			}
			a["self"], a["out"] = s, tensor(t, d, shape)
			run(t, "Baddbmm", a)
			near(t, d, want, values(a["out"].(*Tensor)), self)
		}
		sum := make([]float64, 15)
		s := tensor(t, d, []int64{5, 3}, random(r, d, []int64{5, 3})...)
		for i, v := range values(s) {
			sum[i] = 3 * v
			for x := range 4 {
				sum[i] -= product[x*15+i]
			}
		}
		a["self"], a["out"] = s, tensor(t, d, []int64{5, 3})
		run(t, "Addbmm", a)
		near(t, d, sum, values(a["out"].(*Tensor)))
		delete(a, "self")
		delete(a, "out")
		a["selfRef"] = s
		run(t, "InplaceAddbmm", a)
		near(t, d, sum, values(s))
		three := tensor(t, d, shape, 1)
		a["selfRef"] = three
		run(t, "InplaceBaddbmm", a)
		for i := range product {
			product[i] = 3 - product[i]
		}
		near(t, d, product, values(three))
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
			a, b := tensorIn(t, dtype.Float32, la, as, av...), tensorIn(t, dtype.Float32, lb, bs, bv...)
			flip := func(x *Tensor) { slices.Reverse(x.Shape); slices.Reverse(x.Strides) }
			transA, transB := 0, 0
			if ta {
				flip(a)
				transA = 1
			}
			if tb {
				flip(b)
				transB = 1
			}
			out := tensor(t, dtype.Float32, []int64{6, 9})
			run(t, "Gemm", args{
				"A": a, "B": b, "C": tensor(t, dtype.Float32, []int64{1, 9}, 1), "alpha": 2.0, "beta": 0.5,
				"transA": transA, "transB": transB, "out": out,
			})
			near(t, dtype.Float32, want, values(out))
		}
	}
}

func TestVectorProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, d := range allTypes {
		wide := d
		switch d {
		case dtype.Bool, dtype.Int8, dtype.Uint8, dtype.Int16:
			wide = dtype.Int32
		}
		mat, vec := tensor(t, d, []int64{5, 7}, random(r, d, []int64{5, 7})...), tensor(t, d, []int64{7}, random(r, d, []int64{7})...)
		product, _ := naiveMatmul(values(mat), mat.Shape, values(vec), []int64{7, 1})
		self := tensor(t, wide, []int64{5}, random(r, wide, []int64{5})...)
		want := make([]float64, 5)
		for i, v := range values(self) {
			want[i] = 2*v + 3*product[i]
		}
		out := tensor(t, wide, []int64{5})
		run(t, "Addmv", args{"self": self, "mat": mat, "vec": vec, "alpha": scalar(3), "beta": scalar(2), "out": out})
		near(t, wide, want, values(out), d)

		outer := tensor(t, wide, []int64{5, 7})
		run(t, "Addr", args{"self": asColumn(self), "vec1": self, "vec2": vec, "out": outer, "alphaOptional": scalar(2)})
		outerWant := make([]float64, 35)
		for i, x := range values(self) {
			for j, y := range values(vec) {
				outerWant[i*7+j] = x + 2*x*y
			}
		}
		near(t, wide, outerWant, values(outer), d)
		run(t, "InplaceAddr", args{"selfRef": outer, "vec1": self, "vec2": vec, "betaOptional": scalar(0)})
		run(t, "Ger", args{"self": self, "vec2": vec, "out": tensor(t, wide, []int64{5, 7})})
		for i, x := range values(self) {
			for j, y := range values(vec) {
				outerWant[i*7+j] = x * y
			}
		}
		near(t, wide, outerWant, values(outer), d)

		if d != dtype.Bool {
			inner := tensor(t, d, []int64{})
			small := tensor(t, d, []int64{3}, 1, 2, 3)
			run(t, "Dot", args{"self": small, "tensor": small, "out": inner})
			require.Equal(t, []float64{14}, values(inner), d)
		}
	}
	for _, d := range cubeTypes {
		out := tensor(t, d, []int64{2})
		run(t, "Mv", args{"self": tensor(t, d, []int64{2, 3}, 1, 2, 3, 4, 5, 6), "vec": tensor(t, d, []int64{3}, 1, 1, 1), "out": out})
		require.Equal(t, []float64{6, 15}, values(out))
	}
}

// asColumn is a vector as a matrix of one column.
func asColumn(t *Tensor) *Tensor {
	c := *t
	c.Shape, c.Strides = []int64{t.Shape[0], 1}, []int64{t.Strides[0], 1}
	return &c
}

func TestMatmulRefuses(t *testing.T) {
	f := func(shape ...int64) *Tensor { return tensor(t, dtype.Float32, shape) }
	of := func(d dtype.Type, shape ...int64) *Tensor { return tensor(t, d, shape) }
	nz := f(16, 16)
	nz.Format, nz.Storage = dtype.FractalNZ, []int64{1, 1, 16, 8}
	odd := f(16, 16)
	odd.Format = dtype.FractalZ
	for _, c := range []struct {
		name string
		op   string
		code int32
		args args
		text string
	}{
		{"null", "Mm", nullPointer, args{"mat2": f(2, 2), "out": f(2, 2)}, "self is null"},
		{"null out", "Matmul", nullPointer, args{"self": f(2, 2), "mat2": f(2, 2)}, "out is null"},
		{"null scalar", "Addmm", nullPointer, args{"self": f(2), "mat1": f(2, 2), "mat2": f(2, 2), "beta": scalar(1), "out": f(2, 2)}, "alpha is null"},
		{"rank", "Mm", invalidParam, args{"self": f(2), "mat2": f(2, 2), "out": f(2)}, "dimensions"},
		{"rank 7", "Matmul", invalidParam, args{"self": f(1, 1, 1, 1, 1, 2, 2), "mat2": f(2, 2), "out": f(2, 2)}, "dimensions"},
		{"inner", "Mm", invalidParam, args{"self": f(2, 3), "mat2": f(2, 2), "out": f(2, 2)}, "inner dimensions are 3 and 2"},
		{"batch", "Matmul", invalidParam, args{"self": f(3, 2, 2), "mat2": f(2, 2, 2), "out": f(3, 2, 2)}, "do not broadcast"},
		{"out shape", "Mm", invalidParam, args{"self": f(2, 3), "mat2": f(3, 2), "out": f(3, 2)}, "[2,2]"},
		{"in place broadcast", "InplaceAddmm", invalidParam, args{"selfRef": f(1, 2), "mat1": f(2, 2), "mat2": f(2, 2), "beta": scalar(1), "alpha": scalar(1)}, "[2,2]"},
		{"self broadcast", "Addmm", invalidParam, args{"self": f(3), "mat1": f(2, 2), "mat2": f(2, 2), "beta": scalar(1), "alpha": scalar(1), "out": f(2, 2)}, "does not broadcast"},
		{"bf16 and fp16", "Mm", invalidParam, args{"self": of(dtype.BFloat16, 2, 2), "mat2": of(dtype.Float16, 2, 2), "out": f(2, 2)}, "no common element type"},
		{"bf16 and fp32", "Mm", invalidParam, args{"self": of(dtype.BFloat16, 2, 2), "mat2": f(2, 2), "out": f(2, 2)}, "no common element type"},
		{"int", "Mm", invalidParam, args{"self": of(dtype.Int32, 2, 2), "mat2": of(dtype.Int32, 2, 2), "out": of(dtype.Int32, 2, 2)}, "not supported"},
		{"double", "Matmul", invalidParam, args{"self": of(dtype.Float64, 2, 2), "mat2": of(dtype.Float64, 2, 2), "out": of(dtype.Float64, 2, 2)}, "not supported"},
		{"int and float", "Addmv", invalidParam, args{"self": f(2), "mat": of(dtype.Int32, 2, 2), "vec": f(2), "alpha": scalar(1), "beta": scalar(1), "out": f(2)}, "no common element type"},
		{"fraction of int", "Addmv", invalidParam, args{"self": of(dtype.Int32, 2), "mat": of(dtype.Int32, 2, 2), "vec": of(dtype.Int32, 2), "alpha": scalar(0.5), "beta": scalar(1), "out": of(dtype.Int32, 2)}, "must be integers"},
		{"int out", "Dot", invalidParam, args{"self": f(2), "tensor": f(2), "out": of(dtype.Int32)}, "dtypes differ"},
		{"cubeMathType", "Mm", invalidParam, args{"self": f(2, 2), "mat2": f(2, 2), "out": f(2, 2), "cubeMathType": 5}, "cubeMathType 5"},
		{"self in NZ", "Mm", invalidParam, args{"self": nz, "mat2": f(16, 2), "out": f(16, 2)}, "must be in ND format"},
		{"NZ too small", "Mm", invalidParam, args{"self": f(2, 16), "mat2": nz, "out": f(2, 16)}, "FRACTAL_NZ needs [2,1,16,8]"},
		{"format", "Mm", invalidParam, args{"self": f(2, 16), "mat2": odd, "out": f(2, 16)}, "use ND or FRACTAL_NZ"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.code, c.op, c.args, c.text) })
	}
}
