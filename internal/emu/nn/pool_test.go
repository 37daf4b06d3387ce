package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// poolCase is a pooling of the last dimensions of an image.
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

// windows calls f with the row-major number of each result and the places it covers, and
// the elements of its window inside the padded image.
func (p poolCase) windows(f func(result int, places []int64, padded int)) {
	n, lead, result := p.spatial(), len(p.image)-p.spatial(), 0
	stride := p.stride
	if stride == nil {
		stride = p.size
	}
	walk(p.pooled(), func(o []int64) {
		var places []int64
		padded := 0
		walk(p.size, func(k []int64) {
			at, inside := slices.Clone(o), true
			for i := range n {
				at[lead+i] = o[lead+i]*stride[i] - p.padding[i] + k[i]*p.dilation[i]
				inside = inside && at[lead+i] < p.image[lead+i]+p.padding[i]
			}
			if inside {
				padded++
			}
			if i := offset(p.image, at); i >= 0 {
				places = append(places, i)
			}
		})
		f(result, places, padded)
		result++
	})
}

func (p poolCase) average(x []float64) []float64 {
	y := make([]float64, elements(p.pooled()))
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

// largest is the largest element of each window and its place in its plane.
func (p poolCase) largest(x []float64) (y, index []float64) {
	plane := elements(p.image[len(p.image)-p.spatial():])
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

// args are those that the operators share, by the names that an operator has.
func (p poolCase) args(stride, padding string, a args) args {
	a["kernelSize"], a[stride], a[padding], a["ceilMode"] = p.size, p.stride, p.padding, p.ceil
	return a
}

func TestAveragePool(t *testing.T) {
	for _, d := range transformerTypes {
		for _, p := range poolCases {
			name := fmt.Sprintf("AvgPool%dd", p.spatial())
			stride, padding, dx := "strides", "paddings", "gradInput"
			if p.spatial() == 3 {
				stride, padding, dx = "stride", "padding", "output"
			}
			grad := gradient(p.average, normal(2, d, elements(p.pooled())), normal(1, d, elements(p.image)))
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %+v", d, l, p)
				x, y := filled(t, 1, d, l, p.image), tensorIn(t, d, l, p.pooled())
				run(t, name, p.args(stride, padding, args{"self": x, "countIncludePad": p.includePadding, "divisorOverride": p.divisor, "out": y}))
				closeTo(t, "y of "+what, p.average(values(x)), values(y), resultLimit(d))
				dy, out := filled(t, 2, d, l, p.pooled()), tensorIn(t, d, l, p.image)
				run(t, name+"Backward", p.args("stride", "padding", args{
					"gradOutput": dy, "self": x, "countIncludePad": p.includePadding, "divisorOverride": p.divisor, dx: out,
				}))
				closeTo(t, "dx of "+what, grad, values(out), 2*resultLimit(d))
			}
		}
	}
}

func TestMaxPool(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, p := range poolCases {
				name, back := "MaxPool2dWithIndices", "MaxPool2dWithIndicesBackward"
				if p.spatial() == 3 {
					name, back = "MaxPool3dWithArgmax", "MaxPool3dWithArgmaxBackward"
				}
				for _, index := range []dtype.Type{dtype.Int32, dtype.Int64} {
					x, y, at := filled(t, 1, d, l, p.image), tensorIn(t, d, l, p.pooled()), tensorIn(t, index, l, p.pooled())
					a := args{"self": x, "dilation": p.dilation, "out": y, "indices": at}
					run(t, name, p.args("stride", "padding", a))
					want, places := p.largest(values(x))
					require.Equal(t, want, values(y), "%v %v %+v", d, l, p)
					require.Equal(t, places, values(at), "%v %v %+v", d, l, p)
					dy, dx := filled(t, 2, d, l, p.pooled()), tensorIn(t, d, l, p.image)
					run(t, back, p.args("stride", "padding", args{"gradOutput": dy, "self": x, "dilation": p.dilation, "indices": at, "gradInput": dx}))
					sum := make([]float64, x.Len())
					plane := elements(p.image[len(p.image)-p.spatial():])
					for i, g := range values(dy) {
						sum[int64(i)/elements(p.out)*plane+int64(places[i])] += g
					}
					closeTo(t, "dx", sum, values(dx), 2*resultLimit(d))
				}
			}
		}
	}
}

func TestMaxPoolOfSpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	x := tensor(t, dtype.Float32, []int64{1, 1, 1, 6}, -inf, -inf, 1, nan, 3, 3)
	y, at := tensor(t, dtype.Float32, []int64{1, 1, 1, 3}), tensor(t, dtype.Int64, []int64{1, 1, 1, 3})
	run(t, "MaxPool2dWithIndices", args{"self": x, "kernelSize": []int64{1, 2}, "stride": []int64{}, "padding": []int64{0, 0}, "dilation": []int64{1}, "out": y, "indices": at})
	assert.Equal(t, []float64{0, 3, 4}, values(at))
	assert.Equal(t, -inf, values(y)[0])
	assert.True(t, math.IsNaN(values(y)[1]))
	assert.Equal(t, 3.0, values(y)[2])
}

func TestMaxPoolSides(t *testing.T) {
	x, y := tensor(t, dtype.Float32, []int64{1, 3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9), tensor(t, dtype.Float32, []int64{1, 3, 2})
	a := args{"self": x, "kernelShape": []int64{2}, "strides": []int64{}, "pads": []int64{1, 0, 0, 0}, "out": y}
	run(t, "MaxPool", a)
	assert.Equal(t, []float64{2, 3, 5, 6, 8, 9}, values(y))
	a["autoPad"] = 1
	refused(t, invalidParam, "MaxPool", a, "autoPad is 1")
}

// adaptiveCase is the pooling of each part of a plane divided evenly.
func adaptiveDefinition(image, out []int64, f func(places []int64)) {
	lead := len(image) - len(out)
	walk(slices.Concat(image[:lead], out), func(o []int64) {
		lo, size := slices.Clone(o), slices.Repeat([]int64{1}, len(image))
		for i, n := range out {
			first := int64(math.Floor(float64(o[lead+i]*image[lead+i]) / float64(n)))
			end := int64(math.Ceil(float64((o[lead+i]+1)*image[lead+i]) / float64(n)))
			lo[lead+i], size[lead+i] = first, end-first
		}
		var places []int64
		walk(size, func(k []int64) {
			at := slices.Clone(lo)
			for i := range at {
				at[i] += k[i]
			}
			places = append(places, offset(image, at))
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
		plane := elements(c.image[len(c.image)-n:])
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
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				x, y := filled(t, 1, d, l, c.image), tensorIn(t, d, l, shape)
				run(t, fmt.Sprintf("AdaptiveAvgPool%dd", n), args{"self": x, "outputSize": c.out, "out": y})
				closeTo(t, "average", average(values(x)), values(y), resultLimit(d))
				dy, dx := filled(t, 2, d, l, shape), tensorIn(t, d, l, c.image)
				run(t, fmt.Sprintf("AdaptiveAvgPool%ddBackward", n), args{"gradOutput": dy, "self": x, "out": dx})
				closeTo(t, "dx", gradient(average, values(dy), values(x)), values(dx), 2*resultLimit(d))

				at := tensorIn(t, dtype.Int32, l, shape)
				run(t, fmt.Sprintf("AdaptiveMaxPool%dd", n), args{"self": x, "outputSize": c.out, "outputOut": y, "indicesOut": at})
				v, i, sum := values(x), 0, make([]float64, x.Len())
				adaptiveDefinition(c.image, c.out, func(places []int64) {
					best := places[0]
					for _, k := range places {
						if v[k] > v[best] {
							best = k
						}
					}
					require.Equal(t, v[best], values(y)[i])
					require.Equal(t, float64(best%plane), values(at)[i])
					sum[best] += values(dy)[i]
					i++
				})
				run(t, fmt.Sprintf("AdaptiveMaxPool%ddBackward", n), args{"gradOutput": dy, "self": x, "indices": at, "gradInput": dx})
				closeTo(t, "dx of the largest", sum, values(dx), 2*resultLimit(d))
			}
		}
	}
}

func TestGlobalPool(t *testing.T) {
	for _, d := range transformerTypes {
		for _, shape := range [][]int64{{2, 3, 5}, {1, 2, 3, 4}, {1, 2, 2, 3, 2}} {
			out := slices.Concat(shape[:2], slices.Repeat([]int64{1}, len(shape)-2))
			x, mean, most := filled(t, 1, d, kerneltest.Gapped, shape), tensor(t, d, out), tensor(t, d, out)
			run(t, "GlobalAveragePool", args{"self": x, "out": mean})
			run(t, "GlobalMaxPool", args{"self": x, "out": most})
			plane := int(elements(shape[2:]))
			for i, v := range values(most) {
				part, sum := values(x)[i*plane:][:plane], 0.0
				for _, p := range part {
					sum += p
				}
				assert.Equal(t, slices.Max(part), v)
				assert.InDelta(t, sum/float64(plane), values(mean)[i], resultLimit(d))
			}
		}
	}
}

func TestMaxUnpool(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int8, dtype.Int64, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			x, at := tensorIn(t, d, l, []int64{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), tensorIn(t, dtype.Int64, l, []int64{2, 2, 2}, 0, 3, 5, 7, 8, 1, 4, 2)
			y := tensorIn(t, d, l, []int64{2, 3, 3})
			run(t, "MaxUnpool2d", args{"self": x, "indices": at, "outputSize": []int64{3, 3}, "out": y})
			want := []float64{1, 0, 0, 2, 0, 3, 0, 4, 0, 0, 6, 8, 0, 7, 0, 0, 0, 5}
			assert.Equal(t, want, values(y), "%v %v", d, l)
			dx := tensorIn(t, d, l, []int64{2, 2, 2})
			run(t, "MaxUnpool2dBackward", args{"gradOutput": y, "self": x, "indices": at, "outputSize": []int64{3, 3}, "out": dx})
			assert.Equal(t, values(x), values(dx), "%v %v", d, l)
		}
	}
	x, y := tensor(t, dtype.Float32, []int64{1, 1, 1, 1, 2}, 5, 6), tensor(t, dtype.Float32, []int64{1, 1, 2, 2, 2})
	a := args{"self": x, "indices": tensor(t, dtype.Int32, []int64{1, 1, 1, 1, 2}, 7, 2), "outputSize": []int64{2, 2, 2}, "stride": []int64{1, 1, 1}, "padding": []int64{0, 0, 0}, "outRef": y}
	run(t, "MaxUnpool3d", a)
	assert.Equal(t, []float64{0, 0, 6, 0, 0, 0, 0, 5}, values(y))
	a["indices"] = tensor(t, dtype.Int32, []int64{1, 1, 1, 1, 2}, 8, 2)
	assert.ErrorContains(t, execute(t, "MaxUnpool3d", a), "index 8")
	a["outputSize"] = []int64{2, 2, 3}
	refused(t, invalidParam, "MaxUnpool3d", a, "outputSize [2,2,3]")
}

func TestPoolRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   args
		texts []string
	}{
		{"AvgPool2d", invalidParam, args{"kernelSize": []int64{9, 9}}, []string{"smaller in dimension 2"}},
		{"AvgPool2d", invalidParam, args{"kernelSize": []int64{0, 2}}, []string{"kernelSize [0,2]"}},
		{"AvgPool2d", nullPointer, args{"kernelSize": nil}, []string{"kernelSize is null"}},
		{"AvgPool2d", invalidParam, args{"paddings": []int64{2, 0}}, []string{"more than half"}},
		{"AvgPool2d", invalidParam, args{"out": tensor(t, f, []int64{1, 2, 3, 3})}, []string{"[1,2,2,2]"}},
		{"AvgPool2d", invalidParam, args{"self": tensor(t, dtype.Int8, []int64{1, 2, 4, 4}, 1)}, []string{"self int8"}},
		{"AvgPool2d", nullPointer, args{"out": nil}, []string{"out is null"}},
		{"AdaptiveAvgPool2d", invalidParam, args{"outputSize": []int64{2, 2, 2}}, []string{"outputSize [2,2,2]"}},
		{"AdaptiveAvgPool2d", invalidParam, args{"outputSize": []int64{2, -1}}, []string{"outputSize"}},
		{"AdaptiveAvgPool2d", invalidParam, args{"self": tensor(t, f, []int64{1, 2, 0, 4})}, []string{"nothing to pool"}},
	} {
		a := args{"self": tensor(t, f, []int64{1, 2, 4, 4}, 1), "out": tensor(t, f, []int64{1, 2, 2, 2})}
		if c.name == "AvgPool2d" {
			a["kernelSize"], a["strides"], a["paddings"] = []int64{2, 2}, []int64{2}, []int64{0}
		} else {
			a["outputSize"] = []int64{2, 2}
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, c.name, a, c.texts...)
	}
}
