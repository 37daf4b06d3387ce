package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

var embeddings = table{"Embedding": embedding, "EmbeddingDenseBackward": embeddingDenseBackward}

// indexTypes are the dtypes of indices.
var indexTypes = []dtype.Type{dtype.Int64, dtype.Int32}

// embedding copies rows of weight. An index out of range is a fault of the stream.
func embedding(c *Call) (Run, error) {
	return c.selection(c.Tensor("out"), c.Tensor("weight"), 0, c.Tensor("indices"))
}

// selection sets out to the parts of self that index names along a dimension.
func (c *Call) selection(out, self *Tensor, dim int64, index *Tensor) (Run, error) {
	axis := c.Axis(self, dim)
	c.plain(out, self, index)
	c.DType(index, indexTypes...)
	c.SameDType(self, out)
	if self.DType.Size() == 0 {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if c.Err() == nil {
		c.Shape(out, slices.Concat(self.Shape[:axis], index.Shape, self.Shape[axis+1:]), "the shape of self with the dimension replaced by that of the indices")
		c.Rank(out, 0, kernel.MaxRank)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Lookup(out.View(), self.View(), axis, index.View())
	}, nil
}

func embeddingDenseBackward(c *Call) (Run, error) {
	grad, indices, out := c.Tensor("grad"), c.Tensor("indices"), c.Tensor("out")
	n, padding, byFrequency := c.Int("numWeights"), c.Int("paddingIdx"), c.Bool("scaleGradByFreq")
	c.plain(grad, indices, out)
	c.DType(indices, indexTypes...)
	c.DType(grad, transformerTypes...)
	c.SameDType(grad, out)
	if c.Err() == nil && (grad.Rank() < 1 || !slices.Equal(grad.Shape[:grad.Rank()-1], indices.Shape)) {
		c.Invalid("%v must have the shape of %v and a row", grad, indices)
	}
	if c.Err() == nil {
		c.Shape(out, []int64{n, grad.Dim(-1)}, "numWeights rows of grad")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.EmbeddingGrad(out.View(), grad.View(), indices.View(), padding, byFrequency)
	}, nil
}
