package ops

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/goascend/cann/aclnn"
)

// Extent is the class of a size that changes from call to call, such as a number of tokens. Keys
// contain classes instead of such sizes to limit the number of choices: sizes up to a million have
// 39 classes. Sizes that a model fixes, such as widths and heads, are in keys as they are.
//
// All sizes of a class round up to the same power of two, Most, and either all of them are
// multiples of 16 or none is. 0 and 1 are classes of their own.
type Extent uint8

// ExtentOf returns the class of a size, which must not be negative.
func ExtentOf(n int64) Extent {
	if n == 0 {
		return 0
	}
	e := Extent(2 + 2*bits.Len64(uint64(n-1)))
	if n%16 == 0 {
		e++
	}
	return e
}

// Most returns the largest size of the class, a power of two or 0; all sizes are above half of it.
func (e Extent) Most() int64 {
	if e < 2 {
		return 0
	}
	return 1 << (e/2 - 1)
}

// By16 reports whether all sizes of the class are multiples of 16, and not 0.
func (e Extent) By16() bool { return e%2 == 1 }

// String returns the bounds, such as "33..64" or "48..64 by 16".
func (e Extent) String() string {
	most := e.Most()
	least := most/2 + 1
	switch {
	case most < 2:
		return strconv.FormatInt(most, 10)
	case e.By16():
		return fmt.Sprintf("%d..%d by 16", (least+15)/16*16, most)
	}
	return fmt.Sprintf("%d..%d", least, most)
}

// rowCount returns the number of rows of a tensor: the product of all dimensions but the last.
func rowCount(t *aclnn.Tensor) int64 {
	n := int64(1)
	for i := range t.Rank() - 1 {
		n *= t.Dim(i)
	}
	return n
}

// contiguous reports whether all non-nil tensors are contiguous.
func contiguous(tensors ...*aclnn.Tensor) bool {
	for _, t := range tensors {
		if t != nil && !t.Contiguous() {
			return false
		}
	}
	return true
}

// byColumns reports whether a tensor of matrices is contiguous when its last two dimensions are
// exchanged.
func byColumns(t *aclnn.Tensor) bool {
	size := int64(1)
	for i := range t.Rank() {
		axis := -1 - i
		if i < 2 {
			axis = i - 2 // the last two exchanged
		}
		if t.Dim(axis) != 1 && t.Stride(axis) != size {
			return false
		}
		size *= t.Dim(axis)
	}
	return t.Rank() >= 2
}

// swapped reports whether a tensor of matrices is contiguous only with its last two dimensions
// exchanged.
func swapped(t *aclnn.Tensor) bool { return !t.Contiguous() && byColumns(t) }

// dtypeOf returns the dtype of a tensor, Undefined for nil.
func dtypeOf(t *aclnn.Tensor) aclnn.DType {
	if t == nil {
		return aclnn.Undefined
	}
	return t.DType()
}
