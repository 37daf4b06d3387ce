package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

var convolutions = table{
	"Convolution": convolution, "ConvolutionBackward": convolutionBackward,
	"ConvDepthwise2d": depthwise, "ConvTbc": timeConvolution, "ConvTbcBackward": timeConvolutionBackward,
	"Im2col": unfold, "Im2colBackward": fold,
}

// conv is a convolution that was checked: in images to out maps, or the other way round if
// transposed.
type conv struct {
	kernel.Convolution
	transposed bool
}

// filters is the number of channels of the output.
func (v conv) filters(weight *Tensor) int64 {
	if v.transposed {
		return weight.Shape[1] * v.Groups
	}
	return weight.Shape[0]
}

// spatial reads one number per spatial dimension, each at least least. One number stands
// for all.
func (c *Call) spatial(name string, n int, least int64) []int64 {
	values := c.Ints(name)
	if values == nil {
		c.Fail(nullPointer, "%s is null", name)
	}
	return c.eachAxis(name, values, n, least)
}

// eachAxis checks one number per spatial dimension, each at least least.
func (c *Call) eachAxis(name string, values []int64, n int, least int64) []int64 {
	if len(values) == 1 {
		values = slices.Repeat(values, n)
	}
	if len(values) != n {
		c.Invalid("%s %s must have one number for each of the %d spatial dimensions", name, dims(values), n)
		return slices.Repeat([]int64{max(least, 1)}, n)
	}
	for _, v := range values {
		if v < least {
			c.Invalid("%s %s must not have numbers below %d", name, dims(values), least)
		}
	}
	return values
}

// positions is how many positions a window has along an axis of n places with padding; it
// is below 1 if the window is larger.
func positions(n, size, stride, dilation, padding int64) int64 {
	room := n + padding - dilation*(size-1) - 1
	if room < 0 {
		return 0
	}
	return room/max(stride, 1) + 1
}

// convOf reads the parameters of a convolution of input with weight and returns the
// spatial sizes of its output.
func (c *Call) convOf(input, weight *Tensor) (v conv, sizes []int64) {
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
	before, after := c.paddings("padding", n, v.transposed)
	v.Window = kernel.Window{Size: weight.Shape[2:], Stride: c.spatial("stride", n, 1), Dilation: c.spatial("dilation", n, 1), Pad: before}
	channels := weight.Shape[1] * v.Groups
	if v.transposed {
		channels = weight.Shape[0]
	}
	if input.Shape[1] != channels || weight.Shape[0]%v.Groups != 0 {
		c.Invalid("%v does not fit %v in %d groups: the weight's channels (and filters) must divide among the groups", weight, input, v.Groups)
	}
	var extra []int64
	if v.transposed {
		extra = c.spatial("outputPadding", n, 0)
	}
	for i := range n {
		in, size, stride, dilation := input.Shape[2+i], v.Size[i], v.Stride[i], v.Dilation[i]
		pad := before[i] + after[i]
		if v.transposed {
			if extra[i] >= max(stride, dilation) {
				c.Invalid("outputPadding %s must be below the stride or the dilation in each dimension", dims(extra))
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

// paddings reads what is added before and after each spatial dimension: one number for
// both, or for one- and two-dimensional images one for each side.
func (c *Call) paddings(name string, n int, symmetric bool) (before, after []int64) {
	values := c.Ints(name)
	if n < 3 && !symmetric && len(values) == 2*n && len(values) > 1 {
		for i := range n {
			side := c.eachAxis(name, values[2*i:2*i+2], 2, 0)
			before, after = append(before, side[0]), append(after, side[1])
		}
		return before, after
	}
	before = c.spatial(name, n, 0)
	return before, before
}

// convTypes checks the element types of a convolution.
func (c *Call) convTypes(tensors ...*Tensor) {
	for _, t := range tensors {
		if t != nil {
			c.plain(t)
			c.DType(t, transformerTypes...)
		}
	}
}

// biasOf checks a bias with one number per filter.
func (c *Call) biasOf(bias *Tensor, filters int64) {
	if bias != nil && c.Err() == nil {
		c.Shape(bias, []int64{filters}, "one number for each filter")
	}
}

// run is the computation of the output.
func (v conv) run(out, input, weight kernel.View, bias *Tensor) error {
	if v.transposed {
		return v.ImageGrad(out, input, weight, optionalView(bias))
	}
	return v.Forward(out, input, weight, optionalView(bias))
}

func convolution(c *Call) (Run, error) {
	input, weight, bias, out := c.Tensor("input"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("output")
	c.cubeMathType()
	c.convTypes(input, weight, bias, out)
	v, sizes := c.convOf(input, weight)
	if c.Err() == nil {
		filters := v.filters(weight)
		c.biasOf(bias, filters)
		c.Shape(out, slices.Concat([]int64{input.Shape[0], filters}, sizes), "the convolution of "+input.String()+" with "+weight.String())
	}
	if v.transposed {
		c.SameDType(input, out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return v.run(out.View(), input.View(), weight.View(), bias)
	}, nil
}

// grads are the outputs of the gradient of a convolution; those not wanted are nil.
type convGrads struct{ input, weight, bias *Tensor }

// wantedGrads reads the outputs that outputMask asks for.
func (c *Call) wantedGrads() (g convGrads) {
	mask := c.Bools("outputMask")
	if len(mask) != 3 {
		c.Invalid("outputMask has %d elements; it has one for the input, the weight and the bias", len(mask))
		return g
	}
	for i, p := range []struct {
		to   **Tensor
		name string
	}{{&g.input, "gradInput"}, {&g.weight, "gradWeight"}, {&g.bias, "gradBias"}} {
		if mask[i] {
			*p.to = c.Tensor(p.name)
		}
	}
	return g
}

// check compares the shapes and types of gradients with what they are the gradients of.
func (g convGrads) check(c *Call, input, weight *Tensor, filters int64) {
	c.convTypes(g.input, g.weight, g.bias)
	if g.input != nil {
		c.SameShape(input, g.input)
	}
	if g.weight != nil {
		c.SameShape(weight, g.weight)
	}
	c.biasOf(g.bias, filters)
}

// run computes the gradients wanted; the views are those of the call as [N, channels, spatial…].
func (g convGrads) run(v conv, grad, input, weight kernel.View, shaped func(t *Tensor) kernel.View) error {
	if g.input != nil {
		back := conv{v.Convolution, !v.transposed}
		if err := back.run(shaped(g.input), grad, weight, nil); err != nil {
			return err
		}
	}
	if g.weight != nil {
		image, maps := input, grad
		if v.transposed {
			image, maps = grad, input
		}
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
	return kernel.Reduce(kernel.ReduceSum, g.bias.View(), grad, axes, 0)
}

func convolutionBackward(c *Call) (Run, error) {
	grad, input, weight := c.Tensor("gradOutput"), c.Tensor("input"), c.Tensor("weight")
	c.cubeMathType()
	c.convTypes(grad, input, weight)
	v, sizes := c.convOf(input, weight)
	g := c.wantedGrads()
	if c.Err() == nil {
		filters := v.filters(weight)
		c.Shape(grad, slices.Concat([]int64{input.Shape[0], filters}, sizes), "the convolution of "+input.String()+" with "+weight.String())
		g.check(c, input, weight, filters)
		if biases := c.Ints("biasSizes"); g.bias != nil && !slices.Equal(biases, []int64{filters}) {
			c.Invalid("biasSizes %s must be %s, one number for each filter", dims(biases), dims([]int64{filters}))
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return g.run(v, grad.View(), input.View(), weight.View(), (*Tensor).View)
	}, nil
}

// depthwise has as many groups as channels.
func depthwise(c *Call) (Run, error) {
	self, weight, bias, out := c.Tensor("self"), c.Tensor("weight"), c.Optional("bias"), c.Tensor("out")
	c.cubeMathType()
	c.convTypes(self, weight, bias, out)
	c.Rank(self, 4, 4)
	c.Rank(weight, 4, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	channels := self.Shape[1]
	w := kernel.Window{
		Size: c.spatial("kernelSize", 2, 1), Stride: c.spatial("stride", 2, 1),
		Pad: c.spatial("padding", 2, 0), Dilation: c.spatial("dilation", 2, 1),
	}
	if !slices.Equal(w.Size, weight.Shape[2:]) || weight.Shape[1] != 1 || channels == 0 || weight.Shape[0]%channels != 0 {
		c.Invalid("%v must be [filters, 1, %d, %d] with a multiple of the %d channels of %v", weight, w.Size[0], w.Size[1], channels, self)
	}
	want := []int64{self.Shape[0], weight.Shape[0]}
	for i := range 2 {
		want = append(want, positions(self.Shape[2+i], w.Size[i], w.Stride[i], w.Dilation[i], 2*w.Pad[i]))
	}
	c.biasOf(bias, weight.Shape[0])
	c.Shape(out, want, "the convolution of "+self.String()+" with "+weight.String())
	if err := c.Err(); err != nil {
		return nil, err
	}
	v := kernel.Convolution{Window: w, Groups: channels}
	return func(*Exec) error {
		return v.Forward(out.View(), self.View(), weight.View(), optionalView(bias))
	}, nil
}

// tensorForm is a tensor seen with other dimensions.
type tensorForm struct {
	t              *Tensor
	Shape, Strides []int64
}

// View is valid inside Run only.
func (f *tensorForm) View() kernel.View { return f.t.As(f.Shape, f.Strides) }

// permuted is t with its dimensions in another order.
func (t *Tensor) permuted(order ...int) *tensorForm {
	f := &tensorForm{t: t}
	for _, d := range order {
		f.Shape, f.Strides = append(f.Shape, t.Shape[d]), append(f.Strides, t.Strides[d])
	}
	return f
}

// timeMajor is a tensor [time, batch, channels] as [batch, channels, time], timeWeight a
// weight [size, channels, filters] as [filters, channels, size].
func timeMajor(t *Tensor) *tensorForm  { return t.permuted(1, 2, 0) }
func timeWeight(t *Tensor) *tensorForm { return t.permuted(2, 1, 0) }

// timeConv reads a convolution along time of self [time, batch, channels] with weight
// [size, channels, filters], and returns the shape of its output.
func (c *Call) timeConv(self, weight, bias *Tensor) (v conv, shape []int64) {
	pad := c.Int("pad")
	c.cubeMathType()
	c.convTypes(self, weight, bias)
	c.Rank(self, 3, 3)
	c.Rank(weight, 3, 3)
	if pad < 0 {
		c.Invalid("pad is %d; it must not be negative", pad)
	}
	if c.Err() != nil {
		return v, nil
	}
	one := []int64{1}
	v.Convolution = kernel.Convolution{Groups: 1, Window: kernel.Window{Size: weight.Shape[:1], Stride: one, Dilation: one, Pad: []int64{pad}}}
	n := positions(self.Shape[0], weight.Shape[0], 1, 1, 2*pad)
	if weight.Shape[1] != self.Shape[2] || weight.Shape[0] < 1 || n < 1 {
		c.Invalid("%v [size, channels, filters] does not fit %v [time, batch, channels] with %d padded on each side", weight, self, pad)
	}
	c.biasOf(bias, weight.Shape[2])
	return v, []int64{n, self.Shape[1], weight.Shape[2]}
}

func timeConvolution(c *Call) (Run, error) {
	self, weight, bias, out := c.Tensor("self"), c.Tensor("weight"), c.Tensor("bias"), c.Tensor("output")
	v, shape := c.timeConv(self, weight, bias)
	c.convTypes(out)
	if c.Err() == nil {
		c.Shape(out, shape, "the convolution of "+self.String()+" with "+weight.String())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	in, w, maps := timeMajor(self), timeWeight(weight), timeMajor(out)
	return func(*Exec) error { return v.run(maps.View(), in.View(), w.View(), bias) }, nil
}

func timeConvolutionBackward(c *Call) (Run, error) {
	grad, input, weight, bias := c.Tensor("self"), c.Tensor("input"), c.Tensor("weight"), c.Tensor("bias")
	g := convGrads{c.Tensor("gradInput"), c.Tensor("gradWeight"), c.Tensor("gradBias")}
	v, shape := c.timeConv(input, weight, bias)
	c.convTypes(grad)
	if c.Err() == nil {
		c.Shape(grad, shape, "the convolution of "+input.String()+" with "+weight.String())
		g.check(c, input, weight, weight.Shape[2])
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	dy, in, w := timeMajor(grad), timeMajor(input), timeWeight(weight)
	return func(*Exec) error {
		return g.run(v, dy.View(), in.View(), w.View(), func(t *Tensor) kernel.View {
			if t == g.weight {
				return timeWeight(t).View()
			}
			return timeMajor(t).View()
		})
	}, nil
}

// columnWindow reads the window of Im2col over an image of a spatial size and returns the
// number of its positions along each dimension.
func (c *Call) columnWindow(spatial []int64) (w kernel.Window, at []int64) {
	w = kernel.Window{
		Size: c.spatial("kernelSize", 2, 1), Stride: c.spatial("stride", 2, 1),
		Dilation: c.spatial("dilation", 2, 1), Pad: c.spatial("padding", 2, 0),
	}
	for i, n := range spatial {
		at = append(at, positions(n, w.Size[i], w.Stride[i], w.Dilation[i], 2*w.Pad[i]))
		if at[i] < 1 {
			c.Invalid("an image of %s, padded by %s, is smaller than the window %s with dilation %s", dims(spatial), dims(w.Pad), dims(w.Size), dims(w.Dilation))
		}
	}
	return w, at
}

// columns is a tensor [lead…, channels·size, positions] as [lead…, channels, size…, positions…].
func columns(t *Tensor, w kernel.Window, channels int64, at []int64) *tensorForm {
	n := t.Rank() - 2
	f := &tensorForm{t: t, Shape: slices.Concat(t.Shape[:n], []int64{channels}, w.Size, at)}
	row, col := t.Strides[n], t.Strides[n+1]
	f.Strides = slices.Concat(t.Strides[:n], []int64{w.Size[0] * w.Size[1] * row, w.Size[1] * row, row, at[1] * col, col})
	return f
}

// columnShape is the shape of columns of an image.
func columnShape(image []int64, w kernel.Window, at []int64) []int64 {
	n := len(image) - 3
	return slices.Concat(image[:n], []int64{image[n] * w.Size[0] * w.Size[1], at[0] * at[1]})
}

// unfold is Im2col for every type that can be filled with zeros; fold adds, so it takes
// floating-point types only.
func unfold(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.movable(self, out)
	c.SameDType(self, out)
	c.Rank(self, 3, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := self.Rank() - 3
	w, at := c.columnWindow(self.Shape[n+1:])
	c.Shape(out, columnShape(self.Shape, w, at), "the columns of "+self.String())
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	into := columns(out, w, self.Shape[n], at)
	return func(*Exec) error { return w.Unfold(into.View(), self.View()) }, nil
}

func fold(c *Call) (Run, error) {
	grad, out, size := c.Tensor("gradOutput"), c.Tensor("out"), c.Ints("inputSize")
	c.convTypes(grad, out)
	c.SameDType(grad, out)
	c.Rank(out, 3, 4)
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := out.Rank() - 3
	if !slices.Equal(size, out.Shape[n+1:]) {
		c.Invalid("inputSize %s must be the last two dimensions of %v", dims(size), out)
	}
	w, at := c.columnWindow(out.Shape[n+1:])
	c.Shape(grad, columnShape(out.Shape, w, at), "the columns of "+out.String())
	if err := c.Err(); err != nil {
		return nil, err
	}
	from := columns(grad, w, out.Shape[n], at)
	return func(*Exec) error { return w.Fold(out.View(), from.View(), kernel.View{}) }, nil
}
