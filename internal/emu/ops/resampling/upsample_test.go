package resampling

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// keys is Keys' cubic convolution kernel at a given distance; hat is the linear kernel.
func keys(x float64) float64 {
	const a = -0.75
	x = math.Abs(x)
	switch {
	case x <= 1:
		return (a+2)*x*x*x - (a+3)*x*x + 1
	case x < 2:
		return a*x*x*x - 5*a*x*x + 8*a*x - 4*a
	}
	return 0
}

// resizeDefinition sums the image weighted by the kernel of the distance, over all nearby
// positions along every dimension. A position outside takes the value of the border.
func resizeDefinition(kind func(float64) float64, corners bool, factors []float64, image, result []int64, x []float64) (y []float64) {
	optest.Walk(result, func(at []int64) {
		sum := 0.0
		around := slices.Clone(image)
		for i := 2; i < len(around); i++ {
			around[i] += 8
		}
		around[0], around[1] = 1, 1
		optest.Walk(around, func(k []int64) {
			weight, from := 1.0, slices.Clone(at)
			for i := 2; i < len(image); i++ {
				m, n, j := float64(result[i]), float64(image[i]), float64(at[i])
				centre := (j+0.5)*n/m - 0.5
				if f := factors[i-2]; f > 0 {
					centre = (j+0.5)/f - 0.5
				}
				if corners {
					centre = 0
					if m > 1 {
						centre = j * (n - 1) / (m - 1)
					}
				}
				weight *= kind(centre - float64(k[i]-4))
				from[i] = min(max(k[i]-4, 0), image[i]-1)
			}
			sum += weight * x[optest.Offset(image, from)]
		})
		y = append(y, sum)
	})
	return y
}

var resizeCases = []struct {
	image, size []int64
	factors     []float64
}{
	{[]int64{2, 3, 5}, []int64{8}, []float64{0}}, {[]int64{1, 2, 7}, []int64{3}, []float64{0}}, {[]int64{1, 2, 4}, []int64{1}, []float64{0}},
	{[]int64{2, 1, 4}, []int64{9}, []float64{2.3}}, {[]int64{1, 2, 3, 4}, []int64{6, 3}, []float64{0, 0}}, {[]int64{2, 2, 5, 1}, []int64{5, 4}, []float64{0, 0}},
	{[]int64{1, 2, 3, 4}, []int64{6, 6}, []float64{2, 1.5}}, {[]int64{1, 2, 2, 3, 4}, []int64{3, 5, 2}, []float64{0, 0, 0}},
}

// factorArgs returns the scales of a resizing under their declared names.
func factorArgs(factors []float64, a optest.Args) optest.Args {
	if len(factors) == 1 {
		a["scales"] = factors[0]
		return a
	}
	for i, name := range []string{"scalesD", "scalesH", "scalesW"}[3-len(factors):] {
		a[name] = factors[i]
	}
	return a
}

func TestInterpolation(t *testing.T) {
	for _, c := range resizeCases {
		result := slices.Concat(c.image[:2], c.size)
		for _, kind := range []struct {
			name string
			f    func(float64) float64
		}{{[]string{"UpsampleLinear1d", "UpsampleBilinear2d", "UpsampleTrilinear3d"}[len(c.size)-1], optest.Hat}, {fmt.Sprintf("UpsampleBicubic%dd", len(c.size)), keys}} {
			if op.Find(kind.name) == nil {
				continue
			}
			for _, corners := range []bool{false, true} {
				define := optest.Linearised(func(x []float64) []float64 {
					return resizeDefinition(kind.f, corners, c.factors, c.image, result, x)
				}, optest.Elements(c.image))
				for _, d := range op.RealTypes {
					grad := define.Gradient(optest.Normal(2, d, optest.Elements(result)))
					for _, l := range kerneltest.Layouts {
						if d == dtype.Float64 && (kind.name == "UpsampleLinear1d" || kind.name == "UpsampleBicubic2d") {
							continue // CANN has no such type
						}
						what := fmt.Sprintf("%s %v %v %+v corners %v", kind.name, d, l, c, corners)
						x, y := optest.Filled(t, 1, d, l, c.image), optest.TensorIn(t, d, l, result)
						args := factorArgs(c.factors, optest.Args{"self": x, "outputSize": c.size, "alignCorners": corners, "out": y})
						if kind.name == "UpsampleLinear1d" && c.factors[0] == 0 { // CANN takes 0 as a factor
							args["scales"] = -1.0
						}
						optest.Run(t, kind.name, args)
						optest.CloseTo(t, "y of "+what, define.Of(optest.Values(x)), optest.Values(y), 2*optest.ResultLimit(d))
						dy, dx := optest.Filled(t, 2, d, l, result), optest.TensorIn(t, d, l, c.image)
						if d == dtype.Float64 && kind.name != "UpsampleTrilinear3d" || d == dtype.BFloat16 && kind.name == "UpsampleBilinear2d" {
							continue // CANN has no such gradient
						}
						out := "gradInput"
						if len(c.size) < 3 && kind.name != "UpsampleBicubic2d" {
							out = "out"
						}
						optest.Run(t, kind.name+"Backward", factorArgs(c.factors, optest.Args{
							"gradOut": dy, "outputSize": c.size, "inputSize": c.image, "alignCorners": corners, out: dx,
						}))
						optest.CloseTo(t, "dx of "+what, grad, optest.Values(dx), 4*optest.ResultLimit(d))
					}
				}
			}
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range resizeCases {
		if c.factors[0] != 0 {
			continue
		}
		result := slices.Concat(c.image[:2], c.size)
		for _, centre := range []bool{false, true} {
			name := "UpsampleNearest"
			if centre {
				name = "UpsampleNearestExact"
			}
			name = fmt.Sprintf("%s%dd", name, len(c.size))
			define := func(x []float64) (y []float64) {
				optest.Walk(result, func(at []int64) {
					from := slices.Clone(at)
					for i := 2; i < len(at); i++ {
						from[i] = at[i] * c.image[i] / result[i]
						if centre {
							from[i] = (2*at[i] + 1) * c.image[i] / (2 * result[i])
						}
					}
					y = append(y, x[optest.Offset(c.image, from)])
				})
				return y
			}
			types := op.RealTypes
			if centre {
				types = op.FloatTypes
			}
			if len(c.size) < 3 {
				types = append(slices.Clone(types), dtype.Uint8)
			}
			for _, d := range types {
				for _, l := range kerneltest.Layouts {
					x, y := optest.Filled(t, 1, d, l, c.image), optest.TensorIn(t, d, l, result)
					optest.Run(t, name, optest.Args{"self": x, "outputSize": c.size, "out": y})
					assert.Equal(t, define(optest.Values(x)), optest.Values(y), "%s %v %v %+v", name, d, l, c)
					if d == dtype.Uint8 {
						continue
					}
					dy, dx := optest.Filled(t, 2, d, l, result), optest.TensorIn(t, d, l, c.image)
					grad, out := "gradOut", "out"
					if len(c.size) == 3 || len(c.size) == 2 && !centre {
						out = "gradInput"
					}
					if centre && len(c.size) < 3 {
						grad = "gradOutput"
					}
					optest.Run(t, name+"Backward", optest.Args{grad: dy, "outputSize": c.size, "inputSize": c.image, out: dx})
					optest.CloseTo(t, "dx of "+name, optest.Gradient(define, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestResizingRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"outputSize": []int64{4}}, op.InvalidParam, "outputSize [4]"},
		{optest.Args{"outputSize": []int64{4, 5}}, op.InvalidParam, "does not make"},
		{optest.Args{"self": optest.Tensor(t, f, []int64{2, 3, 3}, 1)}, op.InvalidParam, "4 dimensions"},
		{optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 0, 3})}, op.InvalidParam, "at least 1"},
		{optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{1, 2, 3, 3}, 1)}, op.InvalidParam, "self int32"},
		{optest.Args{"self": nil}, op.NullPointer, "self is null"},
	} {
		a := optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 3, 3}, 1), "outputSize": []int64{4, 4}, "out": optest.Tensor(t, f, []int64{1, 2, 4, 4})}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "UpsampleBilinear2d", a, c.text)
	}
	for scale, elements := range map[float64]int64{0: 0, 2: 6} {
		optest.Refused(t, op.InvalidParam, "UpsampleLinear1d", optest.Args{"self": optest.Tensor(t, f, []int64{1, 2, 3}, 1), "outputSize": []int64{4}, "scales": scale, "out": optest.Tensor(t, f, []int64{1, 2, 4})}, fmt.Sprintf("the integer part of dimension 2 of self times scales is %d and outputSize[0] is 4", elements))
	}
	image, size := []int64{1, 2, 3}, []int64{4}
	for name, d := range map[string]dtype.Type{"UpsampleNearest1d": dtype.Int8, "UpsampleNearestExact1d": dtype.Float64, "UpsampleLinear1d": dtype.Uint8} {
		optest.Refused(t, op.InvalidParam, name, optest.Args{"self": optest.Tensor(t, d, image, 1), "outputSize": size, "out": optest.Tensor(t, d, []int64{1, 2, 4})}, "has a dtype that is not supported")
	}
}

// Volumes of NDHWC, and images of NHWC where an operator takes them, give what the same elements of NCDHW give.
func TestChannelsLast(t *testing.T) {
	last := func(x *op.Tensor, f dtype.Format) *op.Tensor {
		n := len(x.Shape)
		order := append([]int64{0}, 2, 3)
		if n == 5 {
			order = append(order, 4)
		}
		v := op.Permuted(x.View(), append(order, 1))
		y := optest.Of(v)
		y.Format, y.Storage = f, x.Storage
		return y
	}
	sizes, image, result := []int64{3, 5, 2}, []int64{2, 3, 2, 3, 4}, []int64{2, 3, 3, 5, 2}
	for _, name := range []string{"UpsampleNearest3d", "UpsampleNearestExact3d"} {
		x, want, got := optest.Filled(t, 1, dtype.Float32, kerneltest.Contiguous, image), optest.Tensor(t, dtype.Float32, result), optest.Tensor(t, dtype.Float32, result)
		optest.Run(t, name, optest.Args{"self": x, "outputSize": sizes, "out": want})
		optest.Run(t, name, optest.Args{"self": last(x, dtype.NDHWC), "outputSize": sizes, "out": last(got, dtype.NDHWC)})
		assert.Equal(t, optest.Values(want), optest.Values(got), name)
		dy, dx, dxLast := optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, result), optest.Tensor(t, dtype.Float32, image), optest.Tensor(t, dtype.Float32, image)
		optest.Run(t, name+"Backward", optest.Args{"gradOut": dy, "outputSize": sizes, "inputSize": image, "gradInput": dx})
		optest.Run(t, name+"Backward", optest.Args{"gradOut": last(dy, dtype.NDHWC), "outputSize": sizes, "inputSize": image, "gradInput": last(dxLast, dtype.NDHWC)})
		assert.Equal(t, optest.Values(dx), optest.Values(dxLast), name)
	}
	dy := optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, []int64{2, 3, 4, 6})
	dx, dxLast := optest.Tensor(t, dtype.Float32, []int64{2, 3, 2, 3}), optest.Tensor(t, dtype.Float32, []int64{2, 3, 2, 3})
	optest.Run(t, "UpsampleNearest2dBackward", optest.Args{"gradOut": dy, "outputSize": []int64{4, 6}, "inputSize": []int64{2, 3, 2, 3}, "gradInput": dx})
	optest.Run(t, "UpsampleNearest2dBackward", optest.Args{"gradOut": last(dy, dtype.NHWC), "outputSize": []int64{4, 6}, "inputSize": []int64{2, 2, 3, 3}, "gradInput": last(dxLast, dtype.NHWC)})
	assert.Equal(t, optest.Values(dx), optest.Values(dxLast))
}
