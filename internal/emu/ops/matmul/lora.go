package matmul

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// adapters lists the operators that add a low-rank product.
var adapters = op.Table{"AddLora": addLora}

// addLora adds the product of x with two low-rank matrices to a range of the columns of y.
// indices selects the matrices for each row of x.
func addLora(c *op.Call) (op.Run, error) {
	y, x, b, indices, a, out := c.Tensor("y"), c.Tensor("x"), c.Tensor("weightB"), c.Tensor("indices"), c.Optional("weightAOptional"), c.Tensor("out")
	layer, first, width, scale := c.Int("layerIdx"), c.Int("yOffset"), c.Int("ySliceSize"), c.Float("scale")
	c.Plain(y, x, b, indices, out)
	c.DType(y, dtype.Float16)
	c.SameDType(y, x, b, out)
	c.DType(indices, dtype.Int32)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if y.Rank() != 2 || x.Rank() != 2 || b.Rank() != 4 {
		c.Unfit("%v and %v must have 2 dimensions, and %v four", y, x, b)
		return nil, c.Err()
	}
	rows, columns, sets, layers, rank := y.Shape[0], y.Shape[1], b.Shape[0], b.Shape[1], b.Shape[3]
	c.Fits(out, y.Shape, "as y")
	c.Fits(indices, []int64{rows}, "a set of weights for each row of y")
	c.Fits(b, []int64{sets, layers, width, rank}, "ySliceSize rows for each set and layer")
	if a != nil {
		c.Plain(a)
		c.SameDType(y, a)
		c.Fits(a, []int64{sets, layers, rank, x.Shape[1]}, "the rank of weightB and the columns of x")
		c.Fits(x, []int64{rows, x.Shape[1]}, "as many rows as y")
	} else {
		c.Fits(x, []int64{rows, rank}, "the rank of weightB, as weightA is null")
	}
	if layer < 0 || layer >= layers || first < 0 || width < 1 || width > columns-first {
		c.Unfit("layerIdx %d is not among %d layers, or the columns from %d on, %d of them, are not in %v", layer, layers, first, width, y)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := elementwise.Copy(out.View(), y.View()); err != nil {
			return err
		}
		sets, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		thin, release := kernel.Temporary(1, rank)
		defer release()
		for i, set := range sets {
			if set < 0 || set >= b.Shape[0] {
				return fmt.Errorf("index %d of row %d is out of range for %d sets of weights", set, i, b.Shape[0])
			}
			row := x.View().Narrow(0, int64(i), 1)
			if a != nil {
				part := a.View().Select(0, set).Select(0, layer)
				if err := gemmkernel.Gemm(gemmkernel.Product{Out: thin, A: row, B: op.Permuted(part, []int64{1, 0}), Alpha: 1}); err != nil {
					return err
				}
				row = thin
			}
			into, part := out.View().Narrow(0, int64(i), 1).Narrow(1, first, width), b.View().Select(0, set).Select(0, layer)
			if err := gemmkernel.Gemm(gemmkernel.Product{Out: into, A: row, B: op.Permuted(part, []int64{1, 0}), Add: &into, Alpha: scale, Beta: 1}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
