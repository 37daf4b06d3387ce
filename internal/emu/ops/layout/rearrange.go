package layout

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// rearranging lists the operators that move elements between positions that only the shapes and
// attributes determine.
var rearranging = op.Table{
	"ChannelShuffle": channelShuffle, "ConfusionTranspose": confusionTranspose, "Diag": diag, "DiagFlat": diag,
	"ChunkCat": chunkCat, "UnfoldGrad": unfoldGrad, "StridedSliceAssignV2": stridedAssign,
}.Selects("StridedSliceAssignV2")

func channelShuffle(c *op.Call) (op.Run, error) {
	self, out, groups := c.Tensor("self"), c.Tensor("out"), c.Int("groups")
	c.Movable(self, out)
	c.Same(self, out)
	c.Rank(self, 3, kernel.MaxRank-1)
	if c.Err() == nil && (groups <= 0 || self.Shape[1]%max(groups, 1) != 0) {
		c.Invalid("the channels of %v cannot be divided into %d groups", self, groups)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		from := op.Divided(self.View(), 1, groups)
		order := []int64{0, 2, 1}
		for i := 3; i < len(from.Shape); i++ {
			order = append(order, int64(i))
		}
		return elementwise.Copy(op.Divided(out.View(), 1, self.Shape[1]/groups), op.Permuted(from, order))
	}, nil
}

// confusionTranspose reshapes and then permutes, or permutes and then reshapes.
func confusionTranspose(c *op.Call) (op.Run, error) {
	x, out, perm, shape := c.Tensor("x"), c.Tensor("out"), c.Ints("perm"), c.Ints("shape")
	first := c.Bool("transpose_first")
	c.Movable(x, out)
	c.SameDType(x, out)
	sorted := slices.Sorted(slices.Values(perm))
	for i, k := range sorted {
		if int64(i) != k {
			c.Invalid("perm %s does not name each dimension once", op.Dims(perm))
			return nil, c.Err()
		}
	}
	between, flat := shape, x
	if first {
		between, flat = x.Shape, out
	}
	if len(perm) != len(between) || op.Count(shape) != x.Len() {
		c.Invalid("perm %s and shape %s do not fit %v", op.Dims(perm), op.Dims(shape), x)
		return nil, c.Err()
	}
	transposed := op.Permuted(kernel.View{Shape: between, Strides: between}, perm).Shape
	want := transposed
	if first {
		want = shape
	}
	c.Shape(out, want, "what perm and shape make of x")
	if !flat.Contiguous() {
		c.Invalid("%v must be contiguous to be reshaped", flat)
	}
	c.Rank(&op.Tensor{Shape: between}, 0, kernel.MaxRank)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		switch {
		case x.Len() == 0:
			return nil
		case first:
			return elementwise.Copy(out.As(transposed, op.ContiguousStrides(transposed)), op.Permuted(x.View(), perm))
		}
		return elementwise.Copy(out.View(), op.Permuted(x.As(shape, op.ContiguousStrides(shape)), perm))
	}, nil
}

// diag extracts a diagonal of a matrix, or builds a diagonal matrix from a vector. DiagFlat
// builds one from the elements of any tensor.
func diag(c *op.Call) (op.Run, error) {
	self, out, k := c.Tensor("self"), c.Tensor("out"), c.Int("diagonal")
	c.Movable(self, out)
	c.SameDType(self, out)
	flat := c.Op.Name == "DiagFlat"
	if !flat {
		c.Rank(self, 1, 2)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if !flat && self.Len() == 0 && k != 0 {
		return func(*op.Exec) error { return op.Zero(out) }, nil
	}
	if !flat && self.Rank() == 2 {
		line := op.OffDiagonal(kernel.View{DType: self.DType, Shape: self.Shape, Strides: self.Strides}, k)
		c.Shape(out, line.Shape, "the diagonal")
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if out.Len() == 0 {
				return nil
			}
			return elementwise.Copy(out.View(), op.OffDiagonal(self.View(), k))
		}, nil
	}
	n := self.Len() + max(k, -k)
	c.Shape(out, []int64{n, n}, "a matrix that holds the elements in its diagonal")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := op.Zero(out); err != nil || self.Len() == 0 {
			return err
		}
		line := op.OffDiagonal(out.View(), k)
		strides := op.ContiguousStrides(self.Shape)
		for i := range strides {
			strides[i] *= line.Strides[0]
		}
		line.Shape, line.Strides = self.Shape, strides
		return elementwise.Copy(line, self.View())
	}, nil
}

// chunkCat divides the first dimension of each tensor into chunks and concatenates the chunks
// with the same index in one row. Chunks that are too short are padded with zeros.
func chunkCat(c *op.Call) (op.Run, error) {
	tensors, out, n := c.Tensors("tensors"), c.Tensor("out"), c.Int("numChunks")
	c.Plain(out)
	c.DType(out, op.FloatTypes...)
	if dim := c.Int("dim"); dim != 0 {
		c.Invalid("dim is %d; only 0 is supported", dim)
	}
	if n <= 0 || len(tensors) == 0 {
		c.Invalid("numChunks is %d and there are %d tensors; both must be above 0", n, len(tensors))
		return nil, c.Err()
	}
	width := int64(0)
	for _, t := range tensors {
		c.Plain(t)
		c.DType(t, op.FloatTypes...)
		c.SameDType(tensors[0], t)
		c.Rank(t, 1, kernel.MaxRank)
		if c.Err() != nil {
			return nil, c.Err()
		}
		width += (t.Shape[0] + n - 1) / n * op.Count(t.Shape[1:])
	}
	c.Shape(out, []int64{n, width}, "a row for each chunk")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := op.Zero(out); err != nil {
			return err
		}
		place := int64(0)
		for _, t := range tensors {
			each, inner := (t.Shape[0]+n-1)/n, op.Count(t.Shape[1:])
			for k := int64(0); k < n && k*each < t.Shape[0] && inner > 0; k++ {
				part := t.View().Narrow(0, k*each, min(each, t.Shape[0]-k*each))
				row := out.View().Select(0, k).Narrow(0, place, part.Len())
				strides := op.ContiguousStrides(part.Shape)
				for i := range strides {
					strides[i] *= row.Strides[0]
				}
				row.Shape, row.Strides = part.Shape, strides
				if err := elementwise.Copy(row, part); err != nil {
					return err
				}
			}
			place += each * inner
		}
		return nil
	}, nil
}

// unfoldGrad adds the windows of a dimension, whose elements are the last dimension of gradOut,
// back to the positions they were read from.
func unfoldGrad(c *op.Call) (op.Run, error) {
	dy, dx, shape := c.Tensor("gradOut"), c.Tensor("gradIn"), c.Ints("inputSizes")
	size, step := c.Int("size"), c.Int("step")
	c.Plain(dy, dx)
	c.DType(dy, op.FloatTypes...)
	c.SameDType(dy, dx)
	c.Rank(dy, 2, kernel.MaxRank)
	c.Shape(dx, shape, "inputSizes")
	axis := c.Axis(dx, c.Int("dim"))
	if c.Err() == nil && (size <= 0 || step <= 0 || len(shape) == 0 || size > shape[axis]) {
		c.Invalid("size %d and step %d do not fit dimension %d of inputSizes %s", size, step, axis, op.Dims(shape))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := (shape[axis]-size)/step + 1
	want := append(slices.Clone(shape), size)
	want[axis] = n
	c.Shape(dy, want, "the windows of inputSizes")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dx.Len() == 0 {
			return nil
		}
		sum, release := kernel.Temporary(shape...)
		defer release()
		if err := elementwise.Zero(sum); err != nil {
			return err
		}
		for i := range size {
			part := sum.Part(axis, i, n, step)
			if err := elementwise.Map(elementwise.Add, dtype.Float32, part, []elementwise.Input{elementwise.Of(part), elementwise.Of(dy.View().Select(len(shape), i))}, elementwise.Real(1)); err != nil {
				return err
			}
		}
		return elementwise.Copy(dx.View(), sum)
	}, nil
}

// stridedAssign writes to every stride-th element from begin up to end of some dimensions.
// Negative positions count from the end; all are clamped to the dimension.
func stridedAssign(c *op.Call) (op.Run, error) {
	into, value, begin, end, strides, axes := c.Tensor("varRef"), c.Tensor("inputValue"), c.Ints("begin"), c.Ints("end"), c.Ints("strides"), c.Ints("axesOptional")
	c.Movable(into, value)
	c.SameDType(into, value)
	if axes == nil {
		for i := range begin {
			axes = append(axes, int64(i))
		}
	}
	if len(end) != len(begin) || len(strides) != len(begin) || len(axes) != len(begin) {
		c.Invalid("begin, end, strides and axes have %d, %d, %d and %d elements; they must have as many", len(begin), len(end), len(strides), len(axes))
		return nil, c.Err()
	}
	w := sectionOf(into)
	for i, a := range axes {
		axis := c.Axis(into, a)
		if strides[i] <= 0 {
			c.Invalid("stride %d of dimension %d must be above 0", strides[i], axis)
		}
		if c.Err() != nil {
			return nil, c.Err()
		}
		n := into.Dim(axis)
		at := func(x int64) int64 {
			if x < 0 {
				x += n
			}
			return min(max(x, 0), n)
		}
		lo, hi := at(begin[i]), at(end[i])
		w.cut(axis, lo, max((hi-lo+strides[i]-1)/strides[i], 0), strides[i])
	}
	c.Shape(value, w.shape, "the elements that begin, end and strides name")
	return c.CopyRun(func() kernel.View { return w.view(into) }, value.View)
}
