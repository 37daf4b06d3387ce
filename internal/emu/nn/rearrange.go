package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// rearranging are the operators that move elements between shapes and places that the
// arguments fix.
var rearranging = table{
	"ChannelShuffle": channelShuffle, "ConfusionTranspose": confusionTranspose, "Diag": diag, "DiagFlat": diag, "Trace": trace,
	"ChunkCat": chunkCat, "UnfoldGrad": unfoldGrad, "StridedSliceAssignV2": stridedAssign,
}

// divided is a view with one dimension divided in two, the outer of n parts.
func divided(v kernel.View, axis int, n int64) kernel.View {
	inner := v.Shape[axis] / max(n, 1)
	v.Shape = slices.Insert(slices.Clone(v.Shape), axis, n)
	v.Strides = slices.Insert(slices.Clone(v.Strides), axis, v.Strides[axis]*inner)
	v.Shape[axis+1] = inner
	return v
}

// permuted is a view with its dimensions in another order.
func permuted(v kernel.View, order []int64) kernel.View {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, k := range order {
		shape[i], strides[i] = v.Shape[k], v.Strides[k]
	}
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

func channelShuffle(c *Call) (Run, error) {
	self, out, groups := c.Tensor("self"), c.Tensor("out"), c.Int("groups")
	c.movable(self, out)
	c.Same(self, out)
	c.Rank(self, 3, kernel.MaxRank-1)
	if c.Err() == nil && (groups <= 0 || self.Shape[1]%max(groups, 1) != 0) {
		c.Invalid("the channels of %v cannot be divided into %d groups", self, groups)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return nil
		}
		from := divided(self.View(), 1, groups)
		order := []int64{0, 2, 1}
		for i := 3; i < len(from.Shape); i++ {
			order = append(order, int64(i))
		}
		return kernel.Copy(divided(out.View(), 1, self.Shape[1]/groups), permuted(from, order))
	}, nil
}

// confusionTranspose reshapes and then permutes, or the other way round.
func confusionTranspose(c *Call) (Run, error) {
	x, out, perm, shape := c.Tensor("x"), c.Tensor("out"), c.Ints("perm"), c.Ints("shape")
	first := c.Bool("transpose_first")
	c.movable(x, out)
	c.SameDType(x, out)
	sorted := slices.Sorted(slices.Values(perm))
	for i, k := range sorted {
		if int64(i) != k {
			c.Invalid("perm %s does not name each dimension once", dims(perm))
			return nil, c.Err()
		}
	}
	between, flat := shape, x
	if first {
		between, flat = x.Shape, out
	}
	if len(perm) != len(between) || count(shape) != x.Len() {
		c.Invalid("perm %s and shape %s do not fit %v", dims(perm), dims(shape), x)
		return nil, c.Err()
	}
	turned := permuted(kernel.View{Shape: between, Strides: between}, perm).Shape
	want := turned
	if first {
		want = shape
	}
	c.Shape(out, want, "what perm and shape make of x")
	if !flat.Contiguous() {
		c.Invalid("%v must be contiguous to be reshaped", flat)
	}
	c.Rank(&Tensor{Shape: between}, 0, kernel.MaxRank)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		switch {
		case x.Len() == 0:
			return nil
		case first:
			return kernel.Copy(out.As(turned, ContiguousStrides(turned)), permuted(x.View(), perm))
		}
		return kernel.Copy(out.View(), permuted(x.As(shape, ContiguousStrides(shape)), perm))
	}, nil
}

// offDiagonal is the diagonal of a matrix that is k places above the main one.
func offDiagonal(v kernel.View, k int64) kernel.View {
	axis := 1
	if k < 0 {
		axis, k = 0, -k
	}
	n := max(v.Shape[axis]-k, 0)
	if n == 0 {
		return kernel.View{DType: v.DType, Shape: []int64{0}, Strides: []int64{1}}
	}
	return v.Narrow(axis, k, n).Diagonal()
}

// diag takes a diagonal out of a matrix, or makes a matrix of a vector; DiagFlat makes one
// of the elements of any tensor.
func diag(c *Call) (Run, error) {
	self, out, k := c.Tensor("self"), c.Tensor("out"), c.Int("diagonal")
	c.movable(self, out)
	c.SameDType(self, out)
	flat := c.op.name == "DiagFlat"
	if !flat {
		c.Rank(self, 1, 2)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if !flat && self.Rank() == 2 {
		line := offDiagonal(kernel.View{DType: self.DType, Shape: self.Shape, Strides: self.Strides}, k)
		c.Shape(out, line.Shape, "the diagonal")
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			if out.Len() == 0 {
				return nil
			}
			return kernel.Copy(out.View(), offDiagonal(self.View(), k))
		}, nil
	}
	n := self.Len() + max(k, -k)
	c.Shape(out, []int64{n, n}, "a matrix that holds the elements in its diagonal")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := zero(out); err != nil || self.Len() == 0 {
			return err
		}
		line := offDiagonal(out.View(), k)
		strides := ContiguousStrides(self.Shape)
		for i := range strides {
			strides[i] *= line.Strides[0]
		}
		line.Shape, line.Strides = self.Shape, strides
		return kernel.Copy(line, self.View())
	}, nil
}

// trace sums the main diagonal.
func trace(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.countable(self)
	c.plain(self, out)
	c.Rank(self, 2, 2)
	c.single(out)
	if self.DType.IsInteger() || self.DType == dtype.Bool {
		c.DType(out, dtype.Int64)
	} else {
		c.SameDType(self, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return kernel.Reduce(kernel.ReduceSum, out.As([]int64{}, []int64{}), offDiagonal(self.View(), 0), []int{0}, 0)
	}, nil
}

// chunkCat divides the first dimension of each tensor into chunks, the last of which may
// lack elements, and sets the chunks of one number side by side in a row; zeros fill what
// lacks.
func chunkCat(c *Call) (Run, error) {
	tensors, out, n := c.Tensors("tensors"), c.Tensor("out"), c.Int("numChunks")
	c.plain(out)
	c.DType(out, transformerTypes...)
	if dim := c.Int("dim"); dim != 0 {
		c.Invalid("dim is %d; only 0 is supported", dim)
	}
	if n <= 0 || len(tensors) == 0 {
		c.Invalid("numChunks is %d and there are %d tensors; both must be above 0", n, len(tensors))
		return nil, c.Err()
	}
	width := int64(0)
	for _, t := range tensors {
		c.plain(t)
		c.DType(t, transformerTypes...)
		c.SameDType(tensors[0], t)
		c.Rank(t, 1, kernel.MaxRank)
		if c.Err() != nil {
			return nil, c.Err()
		}
		width += (t.Shape[0] + n - 1) / n * count(t.Shape[1:])
	}
	c.Shape(out, []int64{n, width}, "a row for each chunk")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := zero(out); err != nil {
			return err
		}
		place := int64(0)
		for _, t := range tensors {
			each, inner := (t.Shape[0]+n-1)/n, count(t.Shape[1:])
			for k := int64(0); k < n && k*each < t.Shape[0] && inner > 0; k++ {
				part := t.View().Narrow(0, k*each, min(each, t.Shape[0]-k*each))
				row := out.View().Select(0, k).Narrow(0, place, part.Len())
				strides := ContiguousStrides(part.Shape)
				for i := range strides {
					strides[i] *= row.Strides[0]
				}
				row.Shape, row.Strides = part.Shape, strides
				if err := kernel.Copy(row, part); err != nil {
					return err
				}
			}
			place += each * inner
		}
		return nil
	}, nil
}

// unfoldGrad adds windows of a dimension, which the last one of gradOut numbers, back to
// where they were taken.
func unfoldGrad(c *Call) (Run, error) {
	dy, dx, shape := c.Tensor("gradOut"), c.Tensor("gradIn"), c.Ints("inputSizes")
	size, step := c.Int("size"), c.Int("step")
	c.plain(dy, dx)
	c.DType(dy, transformerTypes...)
	c.SameDType(dy, dx)
	c.Rank(dy, 2, kernel.MaxRank)
	c.Shape(dx, shape, "inputSizes")
	axis := c.Axis(dx, c.Int("dim"))
	if c.Err() == nil && (size <= 0 || step <= 0 || len(shape) == 0 || size > shape[axis]) {
		c.Invalid("size %d and step %d do not fit dimension %d of inputSizes %s", size, step, axis, dims(shape))
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
	return func(*Exec) error {
		if dx.Len() == 0 {
			return nil
		}
		sum, release := kernel.Temporary(shape...)
		defer release()
		if err := kernel.Zero(sum); err != nil {
			return err
		}
		for i := range size {
			part := sum.Part(axis, i, n, step)
			if err := kernel.Map(kernel.Add, dtype.Float32, part, []kernel.Input{kernel.Of(part), kernel.Of(dy.View().Select(len(shape), i))}, kernel.Real(1)); err != nil {
				return err
			}
		}
		return kernel.Copy(dx.View(), sum)
	}, nil
}

// stridedAssign writes to every stride-th element from begin up to end of some dimensions.
// Places count from the end if negative, and are cut to the dimension.
func stridedAssign(c *Call) (Run, error) {
	into, value, begin, end, strides, axes := c.Tensor("varRef"), c.Tensor("inputValue"), c.Ints("begin"), c.Ints("end"), c.Ints("strides"), c.Ints("axesOptional")
	c.movable(into, value)
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
		n := into.Shape[axis]
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
	return c.copyRun(func() kernel.View { return w.view(into) }, value.View)
}
