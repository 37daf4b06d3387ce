package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// deformedConvolutions read an image at places that are moved by offsets.
var deformedConvolutions = table{"DeformableConv2d": deformableConv, "DeformableConv2dBackward": deformableConvGrad}

// deformed is a convolution whose filter meets an image at moved places. The offsets of a
// position are, for each group of channels and element of the filter, first all in x, then
// all in y, then factors.
type deformed struct {
	kernel.Window
	x, offset        *Tensor
	groups, channels int64 // of channels that share offsets, and how many each has
	rows, columns    int64 // positions
	filters          int64
	places           []int64            // shape of what all elements meet at all positions
	product          kernel.Convolution // of that
}

// four reads a list of four numbers, of which the first two are 1 for stride and dilation.
func (c *Call) four(name string, least int64, leading bool) []int64 {
	v := c.Ints(name)
	if v == nil {
		c.Fail(nullPointer, "%s is null", name)
	}
	if len(v) != 4 || slices.Min(v) < least || leading && (v[0] != 1 || v[1] != 1) {
		c.Invalid("%s %s must have four numbers from %d on; those of batch and channels must be 1", name, dims(v), least)
		return []int64{1, 1, 1, 1}
	}
	return v
}

// deformed reads how a filter meets an image, and checks both and the offsets.
func (c *Call) deformed(x, weight, offset *Tensor) *deformed {
	size, groups := c.Ints("kernelSize"), c.Int("groups")
	c.Rank(x, 4, 4)
	stride, pad, dilation := c.four("stride", 1, true), c.four("padding", 0, false), c.four("dilation", 1, true)
	if len(size) != 2 || slices.Min(size) < 1 {
		c.Invalid("kernelSize %s must have two numbers above 0", dims(size))
	}
	if !c.Bool("modulated") {
		c.Invalid("modulated is false; only offsets with factors are supported")
	}
	if c.Err() != nil {
		return nil
	}
	d := &deformed{
		Window: kernel.Window{Size: size, Stride: stride[2:], Dilation: dilation[2:], Pad: []int64{pad[0], pad[2]}}, x: x, offset: offset, groups: c.Int("deformableGroups"),
		// What was read lies filter by filter, so that the product is a convolution without overlap.
		product: kernel.Convolution{Groups: groups, Window: kernel.Window{Size: size, Stride: size, Dilation: []int64{1, 1}, Pad: []int64{0, 0}}},
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

func deformableConv(c *Call) (Run, error) {
	x, weight, offset, bias, out, sampled := c.Tensor("x"), c.Tensor("weight"), c.Tensor("offset"), c.Optional("biasOptional"), c.Tensor("out"), c.Optional("deformOutOptional")
	c.convTypes(x, weight, offset, bias, out, sampled)
	for _, t := range []*Tensor{weight, offset, bias, out, sampled} {
		if t != nil {
			c.SameDType(x, t)
		}
	}
	d := c.deformed(x, weight, offset)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(out, []int64{x.Shape[0], d.filters, d.rows, d.columns}, "a value for each filter and position")
	c.biasOf(bias, d.filters)
	if sampled != nil {
		c.Shape(sampled, d.places, "what each element of the filter meets at each position")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		t, release := kernel.Temporary(d.places...)
		defer release()
		if err := d.sample(t); err != nil {
			return err
		}
		if sampled != nil {
			if err := kernel.Copy(sampled.View(), t); err != nil {
				return err
			}
		}
		return d.product.Forward(out.View(), t, weight.View(), optionalView(bias))
	}, nil
}

// sample sets t [batch, channels, rows·height, columns·width] to what the filter meets.
func (d *deformed) sample(t kernel.View) error {
	return d.each(func(m meeting) error {
		into := m.of(t)
		if err := (kernel.GridSampler{}).Forward(into, m.image, m.grid); err != nil {
			return err
		}
		return kernel.Map(kernel.Mul, dtype.Float32, into, []kernel.Input{kernel.Of(into), kernel.Of(m.factor)})
	})
}

// meeting is what one element of the filter meets in one image and group of channels: the
// places [1, rows, columns, 2] that it reads, and factors [rows, columns].
type meeting struct {
	*deformed
	n, g, k             int64
	image, grid, factor kernel.View
}

// of is the part of a tensor of all places that belongs to the meeting.
func (m meeting) of(t kernel.View) kernel.View {
	height, width := m.Size[0], m.Size[1]
	return t.Narrow(0, m.n, 1).Narrow(1, m.g*m.channels, m.channels).Part(2, m.k/width, m.rows, height).Part(3, m.k%width, m.columns, width)
}

// row is the place of something in the second dimension of the offsets: 0 moves in x, 1 moves in
// y, 2 factors.
func (m meeting) row(kind int64) int64 { return (kind*m.groups+m.g)*m.Size[0]*m.Size[1] + m.k }

// each calls f with all meetings, one after the other; the grid is the same memory.
func (d *deformed) each(f func(m meeting) error) error {
	width := d.Size[1]
	grid, release := kernel.Temporary(1, d.rows, d.columns, 2)
	defer release()
	for n := range d.x.Shape[0] {
		moves := d.offset.View().Select(0, n)
		for g := range d.groups {
			for k := range d.Size[0] * width {
				m := meeting{deformed: d, n: n, g: g, k: k, image: d.x.View().Narrow(0, n, 1).Narrow(1, g*d.channels, d.channels), grid: grid}
				m.factor = moves.Select(0, m.row(2))
				for axis, element := range []int64{k % width, k / width} { // x, then y
					if err := d.place(grid.Select(3, int64(axis)).Select(0, 0), moves.Select(0, m.row(int64(axis))), 1-axis, element); err != nil {
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

// place sets grid [rows, columns] to the coordinates along a spatial axis, in [-1, 1] of the
// image, where an element of the filter is for each position, moved.
func (d *deformed) place(grid, move kernel.View, axis int, element int64) error {
	size, n := d.x.Shape[2+axis], grid.Shape[axis]
	line, release := kernel.Temporary(n)
	defer release()
	first := float64(element*d.Dilation[axis] - d.Pad[axis])
	if err := kernel.Sequence(line, kernel.Real((2*first+1)/float64(size)-1), kernel.Real(2*float64(d.Stride[axis])/float64(size))); err != nil {
		return err
	}
	line.Shape, line.Strides = []int64{1, 1}, []int64{0, 0}
	line.Shape[axis], line.Strides[axis] = n, 1
	return kernel.Map(kernel.Add, dtype.Float32, grid, []kernel.Input{kernel.Of(line), kernel.Of(move)}, kernel.Real(2/float64(size)))
}
