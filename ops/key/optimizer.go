package key

import (
	"github.com/goascend/cann/aclnn"
)

// AdamW holds the properties by which kernels of AdamW are chosen.
type AdamW struct {
	Param, Grad aclnn.DType // the moments have the dtype of Param
	Copy        aclnn.DType // Undefined if there is no Copy
	Elements    Extent      // of Param
	AMSGrad     bool        // whether MaxExpAvgSq is given
	Maximize    bool
	Contiguous  bool // whether all tensors are contiguous
	Schedule    bool // whether the device knows the rates
}

// AdamWList holds the properties by which kernels of AdamWList are chosen.
type AdamWList struct {
	Param, Grad aclnn.DType // of all updates; Undefined if they differ, or if there are none
	Updates     Extent      // how many
	AMSGrad     bool
	Schedule    bool // whether the device knows the rates
}

// ClipGradNorm holds the properties by which kernels of ClipGradNorm are chosen.
type ClipGradNorm struct {
	Grads int  // number of gradients
	Wide  bool // all of them are float32
	Clip  bool // whether there is a limit
	Ranks bool // the norm is taken over several ranks
}
