package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Convolution is a convolution in groups of channels, from images [N, channels, spatial…]
// to maps [N, filters, positions…] with weights [filters, channels/groups, size…]. It is
// computed as a matrix product of the weights with the columns of Unfold. All tensors are
// float32, float16 or bfloat16 in any combination, summed in float32, or all float64.
type Convolution struct {
	Window
	Groups int64
}

// columnsLimit bounds the number of column elements that are unfolded at a time.
const columnsLimit = 1 << 22

// block is a range of positions of one image whose columns are unfolded together.
type block struct {
	image       int64
	first, rows int64   // along the first spatial dimension
	positions   []int64 // of the block
	from, count int64   // positions in row-major order
}

// blocks calls f with every block of images with some number of channels.
func (v Convolution) blocks(images, channels int64, positions []int64, f func(b block) error) error {
	row := kernel.View{Shape: positions[1:]}.Len()
	rows := max(1, columnsLimit/max(1, channels*kernel.View{Shape: v.Size}.Len()*row))
	for n := range images {
		for first := int64(0); first < positions[0]; first += rows {
			b := block{image: n, first: first, rows: min(rows, positions[0]-first), from: first * row}
			b.positions = slices.Concat([]int64{b.rows}, positions[1:])
			b.count = b.rows * row
			if err := f(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// unfolding returns the columns of blocks as [groups, channels/groups · size, positions].
type unfolding struct {
	v       Convolution
	frame   kernel.View
	all     kernel.View // [N, channels, size…, positions…]
	columns kernel.View
	release []func()
}

func (v Convolution) unfold(image kernel.View, positions []int64) (*unfolding, error) {
	u := &unfolding{v: v}
	frame, release, err := v.framed(image, positions, elementwise.Real(0))
	if err != nil {
		return nil, err
	}
	u.release = append(u.release, release)
	u.frame, u.all = frame, v.positions(frame, positions)
	row := kernel.View{Shape: u.all.Shape[1:]}.Len() / positions[0]
	u.columns, release = kernel.TemporaryOf(image.DType, row*max(1, min(positions[0], columnsLimit/max(1, row))))
	u.release = append(u.release, release)
	return u, nil
}

func (u *unfolding) close() {
	for _, f := range u.release {
		f()
	}
}

// block returns the columns of a block. The next call overwrites them.
func (u *unfolding) block(b block) (kernel.View, error) {
	part := u.all.Select(0, b.image)
	part = part.Part(1+len(u.v.Size), b.first, b.rows, 1)
	whole := u.columns.Reshaped(part.Shape...)
	if err := elementwise.Copy(whole, part); err != nil {
		return kernel.View{}, err
	}
	return whole.Reshaped(u.v.Groups, part.Len()/u.v.Groups/b.count, b.count), nil
}

// matrices returns v as contiguous [groups, rows, columns], copied unless v is contiguous.
func matrices(c *rowwise.Chain, v kernel.View, groups int64) kernel.View {
	whole := v
	if !v.Contiguous() {
		whole = c.TempOf(v.DType, v.Shape)
		if c.Err == nil {
			c.Err = elementwise.Copy(whole, v)
		}
	}
	rows := max(v.Shape[0]/groups, 1)
	return whole.Reshaped(groups, rows, v.Len()/groups/rows)
}

// grouped returns v as contiguous [N, groups, filters/groups, positions]. It is a copy, so that
// writing it does not change v, unless v is contiguous.
func grouped(c *rowwise.Chain, v kernel.View, groups int64) kernel.View {
	shape := []int64{v.Shape[0], groups, v.Shape[1] / groups, kernel.View{Shape: v.Shape[2:]}.Len()}
	if v.Contiguous() {
		return v.Reshaped(shape...)
	}
	return c.TempOf(v.DType, shape)
}

// Forward writes the maps of images. bias has one number per filter, or no data.
func (v Convolution) Forward(maps, image, weight, bias kernel.View) error {
	if maps.Len() == 0 {
		return nil
	}
	positions := maps.Shape[2:]
	c := rowwise.NewChain(maps)
	w, out := matrices(c, weight, v.Groups), grouped(c, maps, v.Groups)
	u, err := v.unfold(image, positions)
	if err != nil {
		return errorsOf(c, err)
	}
	defer u.close()
	err = v.blocks(maps.Shape[0], image.Shape[1], positions, func(b block) error {
		columns, err := u.block(b)
		if err != nil || c.Err != nil {
			return err
		}
		p := gemm.Product{A: w, B: columns, Out: out.Select(0, b.image).Part(2, b.from, b.count, 1), Alpha: 1}
		if bias.Data != nil {
			each := kernel.View{Data: bias.Data, DType: bias.DType, Shape: p.Out.Shape, Strides: []int64{p.Out.Shape[1] * bias.Strides[0], bias.Strides[0], 0}}
			p.Add, p.Beta = &each, 1
		}
		return gemm.Gemm(p)
	})
	if err == nil && c.Err == nil && out.Data != maps.Data {
		err = elementwise.Copy(maps, out.Reshaped(maps.Shape...))
	}
	return errorsOf(c, err)
}

// errorsOf ends a chain and returns its error, or else err.
func errorsOf(c *rowwise.Chain, err error) error {
	if first := c.End(); first != nil {
		return first
	}
	return err
}

// ImageGrad writes the gradient of images from that of maps: the transposed convolution.
// bias has one number per channel of the image, or no data.
func (v Convolution) ImageGrad(image, maps, weight, bias kernel.View) error {
	if image.Len() == 0 {
		return nil
	}
	c := rowwise.NewChain(image)
	defer c.End()
	positions := maps.Shape[2:]
	w, in := matrices(c, weight, v.Groups), grouped(c, maps, v.Groups)
	if in.Data != maps.Data && c.Err == nil {
		c.Err = elementwise.Copy(in.Reshaped(maps.Shape...), maps)
	}
	shape := slices.Concat([]int64{image.Shape[1]}, v.Size, positions)
	columns := c.Temp(shape)
	if bias.Data != nil {
		strides := make([]int64, len(image.Shape)-1)
		strides[0] = bias.Strides[0]
		bias = kernel.View{Data: bias.Data, DType: bias.DType, Shape: image.Shape[1:], Strides: strides}
	}
	for n := range image.Shape[0] {
		if c.Err != nil {
			break
		}
		if columns.Len() > 0 {
			product := columns.Reshaped(v.Groups, w.Shape[2], in.Shape[3])
			c.Err = gemm.Gemm(gemm.Product{A: w.Transposed(), B: in.Select(0, n), Out: product, Alpha: 1})
		}
		if c.Err == nil {
			c.Err = v.Fold(image.Select(0, n), columns, bias)
		}
	}
	return c.Err
}

// WeightGrad writes the gradient of weights from that of maps.
func (v Convolution) WeightGrad(weight, maps, image kernel.View) error {
	if weight.Len() == 0 {
		return nil
	}
	c := rowwise.NewChain(weight)
	sum := c.Temp(weight.Shape)
	c.Set(sum, elementwise.Identity, nil, elementwise.Const(elementwise.Real(0)))
	if maps.Len() == 0 {
		c.Set(weight, elementwise.Identity, nil, elementwise.Of(sum))
		return c.End()
	}
	positions := maps.Shape[2:]
	in := grouped(c, maps, v.Groups)
	if in.Data != maps.Data && c.Err == nil {
		c.Err = elementwise.Copy(in.Reshaped(maps.Shape...), maps)
	}
	u, err := v.unfold(image, positions)
	if err != nil {
		return errorsOf(c, err)
	}
	defer u.close()
	into := matrices(c, sum, v.Groups)
	err = v.blocks(maps.Shape[0], image.Shape[1], positions, func(b block) error {
		columns, err := u.block(b)
		if err != nil || c.Err != nil {
			return err
		}
		grad := in.Select(0, b.image).Part(2, b.from, b.count, 1)
		return gemm.Gemm(gemm.Product{A: grad, B: columns.Transposed(), Out: into, Add: &into, Alpha: 1, Beta: 1})
	})
	if err == nil {
		c.Set(weight, elementwise.Identity, nil, elementwise.Of(sum))
	}
	return errorsOf(c, err)
}
