package pooling

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

var pools = op.Table{
	"AvgPool2d": averagePool(2), "AvgPool3d": averagePool(3), "AvgPool2dBackward": averagePoolBackward(2), "AvgPool3dBackward": averagePoolBackward(3),
	"AdaptiveAvgPool2d": adaptiveAverage(2), "AdaptiveAvgPool3d": adaptiveAverage(3),
	"AdaptiveAvgPool2dBackward": adaptiveAverageBackward(2), "AdaptiveAvgPool3dBackward": adaptiveAverageBackward(3),
	"AdaptiveMaxPool2d": adaptiveMax(2), "AdaptiveMaxPool3d": adaptiveMax(3),
	"AdaptiveMaxPool2dBackward": maxPoolBackward(2), "AdaptiveMaxPool3dBackward": maxPoolBackward(3),
	"MaxPool": maxPool(2), "MaxPool2dWithIndices": maxPool(2), "MaxPool3dWithArgmax": maxPool(3),
	"MaxPool2dWithIndicesBackward": maxPoolBackward(2), "MaxPool3dWithArgmaxBackward": maxPoolBackward(3),
	"MaxUnpool2d": maxUnpool(2), "MaxUnpool3d": maxUnpool(3), "MaxUnpool2dBackward": maxUnpoolBackward(2), "MaxUnpool3dBackward": maxUnpoolBackward(3),
	"GlobalAveragePool": globalAverage, "GlobalMaxPool": globalMax,
}.Selects("MaxUnpool2d", "MaxUnpool3d", "MaxUnpool2dBackward", "MaxUnpool3dBackward")

// poolTypes are the element types of pooling; some operators also accept float64.
var poolTypes = op.RealTypes

// poolWindow describes how a window moves along one dimension of n elements.
type poolWindow struct {
	n, size, stride, dilation int64
	before, after             int64 // padding
}

// count returns the number of window positions. With ceil the last window may extend beyond the
// padding, but it must start inside the elements or the padding before them.
func (w poolWindow) count(ceil bool) int64 {
	room := w.n + w.before + w.after - w.dilation*(w.size-1) - 1
	if room < 0 {
		return 0
	}
	n := room/w.stride + 1
	if ceil && room%w.stride != 0 && n*w.stride < w.n+w.before {
		n++
	}
	return n
}

// span returns the elements that position i covers. It is empty if the window covers only
// padding.
func (w poolWindow) span(i int64) convolution.Span {
	first, last := i*w.stride-w.before, w.size
	skip := int64(0)
	if first < 0 {
		skip = (-first + w.dilation - 1) / w.dilation
		first += skip * w.dilation
	}
	if first >= w.n {
		return convolution.Span{}
	}
	return convolution.Span{First: first, N: min(last-skip, (w.n-1-first)/w.dilation+1), Step: w.dilation}
}

// spans returns the span of every position.
func (w poolWindow) spans(count int64) []convolution.Span {
	s := make([]convolution.Span, count)
	for i := range s {
		s[i] = w.span(int64(i))
	}
	return s
}

// averages gives each covered element its weight in the mean: one over the window size including
// padding, or over the number of covered elements. If divided is false the weight is 1.
func (w poolWindow) averages(count int64, includePadding, divided bool) convolution.Taps {
	var t convolution.Taps
	for i := range count {
		s, share := w.span(i), 1.0
		if divided {
			share = 1 / float64(s.N)
			if start := i*w.stride - w.before; includePadding {
				share = 1 / float64(min(start+w.size, w.n+w.after)-start)
			}
		}
		var places []int64
		for k := range s.N {
			places = append(places, s.First+k)
		}
		t.Index = append(t.Index, places)
		t.Weight = append(t.Weight, slices.Repeat([]float64{share}, int(s.N)))
	}
	return t
}

// pooling holds the checked arguments of a pooling over the last dimensions of a tensor.
type pooling struct {
	windows []poolWindow
	shape   []int64 // shape of the result
}

// each reads one number per spatial dimension, or returns absent if the array is empty.
func each(c *op.Call, name string, n int, least int64, absent []int64) []int64 {
	if values := c.Ints(name); len(values) == 0 && absent != nil {
		return absent
	}
	return c.Spatial(name, n, least)
}

// newPooling reads the window of a pooling of the last n dimensions of self.
func newPooling(c *op.Call, self *op.Tensor, n int) (p pooling) {
	c.Plain(self)
	c.Rank(self, n+1, n+2)
	size := c.Spatial(c.Either("kernelSize", "kernelShape"), n, 1)
	ones := slices.Repeat([]int64{1}, n)
	stride, dilation := size, ones
	if c.Op.Name == "MaxPool" {
		stride = ones
	}
	stride = each(c, c.Either("stride", "strides"), n, 1, stride)
	before, after := poolPadding(c, c.Either("padding", "paddings", "pads"), n)
	if name := c.Either("dilation", "dilations"); c.Has(name) {
		dilation = each(c, name, n, 1, ones)
	}
	if c.Err() != nil {
		return p
	}
	ceil := c.Has("ceilMode") && ceil(c)
	axis := self.Rank() - n
	p.shape = slices.Clone(self.Shape[:axis])
	for i := range n {
		w := poolWindow{n: self.Shape[axis+i], size: size[i], stride: stride[i], dilation: dilation[i], before: before[i], after: after[i]}
		if w.size > math.MaxInt32 || w.stride > math.MaxInt32 || w.dilation > math.MaxInt32 {
			c.Invalid("the window of dimension %d is %d, its stride %d and its dilation %d; they must be below 2^31", axis+i, w.size, w.stride, w.dilation)
		}
		if max(w.before, w.after) > w.size/2 {
			c.Invalid("padding %d of dimension %d is more than half the window of %d", max(w.before, w.after), axis+i, w.size)
		}
		if c.Err() != nil {
			return p
		}
		count := w.count(ceil)
		for _, s := range w.spans(count) {
			if s.N < 1 {
				c.Invalid("a window of %d with dilation %d covers only padding in dimension %d of %v", w.size, w.dilation, axis+i, self)
				break
			}
		}
		if count < 1 {
			c.Invalid("%v, padded, is smaller in dimension %d than the window of %d", self, axis+i, w.size)
		}
		p.windows, p.shape = append(p.windows, w), append(p.shape, count)
	}
	return p
}

// ceil reads ceilMode, which is a bool or an integer.
func ceil(c *op.Call) bool {
	if c.Op.Name == "MaxPool" {
		return c.Int("ceilMode") != 0
	}
	return c.Bool("ceilMode")
}

// poolPadding reads the padding before and after each dimension. MaxPool may give the two
// separately, with all paddings before the dimensions first.
func poolPadding(c *op.Call, name string, n int) (before, after []int64) {
	values := c.Ints(name)
	if c.Op.Name != "MaxPool" {
		before = c.Spatial(name, n, 0)
		return before, before
	}
	if c.Int("autoPad") != 0 {
		c.Invalid("autoPad is %d; only 0 (the padding given) is supported", c.Int("autoPad"))
	}
	switch len(values) {
	case 0:
		zeros := make([]int64, n)
		return zeros, zeros
	case 2 * n:
		return c.EachAxis(name, values[:n], n, 0), c.EachAxis(name, values[n:], n, 0)
	}
	before = c.Spatial(name, n, 0)
	return before, before
}

// averages returns the weights of an average pooling.
func averages(c *op.Call, p pooling) []convolution.Taps {
	divisor := c.Int("divisorOverride")
	var taps []convolution.Taps
	axis := len(p.shape) - len(p.windows)
	for i, w := range p.windows {
		t := w.averages(p.shape[axis+i], c.Bool("countIncludePad"), divisor == 0)
		if divisor != 0 && i == 0 {
			for _, weights := range t.Weight {
				for k := range weights {
					weights[k] /= float64(divisor)
				}
			}
		}
		taps = append(taps, t)
	}
	return taps
}

func averagePool(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out := c.Tensor("self"), c.Tensor("out")
		c.DType(self, op.FloatTypes...)
		c.SameDType(self, out)
		if c.Has("cubeMathType") {
			c.CubeMathType(self)
		}
		p := newPooling(c, self, n)
		if mode := c.IntOr("cubeMathType", 0); c.Err() == nil && self.DType == dtype.Float32 && inThree(c) && (mode == allowDownPrecision || mode == useHF32) && (p.global() || p.onCube(c, self)) {
			c.Invalid("%v and cubeMathType %d: this chip does not pool in HF32; use 0 (KEEP_DTYPE) or 2 (USE_FP16)", self, mode)
		}
		if c.Err() == nil {
			c.Shape(out, p.shape, "the pooled shape of "+self.String())
		}
		run, err := c.Resample(out, self, n, func() []convolution.Taps { return averages(c, p) })
		if err != nil || self.DType != dtype.Float32 || c.Rounding() != op.RoundToHalf || c.Chip() == acceptance.Ascend950 || !p.global() && !p.onCube(c, self) {
			return run, err
		}
		taps := averages(c, p)
		return inHalf(out, self, func(out, self kernel.View) error {
			return convolution.Resample(out, self, len(self.Shape)-n, taps...)
		}), nil
	}
}

func averagePoolBackward(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, self, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor(c.Either("gradInput", "output"))
		c.DType(self, op.FloatTypes...)
		c.SameDType(self, grad)
		c.Same(self, out)
		if c.Has("cubeMathType") {
			c.CubeMathType()
		}
		p := newPooling(c, self, n)
		if c.Err() == nil {
			c.Shape(grad, p.shape, "the pooled shape of "+self.String())
		}
		run, err := c.ResampleGrad(out, grad, n, func() []convolution.Taps { return averages(c, p) })
		if err != nil || self.DType == dtype.Float16 || c.Rounding() == op.Unrounded || c.Int("cubeMathType") == useHF32 {
			return run, err
		}
		whole := c.Int("divisorOverride") == 0 && p.global()
		if !whole && !(p.onCube(c, self) && (!inThree(c) || c.Bool("countIncludePad"))) {
			return run, err
		}
		taps := averages(c, p)
		return inHalf(out, grad, func(out, grad kernel.View) error {
			return convolution.ResampleGrad(out, grad, len(grad.Shape)-n, taps...)
		}), nil
	}
}

// Values of cubeMathType. With useHF32 the gradient of a pooling stays float32; both other ones that round make it one of float16,
// on every chip.
const allowDownPrecision, useHF32 = 1, 3

// Limits of the poolings that a 910B computes in its cube unit, and so in the type that cubeMathType asks for. It computes the
// others in float32, as three-dimensional ones.
const (
	cubeWindow   = 255   // of a dimension, and elements of a window that is larger than cubeSquare
	cubeSquare   = 20    // of each dimension
	cubeDivisor  = 255   // divisorOverride, with either sign
	cubeChannels = 65536 // fewer
	cubeStrip    = 2     // by which height and width differ less
)

// global reports whether one window covers all of the last dimensions, without padding.
func (p pooling) global() bool {
	for _, w := range p.windows {
		if w.size != w.n || w.before != 0 || w.after != 0 {
			return false
		}
	}
	return true
}

// inThree reports whether the chip computes poolings that its cube unit does not take as three-dimensional ones.
func inThree(c *op.Call) bool {
	return c.Chip() == acceptance.Ascend910B || c.Chip() == acceptance.Ascend910_93
}

// onCube reports whether the chip computes the pooling in its cube unit.
func (p pooling) onCube(c *op.Call, self *op.Tensor) bool {
	if !inThree(c) {
		return c.Chip() != acceptance.Ascend950
	}
	h, w := p.windows[0], p.windows[1]
	divisor := c.Int("divisorOverride")
	return (h.size*w.size <= cubeWindow || max(h.size, w.size) <= cubeSquare) && max(h.size, w.size) <= cubeWindow &&
		-cubeDivisor <= divisor && divisor <= cubeDivisor && !ceil(c) && self.Dim(-3) < cubeChannels &&
		w.n/h.n < cubeStrip && h.n/w.n < cubeStrip
}

// inHalf returns the Run of a computation in float16: of copies of in, whose numbers beyond its range become infinite, and with
// results that are rounded to it.
func inHalf(out, in *op.Tensor, compute func(out, in kernel.View) error) op.Run {
	return func(*op.Exec) error {
		x, free := kernel.TemporaryOf(dtype.Float16, in.Shape...)
		defer free()
		y, release := kernel.TemporaryOf(dtype.Float16, out.Shape...)
		defer release()
		if err := elementwise.Copy(x, in.View()); err != nil {
			return err
		}
		if err := compute(y, x); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), y)
	}
}

// adaptive divides each of the last dimensions of self into count windows, which may overlap.
func adaptive(self *op.Tensor, counts []int64) (spans [][]convolution.Span, taps []convolution.Taps) {
	axis := self.Rank() - len(counts)
	for i, count := range counts {
		n := self.Shape[axis+i]
		var s []convolution.Span
		var t convolution.Taps
		for k := range count {
			first, end := k*n/count, ((k+1)*n+count-1)/count
			s = append(s, convolution.Span{First: first, N: end - first, Step: 1})
			var places []int64
			for at := first; at < end; at++ {
				places = append(places, at)
			}
			t.Index = append(t.Index, places)
			t.Weight = append(t.Weight, slices.Repeat([]float64{1 / float64(end-first)}, len(places)))
		}
		spans, taps = append(spans, s), append(taps, t)
	}
	return spans, taps
}

// adaptiveShape returns the shape of an adaptive pooling of self.
func adaptiveShape(c *op.Call, self *op.Tensor, n int) []int64 {
	c.Plain(self)
	c.Rank(self, n+1, n+2)
	if c.Err() != nil {
		return nil
	}
	axis := self.Rank() - n
	for _, d := range self.Shape[axis:] {
		if d == 0 {
			c.Invalid("%v has nothing to pool: its last %d dimensions must not be 0", self, n)
		}
	}
	return slices.Concat(self.Shape[:axis], c.Spatial("outputSize", n, 0))
}

func adaptiveAverage(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out := c.Tensor("self"), c.Tensor("out")
		c.DType(self, op.FloatTypes...)
		c.SameDType(self, out)
		shape := adaptiveShape(c, self, n)
		if c.Err() == nil {
			c.Shape(out, shape, "self with outputSize as its last dimensions")
		}
		return c.Resample(out, self, n, func() []convolution.Taps {
			_, taps := adaptive(self, out.Shape[out.Rank()-n:])
			return taps
		})
	}
}

func adaptiveAverageBackward(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, self, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("out")
		single := n == 3 && grad.Rank() >= n && !slices.ContainsFunc(grad.Shape[grad.Rank()-n:], func(size int64) bool { return size != 1 })
		if single { // CANN multiplies the gradient by a number, which it does in float64 too
			c.DType(self, append(slices.Clone(op.FloatTypes), dtype.Float64)...)
		} else {
			c.DType(self, op.FloatTypes...)
		}
		c.SameDType(self, grad)
		c.Same(self, out)
		c.Rank(self, n+1, n+2)
		pooledFrom(c, grad, self, n)
		if c.Err() == nil && self.DType == dtype.Float64 {
			c.Plain(grad, out)
			share := elementwise.Real(float64(float32(1 / float64(max(op.Count(self.Shape[self.Rank()-n:]), 1)))))
			return func(*op.Exec) error {
				each, err := grad.View().Broadcast(out.Shape)
				if err != nil {
					return err
				}
				return elementwise.Map(elementwise.Mul, dtype.Float64, out.View(), []elementwise.Input{elementwise.Of(each), elementwise.Const(share)})
			}, c.Err()
		}
		return c.ResampleGrad(out, grad, n, func() []convolution.Taps {
			_, taps := adaptive(self, grad.Shape[grad.Rank()-n:])
			return taps
		})
	}
}

// pooledFrom refuses a tensor that differs from self in other than the last n dimensions, and images of
// more elements than an int32 counts.
func pooledFrom(c *op.Call, t, self *op.Tensor, n int) {
	if c.Err() == nil && self.Rank() >= n && op.Count(self.Shape[self.Rank()-n:]) > math.MaxInt32 {
		c.Invalid("%v: the last %d dimensions have more than %d elements", self, n, math.MaxInt32)
	}
	if c.Err() == nil && (t.Rank() != self.Rank() || !slices.Equal(t.Shape[:t.Rank()-n], self.Shape[:self.Rank()-n])) {
		c.Invalid("%v must have the dimensions of %v but for the last %d", t, self, n)
	}
}

// maximum returns the Run of a pooling that keeps the largest elements.
func maximum(c *op.Call, out, index, self *op.Tensor, spans func() [][]convolution.Span) (op.Run, error) {
	c.SameDType(self, out)
	c.Plain(self, out)
	if index != nil {
		c.Plain(index)
		c.SameShape(out, index)
		c.DType(index, dtype.Int32, dtype.Int64)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	s := spans()
	return func(*op.Exec) error {
		return convolution.MaxPool(out.View(), op.OptionalView(index), self.View(), s)
	}, nil
}

func maxPool(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out := c.Tensor("self"), c.Tensor("out")
		var index *op.Tensor
		if c.Has("indices") {
			index = c.Tensor("indices")
		}
		c.DType(self, op.FloatTypes...)
		p := newPooling(c, self, n)
		if c.Err() == nil {
			c.Shape(out, p.shape, "the pooled shape of "+self.String())
		}
		return maximum(c, out, index, self, func() (spans [][]convolution.Span) {
			for i, w := range p.windows {
				spans = append(spans, w.spans(out.Shape[out.Rank()-n+i]))
			}
			return spans
		})
	}
}

func adaptiveMax(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, out, index := c.Tensor("self"), c.Tensor("outputOut"), c.Tensor("indicesOut")
		c.DType(self, poolTypes...)
		shape := adaptiveShape(c, self, n)
		if c.Err() == nil {
			c.Shape(out, shape, "self with outputSize as its last dimensions")
		}
		return maximum(c, out, index, self, func() [][]convolution.Span {
			spans, _ := adaptive(self, out.Shape[out.Rank()-n:])
			return spans
		})
	}
}

// maxPoolBackward adds gradients at the positions that the forward pass recorded.
func maxPoolBackward(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, self, index, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("indices"), c.Tensor("gradInput")
		c.DType(self, poolTypes...)
		c.DType(index, dtype.Int32, dtype.Int64)
		c.SameDType(self, grad)
		c.Same(self, out)
		c.SameShape(grad, index)
		c.Plain(grad, index, out)
		c.Rank(self, n+1, n+2)
		pooledFrom(c, grad, self, n)
		if c.Has("kernelSize") {
			if p := newPooling(c, self, n); c.Err() == nil {
				c.Shape(grad, p.shape, "the pooled shape of "+self.String())
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			return convolution.Unpool(indexing.ScatterAdd, out.View(), grad.View(), index.View(), n)
		}, nil
	}
}

// unpooled checks the tensors of MaxUnpool: maps with an index each, and the image.
func unpooled(c *op.Call, maps, index, image *op.Tensor, n int) {
	c.Movable(maps, image)
	c.Plain(index)
	c.SameShape(maps, index)
	c.DType(index, dtype.Int32, dtype.Int64)
	c.Rank(maps, n+1, n+2)
	pooledFrom(c, image, maps, n)
	size := c.Spatial("outputSize", n, 0)
	if c.Err() == nil && !slices.Equal(size, image.Shape[image.Rank()-n:]) {
		c.Invalid("outputSize %s must be the last dimensions of %v", op.Dims(size), image)
	}
}

func maxUnpool(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, index, out := c.Tensor("self"), c.Tensor("indices"), c.Tensor(c.Either("out", "outRef"))
		unpooled(c, self, index, out, n)
		c.SameDType(self, out)
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			return convolution.Unpool(indexing.ScatterSet, out.View(), self.View(), index.View(), n)
		}, nil
	}
}

func maxUnpoolBackward(n int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		grad, self, index, out := c.Tensor("gradOutput"), c.Tensor("self"), c.Tensor("indices"), c.Tensor("out")
		c.SameShape(self, out)
		c.SameDType(self, grad)
		unpooled(c, out, index, grad, n)
		if out.DType != grad.DType { // CANN casts the gradient after it has gathered it
			c.Copies(out, grad)
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			if out.DType == grad.DType {
				return convolution.UnpoolGrad(out.View(), grad.View(), index.View(), n)
			}
			gathered, release := kernel.TemporaryOf(grad.DType, out.Shape...)
			defer release()
			if err := convolution.UnpoolGrad(gathered, grad.View(), index.View(), n); err != nil {
				return err
			}
			return elementwise.Copy(out.View(), gathered)
		}, nil
	}
}

// global checks a pooling that reduces every dimension after the first two to size one.
func global(c *op.Call) (self, out *op.Tensor, ones []int64) {
	self, out = c.Tensor("self"), c.Tensor("out")
	c.DType(self, append(slices.Clone(op.FloatTypes), dtype.Float64)...)
	c.SameDType(self, out)
	c.Rank(self, 3, 5)
	if c.Err() != nil {
		return self, out, nil
	}
	ones = slices.Repeat([]int64{1}, self.Rank()-2)
	if slices.Contains(self.Shape[2:], 0) {
		c.Invalid("%v has nothing to pool", self)
	}
	c.Shape(out, slices.Concat(self.Shape[:2], ones), "one number for each channel")
	return self, out, ones
}

func globalAverage(c *op.Call) (op.Run, error) {
	self, out, ones := global(c)
	return c.Resample(out, self, len(ones), func() []convolution.Taps { _, taps := adaptive(self, ones); return taps })
}

func globalMax(c *op.Call) (op.Run, error) {
	self, out, ones := global(c)
	return maximum(c, out, nil, self, func() [][]convolution.Span { spans, _ := adaptive(self, ones); return spans })
}
