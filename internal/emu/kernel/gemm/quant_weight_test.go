package gemm_test

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// quantised is a product with a quantised weight.
type quantised struct {
	m, k, n, group int64
	bits           int
	layout         kerneltest.Layout // of the weight
	offset, bias   bool
	factors        dtype.Type // of scales and offsets
	factorLayout   kerneltest.Layout
}

// element returns the element of the weight in row p and column j.
func (q quantised) element(p, j int64) float64 {
	v := (p*7+j*13+p*j)%255 - 127
	if q.bits == 4 {
		v = (p*7+j*13+p*j)%16 - 8
	}
	return float64(v)
}

// weight makes the weight of q, of packed elements if they have four bits.
func (q quantised) weight(t *testing.T) gemm.QuantWeight {
	values := make([]float64, q.k*q.n)
	for i := range values {
		values[i] = q.element(int64(i)/q.n, int64(i)%q.n)
	}
	w := gemm.QuantWeight{Weight: kerneltest.New(t, dtype.Int8, q.layout, []int64{q.k, q.n}, values), Group: q.group}
	if q.bits == 8 {
		return w
	}
	packed := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{q.k * q.n / 2}, nil)
	from, to := unsafe.Slice((*byte)(w.Weight.Data), q.k*q.n), unsafe.Slice((*byte)(packed.Data), q.k*q.n/2)
	for i := range to {
		to[i] = from[2*i]&15 | from[2*i+1]<<4
	}
	w.Packed, w.Weight.Data = packed.Data, nil
	return w
}

func (q quantised) check(t *testing.T) {
	factor := func(base, step float64) kernel.View {
		return kerneltest.New(t, q.factors, q.factorLayout, []int64{(q.k + q.group - 1) / q.group, q.n}, func() (v []float64) {
			for i := range (q.k + q.group - 1) / q.group * q.n {
				v = append(v, base+step*float64(i%5))
			}
			return v
		}())
	}
	w := q.weight(t)
	w.Scale = factor(0.25, 0.125)
	if q.offset {
		w.Offset = factor(-1, 0.5)
	}
	xs := make([]float64, q.m*q.k)
	for i := range xs {
		xs[i] = float64(i%11)/8 - 0.5
	}
	x := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{q.m, q.k}, xs)
	out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{q.m, q.n}, nil)
	bias := kernel.View{}
	if q.bias {
		bias = kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{q.n}, []float64{3})
	}
	require.NoError(t, w.Product(out, x, bias))
	got, scales := kerneltest.Values(out), kerneltest.Values(w.Scale)
	var offsets []float64
	if q.offset {
		offsets = kerneltest.Values(w.Offset)
	}
	for i := range q.m {
		for j := range q.n {
			want, size := 0.0, 0.0
			for p := range q.k {
				at, v := p/q.group*q.n+j, q.element(p, j)
				if q.offset {
					v += offsets[at]
				}
				term := xs[i*q.k+p] * inBFloat16(v*scales[at]) // the type of x, which the matrix unit reads
				want, size = want+term, size+math.Abs(term)
			}
			if q.bias {
				want += 3
			}
			require.InDelta(t, want, got[i*q.n+j], 1e-6*size+1e-6, "row %d, column %d", i, j)
		}
	}
}

// inBFloat16 rounds to the nearest bfloat16.
func inBFloat16(v float64) float64 {
	bits := math.Float32bits(float32(v))
	return float64(math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff))
}

func TestQuantWeight(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
			for _, bits := range []int{4, 8} {
				for _, c := range []quantised{
					{m: 1, k: 256, n: 64, group: 32}, {m: 1, k: 1024, n: 36, group: 128, offset: true}, {m: 2, k: 514, n: 130, group: 64, offset: true},
					{m: 3, k: 300, n: 22, group: 300, bias: true}, {m: 4, k: 640, n: 14, group: 640, offset: true}, {m: 5, k: 96, n: 6, group: 96},
					{m: 8, k: 62, n: 530, group: 64, offset: true}, {m: 1, k: 120, n: 10, group: 24, offset: true}, {m: 9, k: 320, n: 34, group: 32, offset: true},
					{m: 33, k: 290, n: 70, group: 290, bias: true}, {m: 530, k: 34, n: 34, group: 5, offset: true}, {m: 2, k: 2, n: 2, group: 1},
				} {
					c.layout, c.bits, c.factors = layout, bits, dtype.Float16
					t.Run(fmt.Sprintf("%+v", c), c.check)
				}
			}
			for _, c := range []quantised{{m: 1, k: 33, n: 7, group: 33, offset: true}, {m: 2, k: 65, n: 1, group: 32}, {m: 17, k: 9, n: 5, group: 2}, {m: 1, k: 70000, n: 2, group: 1024}} {
				c.layout, c.bits, c.factors = layout, 8, dtype.Float16
				t.Run(fmt.Sprintf("%+v", c), c.check)
			}
		}
		quantised{m: 2, k: 40, n: 12, group: 8, bits: 8, layout: kerneltest.Gapped, offset: true, factors: dtype.Float16}.check(t)
	})
}

// TestQuantWeightFactors: scales and offsets of every type and memory layout.
func TestQuantWeightFactors(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32} {
			for _, factorLayout := range kerneltest.Layouts {
				for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
					for _, c := range []quantised{{m: 1, k: 1088, n: 150, group: 32, bits: 4}, {m: 3, k: 1088, n: 67, group: 96, bits: 8, offset: true}} {
						c.layout, c.factors, c.factorLayout = layout, d, factorLayout
						t.Run(fmt.Sprintf("%+v", c), c.check)
					}
				}
			}
		}
	})
}

// TestQuantWeightOfInfinity checks that an infinite element keeps its sign, whatever is added to those of int4.
func TestQuantWeightOfInfinity(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
			q := quantised{m: 1, k: 96, n: 40, group: 32, bits: 4, layout: layout}
			w := q.weight(t)
			w.Scale = kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{3, q.n}, []float64{1})
			x, out := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{1, q.k}, []float64{1}), kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{1, q.n}, nil)
			require.NoError(t, elementwise.Fill(x.Narrow(1, 41, 1), elementwise.Real(math.Inf(1))))
			require.NoError(t, w.Product(out, x, kernel.View{}))
			for j, got := range kerneltest.Values(out) {
				if v := q.element(41, int64(j)); v != 0 {
					require.True(t, math.IsInf(got, int(v)), "%v: column %d is %g for %g", layout, j, got, v)
				}
			}
		}
	})
}

// TestQuantWeightOfLargeNumbers checks that finite results stay finite although kernels add a bias to int4 elements.
func TestQuantWeightOfLargeNumbers(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
			for _, large := range []float64{0x1p90, -0x1p105, 0x1p124} {
				q := quantised{m: 1, k: 96, n: 40, group: 32, bits: 4, layout: layout}
				w := q.weight(t)
				w.Scale = kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{3, q.n}, []float64{0x1p-30})
				x, out := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{1, q.k}, []float64{0}), kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{1, q.n}, nil)
				require.NoError(t, elementwise.Fill(x.Narrow(1, 41, 1), elementwise.Real(large)))
				require.NoError(t, w.Product(out, x, kernel.View{}))
				for j, got := range kerneltest.Values(out) {
					require.Equal(t, large*q.element(41, int64(j))*0x1p-30, got, "%v: %g in column %d", layout, large, j)
				}
			}
		}
	})
}

// TestQuantWeightIsReproducible checks that results depend neither on the number of threads nor on the other rows.
func TestQuantWeightIsReproducible(t *testing.T) {
	for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed} {
		for _, bits := range []int{4, 8} {
			t.Run(fmt.Sprintf("int%d %v", bits, layout), func(t *testing.T) {
				q := quantised{m: 3, k: 512, n: 1500, group: 64, bits: bits, layout: layout, offset: true}
				w := q.weight(t)
				w.Scale = kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{8, q.n}, []float64{0.3, 0.7, 0.1})
				x := kerneltest.New(t, dtype.BFloat16, kerneltest.Contiguous, []int64{q.m, q.k}, []float64{0.3, -0.7, 0.11, 2.3, 0.9})
				run := func(x kernel.View) []float64 {
					out := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{x.Shape[0], q.n}, nil)
					require.NoError(t, w.Product(out, x, kernel.View{}))
					return kerneltest.Values(out)
				}
				all := run(x)
				for _, n := range []int{1, 2, 7} {
					kerneltest.Threads(t, n)
					require.Equal(t, all, run(x), "%d threads", n)
				}
				for i := range q.m {
					require.Equal(t, all[i*q.n:(i+1)*q.n], run(x.Narrow(0, i, 1)), "row %d", i)
				}
			})
		}
	}
}

func TestQuantWeightRefuses(t *testing.T) {
	w := quantised{m: 1, k: 4, n: 4, group: 4, bits: 8, layout: kerneltest.Contiguous}.weight(t)
	w.Scale = kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{3, 4}, nil)
	x, out := kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{1, 4}, nil), kerneltest.New(t, dtype.Float16, kerneltest.Contiguous, []int64{1, 4}, nil)
	require.Error(t, w.Product(out, x, kernel.View{}), "scales of three groups of four rows")
	w.Group = 0
	require.ErrorContains(t, w.Product(out, x, kernel.View{}), "at least one row")
	w.Weight, w.Group = x, 4
	require.ErrorContains(t, w.Product(out, x, kernel.View{}), "int8")
}
