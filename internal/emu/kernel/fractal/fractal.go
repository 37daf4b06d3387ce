package fractal

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra
#include "nz.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Rows is the number of rows of a tile.
const Rows = gemm.NZRows

// Layout describes a matrix in FRACTAL_NZ storage: cut into strips of C0 columns, each strip
// stored row by row, rows padded with zeros to a multiple of 16 and columns to one of C0.
type Layout struct{ Rows, Cols, C0 int64 }

// Len returns the number of elements of the storage, padding included.
func (z Layout) Len() int64 { return roundUp(z.Rows, Rows) * roundUp(z.Cols, z.C0) }

// Index returns the index of element (r, c) in the storage.
func (z Layout) Index(r, c int64) int64 {
	return c/z.C0*roundUp(z.Rows, Rows)*z.C0 + r*z.C0 + c%z.C0
}

// At returns the row and column of the element at index i of the storage. ok is false for padding.
func (z Layout) At(i int64) (r, c int64, ok bool) {
	strip := roundUp(z.Rows, Rows) * z.C0
	r, c = i%strip/z.C0, i/strip*z.C0+i%z.C0
	return r, c, r < z.Rows && c < z.Cols
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// Pack writes the matrices of src, [batch…, rows, cols], to dst in FRACTAL_NZ storage, one
// after the other. An element may have 4 bits when rows are contiguous.
func Pack(dst unsafe.Pointer, c0 int64, src kernel.View) error {
	return eachMatrix(dst, c0, src, fillTiles)
}

// Unpack is the inverse of Pack. It does not read the padding.
func Unpack(dst kernel.View, src unsafe.Pointer, c0 int64) error {
	return eachMatrix(src, c0, dst, func(x *nzMove) {
		x.tilesInParallel(func(lo, hi C.int64_t) { C.nz_read((*C.struct_nz)(x), lo, hi) })
	})
}

// PackSlice joins columns [start, end) of the rows of src, [ranks, total], takes the first
// elements that fill the shape [batch…, rows, cols], and writes those matrices to dst in
// FRACTAL_NZ storage: what a copy of the slice followed by Pack does, in half the traffic.
// src must be contiguous.
func PackSlice(dst unsafe.Pointer, c0 int64, shape []int64, src kernel.View, start, end int64) error {
	if len(src.Shape) != 2 || !src.Contiguous() || start < 0 || start > end || end > src.Shape[1] {
		return fmt.Errorf("kernel: columns %d to %d of %v strides %v: want a contiguous matrix and a range inside it", start, end, src.Shape, src.Strides)
	}
	joined := kernel.View{DType: src.DType, Shape: shape, Strides: rowMajor(shape)}
	if need, have := joined.Len(), src.Shape[0]*(end-start); need > have {
		return fmt.Errorf("kernel: columns %d to %d of %v hold %d elements, %v needs %d", start, end, src.Shape, have, shape, need)
	}
	joined.Data = unsafe.Add(src.Data, start*int64(src.DType.Bits())/8)
	perByte := int64(1)
	if src.DType == dtype.Int4 {
		perByte = 2
		if start%2 != 0 || end%2 != 0 || src.Shape[1]%2 != 0 {
			return fmt.Errorf("kernel: columns %d to %d of int4 %v do not start at whole bytes", start, end, src.Shape)
		}
	}
	return eachMatrix(dst, c0, joined, func(x *nzMove) {
		x.run, x.jump = C.int64_t((end-start)/perByte), C.int64_t(src.Shape[1]/perByte)
		fillTiles(x)
	})
}

func rowMajor(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// nzMove is the move of one matrix.
type nzMove C.struct_nz

func fillTiles(x *nzMove) {
	x.tilesInParallel(func(lo, hi C.int64_t) { C.nz_fill((*C.struct_nz)(x), lo, hi) })
}

// tilesInParallel divides the rows of tiles among threads, with at least 64 KiB per thread.
func (x *nzMove) tilesInParallel(f func(lo, hi C.int64_t)) {
	grain := 1 + (64<<10)/max(1, int64(Rows*x.cols*x.size))
	thread.Parallel((int64(x.rows)+Rows-1)/Rows, grain, func(lo, hi int64) { f(C.int64_t(lo), C.int64_t(hi)) })
}

// PastCaches is the storage size in bytes from which writes bypass the caches.
const PastCaches = 16 << 20

// eachMatrix calls move for every matrix of v. Their storage is contiguous in the same order.
func eachMatrix(storage unsafe.Pointer, c0 int64, v kernel.View, move func(*nzMove)) error {
	n := len(v.Shape) - 2
	if n < 0 {
		return fmt.Errorf("kernel: FRACTAL_NZ needs matrices, not %v", v.Shape)
	}
	rows, cols, rowStride, colStride := v.Shape[n], v.Shape[n+1], v.Strides[n], v.Strides[n+1]
	size, perByte := int64(v.DType.Size()), int64(1)
	if v.DType == dtype.Int4 {
		size, perByte = 1, 2
		whole := func(s int64) bool { return s%2 == 0 }
		if !whole(cols) || !whole(c0) || colStride != 1 || rows > 1 && !whole(rowStride) || slices.ContainsFunc(v.Strides[:n], func(s int64) bool { return !whole(s) }) {
			return fmt.Errorf("kernel: int4 %v strides %v: rows must be contiguous and start at whole bytes", v.Shape, v.Strides)
		}
	}
	if size == 0 || c0 <= 0 {
		return fmt.Errorf("kernel: no FRACTAL_NZ storage of %v with tiles of %d columns", v.DType, c0)
	}
	if v.Len() == 0 {
		return nil
	}
	length := Layout{rows, cols, c0}.Len() / perByte * size
	stream := C.int32_t(0)
	if v.Len()/(rows*cols)*length >= PastCaches {
		stream = 1
	}
	at := make([]int64, n)
	for i := int64(0); ; i++ {
		origin := int64(0)
		for d, x := range at {
			origin += x * v.Strides[d]
		}
		move(&nzMove{
			nd: (*C.char)(v.Data), tiles: (*C.char)(unsafe.Add(storage, i*length)),
			size: C.int64_t(size), rows: C.int64_t(rows), cols: C.int64_t(cols / perByte), c0: C.int64_t(c0 / perByte),
			stream: stream, origin: C.int64_t(origin / perByte), row_stride: C.int64_t(rowStride / perByte), col_stride: C.int64_t(colStride),
		})
		d := n - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < v.Shape[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return nil
		}
	}
}
