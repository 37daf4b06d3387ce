package matmul

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// sparseProducts lists the products with 2:4 sparse weights: two of every four elements along K
// are kept.
var sparseProducts = op.Table{"Sparse4to2QuantMatmulWeightNz": sparseMatmul}.Selects()

// The kept elements stay in order. The index has two bits for each of them: the position of the
// first, 0 to 2, and the position of the second minus one. One index byte covers eight elements.
const (
	sparseBlock = 64 // elements along K stored as the columns of one tile
	sparseKept  = sparseBlock / 2
	sparseBytes = sparseBlock / 8
)

// sparseShapes returns the storage shapes of the kept elements and of the index for a weight
// [n, k].
func sparseShapes(n, k int64) (kept, index []int64) {
	blocks, rows := (k+sparseBlock-1)/sparseBlock, (n+fractal.Rows-1)/fractal.Rows
	return []int64{blocks, rows, fractal.Rows, sparseKept}, []int64{blocks, rows, fractal.Rows, sparseBytes}
}

// pack4to2 keeps two of four elements. ok is false if more than two are nonzero.
func pack4to2(four []int8) (kept [2]int8, code byte, ok bool) {
	next := 0
	for at, v := range four {
		switch {
		case v == 0:
			continue
		case next == 0 && at < 3:
			code = byte(at)
		case next < 2: // a single element in the last position is stored as the second
			next = 1
			code |= byte(at-1) << 2
		default:
			return kept, 0, false
		}
		kept[next] = v
		next++
	}
	return kept, code, true
}

// sparseMatmul multiplies int8 rows by a weight packed by TransSparse4to2Para.
func sparseMatmul(c *op.Call) (op.Run, error) {
	x, weight, index, out := c.Tensor("x"), c.Tensor("sparseWeight"), c.Tensor("index"), c.Tensor("out")
	rowScale, scale, bias := c.Tensor("xScale"), c.Tensor("sparseWeightScale"), c.Optional("biasOptional")
	c.Plain(x, index, out, rowScale, scale)
	c.DType(x, dtype.Int8)
	c.SameDType(x, weight)
	c.DType(index, dtype.Uint8)
	c.DType(out, dtype.BFloat16)
	c.DType(rowScale, dtype.Float32)
	c.DType(scale, dtype.Float32)
	for _, t := range []*op.Tensor{x, weight, out} {
		c.Rank(t, 2, 2)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	m, k, n := x.Dim(0), x.Dim(1), weight.Dim(0)
	if m == 0 || n == 0 || k == 0 || k > 65535 {
		c.Invalid("%v and %v: no dimension may be 0, nor K exceed 65535", x, weight)
	}
	half := (k + 7) / 8 * 4
	c.Shape(weight, []int64{n, half}, "half of K, rounded up to eight, in each row")
	c.Shape(rowScale, []int64{m}, "one for each row of x")
	c.Shape(scale, []int64{n}, "one for each row of sparseWeight")
	c.Shape(out, []int64{m, n}, "the product of x and the weight")
	if bias != nil {
		c.Plain(bias)
		c.DType(bias, dtype.BFloat16)
		c.Shape(bias, []int64{n}, "one for each row of sparseWeight")
	}
	keptShape, indexShape := sparseShapes(n, k)
	asStored(c, weight, keptShape)
	asStored(c, index, indexShape)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		wide, release := kernel.TemporaryInt8(n, half*2)
		defer release()
		unpack4to2(wide, unsafe.Slice((*int8)(weight.Data), op.Count(keptShape)), unsafe.Slice((*byte)(index.Data), op.Count(indexShape)))
		wide = wide.Narrow(1, 0, k)
		wide.Shape, wide.Strides = []int64{k, n}, []int64{1, half * 2}
		return gemmkernel.QuantProduct{
			Out: out.View(), A: x.View(), B: wide, Scale: scale.View(), Bias: op.OptionalView(bias), Rows: rowScale.As([]int64{m, 1}, []int64{rowScale.Strides[0], 0}),
		}.Run()
	}, nil
}

// asStored gives a tensor from TransSparse4to2Para its storage shape.
func asStored(c *op.Call, t *op.Tensor, storage []int64) {
	c.Dense(t)
	if !slices.Equal(t.Storage, storage) {
		c.Invalid("%v has a storage shape of %s; TransSparse4to2Para gives %s", t, op.Dims(t.Storage), op.Dims(storage))
	}
	t.Shape, t.Strides, t.Format = storage, op.ContiguousStrides(storage), dtype.ND
}

// unpack4to2 restores the zeros between the kept elements. If a position occurs twice, it
// receives the sum, of which one term is zero.
func unpack4to2(wide kernel.View, kept []int8, index []byte) {
	n, k := wide.Shape[0], wide.Shape[1]
	rows := (n + fractal.Rows - 1) / fractal.Rows * fractal.Rows
	values := unsafe.Slice((*int8)(wide.Data), n*k)
	clear(values)
	for i := range n {
		for first := int64(0); first < k; first += 4 {
			tile := first/sparseBlock*rows + i
			two := kept[tile*sparseKept+first%sparseBlock/2:][:2]
			code := int64(index[tile*sparseBytes+first%sparseBlock/8] >> (first % 8))
			at := values[i*k+first:]
			at[code&3] += two[0]
			at[min(code>>2&3, 2)+1] += two[1]
		}
	}
}

// SparseWeight is a weight [n, k] in which two of every four elements are kept.
type SparseWeight struct {
	Kept                  []int8
	Index                 []byte
	KeptShape, IndexShape []int64 // storage shapes
}

// Sparsify packs a weight with at least two zeros in every four elements along k.
func Sparsify(weight []int8, n, k int64) (w SparseWeight, err error) {
	w.KeptShape, w.IndexShape = sparseShapes(n, k)
	w.Kept, w.Index = make([]int8, op.Count(w.KeptShape)), make([]byte, op.Count(w.IndexShape))
	rows := w.KeptShape[1] * w.KeptShape[2]
	for i := range n {
		for first := int64(0); first < k; first += 4 {
			var four [4]int8
			copy(four[:], weight[i*k+first:(i+1)*k])
			two, code, ok := pack4to2(four[:])
			if !ok {
				return w, fmt.Errorf("elements %d to %d of row %d are %v; two of four must be zero", first, first+3, i, four)
			}
			tile := first/sparseBlock*rows + i
			copy(w.Kept[tile*sparseKept+first%sparseBlock/2:], two[:])
			w.Index[tile*sparseBytes+first%sparseBlock/8] |= code << (first % 8)
		}
	}
	return w, nil
}
