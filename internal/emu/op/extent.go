package op

import (
	"errors"
	"fmt"
	"math/bits"
)

// maxElements is the maximum number of elements of a tensor, and the maximum distance in elements of
// one of them from the start of the storage. No device has that much memory, and numbers of bits
// stay far below 2^63.
const maxElements = 1 << 48

// product multiplies sizes, and fails when one is negative or the result exceeds maxElements. Every
// intermediate product is limited too, because strides are products of some of the sizes.
func product(sizes []int64) (n int64, ok bool) {
	n = 1
	for i := len(sizes) - 1; i >= 0; i-- {
		d := sizes[i]
		if d < 0 || n > 0 && d > maxElements/n {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// reach returns the distance between the first and the last of n elements, and fails when it exceeds
// maxElements.
func reach(n, stride int64) (distance int64, ok bool) {
	if n < 2 || stride == 0 {
		return 0, true
	}
	size := uint64(stride)
	if stride < 0 {
		size = -size
	}
	high, low := bits.Mul64(uint64(n-1), size)
	if high != 0 || low > maxElements {
		return 0, false
	}
	if stride < 0 {
		return -int64(low), true
	}
	return int64(low), true
}

// checkExtent returns why the places of the elements cannot be computed: the sizes come from the
// program, and operators and bind calculate with them. CANN's sources do not check them; there the
// kernel accesses the addresses that result.
func (t *Tensor) checkExtent() error {
	if len(t.Shape) != len(t.Strides) {
		return fmt.Errorf("has %d dimensions and %d strides", len(t.Shape), len(t.Strides))
	}
	n, ok := product(t.Shape)
	if !ok {
		return errors.New("has a negative dimension or more than 2^48 elements")
	}
	lo, hi := t.Offset, t.Offset
	near := lo >= -maxElements && hi <= maxElements
	for i := 0; n > 0 && near && i < len(t.Shape); i++ {
		var distance int64
		distance, near = reach(t.Shape[i], t.Strides[i])
		lo, hi = lo+min(distance, 0), hi+max(distance, 0)
		near = near && lo >= -maxElements && hi <= maxElements
	}
	if !near {
		return fmt.Errorf("reaches more than 2^48 elements from its address (offset %d, strides %s)", t.Offset, Dims(t.Strides))
	}
	if !IsPrivate(t.Format) {
		return nil
	}
	if len(t.Storage) == 0 && len(t.Shape) > 0 {
		return errors.New("has a private format and no storage shape")
	}
	if _, ok := product(t.Storage); !ok {
		return fmt.Errorf("has a negative storage dimension or storage of more than 2^48 elements: %s", Dims(t.Storage))
	}
	return nil
}
