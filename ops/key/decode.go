package key

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// DecodeAttention holds the properties by which kernels of Attention are chosen.
type DecodeAttention struct {
	DType           aclnn.DType
	Layout          mask.Layout
	Heads, KeyHeads int64
	Dim             int64
	Block           int64 // tokens of a block, 0 without blocks
	HeadMajor       bool  // whether blocks have an axis of heads before that of tokens
	Batch           Extent
	Queries         Extent // new tokens of a sequence
	Places          Extent // of a sequence in the cache
	Hidden          bool   // whether the caller says which keys are hidden
	Window          bool   // whether a token sees some of those before it only
	Rope            int64  // features of a head besides, 0 for none
	Int8            bool   // whether keys and values are codes of int8 with scales
	Sinks           bool   // whether the heads have sinks
	Contiguous      bool   // whether all tensors are contiguous
}

// CacheWrite holds the properties by which kernels of Write are chosen.
type CacheWrite struct {
	DType, Slots aclnn.DType
	Heads, Dim   int64 // of the keys
	Places       int64 // of a row of the cache
	HeadMajor    bool  // whether the axis of heads comes before that of places
	Int8         bool  // whether the cache has codes of int8 with scales
	Tokens       Extent
}
