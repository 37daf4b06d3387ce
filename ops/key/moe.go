package key

import (
	"github.com/goascend/cann/aclnn"
)

// LoadBalance holds the properties by which kernels of LoadBalance and LoadBalanceGrad are
// chosen.
type LoadBalance struct {
	Experts, K int64
	Tokens     Extent
	Contiguous bool // whether all tensors are contiguous
}

// MoEExperts holds the properties by which kernels of MoEExperts are chosen.
type MoEExperts struct {
	DType                 aclnn.DType  // of the rows and the weights
	GateUp, Down          aclnn.Format // ND or FractalNZ
	Experts, Width, Inner int64
	Rows                  Extent
	Host                  bool // whether the host knows the groups
	Cumulative            bool // whether the groups are given by their ends
	Contiguous            bool // all tensors but the weights
}

// MoEExpertsGrad holds the properties by which kernels of MoEExpertsGrad are chosen.
type MoEExpertsGrad struct {
	MoEExperts                 // of the forward pass; Contiguous covers DOut and DRows too
	DRows          bool        // whether it is computed
	DGateUp, DDown aclnn.DType // Undefined if the gradient is not computed
	Accumulate     bool
}

// MoEPermute holds the properties by which kernels of MoEPermute are chosen.
type MoEPermute struct {
	X                 aclnn.DType
	Width, Experts, K int64
	Tokens            Extent
	Counts            bool // whether the rows of each expert are counted, instead of summed up
	Partial           bool // whether the rows may be the first ones only
	Contiguous        bool // whether all tensors are contiguous
}

// MoEPermuteGrad holds the properties by which kernels of MoEPermuteGrad are chosen.
type MoEPermuteGrad struct {
	DX           aclnn.DType
	Width        int64
	Tokens, Rows Extent
	Partial      bool // whether places may have no row
	Contiguous   bool // whether all tensors are contiguous
}

// RoutingScore says how the logits of experts become scores; package ops has its constants.
type RoutingScore int

// MoERouting holds the properties by which kernels of MoERouting are chosen.
type MoERouting struct {
	Logits     aclnn.DType
	Experts, K int64
	Tokens     Extent
	Score      RoutingScore
	Normalize  bool
	Groups     int64 // 0 without groups
	GroupBest  int64 // how many of its best experts say how good a group is
	Bias       bool  // whether there is a bias of the choice
	Probs      bool  // whether the caller wants them
	Contiguous bool  // whether all tensors are contiguous
}

// MoERoutingGrad holds the properties by which kernels of MoERoutingGrad are chosen.
type MoERoutingGrad struct {
	Weights       aclnn.DType
	Experts, K    int64
	Tokens        Extent
	Score         RoutingScore
	Normalize     bool
	Probs, DProbs bool // whether the caller gives them
	Contiguous    bool // whether all tensors are contiguous
}

// MoEUnpermute holds the properties by which kernels of MoEUnpermute and MoEUnpermuteGrad are
// chosen.
type MoEUnpermute struct {
	Rows, Weights aclnn.DType
	Width, K      int64
	Tokens        Extent
	Shared        bool // whether the result of a shared expert is added; false for the gradient
	Partial       bool // whether places may have no row
	Contiguous    bool // whether all tensors are contiguous
}

// ExpertLayer holds the properties by which kernels of an expert layer are chosen. They are the same
// on all ranks.
type ExpertLayer struct {
	DType             aclnn.DType
	Width, Experts, K int64 // experts of a rank
	Tokens            int64 // the most of a rank
}
