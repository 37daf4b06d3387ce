package key

import (
	"github.com/goascend/cann/aclnn"
)

// CausalConv holds the properties by which kernels of CausalConv are chosen.
type CausalConv struct {
	X, Weight                aclnn.DType
	Channels, Taps           int64
	Tokens                   Extent // B·T
	Length                   Extent // T of each row, which may hold several sequences
	SiLU                     bool
	Bias                     bool // whether there is a bias
	Packed                   bool // whether CuSeqLens is given
	InitialState, FinalState bool // whether the caller gives them
	Contiguous               bool // whether all tensors are contiguous
}

// CausalConvGrad holds the properties by which kernels of CausalConvGrad are chosen.
type CausalConvGrad struct {
	CausalConv             // of the forward pass; Contiguous covers the gradients too
	DWeight    aclnn.DType // also of DBias
	Accumulate bool
}

// GatedDelta holds the properties by which kernels of GatedDelta are chosen.
type GatedDelta struct {
	DType                    aclnn.DType // of Query, Key, Value and Out
	Beta                     aclnn.DType
	KeyHeads, ValueHeads     int64  // Hk and Hv
	KeyDim, ValueDim         int64  // K and V
	Tokens                   Extent // B·T
	Length                   Extent // T of each row, which may hold several sequences
	Packed                   bool   // whether CuSeqLens is given
	Normalize                bool
	InitialState, FinalState bool // whether the caller gives them
	Contiguous               bool // whether all tensors are contiguous
}

// GatedDeltaGrad holds the properties by which kernels of GatedDeltaGrad are chosen.
type GatedDeltaGrad struct {
	GatedDelta                      // of the forward pass; Contiguous covers the gradients too
	DFinalState, DInitialState bool // whether the caller gives them
}

// DeltaGate holds the properties by which kernels of DeltaGate are chosen.
type DeltaGate struct {
	A, ALog, DTBias aclnn.DType // B has the dtype of A
	Heads           int64
	Rows            Extent // all leading dimensions together
	Contiguous      bool   // whether all tensors are contiguous
}

// DeltaGateGrad holds the properties by which kernels of DeltaGateGrad are chosen.
type DeltaGateGrad struct {
	DeltaGate      // of the forward pass; Contiguous covers the gradients too
	DALog, DDTBias aclnn.DType
	Accumulate     bool
}
