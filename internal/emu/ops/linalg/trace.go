package linalg

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// traces lists the operators that sum a diagonal.
var traces = op.Table{"Trace": trace}

// trace sums the main diagonal.
func trace(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	if !self.DType.IsComplex() {
		c.Countable(self)
	}
	c.Plain(self, out)
	c.Rank(self, 2, 2)
	c.Single(out)
	if self.DType.IsInteger() || self.DType == dtype.Bool {
		c.DType(out, dtype.Int64)
	} else {
		c.SameDType(self, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if self.DType.IsComplex() {
		return func(*op.Exec) error {
			values, err := self.Numbers(self.Shape)
			if err != nil {
				return err
			}
			sum := []complex128{0}
			for i := range min(self.Shape[0], self.Shape[1]) {
				sum[0] += values[i*(self.Shape[1]+1)]
			}
			return out.SetNumbers(sum)
		}, nil
	}
	return func(*op.Exec) error {
		return rowwise.Reduce(rowwise.ReduceSum, out.As([]int64{}, []int64{}), op.OffDiagonal(self.View(), 0), []int{0}, 0)
	}, nil
}
