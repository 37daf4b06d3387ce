package key

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// BiasKind says how a position bias enters the scores; package ops has its constants.
type BiasKind int64

// Attention holds the properties by which kernels of Attention and AttentionGrad are chosen.
type Attention struct {
	Layout          mask.Layout
	Heads, KeyHeads int64       // N and Nkv
	Dim, ValueDim   int64       // D and Dv
	BiasKind        BiasKind    // 0 without bias
	DType           aclnn.DType // of Query, Key, Value and Out
	Batch           Extent      // 1 in TND
	Queries, Keys   Extent      // Sq and Skv; in TND of all sequences together
	Mask            mask.Kind
	Bias            bool // whether there is a bias
	Dropout         bool
	Sinks           bool // whether the heads have sinks
	Stats           bool // whether SoftmaxMax and SoftmaxSum are given
	Contiguous      bool // whether all tensors but a dense mask are contiguous
}

// AttentionSink holds the properties by which kernels of AttentionSink and AttentionSinkGrad are chosen.
type AttentionSink struct {
	DType          aclnn.DType // of Out
	Heads, Dim     int64
	Batch, Queries Extent
}

// RingAttentionUpdate holds the properties by which kernels of RingAttentionUpdate are chosen.
type RingAttentionUpdate struct {
	DType          aclnn.DType // of Part
	Heads, Dim     int64
	Batch, Queries Extent
	TokenRows      bool // whether the tensors are [S,B,N·D] in memory, or each item of the batch is [S,1,N·D]
}
