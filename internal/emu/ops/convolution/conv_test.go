package convolution

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// convCase is a convolution with len(stride) spatial dimensions.
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

// pads returns the padding before and after spatial dimension i.
func (c convCase) pads(i int) (before, after int64) {
	if len(c.padding) == 2*len(c.stride) {
		return c.padding[2*i], c.padding[2*i+1]
	}
	return c.padding[i], c.padding[i]
}

// output returns the shape of the result.
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

// definition sums over every element of the weight and every position that it covers. A convolution
// gathers from these positions, a transposed one adds to them.
func (c convCase) definition(x, w, bias []float64) []float64 {
	shape := c.output()
	y := make([]float64, optest.Elements(shape))
	image, maps := c.input, shape
	if c.transposed {
		image, maps = shape, c.input
	}
	filters, channels := maps[1]/c.groups, image[1]/c.groups
	optest.Walk(maps, func(m []int64) {
		optest.Walk(c.weight[1:], func(k []int64) {
			weight := w[optest.Offset(c.weight, append([]int64{m[1]}, k...))]
			if weight == 0 {
				return
			}
			group := m[1] / filters
			at := []int64{m[0], group*channels + k[0]}
			for i := range c.stride {
				before, _ := c.pads(i)
				at = append(at, m[2+i]*c.stride[i]+k[1+i]*c.dilation[i]-before)
			}
			i, j := optest.Offset(image, at), optest.Offset(maps, m)
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
	optest.Walk(shape, func(at []int64) { y[n] += bias[at[1]]; n++ })
	return y
}

// convTensors holds the tensors of both directions.
type convTensors struct {
	c                                     convCase
	x, w, bias, y, dy, dx, dweight, dbias *op.Tensor
}

func newConv(t testing.TB, c convCase, d dtype.Type, l kerneltest.Layout) convTensors {
	out := c.output()
	return convTensors{
		c: c, x: optest.Filled(t, 1, d, l, c.input), w: optest.Filled(t, 2, d, l, c.weight), bias: optest.Filled(t, 3, d, kerneltest.Contiguous, out[1:2]),
		y: optest.TensorIn(t, d, l, out), dy: optest.Filled(t, 4, d, l, out),
		dx: optest.TensorIn(t, d, l, c.input), dweight: optest.TensorIn(t, d, l, c.weight), dbias: optest.Tensor(t, d, out[1:2]),
	}
}

func (n convTensors) common(a optest.Args) optest.Args {
	for k, v := range (optest.Args{
		"input": n.x, "weight": n.w, "stride": n.c.stride, "padding": n.c.padding, "dilation": n.c.dilation,
		"transposed": n.c.transposed, "outputPadding": n.c.extraSize, "groups": n.c.groups,
	}) {
		a[k] = v
	}
	return a
}

func (n convTensors) forward() optest.Args {
	return n.common(optest.Args{"bias": n.bias, "output": n.y})
}

func (n convTensors) backward() optest.Args {
	return n.common(optest.Args{
		"gradOutput": n.dy, "biasSizes": n.dbias.Shape, "outputMask": []bool{true, true, true},
		"gradInput": n.dx, "gradWeight": n.dweight, "gradBias": n.dbias,
	})
}

// TestSizesOfBias: CANN reads biasSizes when a tensor is empty.
func TestSizesOfBias(t *testing.T) {
	c := convCases[0]
	for batch, sizes := range map[int64][]int64{0: {4}, 2: {9}} {
		c.input = []int64{batch, 3, 7}
		a := newConv(t, c, dtype.Float32, kerneltest.Contiguous).backward()
		a["biasSizes"] = sizes
		optest.Run(t, "ConvolutionBackward", a)
	}
	c.input = []int64{0, 3, 7}
	for _, sizes := range [][]int64{nil, {}, {3}, {4, 4}} {
		a := newConv(t, c, dtype.Float32, kerneltest.Contiguous).backward()
		if a["biasSizes"] = sizes; sizes == nil {
			delete(a, "biasSizes")
		}
		optest.Refused(t, op.InvalidParam, "ConvolutionBackward", a, "biasSizes")
	}
}

func TestConvolution(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, c := range convCases {
			n := newConv(t, c, d, kerneltest.Contiguous)
			x, w, bias, dy := optest.Values(n.x), optest.Values(n.w), optest.Values(n.bias), optest.Values(n.dy)
			y := c.definition(x, w, bias)
			dx := optest.Gradient(func(x []float64) []float64 { return c.definition(x, w, bias) }, dy, x)
			dw := optest.Gradient(func(w []float64) []float64 { return c.definition(x, w, bias) }, dy, w)
			db := optest.Gradient(func(b []float64) []float64 { return c.definition(x, w, b) }, dy, bias)
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %+v", d, l, c)
				n := newConv(t, c, d, l)
				optest.Run(t, "Convolution", n.forward())
				optest.CloseTo(t, "y of "+what, y, optest.Values(n.y), 4*optest.ResultLimit(d))
				optest.Run(t, "ConvolutionBackward", n.backward())
				optest.CloseTo(t, "dx of "+what, dx, optest.Values(n.dx), 8*optest.ResultLimit(d))
				optest.CloseTo(t, "dweight of "+what, dw, optest.Values(n.dweight), 8*optest.ResultLimit(d))
				optest.CloseTo(t, "dbias of "+what, db, optest.Values(n.dbias), 8*optest.ResultLimit(d))
			}
		}
	}
}

// The columns of these images do not fit in one block.
func TestConvolutionInBlocks(t *testing.T) {
	c := convCase{input: []int64{1, 32, 230, 131}, weight: []int64{1, 32, 3, 3}, stride: []int64{1, 1}, padding: []int64{1, 1}, dilation: []int64{1, 1}, groups: 1}
	n := newConv(t, c, dtype.Float32, kerneltest.Contiguous)
	optest.Run(t, "Convolution", n.forward())
	optest.CloseTo(t, "y", c.definition(optest.Values(n.x), optest.Values(n.w), optest.Values(n.bias)), optest.Values(n.y), 1e-4)
	a := n.backward()
	a["outputMask"] = []bool{false, true, false}
	optest.Run(t, "ConvolutionBackward", a)
	// The result is linear in the weight, so one element of dweight is dy times the result of
	// that element alone.
	dw, dy := optest.Values(n.dweight), optest.Values(n.dy)
	for _, i := range []int{0, 77, len(dw) - 1} {
		one, want := make([]float64, len(dw)), 0.0
		one[i] = 1
		for j, y := range c.definition(optest.Values(n.x), one, make([]float64, 1)) {
			want += dy[j] * y
		}
		assert.InDelta(t, want, dw[i], 1e-2)
	}
}

func TestConvolutionOfNothing(t *testing.T) {
	c := convCase{input: []int64{0, 3, 5}, weight: []int64{2, 3, 3}, stride: []int64{1}, padding: []int64{0}, dilation: []int64{1}, groups: 1}
	n := newConv(t, c, dtype.Float32, kerneltest.Contiguous)
	optest.Run(t, "Convolution", n.forward())
	optest.Run(t, "ConvolutionBackward", n.backward())
	assert.Equal(t, make([]float64, 18), optest.Values(n.dweight))
	assert.Equal(t, make([]float64, 2), optest.Values(n.dbias))
}

func TestConvolutionRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   func(n *convTensors, a optest.Args)
		texts []string
	}{
		{"Convolution", op.NullPointer, func(n *convTensors, a optest.Args) { a["weight"] = nil }, []string{"weight is null"}},
		{"Convolution", op.NullPointer, func(n *convTensors, a optest.Args) { a["stride"] = nil }, []string{"stride is null"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["stride"] = []int64{0} }, []string{"stride [0]", "below 1"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["stride"] = []int64{1, 1} }, []string{"stride [1,1]", "1 spatial"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["padding"] = []int64{-1} }, []string{"padding [-1]"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["dilation"] = []int64{4} }, []string{"smaller in dimension 2"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["groups"] = 2 }, []string{"in 2 groups"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["groups"] = 0 }, []string{"groups is 0"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["cubeMathType"] = 9 }, []string{"cubeMathType 9"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["bias"] = optest.Tensor(t, f, []int64{3}, 1) }, []string{"bias float32[3]", "[4]"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["output"] = optest.Tensor(t, f, []int64{2, 4, 6}) }, []string{"[2,4,5]"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["weight"] = optest.Tensor(t, dtype.Int8, []int64{4, 3, 3}, 1) }, []string{"weight int8"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["weight"] = optest.Tensor(t, f, []int64{4, 3, 3, 1}, 1) }, []string{"as many dimensions"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) {
			a["transposed"], a["outputPadding"], a["weight"] = true, []int64{1}, optest.Tensor(t, f, []int64{3, 4, 3}, 1)
		}, []string{"outputPadding [1]"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) { a["bias"].(*op.Tensor).Format = dtype.NHWC }, []string{"bias float32", "NHWC"}},
		{"Convolution", op.InvalidParam, func(n *convTensors, a optest.Args) {
			a["input"], a["weight"] = optest.Tensor(t, f, []int64{2, 0, 7}), optest.Tensor(t, f, []int64{4, 0, 3})
		}, []string{"is empty, so output"}},
		{"ConvolutionBackward", op.InvalidParam, func(n *convTensors, a optest.Args) { a["outputMask"] = []bool{true} }, []string{"outputMask has 1"}},
		{"ConvolutionBackward", op.NullPointer, func(n *convTensors, a optest.Args) { a["gradBias"] = nil }, []string{"gradBias is null"}},
		{"ConvolutionBackward", op.InvalidParam, func(n *convTensors, a optest.Args) { a["gradOutput"] = optest.Tensor(t, f, []int64{2, 4, 6}, 1) }, []string{"gradOutput"}},
	} {
		n := newConv(t, convCases[0], f, kerneltest.Contiguous)
		a := n.forward()
		if c.name == "ConvolutionBackward" {
			a = n.backward()
		}
		c.set(&n, a)
		optest.Refused(t, c.code, c.name, a, c.texts...)
	}
}

func TestConvDepthwise(t *testing.T) {
	c := convCase{input: []int64{2, 3, 6, 5}, weight: []int64{6, 1, 3, 2}, stride: []int64{2, 1}, padding: []int64{1, 0}, dilation: []int64{1, 2}, groups: 3}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			n := newConv(t, c, d, l)
			a := optest.Args{
				"self": n.x, "weight": n.w, "kernelSize": c.weight[2:], "bias": n.bias, "stride": c.stride, "padding": c.padding,
				"dilation": c.dilation, "out": n.y,
			}
			optest.Run(t, "ConvDepthwise2d", a)
			optest.CloseTo(t, "y", c.definition(optest.Values(n.x), optest.Values(n.w), optest.Values(n.bias)), optest.Values(n.y), 4*optest.ResultLimit(d))
			a["kernelSize"] = []int64{3, 3}
			optest.Refused(t, op.InvalidParam, "ConvDepthwise2d", a, "[filters, 1, 3, 3]")
		}
	}
}

// transposed3 returns the values of a tensor [a, b, c] with its dimensions in another order.
func transposed3(v []float64, shape []int64, order ...int) []float64 {
	to := []int64{shape[order[0]], shape[order[1]], shape[order[2]]}
	out := make([]float64, 0, len(v))
	optest.Walk(to, func(at []int64) {
		from := make([]int64, 3)
		for i, d := range order {
			from[d] = at[i]
		}
		out = append(out, v[optest.Offset(shape, from)])
	})
	return out
}

func TestConvTbc(t *testing.T) {
	c := convCase{input: []int64{2, 3, 7}, weight: []int64{4, 3, 3}, stride: []int64{1}, padding: []int64{1}, dilation: []int64{1}, groups: 1}
	in, w, out := []int64{7, 2, 3}, []int64{3, 3, 4}, []int64{7, 2, 4}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x, weight, bias, y := optest.Filled(t, 1, d, l, in), optest.Filled(t, 2, d, l, w), optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{4}), optest.TensorIn(t, d, l, out)
			optest.Run(t, "ConvTbc", optest.Args{"self": x, "weight": weight, "bias": bias, "pad": 1, "output": y})
			define := func(x, weight, bias []float64) []float64 {
				y := c.definition(transposed3(x, in, 1, 2, 0), transposed3(weight, w, 2, 1, 0), bias)
				return transposed3(y, c.output(), 2, 0, 1)
			}
			optest.CloseTo(t, "y", define(optest.Values(x), optest.Values(weight), optest.Values(bias)), optest.Values(y), 4*optest.ResultLimit(d))

			dy, dx, dw, db := optest.Filled(t, 4, d, l, out), optest.TensorIn(t, d, l, in), optest.TensorIn(t, d, l, w), optest.Tensor(t, d, []int64{4})
			optest.Run(t, "ConvTbcBackward", optest.Args{"self": dy, "input": x, "weight": weight, "bias": bias, "pad": 1, "gradInput": dx, "gradWeight": dw, "gradBias": db})
			optest.CloseTo(t, "dx", optest.Gradient(func(v []float64) []float64 { return define(v, optest.Values(weight), optest.Values(bias)) }, optest.Values(dy), optest.Values(x)), optest.Values(dx), 8*optest.ResultLimit(d))
			optest.CloseTo(t, "dweight", optest.Gradient(func(v []float64) []float64 { return define(optest.Values(x), v, optest.Values(bias)) }, optest.Values(dy), optest.Values(weight)), optest.Values(dw), 8*optest.ResultLimit(d))
			optest.CloseTo(t, "dbias", optest.Gradient(func(v []float64) []float64 { return define(optest.Values(x), optest.Values(weight), v) }, optest.Values(dy), optest.Values(bias)), optest.Values(db), 8*optest.ResultLimit(d))
		}
	}
	// What CANN makes of tensors without elements: zeros, and for the bias the number of rows.
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 9) }
	dx, dw, db := f(2, 3, 0), f(1, 0, 4), f(4)
	optest.Run(t, "ConvTbcBackward", optest.Args{"self": f(4, 3, 4), "input": f(2, 3, 0), "weight": f(1, 0, 4), "bias": f(4), "pad": 1, "gradInput": dx, "gradWeight": dw, "gradBias": db})
	assert.Equal(t, []float64{12, 12, 12, 12}, optest.Values(db))
	dx, dw, db = f(2, 0, 3), f(1, 3, 2), f(2)
	optest.Run(t, "ConvTbcBackward", optest.Args{"self": f(2, 0, 2), "input": f(2, 0, 3), "weight": f(1, 3, 2), "bias": f(2), "pad": 0, "gradInput": dx, "gradWeight": dw, "gradBias": db})
	assert.Equal(t, []float64{0, 0, 0, 0, 0, 0, 0, 0}, append(optest.Values(dw), optest.Values(db)...))
	optest.Refused(t, op.InvalidParam, "ConvTbc", optest.Args{
		"self": optest.Tensor(t, dtype.Float32, in, 1), "weight": optest.Tensor(t, dtype.Float32, w, 1), "bias": optest.Tensor(t, dtype.Float32, []int64{4}, 1), "pad": -1,
		"output": optest.Tensor(t, dtype.Float32, out),
	}, "pad is -1")
}

// Formats and types of the gradients that CANN's checks refuse.
func TestGradientsOfOtherTypes(t *testing.T) {
	f := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	tbc := optest.Args{
		"self": f(dtype.Float32, 3, 1, 2), "input": f(dtype.Float32, 3, 1, 2), "weight": f(dtype.Float32, 1, 2, 2), "bias": f(dtype.Float32, 2), "pad": 0,
		"gradInput": f(dtype.Float32, 3, 1, 2), "gradWeight": f(dtype.Float32, 1, 2, 2), "gradBias": f(dtype.Float32, 2),
	}
	conv := optest.Args{
		"gradOutput": f(dtype.Float32, 1, 1, 2, 2), "input": f(dtype.Float32, 1, 1, 2, 2), "weight": f(dtype.Float32, 1, 1, 1, 1), "biasSizes": []int64{1}, "outputMask": []bool{true, true, true},
		"stride": []int64{1, 1}, "padding": []int64{0, 0}, "dilation": []int64{1, 1}, "groups": 1, "outputPadding": []int64{0, 0},
		"gradInput": f(dtype.Float32, 1, 1, 2, 2), "gradWeight": f(dtype.Float32, 1, 1, 1, 1), "gradBias": f(dtype.Float32, 1),
	}
	for name, a := range map[string]optest.Args{"ConvTbcBackward": tbc, "ConvolutionBackward": conv} {
		for _, out := range []string{"gradInput", "gradWeight", "gradBias"} {
			with := a.With(optest.Args{out: f(dtype.Float16, a[out].(*op.Tensor).Shape...)})
			_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B}, name, with)
			assert.NoError(t, err, "%s %s on a 910B", name, out)
			_, err = optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, name, with)
			assert.ErrorContains(t, err, "dtypes differ", "%s %s on a 950", name, out)
		}
	}
	for _, p := range []string{"self", "input", "weight", "bias", "gradInput", "gradWeight", "gradBias"} {
		odd := *tbc[p].(*op.Tensor)
		odd.Format = dtype.NCHW
		optest.Refused(t, op.InvalidParam, "ConvTbcBackward", tbc.With(optest.Args{p: &odd}), "must be in format ND")
	}
}

func TestIm2col(t *testing.T) {
	size, dilation, padding, stride := []int64{2, 3}, []int64{1, 2}, []int64{1, 0}, []int64{2, 1}
	image, cols := []int64{2, 3, 4, 7}, []int64{2, 18, 9}
	define := func(x []float64) []float64 {
		var out []float64
		optest.Walk([]int64{2, 3, 2, 3, 3, 3}, func(at []int64) {
			v := 0.0
			if i := optest.Offset(image, []int64{at[0], at[1], at[4]*2 + at[2] - 1, at[5] + at[3]*2}); i >= 0 {
				v = x[i]
			}
			out = append(out, v)
		})
		return out
	}
	for _, d := range append(slices.Clone(op.FloatTypes), dtype.Int8, dtype.Int64, dtype.Bool) {
		for _, l := range kerneltest.Layouts {
			x, y := optest.Filled(t, 1, d, l, image), optest.TensorIn(t, d, l, cols)
			a := optest.Args{"self": x, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": y}
			if d.IsFloat() {
				optest.Run(t, "Im2col", a)
			} else { // the 910B has floating-point types only
				optest.Refused(t, op.InvalidParam, "Im2col", a, "dtype")
				optest.RunOn(t, acceptance.Ascend950, "Im2col", a)
			}
			assert.Equal(t, define(optest.Values(x)), optest.Values(y), "%v %v", d, l)
		}
	}
	for _, d := range []dtype.Type{dtype.Float64, dtype.Int8, dtype.Bool, dtype.Complex64} { // the columns are cast
		x, parts := optest.Tensor(t, dtype.Float32, image, 1, 0, 3), optest.Tensor(t, d, cols)
		if d.IsComplex() {
			parts = optest.Tensor(t, op.PartTypes[d], append(slices.Clone(cols), 2), 9)
		}
		y := optest.Of(parts.View())
		y.DType, y.Shape, y.Strides, y.Storage = d, cols, op.ContiguousStrides(cols), cols
		optest.Run(t, "Im2col", optest.Args{"self": x, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": y})
		var want []float64
		for _, v := range define(optest.Values(x)) {
			switch {
			case d.IsComplex():
				want = append(want, v, 0)
			case d == dtype.Bool:
				want = append(want, min(v, 1))
			default:
				want = append(want, v)
			}
		}
		assert.Equal(t, want, optest.Values(parts), "%v", d)
	}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			dy, dx := optest.Filled(t, 2, d, l, cols), optest.TensorIn(t, d, l, image)
			optest.Run(t, "Im2colBackward", optest.Args{
				"gradOutput": dy, "inputSize": image[2:], "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": dx,
			})
			want := optest.Gradient(define, optest.Values(dy), make([]float64, optest.Elements(image)))
			optest.CloseTo(t, "dx", want, optest.Values(dx), 4*optest.ResultLimit(d))
			other := map[bool]dtype.Type{true: dtype.Float16, false: dtype.Float32}[d == dtype.Float32] // to which the sums are cast
			cast := optest.TensorIn(t, other, l, image)
			optest.Run(t, "Im2colBackward", optest.Args{
				"gradOutput": dy, "inputSize": image[2:], "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": cast,
			})
			optest.CloseTo(t, "dx of another type", optest.Values(dx), optest.Values(cast), optest.ResultLimit(other))
		}
	}
	x, y := optest.Tensor(t, dtype.Float32, image[1:], 1), optest.Tensor(t, dtype.Float32, cols[1:])
	optest.Run(t, "Im2col", optest.Args{"self": x, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": y})
	optest.Refused(t, op.InvalidParam, "Im2col", optest.Args{"self": x, "kernelSize": []int64{7, 3}, "dilation": dilation, "padding": padding, "stride": stride, "out": y}, "smaller than the window")
	optest.Refused(t, op.InvalidParam, "Im2colBackward", optest.Args{
		"gradOutput": y, "inputSize": []int64{4, 6}, "kernelSize": size, "dilation": dilation, "padding": padding, "stride": stride, "out": x,
	}, "inputSize [4,6]")
}

// Before the 950, gradients of weights of volumes in several groups are not in float32 if the factors have 16 bits.
func TestGradientsOfVolumesInGroups(t *testing.T) {
	f := dtype.Float32
	args := func(d dtype.Type, groups int64) optest.Args {
		return optest.Args{
			"gradOutput": optest.Tensor(t, d, []int64{1, 2, 2, 2, 2}, 1), "input": optest.Tensor(t, d, []int64{1, 2, 2, 2, 2}, 1), "weight": optest.Tensor(t, d, []int64{2, 2 / groups, 1, 1, 1}, 1),
			"biasSizes": []int64{2}, "stride": []int64{1, 1, 1}, "padding": []int64{0, 0, 0}, "dilation": []int64{1, 1, 1}, "outputPadding": []int64{0, 0, 0}, "groups": groups,
			"outputMask": []bool{false, true, false}, "gradWeight": optest.Tensor(t, f, []int64{2, 2 / groups, 1, 1, 1}), "gradInput": optest.Tensor(t, f, []int64{1, 2, 2, 2, 2}), "gradBias": optest.Tensor(t, f, []int64{2}),
		}
	}
	optest.Refused(t, op.InvalidParam, "ConvolutionBackward", args(dtype.BFloat16, 2), "gradWeight float32", "computed in bfloat16")
	optest.Refused(t, op.InvalidParam, "ConvolutionBackward", args(f, 2).With(optest.Args{"cubeMathType": 2}), "cubeMathType 2")
	for _, a := range []optest.Args{args(dtype.BFloat16, 1), args(f, 2)} {
		optest.Run(t, "ConvolutionBackward", a)
		for _, v := range optest.Values(a["gradWeight"].(*op.Tensor)) {
			assert.Equal(t, 8.0, v)
		}
	}
}
