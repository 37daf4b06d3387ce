package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	convolutionkernel "github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var convolutions = op.Table{
	"Convolution": convolution, "ConvolutionBackward": convolutionBackward,
	"ConvDepthwise2d": depthwise, "ConvTbc": timeConvolution, "ConvTbcBackward": timeConvolutionBackward,
	"Im2col": unfold, "Im2colBackward": fold,
}

// conv is a convolution with checked arguments. It has in channels of images and out channels of
// maps; a transposed convolution maps the latter to the former.
type conv struct {
	convolutionkernel.Convolution
	transposed bool
	rounding   op.Rounding // of float32 factors
}

// filters returns the number of channels of the output.
func (v conv) filters(weight *op.Tensor) int64 {
	if v.transposed {
		return weight.Shape[1] * v.Groups
	}
	return weight.Shape[0]
}

// positions returns the number of positions of a window along an axis of n elements with padding.
// It is below 1 if the window is larger than the padded axis.
func positions(n, size, stride, dilation, padding int64) int64 {
	room := n + padding - dilation*(size-1) - 1
	if room < 0 {
		return 0
	}
	return room/max(stride, 1) + 1
}

// convOf reads the parameters of a convolution of input with weight and returns the
// spatial sizes of its output.
func convOf(c *op.Call, input, weight *op.Tensor) (v conv, sizes []int64) {
	n := input.Rank() - 2
	c.Rank(input, 3, 5)
	if weight.Rank() != input.Rank() {
		c.Invalid("%v must have as many dimensions as %v", weight, input)
	}
	v.transposed, v.Groups = c.Bool("transposed"), c.Int("groups")
	if v.Groups < 1 || v.Groups > 65535 {
		c.Invalid("groups is %d; use 1 to 65535", v.Groups)
	}
	if c.Err() != nil {
		return v, nil
	}
	before, after := paddings(c, "padding", n, v.transposed)
	v.Window = convolutionkernel.Window{Size: weight.Shape[2:], Stride: c.Spatial("stride", n, 1), Dilation: c.Spatial("dilation", n, 1), Pad: before}
	channels := weight.Shape[1] * v.Groups
	if v.transposed {
		channels = weight.Shape[0]
	}
	if input.Shape[1] != channels || weight.Shape[0]%v.Groups != 0 {
		c.Invalid("%v does not fit %v in %d groups: the weight's channels (and filters) must divide among the groups", weight, input, v.Groups)
	}
	var extra []int64
	if v.transposed {
		extra = c.Spatial("outputPadding", n, 0)
	}
	for i := range n {
		in, size, stride, dilation := input.Shape[2+i], v.Size[i], v.Stride[i], v.Dilation[i]
		pad := before[i] + after[i]
		if v.transposed {
			if extra[i] >= max(stride, dilation) {
				c.Invalid("outputPadding %s must be below the stride or the dilation in each dimension", op.Dims(extra))
			}
			sizes = append(sizes, (in-1)*stride-pad+dilation*(size-1)+extra[i]+1)
		} else {
			sizes = append(sizes, positions(in, size, stride, dilation, pad))
		}
		if size < 1 || sizes[i] < 1 {
			c.Invalid("%v, padded by %d and %d, is smaller in dimension %d than the window of %v", input, before[i], after[i], 2+i, weight)
		}
	}
	return v, sizes
}

// paddings reads the padding before and after each spatial dimension. A list has one number for
// both sides, or one for each side with one- and two-dimensional images.
func paddings(c *op.Call, name string, n int, symmetric bool) (before, after []int64) {
	values := c.Ints(name)
	if n < 3 && !symmetric && len(values) == 2*n && len(values) > 1 {
		for i := range n {
			side := c.EachAxis(name, values[2*i:2*i+2], 2, 0)
			before, after = append(before, side[0]), append(after, side[1])
		}
		return before, after
	}
	before = c.Spatial(name, n, 0)
	return before, before
}

// convTypes checks the element types of a convolution.
func convTypes(c *op.Call, tensors ...*op.Tensor) {
	for _, t := range tensors {
		if t != nil {
			c.Plain(t)
			c.DType(t, op.FloatTypes...)
		}
	}
}

// biasOf checks a bias, which has one number for each filter.
func biasOf(c *op.Call, bias *op.Tensor, filters int64) {
	if bias != nil && c.Err() == nil {
		c.Shape(bias, []int64{filters}, "one number for each filter")
	}
}

// run computes the output.
func (v conv) run(out, input, weight kernel.View, bias *op.Tensor) error {
	input, releaseInput, err := v.rounding.Round(input)
	if err != nil {
		return err
	}
	defer releaseInput()
	weight, releaseWeight, err := v.rounding.Round(weight)
	if err != nil {
		return err
	}
	defer releaseWeight()
	if v.transposed {
		return v.ImageGrad(out, input, weight, op.OptionalView(bias))
	}
	return v.Forward(out, input, weight, op.OptionalView(bias))
}

var biasFormats = []dtype.Format{dtype.ND, dtype.NCL, dtype.NCHW, dtype.NCDHW}

func convolution(c *op.Call) (op.Run, error) {
	input, weight, bias, out := c.Tensor("input"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("output")
	c.CubeMathType(input, weight)
	convTypes(c, input, bias, out)
	dense := weightOf(c, weight)
	v, sizes := convOf(c, input, weight)
	v.rounding = c.Rounding()
	if c.Err() == nil {
		filters := v.filters(weight)
		biasOf(c, bias, filters)
		c.Shape(out, slices.Concat([]int64{input.Shape[0], filters}, sizes), "the convolution of "+input.String()+" with "+weight.String())
	}
	if v.transposed {
		c.SameDType(input, out)
	}
	if bias != nil && !slices.Contains(biasFormats, bias.Format) {
		c.Invalid("%v has a format that a bias does not have; use one of %v", bias, biasFormats)
	}
	if (input.Len() == 0 || weight.Len() == 0) && out.Len() > 0 {
		c.Invalid("%v or %v is empty, so %v must be empty", input, weight, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(x *op.Exec) error {
		return v.run(out.View(), input.View(), dense(x), bias)
	}, nil
}

// convGrads has the outputs of the gradient of a convolution. Those that are not requested are nil.
type convGrads struct{ input, weight, bias *op.Tensor }

// check compares the shapes of the gradients with those of the corresponding tensors, and on the 950 the types. bias is the
// tensor whose type the gradient of the bias has.
func (g convGrads) check(c *op.Call, input, weight, bias *op.Tensor, filters int64) {
	convTypes(c, g.input, g.weight, g.bias)
	if g.input != nil {
		c.SameShape(input, g.input)
	}
	if g.weight != nil {
		c.SameShape(weight, g.weight)
	}
	biasOf(c, g.bias, filters)
	if c.Chip() != acceptance.Ascend950 {
		return
	}
	for _, p := range [][2]*op.Tensor{{input, g.input}, {weight, g.weight}, {bias, g.bias}} {
		if p[1] != nil {
			c.SameDType(p[0], p[1])
		}
	}
}

// checkVolumes refuses gradients of volumes for which chips before the 950 have no kernel: the gradient of a weight in float32 with
// several groups, if the factors have 16 bits.
func (g convGrads) checkVolumes(c *op.Call, v conv, grad, input, weight *op.Tensor) {
	if input.Rank() != 5 || c.Chip() == acceptance.Ascend950 || g.weight == nil || g.weight.DType != dtype.Float32 || v.Groups == 1 {
		return
	}
	if promoted := op.Promote(op.Promote(grad.DType, input.DType), weight.DType); promoted != dtype.Float32 {
		c.Invalid("%v of %d groups has factors that are computed in %v; use a gradient of that type, or factors in float32", g.weight, v.Groups, promoted)
	}
	if c.Int("cubeMathType") == 2 {
		c.Invalid("%v of %d groups and cubeMathType 2 (USE_FP16): use 0, 1 or 3", g.weight, v.Groups)
	}
}

// run computes the requested gradients. The views are those of the call as [N, channels, spatial…].
func (g convGrads) run(v conv, grad, input, weight kernel.View, shaped func(t *op.Tensor) kernel.View) error {
	if g.input != nil {
		back := conv{v.Convolution, !v.transposed, v.rounding}
		if err := back.run(shaped(g.input), grad, weight, nil); err != nil {
			return err
		}
	}
	if g.weight != nil {
		image, maps := input, grad
		if v.transposed {
			image, maps = grad, input
		}
		image, releaseImage, err := v.rounding.Round(image)
		if err != nil {
			return err
		}
		defer releaseImage()
		maps, releaseMaps, err := v.rounding.Round(maps)
		if err != nil {
			return err
		}
		defer releaseMaps()
		if err := v.WeightGrad(shaped(g.weight), maps, image); err != nil {
			return err
		}
	}
	if g.bias == nil || g.bias.Len() == 0 {
		return nil
	}
	axes := []int{0}
	for i := 2; i < len(grad.Shape); i++ {
		axes = append(axes, i)
	}
	return rowwise.Reduce(rowwise.ReduceSum, g.bias.View(), grad, axes, 0)
}

func convolutionBackward(c *op.Call) (op.Run, error) {
	grad, input, weight := c.Tensor("gradOutput"), c.Tensor("input"), c.Tensor("weight")
	c.CubeMathType(grad, input, weight)
	convTypes(c, grad, input, weight)
	v, sizes := convOf(c, input, weight)
	v.rounding = c.Rounding()
	var g convGrads
	g.input, g.weight, g.bias = c.Gradients()
	if c.Err() == nil {
		filters := v.filters(weight)
		c.Shape(grad, slices.Concat([]int64{input.Shape[0], filters}, sizes), "the convolution of "+input.String()+" with "+weight.String())
		g.check(c, input, weight, grad, filters)
		g.checkVolumes(c, v, grad, input, weight)
		// CANN reads biasSizes for empty tensors only.
		empty := grad.Len() == 0 || input.Len() == 0 || weight.Len() == 0
		if biases := c.Ints("biasSizes"); g.bias != nil && empty && !slices.Equal(biases, []int64{filters}) {
			c.Invalid("biasSizes %s must be %s, one number for each filter", op.Dims(biases), op.Dims([]int64{filters}))
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return g.run(v, grad.View(), input.View(), weight.View(), (*op.Tensor).View)
	}, nil
}

// depthwise is a convolution with as many groups as channels.
func depthwise(c *op.Call) (op.Run, error) {
	self, weight, bias, out := c.Tensor("self"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("out")
	c.CubeMathType(self, weight)
	convTypes(c, self, weight, bias, out)
	c.SameDType(self, weight, out)
	if bias != nil {
		c.SameDType(self, bias)
	}
	c.Rank(self, 4, 4)
	c.Rank(weight, 4, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	channels := self.Shape[1]
	w := convolutionkernel.Window{
		Size: c.Spatial("kernelSize", 2, 1), Stride: c.Spatial("stride", 2, 1),
		Pad: c.Spatial("padding", 2, 0), Dilation: c.Spatial("dilation", 2, 1),
	}
	if !slices.Equal(w.Size, weight.Shape[2:]) || weight.Shape[1] != 1 || channels == 0 || weight.Shape[0]%channels != 0 {
		c.Invalid("%v must be [filters, 1, %d, %d] with a multiple of the %d channels of %v", weight, w.Size[0], w.Size[1], channels, self)
	}
	want := []int64{self.Shape[0], weight.Shape[0]}
	for i := range 2 {
		want = append(want, positions(self.Shape[2+i], w.Size[i], w.Stride[i], w.Dilation[i], 2*w.Pad[i]))
	}
	biasOf(c, bias, weight.Shape[0])
	c.Shape(out, want, "the convolution of "+self.String()+" with "+weight.String())
	if err := c.Err(); err != nil {
		return nil, err
	}
	v := conv{Convolution: convolutionkernel.Convolution{Window: w, Groups: channels}, rounding: c.Rounding()}
	return func(*op.Exec) error { return v.run(out.View(), self.View(), weight.View(), bias) }, nil
}

// tensorForm is a view of a tensor with other dimensions.
type tensorForm struct {
	t              *op.Tensor
	Shape, Strides []int64
}

// View returns the view. It is valid inside Run only.
func (f *tensorForm) View() kernel.View { return f.t.As(f.Shape, f.Strides) }

// permuted returns t with its dimensions in another order.
func permuted(t *op.Tensor, order ...int) *tensorForm {
	f := &tensorForm{t: t}
	for _, d := range order {
		f.Shape, f.Strides = append(f.Shape, t.Shape[d]), append(f.Strides, t.Strides[d])
	}
	return f
}

// timeMajor views a tensor [time, batch, channels] as [batch, channels, time]. timeWeight views a
// weight [size, channels, filters] as [filters, channels, size].
func timeMajor(t *op.Tensor) *tensorForm  { return permuted(t, 1, 2, 0) }
func timeWeight(t *op.Tensor) *tensorForm { return permuted(t, 2, 1, 0) }

// timeConv reads the arguments of a convolution along time of self [time, batch, channels] with
// weight [size, channels, filters], and returns the shape of its output, which has at least the given length of time.
func timeConv(c *op.Call, self, weight, bias *op.Tensor, least int64) (v conv, shape []int64) {
	pad := c.Int("pad")
	c.CubeMathType(self, weight)
	convTypes(c, self, weight, bias)
	c.Rank(self, 3, 3)
	c.Rank(weight, 3, 3)
	if pad < 0 {
		c.Invalid("pad is %d; it must not be negative", pad)
	}
	if c.Err() != nil {
		return v, nil
	}
	v.rounding = c.Rounding()
	one := []int64{1}
	v.Convolution = convolutionkernel.Convolution{Groups: 1, Window: convolutionkernel.Window{Size: weight.Shape[:1], Stride: one, Dilation: one, Pad: []int64{pad}}}
	n := positions(self.Shape[0], weight.Shape[0], 1, 1, 2*pad)
	if weight.Shape[1] != self.Shape[2] || weight.Shape[0] < least || n < least {
		c.Invalid("%v [size, channels, filters] does not fit %v [time, batch, channels] with %d padded on each side", weight, self, pad)
	}
	biasOf(c, bias, weight.Shape[2])
	return v, []int64{n, self.Shape[1], weight.Shape[2]}
}

func timeConvolution(c *op.Call) (op.Run, error) {
	self, weight, bias, out := c.Tensor("self"), c.Tensor("weight"), c.Tensor("bias"), c.Tensor("output")
	v, shape := timeConv(c, self, weight, bias, 1)
	convTypes(c, out)
	if c.Err() == nil {
		c.Shape(out, shape, "the convolution of "+self.String()+" with "+weight.String())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	in, w, maps := timeMajor(self), timeWeight(weight), timeMajor(out)
	return func(*op.Exec) error { return v.run(maps.View(), in.View(), w.View(), bias) }, nil
}

func timeConvolutionBackward(c *op.Call) (op.Run, error) {
	grad, input, weight, bias := c.Tensor("self"), c.Tensor("input"), c.Tensor("weight"), c.Tensor("bias")
	g := convGrads{c.Tensor("gradInput"), c.Tensor("gradWeight"), c.Tensor("gradBias")}
	empty, least := input.Len() == 0 || weight.Len() == 0, int64(1)
	if empty {
		least = 0
	}
	v, shape := timeConv(c, input, weight, bias, least)
	convTypes(c, grad)
	for _, t := range []*op.Tensor{grad, input, weight, g.input, g.weight} {
		if t.Format != dtype.ND && t.Format != dtype.NCL {
			c.Invalid("%v must be in format ND or NCL", t)
		}
	}
	for _, t := range []*op.Tensor{bias, g.bias} {
		if t.Format != dtype.ND {
			c.Invalid("%v must be in format ND", t)
		}
	}
	if c.Err() == nil {
		c.Shape(grad, shape, "the convolution of "+input.String()+" with "+weight.String())
		g.check(c, input, weight, bias, weight.Shape[2])
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if empty {
		return func(*op.Exec) error {
			if err := op.ZeroAll(g.input, g.weight); err != nil {
				return err
			}
			return elementwise.Fill(g.bias.View(), elementwise.Whole(shape[0]*shape[1])) // as CANN has it, whatever the gradient is
		}, nil
	}
	dy, in, w := timeMajor(grad), timeMajor(input), timeWeight(weight)
	return func(*op.Exec) error {
		return g.run(v, dy.View(), in.View(), w.View(), func(t *op.Tensor) kernel.View {
			if t == g.weight {
				return timeWeight(t).View()
			}
			return timeMajor(t).View()
		})
	}, nil
}

// columnWindow reads the window of Im2col for an image of the given spatial sizes, and returns the
// number of its positions along each dimension.
func columnWindow(c *op.Call, spatial []int64) (w convolutionkernel.Window, at []int64) {
	w = convolutionkernel.Window{
		Size: c.Spatial("kernelSize", 2, 1), Stride: c.Spatial("stride", 2, 1),
		Dilation: c.Spatial("dilation", 2, 1), Pad: c.Spatial("padding", 2, 0),
	}
	for i, n := range spatial {
		at = append(at, positions(n, w.Size[i], w.Stride[i], w.Dilation[i], 2*w.Pad[i]))
		if at[i] < 1 {
			c.Invalid("an image of %s, padded by %s, is smaller than the window %s with dilation %s", op.Dims(spatial), op.Dims(w.Pad), op.Dims(w.Size), op.Dims(w.Dilation))
		}
	}
	return w, at
}

// columns views a tensor [lead…, channels·size, positions] as [lead…, channels, size…, positions…].
func columns(t *op.Tensor, w convolutionkernel.Window, channels int64, at []int64) *tensorForm {
	n := t.Rank() - 2
	f := &tensorForm{t: t, Shape: slices.Concat(t.Shape[:n], []int64{channels}, w.Size, at)}
	row, col := t.Strides[n], t.Strides[n+1]
	f.Strides = slices.Concat(t.Strides[:n], []int64{w.Size[0] * w.Size[1] * row, w.Size[1] * row, row, at[1] * col, col})
	return f
}

// columnShape returns the shape of the columns of an image.
func columnShape(image []int64, w convolutionkernel.Window, at []int64) []int64 {
	n := len(image) - 3
	return slices.Concat(image[:n], []int64{image[n] * w.Size[0] * w.Size[1], at[0] * at[1]})
}

// unfold is Im2col. It supports every type that can be filled with zeros. Its gradient fold adds,
// so it supports floating-point types only.
func unfold(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.Movable(self, out)
	c.Rank(self, 3, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := self.Rank() - 3
	w, at := columnWindow(c, self.Shape[n+1:])
	c.Shape(out, columnShape(self.Shape, w, at), "the columns of "+self.String())
	if out.DType.IsComplex() {
		c.Countable(self)
	} else {
		c.Countable(self, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	into := columns(out, w, self.Shape[n], at)
	return func(*op.Exec) error {
		if !out.DType.IsComplex() {
			return w.Unfold(into.View(), self.View())
		}
		re, im := op.PartsOf(into.View())
		if err := w.Unfold(re, self.View()); err != nil {
			return err
		}
		return elementwise.Fill(im, elementwise.Whole(0))
	}, nil
}

func fold(c *op.Call) (op.Run, error) {
	grad, out, size := c.Tensor("gradOutput"), c.Tensor("out"), c.Ints("inputSize")
	convTypes(c, grad, out)
	c.Rank(out, 3, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := out.Rank() - 3
	if !slices.Equal(size, out.Shape[n+1:]) {
		c.Invalid("inputSize %s must be the last two dimensions of %v", op.Dims(size), out)
	}
	w, at := columnWindow(c, out.Shape[n+1:])
	c.Shape(grad, columnShape(out.Shape, w, at), "the columns of "+out.String())
	if err := c.Err(); err != nil {
		return nil, err
	}
	from := columns(grad, w, out.Shape[n], at)
	return func(*op.Exec) error {
		if out.DType == grad.DType {
			return w.Fold(out.View(), from.View(), kernel.View{})
		}
		sums, release := kernel.TemporaryOf(grad.DType, out.Shape...) // which CANN casts
		defer release()
		if err := w.Fold(sums, from.View(), kernel.View{}); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), sums)
	}, nil
}
