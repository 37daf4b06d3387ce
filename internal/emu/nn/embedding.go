package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

var embeddings = table{"Embedding": embedding, "EmbeddingDenseBackward": embeddingDenseBackward}

// rows views a tensor of indices' shape plus the row's as [n, row…].
func rows(t *Tensor, indices *Tensor) kernel.View {
	row := t.Shape[indices.Rank():]
	shape := append([]int64{indices.Len()}, row...)
	return t.As(shape, ContiguousStrides(shape))
}

func embedding(c *Call) (Run, error) {
	weight, indices, out := c.Tensor("weight"), c.Tensor("indices"), c.Tensor("out")
	c.DType(indices, dtype.Int32, dtype.Int64)
	c.Rank(weight, 2, 2)
	c.SameDType(weight, out)
	if c.Err() == nil {
		c.Shape(out, append(slices.Clone(indices.Shape), weight.Shape[1]), "indices' shape and the row of weight")
		if !out.Contiguous() {
			c.Invalid("%v must be contiguous", out)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		at, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		return kernel.Gather(rows(out, indices), weight.View(), at)
	}, nil
}

func embeddingDenseBackward(c *Call) (Run, error) {
	grad, indices, out := c.Tensor("grad"), c.Tensor("indices"), c.Tensor("out")
	n, padding, byFrequency := c.Int("numWeights"), c.Int("paddingIdx"), c.Bool("scaleGradByFreq")
	c.DType(indices, dtype.Int32, dtype.Int64)
	c.DType(grad, transformerTypes...)
	if c.Err() == nil {
		if grad.Rank() < 1 || !slices.Equal(grad.Shape[:grad.Rank()-1], indices.Shape) {
			c.Invalid("%v must have the shape of %v and a row", grad, indices)
		} else {
			c.Shape(out, []int64{n, grad.Dim(-1)}, "numWeights rows of grad")
		}
		if !grad.Contiguous() {
			c.Invalid("%v must be contiguous", grad)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if grad.Len() == 0 {
			return zero(out)
		}
		at, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		var scale func(int) float32
		if byFrequency {
			scale = func(count int) float32 { return 1 / float32(count) }
		}
		return kernel.ScatterSum(out.View(), rows(grad, indices), at, padding, scale)
	}, nil
}
