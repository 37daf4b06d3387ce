package index

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/embeddingbag"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// bags combine rows of a table that are given by lists of indices.
var bags = op.Table{"EmbeddingBag": embeddingBag}.Selects()

func embeddingBag(c *op.Call) (op.Run, error) {
	weight, indices, offsets, scale := c.Tensor("weight"), c.Tensor("indices"), c.Tensor("offsets"), c.Optional("perSampleWeights")
	out, members, sizes, largest := c.Tensor("output"), c.Tensor("offset2bag"), c.Tensor("bagSize"), c.Tensor("maxIndices")
	mode := embeddingbag.Max
	if m := c.Int("mode"); m == 0 || m == 1 {
		mode = embeddingbag.Mode(m)
	}
	if c.Bool("scaleGradByFreq") || c.Bool("sparse") {
		c.Invalid("scaleGradByFreq is %v and sparse %v; only false is supported", c.Bool("scaleGradByFreq"), c.Bool("sparse"))
	}
	c.Plain(weight, indices, offsets, out, members, sizes, largest)
	c.DType(weight, op.FloatTypes...)
	c.Rank(weight, 2, 2)
	c.SameDType(weight, out)
	for _, t := range []*op.Tensor{indices, offsets} {
		c.DType(t, op.IndexTypes...)
		c.Rank(t, 1, 1)
	}
	if scale != nil {
		c.Plain(scale)
		c.SameDType(weight, scale)
		c.SameShape(indices, scale)
		if mode != embeddingbag.Sum {
			c.Invalid("%v is given; only sums (mode 0) have weights", scale)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	count := offsets.Len()
	if c.Bool("includeLastOffset") {
		count--
	}
	if count < 0 {
		c.Invalid("%v is empty; with includeLastOffset it has the end of the last bag", offsets)
	}
	c.Shape(out, []int64{count, weight.Shape[1]}, "a row for each bag")
	c.Shape(members, []int64{indices.Len()}, "a bag for each index")
	c.Shape(sizes, []int64{count}, "a number for each bag")
	if mode == embeddingbag.Max {
		c.Shape(largest, out.Shape, "an index for each element of output")
	} else {
		c.Shape(largest, []int64{count}, "a number for each bag")
	}
	whole := dtype.Int32
	if indices.DType == dtype.Int64 || offsets.DType == dtype.Int64 {
		whole = dtype.Int64
	}
	for _, t := range []*op.Tensor{members, sizes, largest} {
		c.DType(t, whole)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		b := embeddingbag.Bags{Mode: mode, Padding: c.Int("paddingIdx")}
		if err := readBags(&b, c, indices, offsets, scale); err != nil {
			return err
		}
		from, err := b.Into(out.View(), weight.View())
		if err != nil {
			return err
		}
		if mode != embeddingbag.Max {
			from = make([]int64, count)
		}
		of, n := b.Members()
		of = slices.Concat(of, make([]int64, members.Len()-int64(len(of))))
		for i, t := range []*op.Tensor{members, sizes, largest} {
			if err := indexingkernel.SetInts(t.View(), [][]int64{of, n, from}[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// readBags reads the indices of the bags and the start of each bag. scale may be nil.
func readBags(b *embeddingbag.Bags, c *op.Call, indices, offsets, scale *op.Tensor) (err error) {
	if b.Index, err = elementwise.Indices(indices.View()); err != nil {
		return err
	}
	if b.First, err = elementwise.Indices(offsets.View()); err != nil {
		return err
	}
	if c.Bool("includeLastOffset") {
		// Indices after the end of the last bag belong to no bag.
		count := len(b.First) - 1
		end := min(max(b.First[count], 0), int64(len(b.Index)))
		b.First, b.Index = b.First[:count], b.Index[:end]
	}
	if scale != nil {
		b.Scale, err = elementwise.Doubles(scale.View())
	}
	return err
}
