package resampling

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/op"
)

// grids lists the operators that sample images at positions given by a tensor, or create such
// tensors.
var grids = op.Table{
	"GridSampler2D": gridSample(2), "GridSampler3D": gridSample(3),
	"GridSampler2DBackward": gridSampleBackward(2), "GridSampler3DBackward": gridSampleBackward(3),
	"AffineGrid": affineGrid,
}.Selects("GridSampler2D", "GridSampler3D", "GridSampler2DBackward", "GridSampler3DBackward")

// sampler reads the arguments that the family shares: how an image with axes spatial dimensions
// is sampled at the positions in grid.
func sampler(c *op.Call, image, grid *op.Tensor, axes int) interpolate.Grid {
	s := interpolate.Grid{
		Mode: interpolate.Mode(c.Int("interpolationMode")), Padding: interpolate.Padding(c.Int("paddingMode")), Corners: c.Bool("alignCorners"),
	}
	most := interpolate.Cubic
	if axes == 3 {
		most = interpolate.Nearest
	}
	if s.Mode < 0 || s.Mode > most {
		c.Invalid("interpolationMode is %d; 0 is linear, 1 the nearest element, 2 (of two dimensions only) cubic", s.Mode)
	}
	if s.Padding < 0 || s.Padding > interpolate.Reflection {
		c.Invalid("paddingMode is %d; 0 is zeros, 1 the border, 2 reflection", s.Padding)
	}
	c.Plain(image, grid)
	c.DType(image, op.RealTypes...)
	c.SameDType(image, grid)
	c.Rank(image, axes+2, axes+2)
	c.Rank(grid, axes+2, axes+2)
	if c.Err() != nil {
		return s
	}
	if grid.Shape[0] != image.Shape[0] || grid.Dim(-1) != int64(axes) {
		c.Invalid("%v must have the batch of %v and %d coordinates", grid, image, axes)
	}
	if slices.Contains(image.Shape[2:], 0) {
		c.Invalid("%v has nothing to read; its last %d dimensions must not be 0", image, axes)
	}
	return s
}

// sampled returns the shape of the result of sampling an image with a grid.
func sampled(image, grid *op.Tensor) []int64 {
	return slices.Concat(image.Shape[:2], grid.Shape[1:grid.Rank()-1])
}

func gridSample(axes int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		image, grid, out := c.Tensor("input"), c.Tensor("grid"), c.Tensor("out")
		image, out = spatialLast(c, axes, image), spatialLast(c, axes, out)
		s := sampler(c, image, grid, axes)
		c.Plain(out)
		c.SameDType(image, out)
		if c.Err() == nil {
			c.Shape(out, sampled(image, grid), "an element of each channel for each place")
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error { return s.Forward(out.View(), image.View(), grid.View()) }, nil
	}
}

func gridSampleBackward(axes int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		dout, image, grid, wanted := c.Tensor("gradOutput"), c.Tensor("input"), c.Tensor("grid"), c.Bools("outputMask")
		last := axes == 3 && image != nil && image.Format == dtype.NDHWC
		image, dout = spatialLast(c, axes, image), spatialLast(c, axes, dout)
		s := sampler(c, image, grid, axes)
		c.Plain(dout)
		c.SameDType(image, dout)
		if len(wanted) != 2 {
			c.Invalid("outputMask has %d elements; it has one for the input and one for the grid", len(wanted))
		}
		if c.Err() != nil {
			return nil, c.Err()
		}
		c.Shape(dout, sampled(image, grid), "an element of each channel for each place")
		grads := make([]*op.Tensor, 2)
		for i, name := range []string{"inputGrad", "gridGrad"} {
			if wanted[i] {
				grads[i] = c.Tensor(name)
				if last && i == 0 && grads[i] != nil { // in the order of the input, whatever its own format
					grads[i] = channelsFirst(c, grads[i])
				}
				c.Plain(grads[i])
				c.Same([]*op.Tensor{image, grid}[i], grads[i])
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if dout.Len() == 0 {
				return op.ZeroAll(grads...)
			}
			return s.Backward(op.OptionalView(grads[0]), op.OptionalView(grads[1]), dout.View(), image.View(), grid.View())
		}, nil
	}
}

// affineGrid maps the positions of images of a given size by one affine matrix per image. The
// result is the grid that GridSampler takes.
func affineGrid(c *op.Call) (op.Run, error) {
	theta, out, size := c.Tensor("theta"), c.Tensor("out"), c.Ints("size")
	if size == nil {
		c.Fail(op.NullPointer, "size is null")
	}
	c.Plain(theta, out)
	c.DType(theta, op.FloatTypes...)
	c.SameDType(theta, out)
	if len(size) != 4 && len(size) != 5 {
		c.Invalid("size is %s; it must be [N,C,H,W] or [N,C,D,H,W]", op.Dims(size))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	axes := int64(len(size) - 2)
	for i, n := range size {
		if n < 1 {
			c.Invalid("size %s has %d in dimension %d; every size must be at least 1", op.Dims(size), n, i)
		}
	}
	c.Shape(theta, []int64{size[0], axes, axes + 1}, "a matrix for each image of size")
	c.Shape(out, slices.Concat(size[:1], size[2:], []int64{axes}), "a place for each element of size")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		base, release := kernel.Temporary(append(slices.Clone(size[2:]), axes+1)...)
		defer release()
		if err := places(base, c.Bool("alignCorners")); err != nil {
			return err
		}
		lead := slices.Concat(size[:1], size[2:len(size)-1])
		a, err := base.Broadcast(append(slices.Clone(size[:1]), base.Shape...))
		if err != nil {
			return err
		}
		b := op.Permuted(theta.View(), []int64{0, 2, 1})
		for range len(lead) - 1 { // use one matrix for all rows of an image
			b.Shape, b.Strides = slices.Insert(b.Shape, 1, 1), slices.Insert(b.Strides, 1, 0)
		}
		if b, err = b.Broadcast(slices.Concat(lead, []int64{axes + 1, axes})); err != nil {
			return err
		}
		return gemm.Gemm(gemm.Product{Out: out.View(), A: a, B: b, Alpha: 1})
	}, nil
}

// places fills base [size…, axes+1] with the coordinates of every element in [-1, 1], the last
// axis first, followed by a one.
func places(base kernel.View, corners bool) error {
	axes := len(base.Shape) - 1
	for i := range axes {
		n := base.Shape[i]
		first, step := 1/float64(n)-1, 2/float64(n)
		if corners {
			first, step = -1, 2/float64(max(n-1, 1))
			if n == 1 {
				first = 0
			}
		}
		line, release := kernel.Temporary(n)
		defer release()
		if err := elementwise.Sequence(line, elementwise.Real(first), elementwise.Real(step)); err != nil {
			return err
		}
		into := base.Select(axes, int64(axes-1-i))
		line.Shape, line.Strides = slices.Repeat([]int64{1}, axes), make([]int64, axes)
		line.Shape[i], line.Strides[i] = n, 1
		if err := elementwise.Map(elementwise.Identity, dtype.Float32, into, []elementwise.Input{elementwise.Of(line)}); err != nil {
			return err
		}
	}
	return elementwise.Fill(base.Select(axes, int64(axes)), elementwise.Real(1))
}
