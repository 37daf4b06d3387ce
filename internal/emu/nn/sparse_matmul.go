package nn

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/rt"
)

// sparseProducts multiply by weights of which two of four elements along K are kept.
var sparseProducts = table{"Sparse4to2QuantMatmulWeightNz": sparseMatmul}

// Of each four elements along K two are kept, in their order. The index has two bits for each:
// the place of the first, 0 to 2, and that of the second less one. An index byte is for eight.
const (
	sparseBlock = 64 // elements along K that become the columns of one tile
	sparseKept  = sparseBlock / 2
	sparseBytes = sparseBlock / 8
)

// sparseShapes are the storage shapes of the kept elements and of the index for [n, k].
func sparseShapes(n, k int64) (kept, index []int64) {
	blocks, rows := (k+sparseBlock-1)/sparseBlock, (n+kernel.NZRows-1)/kernel.NZRows
	return []int64{blocks, rows, kernel.NZRows, sparseKept}, []int64{blocks, rows, kernel.NZRows, sparseBytes}
}

// pack4to2 keeps two of four elements; ok is false when more are not zero.
func pack4to2(four []int8) (kept [2]int8, code byte, ok bool) {
	next := 0
	for at, v := range four {
		switch {
		case v == 0:
			continue
		case next == 0 && at < 3:
			code = byte(at)
		case next < 2: // a last element that is alone is the second
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

// transSparse4to2 answers aclnnTransSparse4to2Para(weight, shape, sparseWeight, sparseWeightDims,
// sparseWeightDimsNum, index, indexDims, indexDimsNum) in host memory. The caller releases
// what it gets, with delete[] in C++.
func (l *Library) transSparse4to2(t *rt.Thread, a []uint64) uint64 {
	refuse := func(code int32, format string, args ...any) uint64 {
		return l.fail(t, &Error{Code: code, Text: "aclnnTransSparse4to2Para: " + fmt.Sprintf(format, args...)})
	}
	if slices.Contains(a[:8], 0) {
		return refuse(nullPointer, "weight, shape or an output is null")
	}
	shape, ok := rt.Lookup[*intArray](&l.rt.Handles, a[1])
	if !ok {
		return l.stale(t, "aclIntArray", a[1])
	}
	if len(shape.values) != 2 || slices.Min(shape.values) <= 0 {
		return refuse(invalidParam, "shape %s must be [n,k], not empty", dims(shape.values))
	}
	n, k := shape.values[0], shape.values[1]
	weight := rt.Read[int8](a[0], uint64(n*k))
	keptShape, indexShape := sparseShapes(n, k)
	kept, index := make([]int8, count(keptShape)), make([]byte, count(indexShape))
	rows := keptShape[1] * keptShape[2]
	for i := range n {
		for first := int64(0); first < k; first += 4 {
			var four [4]int8
			copy(four[:], weight[i*k+first:(i+1)*k])
			two, code, ok := pack4to2(four[:])
			if !ok {
				return refuse(invalidParam, "elements %d to %d of row %d are %v; two of four must be zero", first, first+3, i, four)
			}
			tile := first/sparseBlock*rows + i
			copy(kept[tile*sparseKept+first%sparseBlock/2:], two[:])
			index[tile*sparseBytes+first%sparseBlock/8] |= code << (first % 8)
		}
	}
	give(a[2], a[3], a[4], kept, keptShape)
	give(a[5], a[6], a[7], index, indexShape)
	return 0
}

// give hands out memory with the values and with their shape.
func give[T any](values, sizes, rank uint64, v []T, shape []int64) {
	rt.Write(values, inC(v))
	rt.Write(sizes, inC(shape))
	rt.Write(rank, uint64(len(shape)))
}

// inC is a copy in C memory.
func inC[T any](v []T) unsafe.Pointer {
	p := rt.Malloc(len(v) * int(unsafe.Sizeof(*new(T))))
	copy(unsafe.Slice((*T)(p), len(v)), v)
	return p
}

// sparseMatmul multiplies rows of int8 by a weight that TransSparse4to2Para packed.
func sparseMatmul(c *Call) (Run, error) {
	x, weight, index, out := c.Tensor("x"), c.Tensor("sparseWeight"), c.Tensor("index"), c.Tensor("out")
	rowScale, scale, bias := c.Tensor("xScale"), c.Tensor("sparseWeightScale"), c.Optional("biasOptional")
	c.plain(x, index, out, rowScale, scale)
	c.DType(x, dtype.Int8)
	c.SameDType(x, weight)
	c.DType(index, dtype.Uint8)
	c.DType(out, dtype.BFloat16)
	c.DType(rowScale, dtype.Float32)
	c.DType(scale, dtype.Float32)
	for _, t := range []*Tensor{x, weight, out} {
		c.Rank(t, 2, 2)
	}
	if c.err != nil {
		return nil, c.err
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
		c.plain(bias)
		c.DType(bias, dtype.BFloat16)
		c.Shape(bias, []int64{n}, "one for each row of sparseWeight")
	}
	keptShape, indexShape := sparseShapes(n, k)
	c.asStored(weight, keptShape)
	c.asStored(index, indexShape)
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		wide, release := kernel.TemporaryInt8(n, half*2)
		defer release()
		unpack4to2(wide, unsafe.Slice((*int8)(weight.host), count(keptShape)), unsafe.Slice((*byte)(index.host), count(indexShape)))
		wide = wide.Narrow(1, 0, k)
		wide.Shape, wide.Strides = []int64{k, n}, []int64{1, half * 2}
		return kernel.QuantProduct{
			Out: out.View(), A: x.View(), B: wide, Scale: scale.View(), Bias: optionalView(bias), Rows: rowScale.As([]int64{m, 1}, []int64{rowScale.Strides[0], 0}),
		}.Run()
	}, nil
}

// asStored makes the shape of a tensor that TransSparse4to2Para gave that of its storage.
func (c *Call) asStored(t *Tensor, storage []int64) {
	if !t.Contiguous() {
		c.Invalid("%v must be contiguous", t)
	}
	if !slices.Equal(t.Storage, storage) {
		c.Invalid("%v has a storage shape of %s; TransSparse4to2Para gives %s", t, dims(t.Storage), dims(storage))
	}
	t.Shape, t.Strides, t.Format = storage, ContiguousStrides(storage), dtype.ND
}

// unpack4to2 puts the kept elements back among zeros. A place that is named twice has their sum,
// one of which is zero.
func unpack4to2(wide kernel.View, kept []int8, index []byte) {
	n, k := wide.Shape[0], wide.Shape[1]
	rows := (n + kernel.NZRows - 1) / kernel.NZRows * kernel.NZRows
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
