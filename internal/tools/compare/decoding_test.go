package compare_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/tools/compare"
)

// weight is the weight of a linear layer as decoding multiplies by it.
type weight struct {
	name     string
	d        dtype.Type
	bits     int64 // of an element
	group    int64 // elements along K that share a scale; 0 for weights without scales
	adjacent bool  // the elements along K are adjacent
}

var weights = []weight{
	{"float32", dtype.Float32, 32, 0, true}, {"bfloat16", dtype.BFloat16, 16, 0, true}, {"float16", dtype.Float16, 16, 0, true},
	{"float32 by columns", dtype.Float32, 32, 0, false}, {"bfloat16 by columns", dtype.BFloat16, 16, 0, false},
	{"int8", dtype.Int8, 8, 14336, true}, {"int8 by columns", dtype.Int8, 8, 14336, false},
	{"int4 groups of 32", dtype.Int4, 4, 32, true}, {"int4 groups of 128", dtype.Int4, 4, 128, true},
	{"int4 groups of 128 by columns", dtype.Int4, 4, 128, false},
}

// BenchmarkDecoding measures products of few rows with a weight of 14336 by 4096 elements, which is larger
// than caches, and threads that only read memory, by turns. A round takes a piece of the weight that no
// round before it has touched for long, and is so short that other work on the machine spares some rounds.
func BenchmarkDecoding(b *testing.B) {
	for _, rows := range []int64{1, 4} {
		for _, w := range weights {
			b.Run(fmt.Sprintf("%d/%s", rows, w.name), func(b *testing.B) { decode(b, rows, w) })
		}
	}
}

const deep, wide, pieces = 14336, 4096, 16

func decode(b *testing.B, rows int64, w weight) {
	size := deep * wide * w.bits / 8
	data := newView(b, dtype.Uint8, kerneltest.Contiguous, []int64{size}, nil).Data
	r := rand.New(rand.NewPCG(1, 2))
	for i := range unsafe.Slice((*uint64)(data), size/8) {
		// The exponents of all floating-point types stay small, and no number is subnormal, which takes Intel's CPUs long.
		unsafe.Slice((*uint64)(data), size/8)[i] = r.Uint64()&0xbf7fbf7fbf7fbf7f | 0x2000200020002000
	}
	run := w.product(b, rows, data)
	best := map[string]time.Duration{}
	measure := func(name string, f func()) {
		begin := time.Now()
		f()
		if d := time.Since(begin); best[name] == 0 || d < best[name] {
			best[name] = d
		}
	}
	for b.Loop() {
		for i := range int64(pieces) {
			measure("ours", func() { run(i) })
			measure("read", func() { compare.Read(unsafe.Add(data, (i+pieces/2)%pieces*size/pieces), size/pieces) })
		}
	}
	rate := func(name string) float64 { return float64(size/pieces) / best[name].Seconds() / 1e9 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate("ours"), "GB/s")
	b.ReportMetric(rate("read"), "read-GB/s")
	b.ReportMetric(rate("ours")/rate("read"), "of-read")
}

// product returns the product of some rows with the i-th piece of the weight at data: of its columns where the
// elements along K are adjacent, else of its rows.
func (w weight) product(b *testing.B, rows int64, data unsafe.Pointer) func(i int64) {
	x := dtype.Float16
	if w.group == 0 {
		x = w.d
	}
	k, n := int64(deep), int64(wide/pieces)
	v := kernel.View{DType: w.d, Strides: []int64{1, k}}
	if !w.adjacent {
		k, n = deep/pieces, wide
		v.Strides = []int64{n, 1}
	}
	v.Shape = []int64{k, n}
	a := newView(b, x, kerneltest.Contiguous, []int64{rows, k}, []float64{0.5, -0.25, 1})
	out := newView(b, x, kerneltest.Contiguous, []int64{rows, n}, nil)
	piece := func(i int64) unsafe.Pointer { return unsafe.Add(data, i*k*n*w.bits/8) }
	if w.group == 0 {
		return func(i int64) {
			v.Data = piece(i)
			require.NoError(b, gemm.Gemm(gemm.Product{Out: out, A: a, B: v, Alpha: 1}))
		}
	}
	group := min(w.group, k)
	q := gemm.QuantWeight{Weight: v, Group: group, Scale: newView(b, x, kerneltest.Contiguous, []int64{k / group, n}, []float64{0.5, 0.25})}
	if w.d == dtype.Int4 {
		q.Weight.DType = dtype.Int8
	}
	return func(i int64) {
		if q.Weight.Data = piece(i); w.d == dtype.Int4 {
			q.Packed = piece(i)
		}
		require.NoError(b, q.Product(out, a, kernel.View{}))
	}
}
