package op

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
)

// IsNZ reports whether f is FRACTAL_NZ, either with the tile width of the element type or with a
// fixed one.
func IsNZ(f dtype.Format) bool {
	switch f {
	case dtype.FractalNZ, dtype.FractalNZC016, dtype.FractalNZC032, dtype.FractalNZC02, dtype.FractalNZC04, dtype.FractalNZC08:
		return true
	}
	return false
}

// DefaultC0 returns the default tile width: the number of elements in 32 bytes. It is 0 for a type
// whose elements have no size.
func DefaultC0(t dtype.Type) int64 {
	if t.Bits() == 0 {
		return 0
	}
	return 256 / int64(t.Bits())
}

// NZColumns returns C0, the tile width of a tensor in FRACTAL_NZ storage. The storage shape
// decides, otherwise the format, otherwise the element type. The result is 0 for other formats.
func (t *Tensor) NZColumns() int64 {
	if !IsNZ(t.Format) {
		return 0
	}
	if n := len(t.Storage); n == t.Rank()+2 {
		return t.Storage[n-1]
	}
	switch t.Format {
	case dtype.FractalNZC02:
		return 2
	case dtype.FractalNZC04:
		return 4
	case dtype.FractalNZC08:
		return 8
	case dtype.FractalNZC016:
		return 16
	case dtype.FractalNZC032:
		return 32
	}
	return DefaultC0(t.DType)
}

// Swapped reports whether the strides of the last two dimensions mean that the matrix in memory is
// the transpose of the view. The result is false for a matrix of one element.
func (t *Tensor) Swapped() bool {
	n := t.Rank()
	return n >= 2 && t.Strides[n-2] == 1 && t.Strides[n-1] == t.Shape[n-2] && (t.Shape[n-2] != 1 || t.Shape[n-1] != 1)
}

// NZShape returns the FRACTAL_NZ storage shape of a view, [batch…, C1, R1, 16, C0]. With swapped,
// memory holds the transpose of the view.
func NZShape(shape []int64, swapped bool, c0 int64) []int64 {
	n := len(shape)
	rows, cols := shape[n-2], shape[n-1]
	if swapped {
		rows, cols = cols, rows
	}
	return append(slices.Clone(shape[:n-2]), (cols+c0-1)/c0, (rows+fractal.Rows-1)/fractal.Rows, fractal.Rows, c0)
}

// CheckNZ refuses a FRACTAL_NZ tensor whose view or storage shape is invalid: the view must be
// dense or have its last two dimensions swapped, and the storage must be large enough for it.
func (c *Call) CheckNZ(t *Tensor) {
	if t == nil || !IsPrivate(t.Format) {
		return
	}
	if !IsNZ(t.Format) {
		c.Invalid("%v has a format that is not supported here; use ND or FRACTAL_NZ", t)
		return
	}
	if t.Rank() < 2 {
		c.Invalid("%v must have at least 2 dimensions in FRACTAL_NZ storage", t)
		return
	}
	dense := slices.Equal(t.Strides, ContiguousStrides(t.Shape)) || t.Contiguous()
	if !dense && !t.Swapped() {
		c.Invalid("%v is in FRACTAL_NZ storage: its strides must be dense, or dense with the last two dimensions swapped", t)
		return
	}
	c0 := t.NZColumns()
	if c0 <= 0 {
		c.Invalid("%v is in FRACTAL_NZ storage, whose tiles have no columns: storage shape %s", t, Dims(t.Storage))
		return
	}
	need := NZShape(t.Shape, t.Swapped(), c0)
	if len(t.Storage) == 1 && t.Storage[0] == t.Len() {
		t.Storage = need // the program gave the count without padding; the memory is checked when it is read
	}
	if have := Count(t.Storage); have < Count(need) {
		c.Invalid("%v has a storage shape of %s, %d elements; FRACTAL_NZ needs %s", t, Dims(t.Storage), have, Dims(need))
	}
}

// WeightNZ treats the named tensor as FRACTAL_NZ, whatever its declared format, and checks it. The
// WeightNz operators do so.
func (c *Call) WeightNZ(name string) {
	t := c.Tensor(name)
	if c.Err() != nil {
		return
	}
	c.Rank(t, 2, 6)
	if c.Err() != nil {
		return
	}
	if t.Dim(-1) == 1 || t.Dim(-2) == 1 {
		c.Invalid("%v: neither K nor N of a FRACTAL_NZ weight may be 1; use the operator without WeightNz", t)
	}
	t.Format = dtype.FractalNZ
	c.CheckNZ(t)
}
