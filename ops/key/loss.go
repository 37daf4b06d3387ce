package key

import (
	"github.com/goascend/cann/aclnn"
)

// CrossEntropy holds the properties by which kernels of CrossEntropy are chosen.
type CrossEntropy struct {
	Logits, Labels aclnn.DType
	LogProb        aclnn.DType // Undefined if there is none
	Classes        int64
	Rows           Extent
	Count          bool // whether the caller wants it
	Contiguous     bool // whether all tensors are contiguous
}

// CrossEntropyGrad holds the properties by which kernels of CrossEntropyGrad are chosen.
type CrossEntropyGrad struct {
	Logits, Labels, LogProb aclnn.DType
	Classes                 int64
	Rows                    Extent
	DLoss                   bool // whether DLoss is given
	Contiguous              bool // whether all tensors are contiguous
}

// Embedding holds the properties by which kernels of Embedding are chosen.
type Embedding struct {
	Weight, IDs       aclnn.DType
	Vocabulary, Width int64
	Rows              Extent // number of ids
	Contiguous        bool   // whether all tensors are contiguous
}

// EmbeddingGrad holds the properties by which kernels of EmbeddingGrad are chosen.
type EmbeddingGrad struct {
	DOut, IDs, DWeight aclnn.DType
	Vocabulary, Width  int64
	Rows               Extent // number of ids
	Accumulate         bool
	Contiguous         bool // whether all tensors are contiguous
}
