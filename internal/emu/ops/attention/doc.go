// Package attention holds the attention operators and the operators that prepare their inputs.
//
// The package has FlashAttentionScore and its gradient, inference with caches (infer.go), sparse
// and compressed attention, latent attention (mla.go), rotary embeddings, and decoding steps.
// Masks, layouts and lengths that several operators share are in mask.go and shape.go. Products
// without a softmax are in package matmul.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package attention

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	attentionTable,
	blockChoices,
	blockScores,
	blockSparse,
	cacheWrites,
	compressions,
	compressors,
	decoding,
	deformables,
	indexed,
	indexedDivergences,
	indexedGrads,
	inferenceTable,
	jointHeads,
	latentAttentions,
	latentCaches,
	packedHeads,
	pairAttentions,
	plans,
	quantLatents,
	ropeCaches,
	rotary,
	sharedLatents,
	sparseAttentions,
)
