package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// isNz reports whether f is FRACTAL_NZ with the tile of the element type or a fixed one.
func isNz(f dtype.Format) bool {
	switch f {
	case dtype.FractalNZ, dtype.FractalNZC016, dtype.FractalNZC032, dtype.FractalNZC02, dtype.FractalNZC04, dtype.FractalNZC08:
		return true
	}
	return false
}

// defaultC0 is the number of columns of a tile: as many elements as 32 bytes hold.
func defaultC0(t dtype.Type) int64 { return 256 / int64(t.Bits()) }

// nzColumns is C0 of a tensor in FRACTAL_NZ storage: what the storage shape says, else that
// of the format or of the element type. It is 0 in other formats.
func (t *Tensor) nzColumns() int64 {
	if !isNz(t.Format) {
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
	return defaultC0(t.DType)
}

// swapped reports whether the strides of the last two dimensions say that the matrix in
// memory is the transpose of the view. A matrix of one element is not swapped.
func (t *Tensor) swapped() bool {
	n := t.Rank()
	return n >= 2 && t.Strides[n-2] == 1 && t.Strides[n-1] == t.Shape[n-2] && (t.Shape[n-2] != 1 || t.Shape[n-1] != 1)
}

// nzShape is the storage shape of FRACTAL_NZ for a view: [batch…, C1, R1, 16, C0] of the
// matrix as it lies in memory.
func nzShape(shape []int64, swapped bool, c0 int64) []int64 {
	n := len(shape)
	rows, cols := shape[n-2], shape[n-1]
	if swapped {
		rows, cols = cols, rows
	}
	return append(slices.Clone(shape[:n-2]), (cols+c0-1)/c0, (rows+kernel.NZRows-1)/kernel.NZRows, kernel.NZRows, c0)
}

func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// checkNz refuses a FRACTAL_NZ tensor whose view or storage shape makes no sense: the view
// must be dense or swap its last two dimensions, and the storage must hold it.
func (c *Call) checkNz(t *Tensor) {
	if t == nil || !isPrivate(t.Format) {
		return
	}
	if !isNz(t.Format) {
		c.Invalid("%v has a format that is not supported here; use ND or FRACTAL_NZ", t)
		return
	}
	if t.Rank() < 2 {
		c.Invalid("%v must have at least 2 dimensions in FRACTAL_NZ storage", t)
		return
	}
	dense := slices.Equal(t.Strides, ContiguousStrides(t.Shape)) || t.Contiguous()
	if !dense && !t.swapped() {
		c.Invalid("%v is in FRACTAL_NZ storage: its strides must be dense, or dense with the last two dimensions swapped", t)
		return
	}
	need := nzShape(t.Shape, t.swapped(), t.nzColumns())
	if len(t.Storage) == 1 && t.Storage[0] == t.Len() {
		t.Storage = need // programs count what they put in; whether the memory is padded shows when it is read
	}
	if have := count(t.Storage); have < count(need) {
		c.Invalid("%v has a storage shape of %s, %d elements; FRACTAL_NZ needs %s", t, dims(t.Storage), have, dims(need))
	}
}

// weightNz makes the named tensor FRACTAL_NZ whatever format it was given, as the WeightNz
// operators do, and checks it.
func (c *Call) weightNz(name string) {
	t := c.Tensor(name)
	if c.err != nil {
		return
	}
	c.Rank(t, 2, 6)
	if c.err != nil {
		return
	}
	if t.Dim(-1) == 1 || t.Dim(-2) == 1 {
		c.Invalid("%v: neither K nor N of a FRACTAL_NZ weight may be 1; use the operator without WeightNz", t)
	}
	t.Format = dtype.FractalNZ
	c.checkNz(t)
}
