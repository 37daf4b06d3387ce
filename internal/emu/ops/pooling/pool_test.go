package pooling

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// poolCase is a pooling over the last dimensions of an image.
type poolCase struct {
	image, size, stride, padding, dilation, out []int64
	ceil, includePadding                        bool
	divisor                                     int64
}

var poolCases = []poolCase{
	{image: []int64{2, 3, 6, 7}, size: []int64{2, 3}, stride: []int64{2, 1}, padding: []int64{0, 1}, dilation: []int64{1, 1}, out: []int64{3, 7}},
	{image: []int64{3, 5, 5}, size: []int64{3, 3}, padding: []int64{1, 1}, dilation: []int64{1, 1}, out: []int64{2, 2}, includePadding: true},
	{image: []int64{1, 2, 7, 6}, size: []int64{3, 2}, stride: []int64{3, 3}, padding: []int64{1, 1}, dilation: []int64{1, 1}, out: []int64{3, 3}, ceil: true, includePadding: true},
	{image: []int64{1, 2, 6, 8}, size: []int64{2, 2}, stride: []int64{3, 3}, padding: []int64{0, 0}, dilation: []int64{1, 1}, out: []int64{2, 3}, ceil: true, divisor: 3},
	{image: []int64{1, 2, 4, 5, 3}, size: []int64{2, 3, 2}, stride: []int64{1, 2, 1}, padding: []int64{1, 1, 0}, dilation: []int64{1, 1, 1}, out: []int64{5, 3, 2}},
	{image: []int64{2, 4, 3, 5}, size: []int64{2, 2, 2}, stride: []int64{2, 1, 2}, padding: []int64{0, 0, 1}, dilation: []int64{1, 1, 1}, out: []int64{2, 2, 3}, divisor: -2},
}

func (p poolCase) spatial() int { return len(p.size) }

func (p poolCase) pooled() []int64 {
	return slices.Concat(p.image[:len(p.image)-p.spatial()], p.out)
}

// windows calls f with the row-major index of each result, the positions it covers, and the
// number of elements of its window inside the padded image.
func (p poolCase) windows(f func(result int, places []int64, padded int)) {
	n, lead, result := p.spatial(), len(p.image)-p.spatial(), 0
	stride := p.stride
	if stride == nil {
		stride = p.size
	}
	optest.Walk(p.pooled(), func(o []int64) {
		var places []int64
		padded := 0
		optest.Walk(p.size, func(k []int64) {
			at, inside := slices.Clone(o), true
			for i := range n {
				at[lead+i] = o[lead+i]*stride[i] - p.padding[i] + k[i]*p.dilation[i]
				inside = inside && at[lead+i] < p.image[lead+i]+p.padding[i]
			}
			if inside {
				padded++
			}
			if i := optest.Offset(p.image, at); i >= 0 {
				places = append(places, i)
			}
		})
		f(result, places, padded)
		result++
	})
}

func (p poolCase) average(x []float64) []float64 {
	y := make([]float64, optest.Elements(p.pooled()))
	p.windows(func(result int, places []int64, padded int) {
		divisor := float64(len(places))
		if p.includePadding {
			divisor = float64(padded)
		}
		if p.divisor != 0 {
			divisor = float64(p.divisor)
		}
		for _, i := range places {
			y[result] += x[i] / divisor
		}
	})
	return y
}

// largest returns the largest element of each window and its position in the plane.
func (p poolCase) largest(x []float64) (y, index []float64) {
	plane := optest.Elements(p.image[len(p.image)-p.spatial():])
	p.windows(func(_ int, places []int64, _ int) {
		best := places[0]
		for _, i := range places {
			if x[i] > x[best] || math.IsNaN(x[i]) && !math.IsNaN(x[best]) {
				best = i
			}
		}
		y, index = append(y, x[best]), append(index, float64(best%plane))
	})
	return y, index
}

// run calls an operator with the formats that CANN wants of images.
func run(t *testing.T, name string, a optest.Args) {
	t.Helper()
	for _, v := range a {
		x, _ := v.(*op.Tensor)
		if x == nil {
			continue
		}
		switch x.Rank() {
		case 3:
			x.Format = dtype.NCL
		case 4:
			x.Format = dtype.NCHW
		case 5:
			x.Format = dtype.NCDHW
		}
	}
	optest.Run(t, name, a)
}

// args adds the arguments that the operators share, under the given names of stride and padding.
func (p poolCase) args(stride, padding string, a optest.Args) optest.Args {
	a["kernelSize"], a[stride], a[padding], a["ceilMode"] = p.size, append([]int64{}, p.stride...), p.padding, p.ceil
	return a
}

func TestAveragePool(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, p := range poolCases {
			name := fmt.Sprintf("AvgPool%dd", p.spatial())
			stride, padding, dx := "strides", "paddings", "gradInput"
			if p.spatial() == 3 {
				stride, padding, dx = "stride", "padding", "output"
			}
			grad := optest.Gradient(p.average, optest.Normal(2, d, optest.Elements(p.pooled())), optest.Normal(1, d, optest.Elements(p.image)))
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %+v", d, l, p)
				x, y := optest.Filled(t, 1, d, l, p.image), optest.TensorIn(t, d, l, p.pooled())
				run(t, name, p.args(stride, padding, optest.Args{"self": x, "countIncludePad": p.includePadding, "divisorOverride": p.divisor, "out": y}))
				optest.CloseTo(t, "y of "+what, p.average(optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
				dy, out := optest.Filled(t, 2, d, l, p.pooled()), optest.TensorIn(t, d, l, p.image)
				run(t, name+"Backward", p.args("stride", "padding", optest.Args{
					"gradOutput": dy, "self": x, "countIncludePad": p.includePadding, "divisorOverride": p.divisor, dx: out,
				}))
				optest.CloseTo(t, "dx of "+what, grad, optest.Values(out), 2*optest.ResultLimit(d))
			}
		}
	}
}

func TestMaxPool(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, p := range poolCases {
				name, back := "MaxPool2dWithIndices", "MaxPool2dWithIndicesBackward"
				if p.spatial() == 3 {
					name, back = "MaxPool3dWithArgmax", "MaxPool3dWithArgmaxBackward"
				}
				for _, index := range []dtype.Type{dtype.Int32, dtype.Int64} {
					if p.spatial() == 3 && index == dtype.Int64 {
						continue
					}
					x, y, at := optest.Filled(t, 1, d, l, p.image), optest.TensorIn(t, d, l, p.pooled()), optest.TensorIn(t, index, l, p.pooled())
					a := optest.Args{"self": x, "dilation": p.dilation, "out": y, "indices": at}
					run(t, name, p.args("stride", "padding", a))
					want, places := p.largest(optest.Values(x))
					require.Equal(t, want, optest.Values(y), "%v %v %+v", d, l, p)
					require.Equal(t, places, optest.Values(at), "%v %v %+v", d, l, p)
					if p.spatial() == 2 && (d != dtype.Float32 || index == dtype.Int64) {
						continue // the 910B's gradient in two dimensions takes these types only
					}
					dy, dx := optest.Filled(t, 2, d, l, p.pooled()), optest.TensorIn(t, d, l, p.image)
					run(t, back, p.args("stride", "padding", optest.Args{"gradOutput": dy, "self": x, "dilation": p.dilation, "indices": at, "gradInput": dx}))
					sum := make([]float64, x.Len())
					plane := optest.Elements(p.image[len(p.image)-p.spatial():])
					for i, g := range optest.Values(dy) {
						sum[int64(i)/optest.Elements(p.out)*plane+int64(places[i])] += g
					}
					optest.CloseTo(t, "dx", sum, optest.Values(dx), 2*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestMaxPoolOfSpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	x := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 6}, -inf, -inf, 1, nan, 3, 3)
	y, at := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 3}), optest.Tensor(t, dtype.Int64, []int64{1, 1, 1, 3})
	optest.Run(t, "MaxPool2dWithIndices", optest.Args{"self": x, "kernelSize": []int64{1, 2}, "stride": []int64{}, "padding": []int64{0, 0}, "dilation": []int64{1}, "out": y, "indices": at})
	assert.Equal(t, []float64{0, 3, 4}, optest.Values(at))
	assert.Equal(t, -inf, optest.Values(y)[0])
	assert.True(t, math.IsNaN(optest.Values(y)[1]))
	assert.Equal(t, 3.0, optest.Values(y)[2])
}

func TestMaxPoolSides(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Float32, []int64{1, 3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9), optest.Tensor(t, dtype.Float32, []int64{1, 3, 2})
	a := optest.Args{"self": x, "kernelShape": []int64{2}, "strides": []int64{}, "pads": []int64{1, 0, 0, 0}, "dilations": []int64{}, "out": y}
	optest.Run(t, "MaxPool", a)
	assert.Equal(t, []float64{2, 3, 5, 6, 8, 9}, optest.Values(y))
	a["autoPad"] = 1
	optest.Refused(t, op.InvalidParam, "MaxPool", a, "autoPad is 1")
}

// adaptiveDefinition calls f with the positions of each part of an evenly divided plane.
func adaptiveDefinition(image, out []int64, f func(places []int64)) {
	lead := len(image) - len(out)
	optest.Walk(slices.Concat(image[:lead], out), func(o []int64) {
		lo, size := slices.Clone(o), slices.Repeat([]int64{1}, len(image))
		for i, n := range out {
			first := int64(math.Floor(float64(o[lead+i]*image[lead+i]) / float64(n)))
			end := int64(math.Ceil(float64((o[lead+i]+1)*image[lead+i]) / float64(n)))
			lo[lead+i], size[lead+i] = first, end-first
		}
		var places []int64
		optest.Walk(size, func(k []int64) {
			at := slices.Clone(lo)
			for i := range at {
				at[i] += k[i]
			}
			places = append(places, optest.Offset(image, at))
		})
		f(places)
	})
}

func TestAdaptivePool(t *testing.T) {
	for _, c := range []struct{ image, out []int64 }{
		{[]int64{2, 3, 7, 5}, []int64{3, 2}}, {[]int64{2, 4, 4}, []int64{1, 1}}, {[]int64{1, 1, 3, 4}, []int64{5, 4}},
		{[]int64{1, 2, 5, 4, 3}, []int64{2, 3, 2}}, {[]int64{2, 3, 4, 5}, []int64{3, 1, 2}},
	} {
		n := len(c.out)
		shape := slices.Concat(c.image[:len(c.image)-n], c.out)
		plane := optest.Elements(c.image[len(c.image)-n:])
		average := func(x []float64) (y []float64) {
			adaptiveDefinition(c.image, c.out, func(places []int64) {
				sum := 0.0
				for _, i := range places {
					sum += x[i] / float64(len(places))
				}
				y = append(y, sum)
			})
			return y
		}
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				x, y := optest.Filled(t, 1, d, l, c.image), optest.TensorIn(t, d, l, shape)
				run(t, fmt.Sprintf("AdaptiveAvgPool%dd", n), optest.Args{"self": x, "outputSize": c.out, "out": y})
				optest.CloseTo(t, "average", average(optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
				dy, dx := optest.Filled(t, 2, d, l, shape), optest.TensorIn(t, d, l, c.image)
				run(t, fmt.Sprintf("AdaptiveAvgPool%ddBackward", n), optest.Args{"gradOutput": dy, "self": x, "out": dx})
				optest.CloseTo(t, "dx", optest.Gradient(average, optest.Values(dy), optest.Values(x)), optest.Values(dx), 2*optest.ResultLimit(d))

				at := optest.TensorIn(t, []dtype.Type{2: dtype.Int64, 3: dtype.Int32}[n], l, shape)
				run(t, fmt.Sprintf("AdaptiveMaxPool%dd", n), optest.Args{"self": x, "outputSize": c.out, "outputOut": y, "indicesOut": at})
				v, i, sum := optest.Values(x), 0, make([]float64, x.Len())
				adaptiveDefinition(c.image, c.out, func(places []int64) {
					best := places[0]
					for _, k := range places {
						if v[k] > v[best] {
							best = k
						}
					}
					require.Equal(t, v[best], optest.Values(y)[i])
					require.Equal(t, float64(best%plane), optest.Values(at)[i])
					sum[best] += optest.Values(dy)[i]
					i++
				})
				run(t, fmt.Sprintf("AdaptiveMaxPool%ddBackward", n), optest.Args{"gradOutput": dy, "self": x, "indices": at, "gradInput": dx})
				optest.CloseTo(t, "dx of the largest", sum, optest.Values(dx), 2*optest.ResultLimit(d))
			}
		}
	}
}

func TestGlobalPool(t *testing.T) {
	for _, d := range append(slices.Clone(op.FloatTypes), dtype.Float64) {
		for _, shape := range [][]int64{{2, 3, 5, 1}, {1, 2, 3, 4}, {1, 2, 2, 3, 2}} {
			out := slices.Concat(shape[:2], slices.Repeat([]int64{1}, len(shape)-2))
			x, mean, most := optest.Filled(t, 1, d, kerneltest.Gapped, shape), optest.Tensor(t, d, out), optest.Tensor(t, d, out)
			run(t, "GlobalAveragePool", optest.Args{"self": x, "out": mean})
			if d == dtype.BFloat16 { // which GlobalMaxPool does not take
				x, most = optest.Tensor(t, dtype.Float32, shape, optest.Values(x)...), optest.Tensor(t, dtype.Float32, out)
			}
			run(t, "GlobalMaxPool", optest.Args{"self": x, "out": most})
			plane := int(optest.Elements(shape[2:]))
			for i, v := range optest.Values(most) {
				part, sum := optest.Values(x)[i*plane:][:plane], 0.0
				for _, p := range part {
					sum += p
				}
				assert.Equal(t, slices.Max(part), v)
				assert.InDelta(t, sum/float64(plane), optest.Values(mean)[i], optest.ResultLimit(d))
			}
		}
	}
}

func TestMaxUnpool(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int8, dtype.Int64, dtype.Int16} {
		for _, l := range kerneltest.Layouts {
			x, at := optest.TensorIn(t, d, l, []int64{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), optest.TensorIn(t, dtype.Int64, l, []int64{2, 2, 2}, 0, 3, 5, 7, 8, 1, 4, 2)
			y := optest.TensorIn(t, d, l, []int64{2, 3, 3})
			optest.Run(t, "MaxUnpool2d", optest.Args{"self": x, "indices": at, "outputSize": []int64{3, 3}, "out": y})
			want := []float64{1, 0, 0, 2, 0, 3, 0, 4, 0, 0, 6, 8, 0, 7, 0, 0, 0, 5}
			assert.Equal(t, want, optest.Values(y), "%v %v", d, l)
			dx := optest.TensorIn(t, d, l, []int64{2, 2, 2})
			optest.Run(t, "MaxUnpool2dBackward", optest.Args{"gradOutput": y, "self": x, "indices": at, "outputSize": []int64{3, 3}, "out": dx})
			assert.Equal(t, optest.Values(x), optest.Values(dx), "%v %v", d, l)
			half := optest.TensorIn(t, dtype.Float16, l, []int64{2, 2, 2}) // CANN casts the gradient to the type of out
			optest.Run(t, "MaxUnpool2dBackward", optest.Args{"gradOutput": y, "self": x, "indices": at, "outputSize": []int64{3, 3}, "out": half})
			assert.Equal(t, optest.Values(x), optest.Values(half), "%v %v", d, l)
		}
	}
	x, y := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1, 2}, 5, 6), optest.Tensor(t, dtype.Float32, []int64{1, 1, 2, 2, 2})
	a := optest.Args{"self": x, "indices": optest.Tensor(t, dtype.Int32, []int64{1, 1, 1, 1, 2}, 7, 2), "outputSize": []int64{2, 2, 2}, "stride": []int64{1, 1, 1}, "padding": []int64{0, 0, 0}, "outRef": y}
	optest.Run(t, "MaxUnpool3d", a)
	assert.Equal(t, []float64{0, 0, 6, 0, 0, 0, 0, 5}, optest.Values(y))
	dx := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1, 2})
	optest.Run(t, "MaxUnpool3dBackward", optest.Args{"gradOutput": y, "self": x, "indices": optest.Tensor(t, dtype.Int64, []int64{1, 1, 1, 1, 2}, 7, 2), "outputSize": a["outputSize"], "stride": a["stride"], "padding": a["padding"], "out": dx})
	assert.Equal(t, []float64{5, 6}, optest.Values(dx))
	a["indices"] = optest.Tensor(t, dtype.Int32, []int64{1, 1, 1, 1, 2}, 8, 2)
	assert.ErrorContains(t, optest.Execute(t, "MaxUnpool3d", a), "index 8")
	a["outputSize"] = []int64{2, 2, 3}
	optest.Refused(t, op.InvalidParam, "MaxUnpool3d", a, "outputSize [2,2,3]")
}

// TestAdaptiveAverageGradientInDouble has one window for each channel, of whose gradient every element gets a share.
func TestAdaptiveAverageGradientInDouble(t *testing.T) {
	d := dtype.Float64
	grad, self, out := optest.Tensor(t, d, []int64{2, 1, 1, 1}, 1+1e-12, -6), optest.Tensor(t, d, []int64{2, 1, 2, 2}, 1), optest.Tensor(t, d, []int64{2, 1, 2, 2})
	a := optest.Args{"gradOutput": grad, "self": self, "out": out}
	optest.Run(t, "AdaptiveAvgPool3dBackward", a)
	assert.Equal(t, []float64{(1 + 1e-12) / 4, (1 + 1e-12) / 4, (1 + 1e-12) / 4, (1 + 1e-12) / 4, -1.5, -1.5, -1.5, -1.5}, optest.Values(out))
	wide := a.With(optest.Args{"gradOutput": optest.Tensor(t, d, []int64{2, 1, 1, 2}, 1)})
	optest.Refused(t, op.InvalidParam, "AdaptiveAvgPool3dBackward", wide, "dtype")
}

func TestPoolRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   optest.Args
		texts []string
	}{
		{"AvgPool2d", op.InvalidParam, optest.Args{"kernelSize": []int64{9, 9}}, []string{"smaller in dimension 2"}},
		{"AvgPool2d", op.InvalidParam, optest.Args{"kernelSize": []int64{0, 2}}, []string{"kernelSize [0,2]"}},
		{"AvgPool2d", op.NullPointer, optest.Args{"kernelSize": nil}, []string{"kernelSize is null"}},
		{"AvgPool2d", op.InvalidParam, optest.Args{"paddings": []int64{2, 0}}, []string{"more than half"}},
		{"AvgPool2d", op.InvalidParam, optest.Args{"out": optest.Tensor(t, f, []int64{1, 2, 3, 3})}, []string{"[1,2,2,2]"}},
		{"AvgPool2d", op.InvalidParam, optest.Args{"self": optest.Tensor(t, dtype.Int8, []int64{1, 2, 4, 4}, 1)}, []string{"self int8"}},
		{"AvgPool2d", op.NullPointer, optest.Args{"out": nil}, []string{"out is null"}},
		{"AdaptiveAvgPool2d", op.InvalidParam, optest.Args{"outputSize": []int64{2, 2, 2}}, []string{"outputSize [2,2,2]"}},
		{"AdaptiveAvgPool2d", op.InvalidParam, optest.Args{"outputSize": []int64{2, -1}}, []string{"outputSize"}},
		{"AdaptiveAvgPool2d", op.InvalidParam, optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 0, 4})}, []string{"nothing to pool"}},
	} {
		a := optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 4, 4}, 1), "out": optest.Tensor(t, f, []int64{1, 2, 2, 2})}
		if c.name == "AvgPool2d" {
			a["kernelSize"], a["strides"], a["paddings"] = []int64{2, 2}, []int64{2}, []int64{0}
		} else {
			a["outputSize"] = []int64{2, 2}
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, c.name, a, c.texts...)
	}
}
