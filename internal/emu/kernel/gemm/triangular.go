package gemm

/*
#include "table.h"
#include "triangular.h"

static void solve_columns(const struct triangular *t, int64_t lo, int64_t hi) { gemm_kernels->triangular_solve(t, lo, hi); }
*/
import "C"

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Triangular determines which triangle of a matrix is used and how.
type Triangular struct {
	Upper     bool // the upper triangle, else the lower one
	Transpose bool // use the transposed matrix
	Unit      bool // the diagonal is taken as ones and not read
}

// SolveTriangular solves a·x = b for batches of matrices. a is [batch…, n, n]; b and x are
// [batch…, n, m]. The batch dimensions are equal and may have stride 0 in a and b. All views are
// float32 or all are float64. The other triangle of a is not read; x may be b.
func SolveTriangular(x, a, b kernel.View, how Triangular) error {
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
	c := rowwise.NewChain(x)
	result := x
	if x.Strides[rank-1] != 1 && x.Shape[rank-1] > 1 {
		result = c.Temp(x.Shape)
	}
	c.Set(result, elementwise.Identity, nil, elementwise.Of(b))
	if how.Transpose {
		a = a.Transposed()
	}
	if how.Upper != how.Transpose { // an upper system in reverse order is a lower system
		a = a.Reversed(rank - 2).Reversed(rank - 1)
		reverse := result.Reversed(rank - 2)
		substitute(c, reverse, a, how.Unit)
	} else {
		substitute(c, result, a, how.Unit)
	}
	if result.Data != x.Data {
		c.Set(x, elementwise.Identity, nil, elementwise.Of(result))
	}
	return c.End()
}

// substitute solves lower triangular systems in place.
func substitute(c *rowwise.Chain, x, l kernel.View, unit bool) {
	if c.Err != nil {
		return
	}
	n := len(x.Shape)
	rows, columns := x.Shape[n-2], x.Shape[n-1]
	const tile = 64 // columns per work item
	across := (columns + tile - 1) / tile
	work := max(rows*rows*tile, 1)
	thread.Parallel(kernel.View{Shape: x.Shape[:n-2]}.Len()*across, max(1, 1<<17/work), func(lo, hi int64) {
		for ; lo < hi; lo++ {
			t := C.struct_triangular{
				l: (*C.char)(l.Matrix(lo / across)), x: (*C.char)(x.Matrix(lo / across)),
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
