package optest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// NZ returns a tensor in FRACTAL_NZ storage with the given logical shape. The values are those of
// the storage. With swapped, the storage holds the transpose of the tensor.
func NZ(t testing.TB, d dtype.Type, shape []int64, swapped bool, c0 int64, values ...float64) *op.Tensor {
	t.Helper()
	storage := op.NZShape(shape, swapped, c0)
	x := Tensor(t, d, []int64{op.Count(storage)}, values...)
	x.Shape, x.Strides = shape, op.ContiguousStrides(shape)
	if swapped {
		n := len(shape)
		x.Strides[n-2], x.Strides[n-1] = 1, shape[n-2]
	}
	x.Format, x.Storage = dtype.FractalNZ, storage
	return x
}

// Storage returns the elements of a tensor in the order of its storage.
func Storage(x *op.Tensor) []float64 {
	n := op.Count(x.Storage)
	return kerneltest.Values(kernel.View{Data: rt.Pointer(x.Addr), DType: x.DType, Shape: []int64{n}, Strides: []int64{1}})
}

// StoreNZ writes the elements of plain to the FRACTAL_NZ storage of nz.
func StoreNZ(t testing.TB, nz, plain *op.Tensor) {
	t.Helper()
	require.NoError(t, fractal.Pack(nz.Data, nz.NZColumns(), plain.View()))
}
