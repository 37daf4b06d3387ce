package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// EmbeddingArgs describes a lookup of rows: Out[i] = Weight[IDs[i]].
type EmbeddingArgs struct {
	Weight *aclnn.Tensor // [vocabulary, width]; float32, float16 or bfloat16
	IDs    *aclnn.Tensor // [...], int32 or int64; unknown ids are a fault on the device
	Out    *aclnn.Tensor // [..., width], dtype of Weight
}

func (a *EmbeddingArgs) validate() error {
	var c args
	c.Tensor("Weight", a.Weight, floats...)
	if c.OK() && a.Weight.Rank() != 2 {
		c.Fail("Weight is %v; it must be [vocabulary, width]", a.Weight)
	}
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Out", a.Out, a.Weight.DType())
	c.lookup("Out", a.Out, a.IDs, a.Weight.Dim(1))
	return c.Err
}

// lookup checks that a tensor has one row of the given width per id.
func (c *args) lookup(name string, rows, ids *aclnn.Tensor, width int64) {
	c.Tensor("IDs", ids, indices...)
	if !c.OK() {
		return
	}
	same := rows.Rank() == ids.Rank()+1 && rows.Dim(-1) == width
	for i := 0; same && i < ids.Rank(); i++ {
		same = rows.Dim(i) == ids.Dim(i)
	}
	if !same {
		c.Fail("%s is %v; it must have a row of %d for each of IDs %v", name, rows, width, ids)
	}
}

func (a *EmbeddingArgs) key() key.Embedding {
	return key.Embedding{
		Weight: a.Weight.DType(), IDs: a.IDs.DType(), Vocabulary: a.Weight.Dim(0), Width: a.Weight.Dim(1), Rows: key.ExtentOf(a.IDs.Len()),
		Contiguous: contiguous(a.Weight, a.IDs, a.Out),
	}
}

func newEmbedding(reg *Registry) *Op[EmbeddingArgs, key.Embedding] {
	return op(reg, "embedding", (*EmbeddingArgs).validate, (*EmbeddingArgs).key,
		Kernel[EmbeddingArgs, key.Embedding]{
			Name: "Embedding", Supports: has[key.Embedding](&aclnn.EmbeddingParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *EmbeddingArgs) error {
				return aclnn.Embedding(st, aclnn.EmbeddingParams{Weight: a.Weight, Indices: a.IDs, Out: a.Out})
			},
		})
}

// EmbeddingGradArgs describes the gradient of Embedding: DWeight[id] is the sum of DOut over the
// positions with that id; other rows are zero.
type EmbeddingGradArgs struct {
	DOut *aclnn.Tensor // [..., width]; float32, float16 or bfloat16
	IDs  *aclnn.Tensor // [...], int32 or int64
	// DWeight is [vocabulary, width], of the dtype of DOut or float32. Sums are computed in this
	// precision or better.
	DWeight *aclnn.Tensor
	// Accumulate adds to DWeight instead of overwriting it.
	Accumulate bool
}

func (a *EmbeddingGradArgs) validate() error {
	var c args
	c.Tensor("DOut", a.DOut, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("DWeight", a.DWeight, a.DOut.DType(), aclnn.Float32)
	if !c.OK() {
		return c.Err
	}
	if a.DWeight.Rank() != 2 {
		c.Fail("DWeight is %v; it must be [vocabulary, width]", a.DWeight)
	}
	c.lookup("DOut", a.DOut, a.IDs, a.DWeight.Dim(1))
	return c.Err
}

// noPadding is a padding index that matches no row.
const noPadding = ^uint64(0)

func (a *EmbeddingGradArgs) key() key.EmbeddingGrad {
	return key.EmbeddingGrad{
		DOut: a.DOut.DType(), IDs: a.IDs.DType(), DWeight: a.DWeight.DType(), Vocabulary: a.DWeight.Dim(0), Width: a.DWeight.Dim(1),
		Rows: key.ExtentOf(a.IDs.Len()), Accumulate: a.Accumulate, Contiguous: contiguous(a.DOut, a.IDs, a.DWeight),
	}
}

func newEmbeddingGrad(reg *Registry) *Op[EmbeddingGradArgs, key.EmbeddingGrad] {
	return op(reg, "embedding_grad", (*EmbeddingGradArgs).validate, (*EmbeddingGradArgs).key,
		Kernel[EmbeddingGradArgs, key.EmbeddingGrad]{
			Name: "EmbeddingDenseBackward", Supports: has[key.EmbeddingGrad](&aclnn.EmbeddingDenseBackwardParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *EmbeddingGradArgs) error {
				return compose(st, func(s *steps) {
					if a.DOut.Len() == 0 {
						if !a.Accumulate {
							s.Zero(a.DWeight)
						}
						return
					}
					out := a.DWeight
					if a.Accumulate {
						out = s.Tensor(a.DWeight.DType(), a.DWeight.Dim(0), a.DWeight.Dim(1))
					}
					launch(s, aclnn.EmbeddingDenseBackward, aclnn.EmbeddingDenseBackwardParams{
						Grad: s.Cast(a.DOut, a.DWeight.DType()), Indices: a.IDs, NumWeights: uint64(a.DWeight.Dim(0)), PaddingIdx: noPadding, Out: out,
					})
					if a.Accumulate {
						s.add(a.DWeight, out, 1)
					}
				})
			},
		})
}
