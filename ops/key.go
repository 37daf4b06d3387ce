package ops

import "github.com/goascend/cann/aclnn"

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
