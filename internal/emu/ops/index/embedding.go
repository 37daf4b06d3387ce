package index

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var embeddings = op.Table{"Embedding": embedding, "EmbeddingDenseBackward": embeddingDenseBackward, "EmbeddingRenorm": embeddingRenorm}.Selects()

// embedding copies rows of weight. An index out of range is a fault of the stream.
func embedding(c *op.Call) (op.Run, error) {
	return selection(c, c.Tensor("out"), c.Tensor("weight"), 0, c.Tensor("indices"))
}

// selection copies the slices of self at the positions in index, along one dimension, to out.
func selection(c *op.Call, out, self *op.Tensor, dim int64, index *op.Tensor) (op.Run, error) {
	axis := c.Axis(self, dim)
	c.Plain(out, self, index)
	c.DType(index, op.IndexTypes...)
	c.SameDType(self, out)
	if self.DType.Size() == 0 {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if self.Rank() == 0 {
		c.Invalid("%v has no dimension from which to take slices", self)
	}
	if c.Err() == nil {
		c.Shape(out, slices.Concat(self.Shape[:axis], index.Shape, self.Shape[axis+1:]), "the shape of self with the dimension replaced by that of the indices")
		c.Rank(out, 0, kernel.MaxRank)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.Lookup(out.View(), self.View(), axis, index.View())
	}, nil
}

func embeddingDenseBackward(c *op.Call) (op.Run, error) {
	grad, indices, out := c.Tensor("grad"), c.Tensor("indices"), c.Tensor("out")
	n, padding, byFrequency := c.Int("numWeights"), c.Int("paddingIdx"), c.Bool("scaleGradByFreq")
	c.Plain(grad, indices, out)
	c.DType(indices, slices.Concat(op.IndexTypes, op.FloatTypes, []dtype.Type{dtype.Float64, dtype.Int8, dtype.Int16, dtype.Uint8, dtype.Bool})...)
	c.DType(grad, op.FloatTypes...)
	if out.DType != dtype.Float32 { // sums of 16-bit rows may be kept in float32
		c.SameDType(grad, out)
	}
	if c.Err() == nil && (grad.Rank() < 1 || !slices.Equal(grad.Shape[:grad.Rank()-1], indices.Shape)) {
		c.Invalid("%v must have the shape of %v and a row", grad, indices)
	}
	if c.Err() == nil {
		c.Shape(out, []int64{n, grad.Dim(-1)}, "numWeights rows of grad")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return indexingkernel.EmbeddingGrad(out.View(), grad.View(), indices.View(), padding, byFrequency)
	}, nil
}

// embeddingRenorm limits the norms of the rows in indices. A row that is listed several times is
// scaled once.
func embeddingRenorm(c *op.Call) (op.Run, error) {
	x, indices := c.Tensor("selfRef"), c.Tensor("indices")
	most, p := c.Float("maxNorm"), c.Float("normType")
	c.Plain(x, indices)
	c.DType(x, op.FloatTypes...)
	c.DType(indices, op.IndexTypes...)
	c.Rank(x, 2, 2)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		rows, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		slices.Sort(rows)
		for _, r := range slices.Compact(rows) {
			if r < 0 || r >= x.Shape[0] {
				return fmt.Errorf("index %d is out of range for %v", r, x)
			}
			if row := x.View().Narrow(0, r, 1); x.Shape[1] > 0 {
				if err := rowwise.Renorm(row, row, 0, p, most); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}
