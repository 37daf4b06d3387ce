package linalg

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/matrix"
	"github.com/goascend/cann/internal/emu/op"
)

// triangularSystems lists the operators that solve systems of linear equations.
var triangularSystems = op.Table{"TriangularSolve": triangularSolve}

// triangularSolve solves A·x = self for x. mOut receives a copy of A, if it is given. A complex A is
// transposed and conjugated, as the device's kernel does.
func triangularSolve(c *op.Call) (op.Run, error) {
	b, a, x, m := c.Tensor("self"), c.Tensor("A"), c.Tensor("xOut"), c.Optional("mOut")
	tensors := []*op.Tensor{b, a, x}
	if m != nil {
		tensors = append(tensors, m)
	}
	c.Plain(tensors...)
	c.DType(b, doubleTypes...)
	c.SameDType(b, tensors[1:]...)
	for _, t := range tensors {
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
	if m != nil {
		c.Shape(m, matrices, "the batch dimensions and those of A")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	how := gemm.Triangular{Upper: c.Bool("upper"), Transpose: c.Bool("transpose"), Unit: c.Bool("unitriangular")}
	return func(*op.Exec) error {
		left, err := a.View().Broadcast(matrices)
		if err != nil || op.Count(matrices) == 0 {
			return err
		}
		if m != nil {
			err = elementwise.Copy(m.View(), left)
		}
		if err != nil || x.Len() == 0 {
			return err
		}
		if a.DType.IsComplex() {
			return solveComplex(x, a, b, matrices, how)
		}
		right, err := b.View().Broadcast(solution)
		if err != nil {
			return err
		}
		return gemm.SolveTriangular(x.View(), left, right, how)
	}, nil
}

// solveComplex solves for complex matrices of the given shape, to which a is broadcast.
func solveComplex(x, a, b *op.Tensor, shape []int64, how gemm.Triangular) error {
	left, err := a.Numbers(shape)
	if err != nil {
		return err
	}
	values, err := b.Numbers(x.Shape)
	if err != nil {
		return err
	}
	n, columns := int(x.Dim(-2)), int(x.Dim(-1))
	for at := range len(left) / (n * n) {
		m := matrix.Complex{Rows: n, Cols: n, Data: left[at*n*n:][:n*n]}
		if how.Transpose {
			m = m.H()
		}
		right := matrix.Complex{Rows: n, Cols: columns, Data: values[at*n*columns:][:n*columns]}
		copy(right.Data, m.Solve(right, how.Upper != how.Transpose).Data)
	}
	return x.SetNumbers(values)
}
