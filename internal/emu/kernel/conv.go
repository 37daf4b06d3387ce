package kernel

import "slices"

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
	row := View{Shape: positions[1:]}.Len()
	rows := max(1, columnsLimit/max(1, channels*View{Shape: v.Size}.Len()*row))
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
	frame   View
	all     View // [N, channels, size…, positions…]
	columns View
	release []func()
}

func (v Convolution) unfold(image View, positions []int64) (*unfolding, error) {
	u := &unfolding{v: v}
	frame, release, err := v.framed(image, positions, Real(0))
	if err != nil {
		return nil, err
	}
	u.release = append(u.release, release)
	u.frame, u.all = frame, v.positions(frame, positions)
	row := View{Shape: u.all.Shape[1:]}.Len() / positions[0]
	u.columns, release = temporary(image.DType, []int64{row * max(1, min(positions[0], columnsLimit/max(1, row)))})
	u.release = append(u.release, release)
	return u, nil
}

func (u *unfolding) close() {
	for _, f := range u.release {
		f()
	}
}

// block returns the columns of a block. The next call overwrites them.
func (u *unfolding) block(b block) (View, error) {
	part := u.all.Select(0, b.image)
	part = part.Part(1+len(u.v.Size), b.first, b.rows, 1)
	whole := u.columns.reshaped(part.Shape...)
	if err := Copy(whole, part); err != nil {
		return View{}, err
	}
	return whole.reshaped(u.v.Groups, part.Len()/u.v.Groups/b.count, b.count), nil
}

// matrices returns v as contiguous [groups, rows, columns], copied unless v is contiguous.
func (c *chain) matrices(v View, groups int64) View {
	whole := v
	if !v.Contiguous() {
		whole = c.tempOf(v.DType, v.Shape)
		if c.err == nil {
			c.err = Copy(whole, v)
		}
	}
	rows := max(v.Shape[0]/groups, 1)
	return whole.reshaped(groups, rows, v.Len()/groups/rows)
}

// maps returns v as contiguous [N, groups, filters/groups, positions]. It is a copy, so that
// writing it does not change v, unless v is contiguous.
func (c *chain) maps(v View, groups int64) View {
	shape := []int64{v.Shape[0], groups, v.Shape[1] / groups, View{Shape: v.Shape[2:]}.Len()}
	if v.Contiguous() {
		return v.reshaped(shape...)
	}
	return c.tempOf(v.DType, shape)
}

// Forward writes the maps of images. bias has one number per filter, or no data.
func (v Convolution) Forward(maps, image, weight, bias View) error {
	if maps.Len() == 0 {
		return nil
	}
	positions := maps.Shape[2:]
	c := newChain(maps)
	w, out := c.matrices(weight, v.Groups), c.maps(maps, v.Groups)
	u, err := v.unfold(image, positions)
	if err != nil {
		return errorsOf(c, err)
	}
	defer u.close()
	err = v.blocks(maps.Shape[0], image.Shape[1], positions, func(b block) error {
		columns, err := u.block(b)
		if err != nil || c.err != nil {
			return err
		}
		p := Product{A: w, B: columns, Out: out.Select(0, b.image).Part(2, b.from, b.count, 1), Alpha: 1}
		if bias.Data != nil {
			each := View{Data: bias.Data, DType: bias.DType, Shape: p.Out.Shape, Strides: []int64{p.Out.Shape[1] * bias.Strides[0], bias.Strides[0], 0}}
			p.Add, p.Beta = &each, 1
		}
		return Gemm(p)
	})
	if err == nil && c.err == nil && out.Data != maps.Data {
		err = Copy(maps, out.reshaped(maps.Shape...))
	}
	return errorsOf(c, err)
}

// errorsOf ends a chain and returns its error, or else err.
func errorsOf(c *chain, err error) error {
	if first := c.end(); first != nil {
		return first
	}
	return err
}

// ImageGrad writes the gradient of images from that of maps: the transposed convolution.
// bias has one number per channel of the image, or no data.
func (v Convolution) ImageGrad(image, maps, weight, bias View) error {
	if image.Len() == 0 {
		return nil
	}
	c := newChain(image)
	defer c.end()
	positions := maps.Shape[2:]
	w, in := c.matrices(weight, v.Groups), c.maps(maps, v.Groups)
	if in.Data != maps.Data && c.err == nil {
		c.err = Copy(in.reshaped(maps.Shape...), maps)
	}
	shape := slices.Concat([]int64{image.Shape[1]}, v.Size, positions)
	columns := c.temp(shape)
	if bias.Data != nil {
		strides := make([]int64, len(image.Shape)-1)
		strides[0] = bias.Strides[0]
		bias = View{Data: bias.Data, DType: bias.DType, Shape: image.Shape[1:], Strides: strides}
	}
	for n := range image.Shape[0] {
		if c.err != nil {
			break
		}
		if columns.Len() > 0 {
			product := columns.reshaped(v.Groups, w.Shape[2], in.Shape[3])
			c.err = Gemm(Product{A: w.transposed(), B: in.Select(0, n), Out: product, Alpha: 1})
		}
		if c.err == nil {
			c.err = v.Fold(image.Select(0, n), columns, bias)
		}
	}
	return c.err
}

// WeightGrad writes the gradient of weights from that of maps.
func (v Convolution) WeightGrad(weight, maps, image View) error {
	if weight.Len() == 0 {
		return nil
	}
	c := newChain(weight)
	sum := c.temp(weight.Shape)
	c.set(sum, Identity, nil, Const(Real(0)))
	if maps.Len() == 0 {
		c.set(weight, Identity, nil, Of(sum))
		return c.end()
	}
	positions := maps.Shape[2:]
	in := c.maps(maps, v.Groups)
	if in.Data != maps.Data && c.err == nil {
		c.err = Copy(in.reshaped(maps.Shape...), maps)
	}
	u, err := v.unfold(image, positions)
	if err != nil {
		return errorsOf(c, err)
	}
	defer u.close()
	into := c.matrices(sum, v.Groups)
	err = v.blocks(maps.Shape[0], image.Shape[1], positions, func(b block) error {
		columns, err := u.block(b)
		if err != nil || c.err != nil {
			return err
		}
		grad := in.Select(0, b.image).Part(2, b.from, b.count, 1)
		return Gemm(Product{A: grad, B: columns.transposed(), Out: into, Add: &into, Alpha: 1, Beta: 1})
	})
	if err == nil {
		c.set(weight, Identity, nil, Of(sum))
	}
	return errorsOf(c, err)
}
