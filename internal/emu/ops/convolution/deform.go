package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	convolutionkernel "github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/op"
)

// deformedConvolutions sample an image at positions that are shifted by offsets.
var deformedConvolutions = op.Table{"DeformableConv2d": deformableConv, "DeformableConv2dBackward": deformableConvGrad}

// deformed is a convolution whose filter samples an image at shifted positions. For each position,
// the offsets hold first all shifts in x, then all in y, then factors, each for every group of
// channels and every element of the filter.
type deformed struct {
	convolutionkernel.Window
	x, offset        *op.Tensor
	groups, channels int64 // groups of channels that share offsets, and channels of each
	rows, columns    int64 // positions of the filter
	filters          int64
	places           []int64                       // shape of the samples of all elements at all positions
	product          convolutionkernel.Convolution // of the samples with the weight
}

// four reads a list of four numbers. With leading, the first two, for batch and channels, must be
// 1.
func four(c *op.Call, name string, least int64, leading bool) []int64 {
	v := c.Ints(name)
	if v == nil {
		c.Fail(op.NullPointer, "%s is null", name)
	}
	if len(v) != 4 || slices.Min(v) < least || leading && (v[0] != 1 || v[1] != 1) {
		c.Invalid("%s %s must have four numbers from %d on; those of batch and channels must be 1", name, op.Dims(v), least)
		return []int64{1, 1, 1, 1}
	}
	return v
}

// newDeformed reads the parameters of the convolution and checks them, the filter and the offsets.
func newDeformed(c *op.Call, x, weight, offset *op.Tensor) *deformed {
	size, groups := c.Ints("kernelSize"), c.Int("groups")
	c.Rank(x, 4, 4)
	stride, pad, dilation := four(c, "stride", 1, true), four(c, "padding", 0, false), four(c, "dilation", 1, true)
	if len(size) != 2 || slices.Min(size) < 1 {
		c.Invalid("kernelSize %s must have two numbers above 0", op.Dims(size))
	}
	if !c.Bool("modulated") {
		c.Invalid("modulated is false; only offsets with factors are supported")
	}
	if c.Err() != nil {
		return nil
	}
	d := &deformed{
		Window: convolutionkernel.Window{Size: size, Stride: stride[2:], Dilation: dilation[2:], Pad: []int64{pad[0], pad[2]}}, x: x, offset: offset, groups: c.Int("deformableGroups"),
		// The samples are stored filter by filter, so the product is a convolution without overlap.
		product: convolutionkernel.Convolution{Groups: groups, Window: convolutionkernel.Window{Size: size, Stride: size, Dilation: []int64{1, 1}, Pad: []int64{0, 0}}},
	}
	n, channels := x.Shape[0], x.Shape[1]
	if groups < 1 || d.groups < 1 || channels%max(groups, 1) != 0 || channels%max(d.groups, 1) != 0 || x.Len() == 0 {
		c.Invalid("%v must not be empty, and its channels must divide evenly between groups %d and deformableGroups %d", x, groups, d.groups)
		return nil
	}
	d.channels = channels / d.groups
	d.rows = positions(x.Shape[2], size[0], stride[2], dilation[2], pad[0]+pad[1])
	d.columns = positions(x.Shape[3], size[1], stride[3], dilation[3], pad[2]+pad[3])
	d.filters = weight.Dim(0)
	c.Shape(weight, []int64{d.filters, channels / groups, size[0], size[1]}, "filters of kernelSize for the channels of a group")
	if d.filters%groups != 0 || d.rows < 1 || d.columns < 1 {
		c.Invalid("%v does not divide between %d groups, or is larger than the padded %v", weight, groups, x)
	}
	c.Shape(offset, []int64{n, 3 * d.groups * size[0] * size[1], d.rows, d.columns}, "two offsets and a factor for each element of the filter and position")
	d.places = []int64{n, channels, d.rows * size[0], d.columns * size[1]}
	return d
}

func deformableConv(c *op.Call) (op.Run, error) {
	x, weight, offset, bias, out, sampled := c.Tensor("x"), c.Tensor("weight"), c.Tensor("offset"), c.Optional("biasOptional"), c.Tensor("out"), c.Optional("deformOutOptional")
	convTypes(c, x, weight, offset, bias, out, sampled)
	for _, t := range []*op.Tensor{weight, offset, bias, out, sampled} {
		if t != nil {
			c.SameDType(x, t)
		}
	}
	d := newDeformed(c, x, weight, offset)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(out, []int64{x.Shape[0], d.filters, d.rows, d.columns}, "a value for each filter and position")
	biasOf(c, bias, d.filters)
	if sampled != nil {
		c.Shape(sampled, d.places, "the sample of each element of the filter at each position")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		t, release := kernel.Temporary(d.places...)
		defer release()
		if err := d.sample(t); err != nil {
			return err
		}
		if sampled != nil {
			if err := elementwise.Copy(sampled.View(), t); err != nil {
				return err
			}
		}
		return d.product.Forward(out.View(), t, weight.View(), op.OptionalView(bias))
	}, nil
}

// sample sets t [batch, channels, rows·height, columns·width] to the samples.
func (d *deformed) sample(t kernel.View) error {
	return d.each(func(m tap) error {
		into := m.of(t)
		if err := (interpolate.Grid{}).Forward(into, m.image, m.grid); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Mul, dtype.Float32, into, []elementwise.Input{elementwise.Of(into), elementwise.Of(m.factor)})
	})
}

// tap is one element of the filter with one image and group of channels: the sampled positions
// [1, rows, columns, 2] and the factors [rows, columns].
type tap struct {
	*deformed
	n, g, k             int64
	image, grid, factor kernel.View
}

// of returns the part of a tensor of all samples that belongs to the tap.
func (m tap) of(t kernel.View) kernel.View {
	height, width := m.Size[0], m.Size[1]
	return t.Narrow(0, m.n, 1).Narrow(1, m.g*m.channels, m.channels).Part(2, m.k/width, m.rows, height).Part(3, m.k%width, m.columns, width)
}

// row returns the index in the second dimension of the offsets for one kind of number: 0 for shifts
// in x, 1 for shifts in y, 2 for factors.
func (m tap) row(kind int64) int64 { return (kind*m.groups+m.g)*m.Size[0]*m.Size[1] + m.k }

// each calls f with every tap. All calls share the memory of the grid.
func (d *deformed) each(f func(m tap) error) error {
	width := d.Size[1]
	grid, release := kernel.Temporary(1, d.rows, d.columns, 2)
	defer release()
	for n := range d.x.Shape[0] {
		offsets := d.offset.View().Select(0, n)
		for g := range d.groups {
			for k := range d.Size[0] * width {
				m := tap{deformed: d, n: n, g: g, k: k, image: d.x.View().Narrow(0, n, 1).Narrow(1, g*d.channels, d.channels), grid: grid}
				m.factor = offsets.Select(0, m.row(2))
				for axis, element := range []int64{k % width, k / width} { // x, then y
					if err := d.place(grid.Select(3, int64(axis)).Select(0, 0), offsets.Select(0, m.row(int64(axis))), 1-axis, element); err != nil {
						return err
					}
				}
				if err := f(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// place sets grid [rows, columns] to the shifted coordinates, in [-1, 1], of an element of the
// filter along a spatial axis of the image, for each position.
func (d *deformed) place(grid, offset kernel.View, axis int, element int64) error {
	size, n := d.x.Shape[2+axis], grid.Shape[axis]
	line, release := kernel.Temporary(n)
	defer release()
	first := float64(element*d.Dilation[axis] - d.Pad[axis])
	if err := elementwise.Sequence(line, elementwise.Real((2*first+1)/float64(size)-1), elementwise.Real(2*float64(d.Stride[axis])/float64(size))); err != nil {
		return err
	}
	line.Shape, line.Strides = []int64{1, 1}, []int64{0, 0}
	line.Shape[axis], line.Strides[axis] = n, 1
	return elementwise.Map(elementwise.Add, dtype.Float32, grid, []elementwise.Input{elementwise.Of(line), elementwise.Of(offset)}, elementwise.Real(2/float64(size)))
}
