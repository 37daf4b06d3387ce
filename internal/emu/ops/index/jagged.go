package index

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	indexingkernel "github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// jagged are operators on a dimension that consists of parts of different lengths.
var jagged = op.Table{"RepeatInterleaveGrad": repeatGrad, "ExpandIntoJaggedPermute": jaggedPermute, "CoalesceSparse": coalesce}.Selects("CoalesceSparse")

// repeatGrad is the gradient of repetition: it sums the copies of each element. repeats is one
// number for all elements along the axis, or one for each. The result may have any shape with the
// right number of elements.
func repeatGrad(c *op.Call) (op.Run, error) {
	dy, repeats, out := c.Tensor("yGrad"), c.Tensor("repeats"), c.Tensor("out")
	c.Plain(dy, repeats, out)
	c.DType(dy, op.FloatTypes...)
	c.SameDType(dy, out)
	c.DType(repeats, op.IndexTypes...)
	c.Rank(repeats, 0, 1)
	c.Rank(dy, 1, kernel.MaxRank)
	axis := c.Axis(dy, c.Int("axis"))
	if repeats.Len() == 0 {
		c.Invalid("%v is empty; it must have one number, or one for each element", repeats)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	each := op.Count(dy.Shape[:axis]) * op.Count(dy.Shape[axis+1:])
	n := out.Len() / max(each, 1) // elements along the axis
	if n*each != out.Len() || repeats.Len() > 1 && n != repeats.Len() {
		c.Invalid("%v does not hold the sums of %v along dimension %d, as many as %v has", out, dy, axis, repeats)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		lengths, err := elementwise.Indices(repeats.View())
		if err != nil {
			return err
		}
		shape := append([]int64{}, dy.Shape...)
		shape[axis] = n
		t, release := kernel.Temporary(shape...)
		defer release()
		first, length := int64(0), lengths[0]
		for i := range n {
			if len(lengths) > 1 {
				length = lengths[i]
			}
			if length < 0 || length > dy.Shape[axis]-first {
				return fmt.Errorf("%v holds %v; the numbers must not be negative, and their sum must be the %d elements of dimension %d", repeats, lengths, dy.Shape[axis], axis)
			}
			err := elementwise.Zero(t.Select(axis, i))
			if length > 0 {
				err = rowwise.Reduce(rowwise.ReduceSum, t.Select(axis, i), dy.View().Narrow(axis, first, length), []int{axis}, 0)
			}
			if err != nil {
				return err
			}
			first += length
		}
		if first != dy.Shape[axis] {
			return fmt.Errorf("%v holds %v; together they are %d, but dimension %d has %d elements", repeats, lengths, first, axis, dy.Shape[axis])
		}
		t.Shape, t.Strides = out.Shape, op.ContiguousStrides(out.Shape)
		return elementwise.Copy(out.View(), t)
	}, nil
}

// jaggedPermute returns the indices of the elements of permuted parts: part i of the result has
// consecutive indices that begin at the start of part permute[i] of the input.
func jaggedPermute(c *op.Call) (op.Run, error) {
	permute, from, to, out, size := c.Tensor("permute"), c.Tensor("inputOffset"), c.Tensor("outputOffset"), c.Tensor("outputPermuteOut"), c.Int("outputSize")
	for _, t := range []*op.Tensor{permute, from, to, out} {
		c.Plain(t)
		c.DType(t, dtype.Int32)
		c.Rank(t, 1, 1)
	}
	if c.Err() == nil {
		offsets := []int64{permute.Len() + 1}
		c.Shape(from, offsets, "where each part begins, and the end")
		c.Shape(to, offsets, "where each part begins, and the end")
		c.Shape(out, []int64{size}, "outputSize elements")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		var read [3][]int64
		for i, t := range []*op.Tensor{permute, from, to} {
			var err error
			if read[i], err = elementwise.Indices(t.View()); err != nil {
				return err
			}
		}
		result := make([]int64, size)
		parts, begins := read[2], read[1]
		for i, p := range read[0] {
			if p < 0 || p >= permute.Len() {
				return fmt.Errorf("%v names part %d at position %d; there are %d", permute, p, i, permute.Len())
			}
			if parts[i] < 0 || parts[i+1] < parts[i] || parts[i+1] > size {
				return fmt.Errorf("%v holds %v; the offsets must not fall, and end at outputSize %d", to, parts, size)
			}
			for k := parts[i]; k < parts[i+1]; k++ {
				result[k] = begins[p] + k - parts[i]
			}
		}
		if end := parts[len(parts)-1]; end != size {
			return fmt.Errorf("%v ends at %d, but outputSize is %d", to, end, size)
		}
		return indexingkernel.SetInts(out.View(), result)
	}, nil
}

// coalesce sums the values that have the same coordinates. uniqueIndices has the row of the result
// for each value.
func coalesce(c *op.Call) (op.Run, error) {
	length, unique, indices, values := c.Tensor("uniqueLen"), c.Tensor("uniqueIndices"), c.Tensor("indices"), c.Tensor("values")
	newIndices, newValues := c.Tensor("newIndicesOut"), c.Tensor("newValuesOut")
	for _, t := range []*op.Tensor{length, unique, indices, newIndices} {
		c.Plain(t)
		c.DType(t, op.IndexTypes...)
	}
	c.Plain(values, newValues)
	c.DType(values, dtype.Int32, dtype.Float16, dtype.Float32)
	c.SameDType(values, newValues)
	c.SameDType(indices, newIndices)
	c.Rank(unique, 1, 1)
	c.Rank(indices, 2, 2)
	c.Rank(values, 1, kernel.MaxRank)
	c.Rank(newValues, 1, kernel.MaxRank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	n, rows := unique.Len(), newValues.Shape[0]
	c.Shape(indices, []int64{n, indices.Shape[1]}, "a row of coordinates for each of uniqueIndices")
	c.Shape(values, append([]int64{n}, values.Shape[1:]...), "a value for each of uniqueIndices")
	c.Shape(newIndices, []int64{rows, indices.Shape[1]}, "a row of coordinates for each of newValuesOut")
	c.Shape(newValues, append([]int64{rows}, values.Shape[1:]...), "values like those that are added up")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := op.ZeroAll(newIndices, newValues); err != nil || n == 0 {
			return err
		}
		at := []kernel.View{unique.View()}
		if err := indexingkernel.PutAt(indexingkernel.ScatterSet, newIndices.View(), indices.View(), at); err != nil {
			return err
		}
		return indexingkernel.PutAt(indexingkernel.ScatterAdd, newValues.View(), values.View(), at)
	}, nil
}
