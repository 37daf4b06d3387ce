package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// EmbeddingArgs looks rows up: Out[i] = Weight[IDs[i]].
type EmbeddingArgs struct {
	Weight *aclnn.Tensor // [vocabulary, width]; float32, float16 or bfloat16
	IDs    *aclnn.Tensor // [...], int32 or int64; an id outside the vocabulary is a fault of the device
	Out    *aclnn.Tensor // [..., width], dtype of Weight
}

func (a *EmbeddingArgs) validate() error {
	var c check
	c.tensor("Weight", a.Weight, floats...)
	if c.ok() && a.Weight.Rank() != 2 {
		c.fail("Weight is %v; it must be [vocabulary, width]", a.Weight)
	}
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.Weight.DType())
	c.lookup("Out", a.Out, a.IDs, a.Weight.Dim(1))
	return c.err
}

// lookup checks that a tensor has one row of the given width for each id.
func (c *check) lookup(name string, rows, ids *aclnn.Tensor, width int64) {
	c.tensor("IDs", ids, indices...)
	if !c.ok() {
		return
	}
	same := rows.Rank() == ids.Rank()+1 && rows.Dim(-1) == width
	for i := 0; same && i < ids.Rank(); i++ {
		same = rows.Dim(i) == ids.Dim(i)
	}
	if !same {
		c.fail("%s is %v; it must have a row of %d for each of IDs %v", name, rows, width, ids)
	}
}

func newEmbedding(reg *Registry) *Op[EmbeddingArgs] {
	return op(reg, "embedding", (*EmbeddingArgs).validate,
		func(a *EmbeddingArgs) Signature { return dtypeSignature(a.Weight, a.IDs) },
		Kernel[EmbeddingArgs]{
			Name: "Embedding", Supports: has[EmbeddingArgs](&aclnn.EmbeddingParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *EmbeddingArgs) error {
				return aclnn.Embedding(st, aclnn.EmbeddingParams{Weight: a.Weight, Indices: a.IDs, Out: a.Out})
			},
		})
}

// EmbeddingGradArgs is the gradient of Embedding: DWeight[id] = the sum of DOut over the
// positions with that id, other rows zero.
type EmbeddingGradArgs struct {
	DOut *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	IDs  *aclnn.Tensor // [...], int32 or int64
	// DWeight is [vocabulary, width], of the dtype of DOut or float32. Sums are taken in its
	// precision or better.
	DWeight *aclnn.Tensor
	// Accumulate adds to what DWeight has instead of overwriting it.
	Accumulate bool
}

func (a *EmbeddingGradArgs) validate() error {
	var c check
	c.tensor("DOut", a.DOut, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("DWeight", a.DWeight, a.DOut.DType(), aclnn.Float32)
	if !c.ok() {
		return c.err
	}
	if a.DWeight.Rank() != 2 {
		c.fail("DWeight is %v; it must be [vocabulary, width]", a.DWeight)
	}
	c.lookup("DOut", a.DOut, a.IDs, a.DWeight.Dim(1))
	return c.err
}

// noPadding is the padding index of no row.
const noPadding = ^uint64(0)

func newEmbeddingGrad(reg *Registry) *Op[EmbeddingGradArgs] {
	return op(reg, "embedding_grad", (*EmbeddingGradArgs).validate,
		func(a *EmbeddingGradArgs) Signature { return dtypeSignature(a.DOut, a.IDs, a.DWeight) },
		Kernel[EmbeddingGradArgs]{
			Name: "EmbeddingDenseBackward", Supports: has[EmbeddingGradArgs](&aclnn.EmbeddingDenseBackwardParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *EmbeddingGradArgs) error {
				return compose(st, func(s *steps) {
					if a.DOut.Len() == 0 {
						if !a.Accumulate {
							s.zero(a.DWeight)
						}
						return
					}
					out := a.DWeight
					if a.Accumulate {
						out = s.tensor(a.DWeight.DType(), a.DWeight.Dim(0), a.DWeight.Dim(1))
					}
					launch(s, aclnn.EmbeddingDenseBackward, aclnn.EmbeddingDenseBackwardParams{
						Grad: s.cast(a.DOut, a.DWeight.DType()), Indices: a.IDs, NumWeights: uint64(a.DWeight.Dim(0)), PaddingIdx: noPadding, Out: out,
					})
					if a.Accumulate {
						s.add(a.DWeight, out, 1)
					}
				})
			},
		})
}
