package kernel

/*
#include "kernel.h"
*/
import "C"

// NZRows is the number of rows of a FRACTAL_NZ tile.
const NZRows = 16

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// nz replaces the strides of B by the axes of its FRACTAL_NZ storage.
func (p Product) nz(b *C.struct_gemm_matrix) {
	shape, strides := p.B.Shape, p.B.Strides
	rank := len(shape) - 2
	rows, cols := shape[rank], shape[rank+1]
	swapped := strides[rank] == 1 && strides[rank+1] != 1
	if swapped {
		rows, cols = cols, rows
	}
	padded := roundUp(rows, NZRows)
	row := plain(p.NZ)
	col := C.struct_gemm_axis{stride: 1, tile: C.int64_t(p.NZ), jump: C.int64_t(padded * p.NZ)}
	b.row, b.col = row, col
	if swapped {
		b.row, b.col = col, row
	}
	// A batch stride is a multiple of the logical matrix; in storage matrices are padded.
	if area := rows * cols; area > 0 {
		for i := range rank {
			b.batch_stride[i] = b.batch_stride[i] / C.int64_t(area) * C.int64_t(padded*roundUp(cols, p.NZ))
		}
	}
}
