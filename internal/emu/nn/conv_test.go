package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// convCase is a convolution with as many spatial dimensions as stride has numbers.
type convCase struct {
	input, weight                        []int64
	stride, padding, dilation, extraSize []int64
	groups                               int64
	transposed                           bool
}

var convCases = []convCase{
	{input: []int64{2, 3, 7}, weight: []int64{4, 3, 3}, stride: []int64{1}, padding: []int64{0}, dilation: []int64{1}, groups: 1},
	{input: []int64{1, 4, 9}, weight: []int64{6, 2, 3}, stride: []int64{2}, padding: []int64{1, 2}, dilation: []int64{2}, groups: 2},
	{input: []int64{2, 3, 5, 6}, weight: []int64{5, 3, 3, 2}, stride: []int64{1, 1}, padding: []int64{1, 1}, dilation: []int64{1, 1}, groups: 1},
	{input: []int64{2, 3, 5, 6}, weight: []int64{5, 3, 1, 1}, stride: []int64{1, 1}, padding: []int64{0, 0}, dilation: []int64{1, 1}, groups: 1},
	{input: []int64{1, 4, 6, 7}, weight: []int64{4, 1, 3, 3}, stride: []int64{2, 3}, padding: []int64{2, 0}, dilation: []int64{1, 2}, groups: 4},
	{input: []int64{1, 2, 5, 5}, weight: []int64{3, 2, 2, 3}, stride: []int64{2, 2}, padding: []int64{0, 1, 2, 1}, dilation: []int64{1, 1}, groups: 1},
	{input: []int64{1, 2, 4, 5, 3}, weight: []int64{3, 2, 2, 3, 2}, stride: []int64{1, 2, 1}, padding: []int64{1, 0, 1}, dilation: []int64{1, 1, 2}, groups: 1},
	{input: []int64{2, 4, 3}, weight: []int64{4, 3, 3}, stride: []int64{2}, padding: []int64{1}, dilation: []int64{1}, extraSize: []int64{1}, groups: 2, transposed: true},
	{input: []int64{2, 3, 3, 2}, weight: []int64{3, 2, 3, 2}, stride: []int64{2, 1}, padding: []int64{1, 0}, dilation: []int64{1, 2}, extraSize: []int64{1, 0}, groups: 1, transposed: true},
	{input: []int64{1, 2, 2, 3, 2}, weight: []int64{2, 2, 2, 1, 3}, stride: []int64{2, 3, 1}, padding: []int64{0, 0, 1}, dilation: []int64{1, 1, 1}, extraSize: []int64{1, 2, 0}, groups: 1, transposed: true},
}

// walk calls f with every index of shape in row-major order.
func walk(shape []int64, f func(at []int64)) {
	at := make([]int64, len(shape))
	for range elements(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// offset is the row-major place of at, or -1 outside of shape.
func offset(shape, at []int64) int64 {
	n := int64(0)
	for i, k := range at {
		if k < 0 || k >= shape[i] {
			return -1
		}
		n = n*shape[i] + k
	}
	return n
}

// before is the padding before spatial dimension i, after what follows it.
func (c convCase) pads(i int) (before, after int64) {
	if len(c.padding) == 2*len(c.stride) {
		return c.padding[2*i], c.padding[2*i+1]
	}
	return c.padding[i], c.padding[i]
}

// output is the shape of the result.
func (c convCase) output() []int64 {
	out := []int64{c.input[0], c.weight[0]}
	if c.transposed {
		out[1] = c.weight[1] * c.groups
	}
	for i := range c.stride {
		before, after := c.pads(i)
		wide := c.dilation[i] * (c.weight[2+i] - 1)
		if c.transposed {
			out = append(out, (c.input[2+i]-1)*c.stride[i]-before-after+wide+c.extraSize[i]+1)
		} else {
			out = append(out, (c.input[2+i]+before+after-wide-1)/c.stride[i]+1)
		}
	}
	return out
}

// definition is the sum over every element of the weight and every position it meets. A
// transposed convolution sends where the other gathers.
func (c convCase) definition(x, w, bias []float64) []float64 {
	shape := c.output()
	y := make([]float64, elements(shape))
	image, maps := c.input, shape
	if c.transposed {
		image, maps = shape, c.input
	}
	filters, channels := maps[1]/c.groups, image[1]/c.groups
	walk(maps, func(m []int64) {
		walk(c.weight[1:], func(k []int64) {
			weight := w[offset(c.weight, append([]int64{m[1]}, k...))]
			if weight == 0 {
				return
			}
			group := m[1] / filters
			at := []int64{m[0], group*channels + k[0]}
			for i := range c.stride {
				before, _ := c.pads(i)
				at = append(at, m[2+i]*c.stride[i]+k[1+i]*c.dilation[i]-before)
			}
			i, j := offset(image, at), offset(maps, m)
			switch {
			case i < 0:
			case c.transposed:
				y[i] += weight * x[j]
			default:
				y[j] += weight * x[i]
			}
		})
	})
	n := 0
	walk(shape, func(at []int64) { y[n] += bias[at[1]]; n++ })
	return y
}

// convTensors are the tensors of both directions.
type convTensors struct {
	c                                     convCase
	x, w, bias, y, dy, dx, dweight, dbias *Tensor
}

func newConv(t testing.TB, c convCase, d dtype.Type, l kerneltest.Layout) convTensors {
	out := c.output()
	return convTensors{
		c: c, x: filled(t, 1, d, l, c.input), w: filled(t, 2, d, l, c.weight), bias: filled(t, 3, d, kerneltest.Contiguous, out[1:2]),
		y: tensorIn(t, d, l, out), dy: filled(t, 4, d, l, out),
		dx: tensorIn(t, d, l, c.input), dweight: tensorIn(t, d, l, c.weight), dbias: tensor(t, d, out[1:2]),
	}
}

func (n convTensors) common(a args) args {
	for k, v := range (args{
		"input": n.x, "weight": n.w, "stride": n.c.stride, "padding": n.c.padding, "dilation": n.c.dilation,
		"transposed": n.c.transposed, "outputPadding": n.c.extraSize, "groups": n.c.groups,
	}) {
		a[k] = v
	}
	return a
}

func (n convTensors) forward() args { return n.common(args{"bias": n.bias, "output": n.y}) }

func (n convTensors) backward() args {
	return n.common(args{
		"gradOutput": n.dy, "biasSizes": n.dbias.Shape, "outputMask": []bool{true, true, true},
		"gradInput": n.dx, "gradWeight": n.dweight, "gradBias": n.dbias,
	})
}

func TestConvolution(t *testing.T) {
	for _, d := range transformerTypes {
		for _, c := range convCases {
			n := newConv(t, c, d, kerneltest.Contiguous)
			x, w, bias, dy := values(n.x), values(n.w), values(n.bias), values(n.dy)
			y := c.definition(x, w, bias)
			dx := gradient(func(x []float64) []float64 { return c.definition(x, w, bias) }, dy, x)
			dw := gradient(func(w []float64) []float64 { return c.definition(x, w, bias) }, dy, w)
			db := gradient(func(b []float64) []float64 { return c.definition(x, w, b) }, dy, bias)
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %+v", d, l, c)
				n := newConv(t, c, d, l)
				run(t, "Convolution", n.forward())
				closeTo(t, "y of "+what, y, values(n.y), 4*resultLimit(d))
				run(t, "ConvolutionBackward", n.backward())
				closeTo(t, "dx of "+what, dx, values(n.dx), 8*resultLimit(d))
				closeTo(t, "dweight of "+what, dw, values(n.dweight), 8*resultLimit(d))
				closeTo(t, "dbias of "+what, db, values(n.dbias), 8*resultLimit(d))
			}
		}
	}
}

// Images whose columns do not fit in one block.
func TestConvolutionInBlocks(t *testing.T) {
	c := convCase{input: []int64{1, 32, 230, 131}, weight: []int64{1, 32, 3, 3}, stride: []int64{1, 1}, padding: []int64{1, 1}, dilation: []int64{1, 1}, groups: 1}
	n := newConv(t, c, dtype.Float32, kerneltest.Contiguous)
	run(t, "Convolution", n.forward())
	closeTo(t, "y", c.definition(values(n.x), values(n.w), values(n.bias)), values(n.y), 1e-4)
	a := n.backward()
	a["outputMask"] = []bool{false, true, false}
	run(t, "ConvolutionBackward", a)
	// The result is linear in the weight, so one element of dweight is dy times the result of
	// that element alone.
	dw, dy := values(n.dweight), values(n.dy)
	for _, i := range []int{0, 77, len(dw) - 1} {
		one, want := make([]float64, len(dw)), 0.0
		one[i] = 1
		for j, y := range c.definition(values(n.x), one, make([]float64, 1)) {
			want += dy[j] * y
		}
		assert.InDelta(t, want, dw[i], 1e-2)
	}
}

func TestConvolutionOfNothing(t *testing.T) {
	c := convCase{input: []int64{0, 3, 5}, weight: []int64{2, 3, 3}, stride: []int64{1}, padding: []int64{0}, dilation: []int64{1}, groups: 1}
	n := newConv(t, c, dtype.Float32, kerneltest.Contiguous)
	run(t, "Convolution", n.forward())
	run(t, "ConvolutionBackward", n.backward())
	assert.Equal(t, make([]float64, 18), values(n.dweight))
	assert.Equal(t, make([]float64, 2), values(n.dbias))
}

func TestConvolutionRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   func(n *convTensors, a args)
		texts []string
	}{
		{"Convolution", nullPointer, func(n *convTensors, a args) { a["weight"] = nil }, []string{"weight is null"}},
		{"Convolution", nullPointer, func(n *convTensors, a args) { a["stride"] = nil }, []string{"stride is null"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["stride"] = []int64{0} }, []string{"stride [0]", "below 1"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["stride"] = []int64{1, 1} }, []string{"stride [1,1]", "1 spatial"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["padding"] = []int64{-1} }, []string{"padding [-1]"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["dilation"] = []int64{4} }, []string{"smaller in dimension 2"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["groups"] = 2 }, []string{"in 2 groups"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["groups"] = 0 }, []string{"groups is 0"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["cubeMathType"] = 9 }, []string{"cubeMathType 9"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["bias"] = tensor(t, f, []int64{3}, 1) }, []string{"bias float32[3]", "[4]"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["output"] = tensor(t, f, []int64{2, 4, 6}) }, []string{"[2,4,5]"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["weight"] = tensor(t, dtype.Int8, []int64{4, 3, 3}, 1) }, []string{"weight int8"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) { a["weight"] = tensor(t, f, []int64{4, 3, 3, 1}, 1) }, []string{"as many dimensions"}},
		{"Convolution", invalidParam, func(n *convTensors, a args) {
			a["transposed"], a["outputPadding"], a["weight"] = true, []int64{1}, tensor(t, f, []int64{3, 4, 3}, 1)
		}, []string{"outputPadding [1]"}},
		{"ConvolutionBackward", invalidParam, func(n *convTensors, a args) { a["outputMask"] = []bool{true} }, []string{"outputMask has 1"}},
		{"ConvolutionBackward", nullPointer, func(n *convTensors, a args) { a["gradBias"] = nil }, []string{"gradBias is null"}},
		{"ConvolutionBackward", invalidParam, func(n *convTensors, a args) { a["biasSizes"] = []int64{3} }, []string{"biasSizes [3]"}},
		{"ConvolutionBackward", invalidParam, func(n *convTensors, a args) { a["gradOutput"] = tensor(t, f, []int64{2, 4, 6}, 1) }, []string{"gradOutput"}},
	} {
		n := newConv(t, convCases[0], f, kerneltest.Contiguous)
		a := n.forward()
		if c.name == "ConvolutionBackward" {
			a = n.backward()
		}
		c.set(&n, a)
		refused(t, c.code, c.name, a, c.texts...)
	}
}

func TestConvDepthwise(t *testing.T) {
	c := convCase{input: []int64{2, 3, 6, 5}, weight: []int64{6, 1, 3, 2}, stride: []int64{2, 1}, padding: []int64{1, 0}, dilation: []int64{1, 2}, groups: 3}
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			n := newConv(t, c, d, l)
			a := args{
				"self": n.x, "weight": n.w, "kernelSize": c.weight[2:], "bias": n.bias, "stride": c.stride, "padding": c.padding,
				"dilation": c.dilation, "out": n.y,
			}
			run(t, "ConvDepthwise2d", a)
			closeTo(t, "y", c.definition(values(n.x), values(n.w), values(n.bias)), values(n.y), 4*resultLimit(d))
			a["kernelSize"] = []int64{3, 3}
			refused(t, invalidParam, "ConvDepthwise2d", a, "[filters, 1, 3, 3]")
		}
	}
}

// transposed3 is values of a [a, b, c] tensor in another order of dimensions.
func transposed3(v []float64, shape []int64, order ...int) []float64 {
	to := []int64{shape[order[0]], shape[order[1]], shape[order[2]]}
	out := make([]float64, 0, len(v))
	walk(to, func(at []int64) {
		from := make([]int64, 3)
		for i, d := range order {
			from[d] = at[i]
		}
		out = append(out, v[offset(shape, from)])
	})
	return out
}

func TestConvTbc(t *testing.T) {
	c := convCase{input: []int64{2, 3, 7}, weight: []int64{4, 3, 3}, stride: []int64{1}, padding: []int64{1}, dilation: []int64{1}, groups: 1}
	in, w, out := []int64{7, 2, 3}, []int64{3, 3, 4}, []int64{7, 2, 4}
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, weight, bias, y := filled(t, 1, d, l, in), filled(t, 2, d, l, w), filled(t, 3, d, kerneltest.Contiguous, []int64{4}), tensorIn(t, d, l, out)
			run(t, "ConvTbc", args{"self": x, "weight": weight, "bias": bias, "pad": 1, "output": y})
			define := func(x, weight, bias []float64) []float64 {
				y := c.definition(transposed3(x, in, 1, 2, 0), transposed3(weight, w, 2, 1, 0), bias)
				return transposed3(y, c.output(), 2, 0, 1)
			}
			closeTo(t, "y", define(values(x), values(weight), values(bias)), values(y), 4*resultLimit(d))

			dy, dx, dw, db := filled(t, 4, d, l, out), tensorIn(t, d, l, in), tensorIn(t, d, l, w), tensor(t, d, []int64{4})
			run(t, "ConvTbcBackward", args{"self": dy, "input": x, "weight": weight, "bias": bias, "pad": 1, "gradInput": dx, "gradWeight": dw, "gradBias": db})
			closeTo(t, "dx", gradient(func(v []float64) []float64 { return define(v, values(weight), values(bias)) }, values(dy), values(x)), values(dx), 8*resultLimit(d))
			closeTo(t, "dweight", gradient(func(v []float64) []float64 { return define(values(x), v, values(bias)) }, values(dy), values(weight)), values(dw), 8*resultLimit(d))
			closeTo(t, "dbias", gradient(func(v []float64) []float64 { return define(values(x), values(weight), v) }, values(dy), values(bias)), values(db), 8*resultLimit(d))
		}
	}
	refused(t, invalidParam, "ConvTbc", args{
		"self": tensor(t, dtype.Float32, in, 1), "weight": tensor(t, dtype.Float32, w, 1), "bias": tensor(t, dtype.Float32, []int64{4}, 1), "pad": -1,
		"output": tensor(t, dtype.Float32, out),
	}, "pad is -1")
}

func TestIm2col(t *testing.T) {
	size, dilation, padding, stride := []int64{2, 3}, []int64{1, 2}, []int64{1, 0}, []int64{2, 1}
	image, cols := []int64{2, 3, 4, 7}, []int64{2, 18, 9}
	define := func(x []float64) []float64 {
		var out []float64
		walk([]int64{2, 3, 2, 3, 3, 3}, func(at []int64) {
			v := 0.0
			if i := offset(image, []int64{at[0], at[1], at[4]*2 + at[2] - 1, at[5] + at[3]*2}); i >= 0 {
				v = x[i]
			}
			out = append(out, v)
		})
		return out
	}
	for _, d := range append(slices.Clone(transformerTypes), dtype.Int8, dtype.Int64, dtype.Bool) {
		for _, l := range kerneltest.Layouts {
			x, y := filled(t, 1, d, l, image), tensorIn(t, d, l, cols)
			a := args{"self": x, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": y}
			run(t, "Im2col", a)
			assert.Equal(t, define(values(x)), values(y), "%v %v", d, l)
		}
	}
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			dy, dx := filled(t, 2, d, l, cols), tensorIn(t, d, l, image)
			run(t, "Im2colBackward", args{
				"gradOutput": dy, "inputSize": image[2:], "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": dx,
			})
			closeTo(t, "dx", gradient(define, values(dy), make([]float64, elements(image))), values(dx), 4*resultLimit(d))
		}
	}
	x, y := tensor(t, dtype.Float32, image[1:], 1), tensor(t, dtype.Float32, cols[1:])
	run(t, "Im2col", args{"self": x, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": y})
	refused(t, invalidParam, "Im2col", args{"self": x, "kernelSize": []int64{7, 3}, "dilation": dilation, "padding": padding, "stride": stride, "out": y}, "smaller than the window")
	refused(t, invalidParam, "Im2colBackward", args{
		"gradOutput": y, "inputSize": []int64{4, 6}, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": x,
	}, "inputSize [4,6]")
}
