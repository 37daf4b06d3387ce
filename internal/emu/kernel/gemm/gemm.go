package gemm

/*
#cgo noescape gemm_run
#cgo nocallback gemm_run
#include "gemm.h"
#include "table.h"

static void gemm_run(const struct gemm *g, int64_t lo, int64_t hi, char *scratch) { gemm_kernels->gemm(g, lo, hi, scratch); }
static int gemm_rows(void) { return gemm_kernels->rows; }
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Product is a batch of matrix products, Out = Alpha·A·B + Beta·Add.
//
// A is [batch…, M, K], B [batch…, K, N], Out and Add [batch…, M, N]; the batch dimensions
// are equal and may have stride 0 in A, B and Add. Out shares no memory with A or B; it may
// be Add.
//
// Element types: float32, float16 and bfloat16 in any combination, summed in float32;
// float64; or int8, uint8, int16, int32 and int64 in any combination, summed so that the
// result has the low bits of the exact one. Every element is the sum over blocks along K of 256
// elements in ascending order, and in a block of floats over runs of 32, whatever the CPU, the strides, the storage and
// the number of threads. Where Out is small and K long, up to 16 parts of K are summed on their own. With
// kernel.SetFast, AVX-512 BF16 and AMX multiply pairs of bfloat16: without runs, in blocks of 512 and 1024, and with
// subnormal numbers as zero; AMX adds the pairs of all blocks to one sum.
type Product struct {
	Out, A, B kernel.View
	Add       *kernel.View // nil for no addend
	Alpha     float64
	Beta      float64

	// Sum adds up the products over a batch of one dimension: A and B are [batch, …], Out and
	// Add are single matrices.
	Sum bool

	// NZ is the number of columns of a tile when B is in FRACTAL_NZ storage, else 0. B's strides
	// then do not address elements: they only determine which of the last two axes are the columns of
	// the storage (the one with stride 1) and how the batch repeats.
	NZ int64

	quant *QuantWeight // its values are those of B, whose elements are int8 or packed int4
}

// Gemm computes a Product. It writes nothing if Out is empty; a sum over K = 0 is 0.
func Gemm(p Product) error {
	if n := p.parts(); n > 1 {
		return p.split(n)
	}
	g, err := p.c()
	if err != nil {
		return err
	}
	tiles := tile(&g, int64(thread.Threads()))
	work := 2 * float64(g.tile_m) * float64(g.tile_n) * float64(max(g.k, 1))
	// Starting a thread pays off from about a quarter of a million operations.
	grain := int64(max(1, float64(1<<18)/work))
	if tiles < 2*grain {
		thread.WithScratch(func(s unsafe.Pointer) { C.gemm_run(&g, 0, C.int64_t(tiles), (*C.char)(s)) })
		return nil
	}
	shared := g // on the heap, where a product that needs no threads does not go
	thread.Parallel(tiles, grain, func(lo, hi int64) {
		thread.WithScratch(func(s unsafe.Pointer) { C.gemm_run(&shared, C.int64_t(lo), C.int64_t(hi), (*C.char)(s)) })
	})
	return nil
}

// parts returns the number of parts along K that are summed on their own, so that a product with
// few results and a long K has work for several threads. It depends only on the operands, as the
// order of additions does.
func (p Product) parts() int64 {
	const small, long, most = 128, 4096, 16
	if len(p.Out.Shape) != 2 || len(p.A.Shape) != 2 || len(p.B.Shape) != 2 || p.Sum || p.Add != nil || p.Alpha != 1 || p.NZ > 0 || p.quant != nil {
		return 1
	}
	if kind, err := p.kind(); err != nil || kind != C.GEMM_F32 || p.A.Shape[0] > small || p.B.Shape[1] > small || p.A.Shape[1] < long {
		return 1
	}
	return min(most, p.A.Shape[1]/(long/4))
}

// split computes the product as the sum of n products of parts of K.
func (p Product) split(n int64) error {
	m, k, cols := p.A.Shape[0], p.A.Shape[1], p.B.Shape[1]
	if k != p.B.Shape[0] || m != p.Out.Shape[0] || cols != p.Out.Shape[1] {
		return fmt.Errorf("kernel: product of %v and %v to %v: shapes do not agree", p.A.Shape, p.B.Shape, p.Out.Shape)
	}
	const block = 512
	part := roundUp(k/n, block) // whole blocks of the kernel
	n = k / part
	sums, release := kernel.TemporaryOf(dtype.Float32, (k+part-1)/part, m, cols)
	defer release()
	a, b := p.A, p.B
	a.Shape, a.Strides = []int64{n, m, part}, []int64{part * a.Strides[1], a.Strides[0], a.Strides[1]}
	b.Shape, b.Strides = []int64{n, part, cols}, []int64{part * b.Strides[0], b.Strides[0], b.Strides[1]}
	if err := Gemm(Product{Out: sums.Narrow(0, 0, n), A: a, B: b, Alpha: 1}); err != nil {
		return err
	}
	if rest := k % part; rest > 0 {
		last := Product{Out: sums.Select(0, n), A: p.A.Narrow(1, k-rest, rest), B: p.B.Narrow(0, k-rest, rest), Alpha: 1}
		if err := Gemm(last); err != nil {
			return err
		}
	}
	return rowwise.Reduce(rowwise.ReduceSum, p.Out, sums, []int{0}, 0)
}

// c checks p and converts it to the kernel's form.
func (p Product) c() (C.struct_gemm, error) {
	g := C.struct_gemm{alpha: C.double(p.Alpha), beta: C.double(p.Beta)}
	outRank, rank := len(p.Out.Shape)-2, len(p.Out.Shape)-2
	if p.Sum {
		rank = 1
	}
	if outRank < 0 || rank > C.GEMM_MAX_BATCH || p.Sum && outRank != 0 || len(p.A.Shape) != rank+2 || len(p.B.Shape) != rank+2 {
		return g, fmt.Errorf("kernel: product of %v and %v to %v: ranks must be equal, 2 to %d, or 3, 3 and 2 for a sum", p.A.Shape, p.B.Shape, p.Out.Shape, 2+C.GEMM_MAX_BATCH)
	}
	m, n, k := p.Out.Shape[outRank], p.Out.Shape[outRank+1], p.A.Shape[rank+1]
	batch := p.A.Shape[:rank]
	shape := func(dims ...int64) []int64 { return slices.Concat(batch, dims) }
	if !slices.Equal(p.A.Shape, shape(m, k)) || !slices.Equal(p.B.Shape, shape(k, n)) ||
		!p.Sum && !slices.Equal(p.Out.Shape, shape(m, n)) || p.Add != nil && !slices.Equal(p.Add.Shape, p.Out.Shape) {
		return g, fmt.Errorf("kernel: product of %v and %v to %v: shapes do not agree", p.A.Shape, p.B.Shape, p.Out.Shape)
	}
	kind, err := p.kind()
	if err != nil {
		return g, err
	}
	g._type = kind
	g.m, g.n, g.k = C.int64_t(m), C.int64_t(n), C.int64_t(k)
	g.a, g.b, g.c = matrix(p.A), matrix(p.B), matrix(p.Out)
	if p.Add != nil {
		g.d = matrix(*p.Add)
	}
	if p.NZ > 0 {
		p.nz(&g.b)
	}
	g.batch_rank = C.int32_t(rank)
	for i, d := range batch {
		g.batch[i] = C.int64_t(d)
	}
	if p.Sum {
		if p.NZ > 0 {
			return g, errors.New("kernel: no sum over a batch in FRACTAL_NZ storage")
		}
		sumBatch(&g)
	}
	if p.quant != nil {
		g.group, g.scale = C.int64_t(p.quant.Group), matrix(p.quant.Scale)
		if p.quant.Offset.Data != nil {
			g.offset = matrix(p.quant.Offset)
		}
		return g, nil
	}
	foldBatch(&g)
	// The kernel is best with contiguous rows of Out and with few rows rather than few columns.
	if c := &g.c; c.col.stride != 1 && c.row.stride == 1 || n < m && n < 16 {
		transpose(&g)
	}
	return g, nil
}

// kind is the computation type.
func (p Product) kind() (C.int32_t, error) {
	types := []dtype.Type{p.A.DType, p.B.DType, p.Out.DType}
	if p.quant != nil {
		types[1] = dtype.Float32 // as which the kernel reads it
	}
	if p.Add != nil {
		types = append(types, p.Add.DType)
	}
	all := func(allowed ...dtype.Type) bool {
		return !slices.ContainsFunc(types, func(t dtype.Type) bool { return !slices.Contains(allowed, t) })
	}
	switch {
	case all(dtype.Float32, dtype.Float16, dtype.BFloat16):
		return C.GEMM_F32, nil
	case all(dtype.Float64):
		return C.GEMM_F64, nil
	case all(dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Int32):
		return C.GEMM_I32, nil
	case all(dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Int32, dtype.Int64):
		return C.GEMM_I64, nil
	}
	return 0, fmt.Errorf("kernel: no product of %v and %v to %v", p.A.DType, p.B.DType, p.Out.DType)
}

func plain(stride int64) C.struct_gemm_axis {
	return C.struct_gemm_axis{stride: C.int64_t(stride), tile: math.MaxInt64}
}

func matrix(v kernel.View) C.struct_gemm_matrix {
	rank := len(v.Shape) - 2
	m := C.struct_gemm_matrix{
		data: (*C.char)(v.Data), dtype: C.int32_t(v.DType),
		row: plain(v.Strides[rank]), col: plain(v.Strides[rank+1]),
	}
	for i, s := range v.Strides[:rank] {
		m.batch_stride[i] = C.int64_t(s * int64(v.DType.Size()))
	}
	return m
}

// sumBatch merges the batch into the inner dimension K.
func sumBatch(g *C.struct_gemm) {
	join := func(x *C.struct_gemm_matrix, axis *C.struct_gemm_axis) {
		size := C.int64_t(dtype.Type(x.dtype).Size())
		*axis = C.struct_gemm_axis{stride: axis.stride, tile: max(g.k, 1), jump: x.batch_stride[0] / size}
	}
	join(&g.a, &g.a.col)
	join(&g.b, &g.b.row)
	g.k *= g.batch[0]
	g.batch_rank = 0
}

// foldBatch merges the innermost batch dimensions into the rows if they share one B and the rows
// of consecutive matrices are evenly spaced, so that B is packed only once.
func foldBatch(g *C.struct_gemm) {
	for g.batch_rank > 0 {
		i := g.batch_rank - 1
		goesOn := func(x *C.struct_gemm_matrix) bool {
			size := C.int64_t(dtype.Type(x.dtype).Size())
			return x.data == nil || x.row.tile == math.MaxInt64 && x.batch_stride[i] == g.m*x.row.stride*size
		}
		if g.batch[i] != 1 && (g.b.batch_stride[i] != 0 || !goesOn(&g.a) || !goesOn(&g.c) || !goesOn(&g.d)) {
			return
		}
		g.m *= g.batch[i]
		g.batch_rank--
	}
}

// transpose computes Outᵀ = Bᵀ·Aᵀ instead.
func transpose(g *C.struct_gemm) {
	g.m, g.n = g.n, g.m
	g.a, g.b = g.b, g.a
	for _, x := range []*C.struct_gemm_matrix{&g.a, &g.b, &g.c, &g.d} {
		x.row, x.col = x.col, x.row
	}
}

// batchOf returns the number of matrices.
func batchOf(g *C.struct_gemm) int64 {
	n := int64(1)
	for _, d := range g.batch[:g.batch_rank] {
		n *= int64(d)
	}
	return n
}

// tile chooses the grid of tiles for so many threads and returns their number.
func tile(g *C.struct_gemm, threads int64) int64 {
	split := func(n, limit, grain int64) int64 {
		parts := max(1, (n+limit-1)/limit)
		return (max((n+parts-1)/parts, 1) + grain - 1) / grain * grain
	}
	m, n, batch := int64(g.m), int64(g.n), batchOf(g)
	rows := int64(C.gemm_rows())
	grainM := (C.GEMM_GRAIN_M + rows - 1) / rows * rows
	limitM, limitN := int64(C.GEMM_TILE_M), int64(C.GEMM_TILE_N)
	if g.group > 0 {
		limitM = 512 // all rows of A of a tile are packed at once
	}
	for {
		tileM, tileN := split(m, limitM, grainM), split(n, limitN, C.GEMM_GRAIN_N)
		count := batch * ((m + tileM - 1) / tileM) * ((n + tileN - 1) / tileN)
		small := tileM <= grainM && tileN <= C.GEMM_GRAIN_N
		// With one tile for each thread the operands are packed the fewest times. Otherwise it takes several, so
		// that no thread waits long for the last one.
		if threads == 1 || count == threads || count >= 2*threads || small {
			g.tile_m, g.tile_n = C.int64_t(tileM), C.int64_t(tileN)
			return count
		}
		if tileM > tileN { // each tile packs its rows and columns
			limitM = tileM / 2
		} else {
			limitN = tileN / 2
		}
	}
}

// nz replaces the strides of B by the axes of its FRACTAL_NZ storage.
func (p Product) nz(b *C.struct_gemm_matrix) {
	shape, strides := p.B.Shape, p.B.Strides
	rank := len(shape) - 2
	rows, cols := shape[rank], shape[rank+1]
	swapped := strides[rank] == 1 && strides[rank+1] == rows && (rows != 1 || cols != 1)
	if swapped {
		rows, cols = cols, rows
	}
	b.row = plain(p.NZ)
	b.col = C.struct_gemm_axis{stride: 1, tile: C.int64_t(p.NZ), jump: C.int64_t(roundUp(rows, NZRows) * p.NZ)}
	if swapped {
		b.row, b.col = b.col, b.row
	}
	// A batch stride is a multiple of the logical matrix; in storage matrices are padded.
	if area := C.int64_t(rows * cols); area > 0 {
		for i := range rank {
			b.batch_stride[i] = b.batch_stride[i] / area * C.int64_t(roundUp(rows, NZRows)*roundUp(cols, p.NZ))
		}
	}
}

// NZRows is the number of rows of a FRACTAL_NZ tile.
const NZRows = 16

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
