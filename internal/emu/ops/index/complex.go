package index

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// combines reports whether elements of a type can be combined with others or set to a scalar.
func combines(d dtype.Type) bool {
	return kernel.Computes(d) || d == dtype.Complex64 || d == dtype.Complex128
}

// scattered returns the elements of src that an index of a shape scatters, or the value for each if it is
// not nil.
func scattered(shape []int64, src *op.Tensor, value *op.Scalar) ([]complex128, error) {
	if value != nil {
		return slices.Repeat([]complex128{value.Complex()}, int(op.Count(shape))), nil
	}
	part := *vector(src)
	part.Shape = shape
	return part.Numbers(shape)
}

// places are positions in a tensor of a shape: index [of] holds coordinates along axis, and its own
// coordinates are those along the other dimensions.
type places struct {
	shape, of []int64
	axis      int
	index     *op.Tensor
}

// scatterComplex replaces complex elements of out at the places by values, or adds or multiplies them.
func scatterComplex(fn indexingkernel.ScatterOp, out *op.Tensor, p places, values []complex128) error {
	at, err := elementwise.Indices(p.index.View())
	if err != nil {
		return err
	}
	all, err := out.Numbers(out.Shape)
	if err != nil {
		return err
	}
	for i, k := range at {
		size := p.shape[p.axis]
		if k < -size || k >= size {
			return fmt.Errorf("index %d at position %d is out of range for a dimension of %d", k, i, size)
		}
		to, rest, step := int64(0), int64(i), int64(1)
		for d := len(p.shape) - 1; d >= 0; d-- {
			here := rest % p.of[d]
			if d == p.axis {
				here = (k + size) % size
			}
			to, rest, step = to+here*step, rest/p.of[d], step*p.shape[d]
		}
		switch fn {
		case indexingkernel.ScatterSet:
			all[to] = values[i]
		case indexingkernel.ScatterAdd:
			all[to] += values[i]
		case indexingkernel.ScatterMul:
			all[to] *= values[i]
		}
	}
	return out.SetNumbers(all)
}
