package key

import (
	"github.com/goascend/cann/aclnn"
)

// GatedNorm holds the properties by which kernels of GatedNorm are chosen.
type GatedNorm struct {
	X, Weight  aclnn.DType
	Width      int64  // of a row
	Rows       Extent // all leading dimensions together
	RStd       bool   // whether the caller wants it
	Contiguous bool   // whether all tensors are contiguous
}

// GatedNormGrad holds the properties by which kernels of GatedNormGrad are chosen.
type GatedNormGrad struct {
	X, Weight, DWeight aclnn.DType
	Width              int64  // of a row
	Rows               Extent // all leading dimensions together
	Accumulate         bool
	Contiguous         bool // whether all tensors are contiguous
}

// RMSNorm holds the properties by which kernels of RMSNorm are chosen.
type RMSNorm struct {
	X, Weight  aclnn.DType
	Width      int64  // of a row
	Rows       Extent // all leading dimensions together
	RStd       bool   // whether the caller wants it
	Contiguous bool   // whether all tensors are contiguous
}

// RMSNormGrad holds the properties by which kernels of RMSNormGrad are chosen.
type RMSNormGrad struct {
	X, Weight, DWeight aclnn.DType
	Width              int64  // of a row
	Rows               Extent // all leading dimensions together
	Accumulate         bool
	Contiguous         bool // whether all tensors are contiguous
}
