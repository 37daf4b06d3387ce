package gemm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// gemmCase is one product; add is the shape of the addend before broadcasting, or nil.
type gemmCase struct {
	batch       []int64
	m, n, k     int64
	a, b, out   dtype.Type
	la, lb, lc  kerneltest.Layout
	alpha, beta float64
	addRow      bool // the addend is one row for all
}

func (c gemmCase) String() string {
	return fmt.Sprintf("%v%dx%dx%d/%v·%v→%v/%v·%v→%v/%g,%g", c.batch, c.m, c.n, c.k, c.a, c.b, c.out, c.la, c.lb, c.lc, c.alpha, c.beta)
}

// numbers returns integers of up to 8 bits for integer types, so that sums are exact, and else fractions.
func numbers(r *rand.Rand, d dtype.Type, n int64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
		if d.IsInteger() {
			v[i] = float64(r.IntN(256))
			if d != dtype.Uint8 {
				v[i] -= 128
			}
		}
	}
	return v
}

// gemmLimit returns the largest error of a sum of k products whose absolute values add up to
// magnitude, from rounding the sum and rounding the result to its type.
func gemmLimit(c gemmCase, magnitude, result float64) float64 {
	unit := map[dtype.Type]float64{dtype.Float32: 0x1p-24, dtype.Float16: 0x1p-11, dtype.BFloat16: 0x1p-8, dtype.Float64: 0x1p-53}
	if c.out.IsInteger() {
		return 0
	}
	sum := 0x1p-24
	if c.out == dtype.Float64 {
		sum = 0x1p-53
	}
	smallest := 0.0
	if c.out == dtype.Float16 {
		smallest = 0x1p-25
	}
	return 8*sum*magnitude + 1.01*unit[c.out]*math.Abs(result) + smallest
}

// check runs the product and compares it with the definition in float64.
func (c gemmCase) check(t testing.TB, r *rand.Rand) {
	t.Helper()
	count := int64(1)
	for _, d := range c.batch {
		count *= d
	}
	shape := func(dims ...int64) []int64 { return append(slices.Clone(c.batch), dims...) }
	a := kerneltest.New(t, c.a, c.la, shape(c.m, c.k), numbers(r, c.a, max(1, count*c.m*c.k)))
	b := kerneltest.New(t, c.b, c.lb, shape(c.k, c.n), numbers(r, c.b, max(1, count*c.k*c.n)))
	out := kerneltest.New(t, c.out, c.lc, shape(c.m, c.n), nil)
	p := gemm.Product{Out: out, A: a, B: b, Alpha: c.alpha, Beta: c.beta}
	var add []float64
	if c.beta != 0 {
		d := kerneltest.New(t, c.out, c.la, shape(c.m, c.n), numbers(r, c.out, max(1, count*c.m*c.n)))
		if c.addRow {
			d.Strides = make([]int64, len(d.Shape))
			d.Strides[len(d.Shape)-1] = 1
			if c.la == kerneltest.Reversed || c.la == kerneltest.Transposed {
				d.Strides[len(d.Shape)-1] = 0
			}
		}
		p.Add = &d
		add = kerneltest.Values(d)
	}
	require.NoError(t, gemm.Gemm(p))
	va, vb, vc := kerneltest.Values(a), kerneltest.Values(b), kerneltest.Values(out)
	bad := 0
	for i := range int64(len(vc)) {
		x, row, col := i/(c.m*c.n), i/c.n%c.m, i%c.n
		sum, magnitude := 0.0, 0.0
		for k := range c.k {
			v := va[x*c.m*c.k+row*c.k+k] * vb[x*c.k*c.n+k*c.n+col]
			sum += v
			magnitude += math.Abs(v)
		}
		want := c.alpha * sum
		magnitude *= math.Abs(c.alpha)
		if add != nil {
			want += c.beta * add[i]
			magnitude += math.Abs(c.beta * add[i])
		}
		if !(math.Abs(vc[i]-want) <= gemmLimit(c, magnitude, want)) {
			assert.InDelta(t, want, vc[i], gemmLimit(c, magnitude, want), "element %d,%d,%d of %v", x, row, col, c)
			if bad++; bad == 3 {
				t.FailNow()
			}
		}
	}
}

func TestGemm(t *testing.T) {
	sizes := []struct{ m, n, k int64 }{
		{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {1, 17, 5}, {17, 1, 5}, {5, 3, 300}, {6, 16, 256}, {7, 33, 257},
		{13, 15, 16}, {31, 64, 3}, {85, 70, 40}, {170, 65, 515}, {4, 37, 1031}, {200, 150, 33}, {70, 75, 0},
	}
	types := []struct{ a, b, out dtype.Type }{
		{dtype.Float32, dtype.Float32, dtype.Float32},
		{dtype.Float16, dtype.Float16, dtype.Float16},
		{dtype.BFloat16, dtype.BFloat16, dtype.BFloat16},
		{dtype.BFloat16, dtype.BFloat16, dtype.Float32},
		{dtype.BFloat16, dtype.BFloat16, dtype.Float16},
		{dtype.Int8, dtype.Uint8, dtype.Int32},
		{dtype.Float32, dtype.Float16, dtype.Float32},
		{dtype.Float64, dtype.Float64, dtype.Float64},
		{dtype.Int8, dtype.Int8, dtype.Int32},
		{dtype.Uint8, dtype.Int8, dtype.Int32},
		{dtype.Int16, dtype.Int16, dtype.Int32},
		{dtype.Int32, dtype.Int32, dtype.Int32},
		{dtype.Int64, dtype.Int32, dtype.Int64},
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range sizes {
			for _, d := range types {
				for i, l := range kerneltest.Layouts {
					lb, lc := kerneltest.Layouts[(i+int(s.m))%4], kerneltest.Layouts[(i*3+int(s.n))%4]
					gemmCase{m: s.m, n: s.n, k: s.k, a: d.a, b: d.b, out: d.out, la: l, lb: lb, lc: lc, alpha: 1}.check(t, r)
				}
				gemmCase{m: s.m, n: s.n, k: s.k, a: d.a, b: d.b, out: d.out, alpha: -2, beta: 3}.check(t, r)
				gemmCase{m: s.m, n: s.n, k: s.k, a: d.a, b: d.b, out: d.out, alpha: 1, beta: 1, addRow: true}.check(t, r)
			}
		}
	})
}

func TestGemmBatch(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, batch := range [][]int64{{0}, {1}, {3}, {2, 3}, {2, 1, 2, 1, 2, 2}} {
			for _, l := range kerneltest.Layouts {
				gemmCase{batch: batch, m: 5, n: 7, k: 9, a: dtype.Float32, b: dtype.BFloat16, out: dtype.Float32, la: l, lc: l, alpha: 1, beta: 1}.check(t, r)
				gemmCase{batch: batch, m: 20, n: 17, k: 3, a: dtype.Float32, b: dtype.Float32, out: dtype.Float32, lb: l, alpha: 1}.check(t, r)
			}
			// All matrices share one B: with contiguous operands the batch is folded into the rows.
			gemmCase{batch: batch, m: 5, n: 30, k: 9, a: dtype.Float32, b: dtype.Float32, out: dtype.Float32, lb: kerneltest.Broadcast, alpha: 1, beta: 2}.check(t, r)
			gemmCase{batch: batch, m: 5, n: 30, k: 9, a: dtype.Float32, b: dtype.Float32, out: dtype.Float32, la: kerneltest.Broadcast, alpha: 1}.check(t, r)
		}
	})
}

// TestGemmIsReproducible checks that a product does not depend on the layout or on the code path
// for its size: rows computed alone, from transposed memory or as part of a large product have
// the same bits.
func TestGemmIsReproducible(t *testing.T) {
	const m, n, k = 700, 300, 1203
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			r := rand.New(rand.NewPCG(5, 6))
			av, bv := numbers(r, d, m*k), numbers(r, d, k*n)
			whole := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{m, n}, nil)
			a := kerneltest.New(t, d, kerneltest.Contiguous, []int64{m, k}, av)
			b := kerneltest.New(t, d, kerneltest.Contiguous, []int64{k, n}, bv)
			transposed := kerneltest.New(t, d, kerneltest.Transposed, []int64{k, n}, bv)
			require.NoError(t, gemm.Gemm(gemm.Product{Out: whole, A: a, B: b, Alpha: 1}))
			want := kerneltest.Values(whole)
			for _, l := range kerneltest.Layouts {
				part := kerneltest.New(t, dtype.Float32, l, []int64{m, n}, nil)
				require.NoError(t, gemm.Gemm(gemm.Product{
					Out: part, Alpha: 1,
					A: kerneltest.New(t, d, l, []int64{m, k}, av), B: kerneltest.New(t, d, l, []int64{k, n}, bv),
				}))
				require.Equal(t, want, kerneltest.Values(part), "%v %v", d, l)
			}
			for _, rows := range []int64{100, 20, 8, 4, 3, 2, 1} {
				for _, b := range []kernel.View{b, transposed} {
					part := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{rows, n}, nil)
					a.Shape = []int64{rows, k}
					require.NoError(t, gemm.Gemm(gemm.Product{Out: part, A: a, B: b, Alpha: 1}))
					require.Equal(t, want[:rows*n], kerneltest.Values(part), "%v, %d rows", d, rows)
				}
			}
		}
	})
}

// TestGemmOfFewRows checks that rows alone, for which B is not packed, have the bits that they have among
// others, where vectors of columns and of elements along K are partial.
func TestGemmOfFewRows(t *testing.T) {
	const most = 9
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			for _, l := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
				for i, n := range []int64{1, 7, 8, 9, 16, 23, 33, 64, 71, 515} {
					for _, k := range []int64{
						[]int64{1, 15, 16, 17, 31, 33, 63, 64, 257, 4111}[(i*7+3)%10],
						[]int64{256, 512, 600}[i%3], // whole blocks
					} {
						av, bv := numbers(r, d, most*k), numbers(r, d, k*n)
						for j := range av {
							if i%2 == 0 && d != dtype.Float16 {
								av[j] *= 0x1p-130 // some products and numbers are subnormal, which some units take for zero
							}
						}
						a := kerneltest.New(t, d, kerneltest.Contiguous, []int64{most, k}, av)
						b := kerneltest.New(t, d, l, []int64{k, n}, bv)
						product := func(rows int64) []float64 {
							out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{rows, n}, nil)
							// With a batch of one, a long K is not split in parts.
							batch := func(v kernel.View, m, n int64) kernel.View {
								v.Shape, v.Strides = []int64{1, m, n}, append([]int64{0}, v.Strides...)
								return v
							}
							require.NoError(t, gemm.Gemm(gemm.Product{Out: batch(out, rows, n), A: batch(a, rows, k), B: batch(b, k, n), Alpha: 1}))
							return kerneltest.Values(out)
						}
						want := product(most)
						for rows := range int64(5) {
							require.Equal(t, want[:rows*n], product(rows), "%v %v, %d rows of %d by %d", d, l, rows, k, n)
						}
					}
				}
			}
		}
	})
}

// TestGemmExtremes checks products of infinities, of what is not a number and of the largest numbers.
func TestGemmExtremes(t *testing.T) {
	const m, n, k = 70, 75, 300
	inf := math.Inf(1)
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		av, bv := numbers(r, dtype.Float32, m*k), numbers(r, dtype.Float32, k*n)
		av[3*k+5], av[3*k+280], av[20*k+7], av[31*k], av[64*k+299] = inf, inf, math.NaN(), math.MaxFloat32, -inf
		bv[9*n+4], bv[270*n+74], bv[5*n+8] = -inf, inf, 0
		for j := range n {
			bv[j] = 0x1p-3 * float64(j%5) // some products of the infinities and the largest number
		}
		a := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{m, k}, av)
		add := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{m, n}, numbers(r, dtype.Float32, m*n))
		for _, l := range kerneltest.Layouts {
			for _, alpha := range []float64{1, 0.5} {
				out := kerneltest.New(t, dtype.Float32, l, []int64{m, n}, nil)
				p := gemm.Product{Out: out, A: a, B: kerneltest.New(t, dtype.Float32, l, []int64{k, n}, bv), Alpha: alpha}
				if alpha != 1 {
					p.Add, p.Beta = &add, 1
				}
				require.NoError(t, gemm.Gemm(p))
				added, left, right := kerneltest.Values(add), kerneltest.Values(a), kerneltest.Values(p.B)
				for i, got := range kerneltest.Values(out) {
					row, col := int64(i)/n, int64(i)%n
					sum, magnitude := 0.0, 0.0
					for c := range int64(k) {
						v := left[row*k+c] * right[c*n+col]
						sum, magnitude = sum+v, magnitude+math.Abs(v)
					}
					want := alpha * sum
					if p.Add != nil {
						want += added[i]
					}
					if math.IsNaN(want) || math.IsInf(want, 0) {
						require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "%v, row %d, column %d", l, row, col)
					} else {
						require.InDelta(t, want, got, 9*0x1p-24*(magnitude+1), "%v, row %d, column %d", l, row, col)
					}
				}
			}
		}
	})
}

// TestGemmRepeatsRow checks a B whose rows are one row in memory.
func TestGemmRepeatsRow(t *testing.T) {
	const n, k = 70, 300
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		row := numbers(r, dtype.Float32, n)
		b := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{k, n}, slices.Repeat(row, k))
		one := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{k, n}, slices.Concat(row, make([]float64, (k-1)*n)))
		one.Strides = []int64{0, 1}
		for _, m := range []int64{1, 4, 20, 300} {
			a := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{m, k}, numbers(r, dtype.Float32, m*k))
			var got [2][]float64
			for i, b := range []kernel.View{b, one} {
				out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{m, n}, nil)
				require.NoError(t, gemm.Gemm(gemm.Product{Out: out, A: a, B: b, Alpha: 1}))
				got[i] = kerneltest.Values(out)
			}
			require.Equal(t, got[0], got[1], "%d rows", m)
		}
	})
}

// TestGemmThreads checks that the bits do not depend on the number of threads, which chooses the tiles.
func TestGemmThreads(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, s := range []struct{ batch, m, n, k int64 }{{1, 515, 700, 600}, {1, 128, 128, 128}, {3, 65, 130, 300}, {1, 3, 1100, 520}, {1, 1100, 5, 40}} {
			for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8} {
				sum := map[bool]dtype.Type{false: dtype.Float32, true: dtype.Int32}[d == dtype.Int8]
				a := kerneltest.New(t, d, kerneltest.Contiguous, []int64{s.batch, s.m, s.k}, numbers(r, d, s.batch*s.m*s.k))
				b := kerneltest.New(t, d, kerneltest.Transposed, []int64{s.batch, s.k, s.n}, numbers(r, d, s.batch*s.k*s.n))
				var want []float64
				for _, threads := range []int{1, 2, 5, 16} {
					out := kerneltest.New(t, sum, kerneltest.Contiguous, []int64{s.batch, s.m, s.n}, nil)
					before := runtime.GOMAXPROCS(threads)
					err := gemm.Gemm(gemm.Product{Out: out, A: a, B: b, Alpha: 1})
					runtime.GOMAXPROCS(before)
					require.NoError(t, err)
					if want == nil {
						want = kerneltest.Values(out)
					}
					require.Equal(t, want, kerneltest.Values(out), "%v %v, %d threads", d, s, threads)
				}
			}
		}
	})
}

// TestGemmLongSums checks products with few results and a long K, which are summed in parts.
func TestGemmLongSums(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for i, k := range []int64{4096, 5001, 8192, 40001} {
			for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
				l := kerneltest.Layouts[i%4]
				gemmCase{m: 7, n: 33, k: k, a: d, b: d, out: d, la: l, lb: kerneltest.Layouts[(i+1)%4], lc: l, alpha: 1}.check(t, r)
			}
		}
	})
	view := func(shape ...int64) kernel.View {
		return kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, shape, nil)
	}
	require.ErrorContains(t, gemm.Gemm(gemm.Product{Out: view(2, 2), A: view(2, 5000), B: view(5001, 2), Alpha: 1}), "shapes")
}

func TestGemmSumsBatch(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, s := range []struct{ batch, m, n, k int64 }{{0, 2, 3, 4}, {1, 2, 3, 4}, {3, 5, 7, 0}, {3, 17, 20, 33}, {40, 9, 40, 16}, {20, 9, 40, 33}, {3, 30, 70, 300}} {
			for _, l := range kerneltest.Layouts {
				for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
					a := kerneltest.New(t, d, l, []int64{s.batch, s.m, s.k}, numbers(r, dtype.Int8, max(1, s.batch*s.m*s.k)))
					b := kerneltest.New(t, dtype.BFloat16, l, []int64{s.batch, s.k, s.n}, numbers(r, dtype.Int8, max(1, s.batch*s.k*s.n)))
					out := kerneltest.New(t, dtype.Float32, l, []int64{s.m, s.n}, nil)
					require.NoError(t, gemm.Gemm(gemm.Product{Out: out, A: a, B: b, Alpha: 1, Sum: true}))
					va, vb, want := kerneltest.Values(a), kerneltest.Values(b), make([]float64, s.m*s.n)
					for x := range s.batch {
						for i := range s.m {
							for j := range s.n {
								for k := range s.k {
									want[i*s.n+j] += va[(x*s.m+i)*s.k+k] * vb[(x*s.k+k)*s.n+j]
								}
							}
						}
					}
					require.Equal(t, want, kerneltest.Values(out), "%v %v %v", d, s, l)
				}
			}
		}
	})
}

func TestGemmAddInPlace(t *testing.T) {
	a := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 2}, []float64{1, 2, 3, 4})
	c := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 2}, []float64{10, 20, 30, 40})
	require.NoError(t, gemm.Gemm(gemm.Product{Out: c, A: a, B: a, Add: &c, Alpha: 2, Beta: 0.5}))
	require.Equal(t, []float64{19, 30, 45, 64}, kerneltest.Values(c))
}

func TestGemmRefuses(t *testing.T) {
	view := func(d dtype.Type, shape ...int64) kernel.View {
		return kerneltest.New(t, d, kerneltest.Contiguous, shape, nil)
	}
	f := dtype.Float32
	for _, c := range []struct {
		name string
		p    gemm.Product
		text string
	}{
		{"rank", gemm.Product{Out: view(f, 2), A: view(f, 2), B: view(f, 2)}, "ranks"},
		{"ranks differ", gemm.Product{Out: view(f, 2, 2), A: view(f, 1, 2, 2), B: view(f, 2, 2)}, "ranks"},
		{"inner", gemm.Product{Out: view(f, 2, 2), A: view(f, 2, 3), B: view(f, 2, 2)}, "shapes"},
		{"batch", gemm.Product{Out: view(f, 3, 2, 2), A: view(f, 2, 2, 2), B: view(f, 3, 2, 2)}, "shapes"},
		{"sum of nothing", gemm.Product{Out: view(f, 2, 2), A: view(f, 2, 2), B: view(f, 2, 2), Sum: true}, "ranks"},
		{"type", gemm.Product{Out: view(f, 2, 2), A: view(dtype.Int8, 2, 2), B: view(f, 2, 2)}, "no product"},
		{"bool", gemm.Product{Out: view(dtype.Bool, 2, 2), A: view(dtype.Bool, 2, 2), B: view(dtype.Bool, 2, 2)}, "no product"},
	} {
		t.Run(c.name, func(t *testing.T) { require.ErrorContains(t, gemm.Gemm(c.p), c.text) })
	}
}

func FuzzGemm(f *testing.F) {
	f.Add(uint8(3), uint8(4), uint16(5), uint8(0), uint8(0), uint64(1))
	f.Add(uint8(40), uint8(1), uint16(300), uint8(7), uint8(27), uint64(2))
	types := []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}
	f.Fuzz(func(t *testing.T, m, n uint8, k uint16, kinds, layouts uint8, seed uint64) {
		pick := func(i uint8) dtype.Type { return types[int(i)%3] }
		lay := func(i uint8) kerneltest.Layout { return kerneltest.Layouts[i%4] }
		gemmCase{
			m: int64(m), n: int64(n), k: int64(k % 600), alpha: 1,
			a: pick(kinds), b: pick(kinds / 3), out: pick(kinds / 9),
			la: lay(layouts), lb: lay(layouts / 4), lc: lay(layouts / 16),
		}.check(t, rand.New(rand.NewPCG(seed, 0)))
	})
}
