package linalg

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// triangularSystems lists the operators that solve systems of linear equations.
var triangularSystems = op.Table{"TriangularSolve": triangularSolve}

// triangularSolve solves A·x = self for x. mOut receives a copy of A.
func triangularSolve(c *op.Call) (op.Run, error) {
	b, a, x, m := c.Tensor("self"), c.Tensor("A"), c.Tensor("xOut"), c.Tensor("mOut")
	c.Plain(b, a, x, m)
	c.DType(b, dtype.Float32, dtype.Float64)
	c.SameDType(b, a, x, m)
	for _, t := range []*op.Tensor{b, a, x, m} {
		c.Rank(t, 2, kernel.MaxRank)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := a.Dim(-1)
	if a.Dim(-2) != n || b.Dim(-2) != n {
		c.Invalid("%v must be square matrices with as many rows as %v", a, b)
	}
	batch, ok := op.BroadcastShape(a.Shape[:a.Rank()-2], b.Shape[:b.Rank()-2])
	if !ok {
		c.Invalid("the batch dimensions of %v and %v do not broadcast", a, b)
	}
	solution, matrices := slices.Concat(batch, []int64{n, b.Dim(-1)}), slices.Concat(batch, []int64{n, n})
	c.Shape(x, solution, "the batch dimensions, the rows and columns of self")
	c.Shape(m, matrices, "the batch dimensions and those of A")
	if err := c.Err(); err != nil {
		return nil, err
	}
	how := kernel.Triangular{Upper: c.Bool("upper"), Transpose: c.Bool("transpose"), Unit: c.Bool("unitriangular")}
	return func(*op.Exec) error {
		if m.Len() == 0 {
			return nil
		}
		left, err := a.View().Broadcast(matrices)
		if err != nil {
			return err
		}
		if err := kernel.Copy(m.View(), left); err != nil || x.Len() == 0 {
			return err
		}
		right, err := b.View().Broadcast(solution)
		if err != nil {
			return err
		}
		return kernel.SolveTriangular(x.View(), left, right, how)
	}, nil
}
