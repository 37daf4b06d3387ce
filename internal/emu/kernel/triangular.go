package kernel

/*
#include "kernel.h"
#include "triangular.h"

static void solve_columns(const struct triangular *t, int64_t lo, int64_t hi) { kernels->triangular_solve(t, lo, hi); }
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Triangular says which triangle of a matrix is used and how.
type Triangular struct {
	Upper     bool // the upper triangle, else the lower one
	Transpose bool // use the transposed matrix
	Unit      bool // the diagonal is taken as ones and not read
}

// SolveTriangular solves a·x = b for batches of matrices. a is [batch…, n, n]; b and x are
// [batch…, n, m]. The batch dimensions are equal and may have stride 0 in a and b. All views are
// float32 or all are float64. The other triangle of a is not read; x may be b.
func SolveTriangular(x, a, b View, how Triangular) error {
	rank := len(x.Shape)
	if rank < 2 || !slices.Equal(x.Shape, b.Shape) || len(a.Shape) != rank || !slices.Equal(a.Shape[:rank-2], x.Shape[:rank-2]) ||
		a.Shape[rank-2] != a.Shape[rank-1] || a.Shape[rank-1] != x.Shape[rank-2] {
		return fmt.Errorf("kernel: cannot solve %v for %v into %v", a.Shape, b.Shape, x.Shape)
	}
	if x.DType != a.DType || x.DType != b.DType || x.DType != dtype.Float32 && x.DType != dtype.Float64 {
		return fmt.Errorf("kernel: cannot solve %v for %v into %v", a.DType, b.DType, x.DType)
	}
	if x.Len() == 0 {
		return nil
	}
	c := newChain(x)
	result := x
	if x.Strides[rank-1] != 1 && x.Shape[rank-1] > 1 {
		result = c.temp(x.Shape)
	}
	c.set(result, Identity, nil, Of(b))
	if how.Transpose {
		a = a.transposed()
	}
	if how.Upper != how.Transpose { // an upper system in reverse order is a lower system
		a = a.reversed(rank - 2).reversed(rank - 1)
		reverse := result.reversed(rank - 2)
		c.substitute(reverse, a, how.Unit)
	} else {
		c.substitute(result, a, how.Unit)
	}
	if result.Data != x.Data {
		c.set(x, Identity, nil, Of(result))
	}
	return c.end()
}

// transposed exchanges the last two dimensions.
func (v View) transposed() View {
	n := len(v.Shape)
	v.Shape, v.Strides = slices.Clone(v.Shape), slices.Clone(v.Strides)
	v.Shape[n-2], v.Shape[n-1] = v.Shape[n-1], v.Shape[n-2]
	v.Strides[n-2], v.Strides[n-1] = v.Strides[n-1], v.Strides[n-2]
	return v
}

// substitute solves lower triangular systems in place.
func (c *chain) substitute(x, l View, unit bool) {
	if c.err != nil {
		return
	}
	n := len(x.Shape)
	rows, columns := x.Shape[n-2], x.Shape[n-1]
	const tile = 64 // columns per work item
	across := (columns + tile - 1) / tile
	work := max(rows*rows*tile, 1)
	Parallel(View{Shape: x.Shape[:n-2]}.Len()*across, max(1, 1<<17/work), func(lo, hi int64) {
		for ; lo < hi; lo++ {
			t := C.struct_triangular{
				l: (*C.char)(l.matrix(lo / across)), x: (*C.char)(x.matrix(lo / across)),
				l_row: C.int64_t(l.Strides[n-2]), l_col: C.int64_t(l.Strides[n-1]), x_row: C.int64_t(x.Strides[n-2]),
				rows: C.int64_t(rows), columns: C.int64_t(columns),
			}
			if x.DType == dtype.Float64 {
				t.wide = 1
			}
			if unit {
				t.unit = 1
			}
			from := lo % across * tile
			C.solve_columns(&t, C.int64_t(from), C.int64_t(min(from+tile, columns)))
		}
	})
}

// matrix returns the address of the i-th matrix of a batch.
func (v View) matrix(i int64) unsafe.Pointer {
	at := int64(0)
	for d := len(v.Shape) - 3; d >= 0; d-- {
		at += i % v.Shape[d] * v.Strides[d]
		i /= v.Shape[d]
	}
	return unsafe.Add(v.Data, at*int64(v.DType.Size()))
}
