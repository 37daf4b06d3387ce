package activation

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

// swiGLUDefinition halves an axis of the given size; n is the number of elements in the dimensions
// after it.
func swiGLUDefinition(x []float64, size, n int64) (y []float64) {
	half := size / 2 * n
	for lo := int64(0); lo < int64(len(x)); lo += 2 * half {
		for i := range half {
			a := x[lo+i]
			y = append(y, a/(1+math.Exp(-a))*x[lo+half+i])
		}
	}
	return y
}

func TestSwiGLU(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct {
				shape []int64
				dim   int64
			}{
				{[]int64{2}, 0}, {[]int64{1, 2}, -1}, {[]int64{5, 34}, 1}, {[]int64{3, 2, 7}, 1}, {[]int64{4, 3, 9}, -3}, {[]int64{2, 3, 134}, -1}, {[]int64{0, 4}, 1},
				{[]int64{3, 0}, 1},
			} {
				what := fmt.Sprintf("%v %v %v along %d", d, l, c.shape, c.dim)
				axis := (c.dim + int64(len(c.shape))) % int64(len(c.shape))
				halved := append([]int64{}, c.shape...)
				halved[axis] /= 2
				x, dy := optest.Filled(t, 1, d, l, c.shape), optest.Filled(t, 2, d, l, halved)
				y, dx := optest.TensorIn(t, d, l, halved), optest.TensorIn(t, d, l, c.shape)
				optest.Run(t, "SwiGlu", optest.Args{"x": x, "dim": c.dim, "out": y})
				optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": dy, "x": x, "dim": c.dim, "out": dx})
				definition := func(x []float64) []float64 {
					return swiGLUDefinition(x, c.shape[axis], optest.Elements(c.shape[axis+1:]))
				}
				if x.Len() == 0 {
					continue
				}
				optest.CloseTo(t, "y of "+what, definition(optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
				optest.CloseTo(t, "dx of "+what, optest.Gradient(definition, optest.Values(dy), optest.Values(x)), optest.Values(dx), optest.ResultLimit(d))
			}
		}
	}
}

func TestSwiGLUExtremes(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{6}, 1e4, -1e4, 0, 2, 2, 2)
	y, dx := optest.Tensor(t, dtype.Float32, []int64{3}), optest.Tensor(t, dtype.Float32, []int64{6})
	optest.Run(t, "SwiGlu", optest.Args{"x": x, "dim": 0, "out": y})
	optest.CloseTo(t, "y", []float64{2e4, 0, 0}, optest.Values(y), 1e-7)
	optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "x": x, "dim": 0, "out": dx})
	optest.CloseTo(t, "dx", []float64{2, 0, 1, 1e4, 0, 0}, optest.Values(dx), 1e-7)
	// The gradient may be written to x itself.
	optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "x": x, "dim": 0, "out": x})
	optest.CloseTo(t, "dx", optest.Values(dx), optest.Values(x), 0)
}

func TestSwiGLURefuses(t *testing.T) {
	f := dtype.Float32
	x, y := optest.Tensor(t, f, []int64{3, 4}, 1), optest.Tensor(t, f, []int64{3, 2}, 1)
	a := func(change optest.Args) optest.Args {
		return optest.Args{"x": x, "dim": 1, "out": y}.With(change)
	}
	optest.Refused(t, op.NullPointer, "SwiGlu", a(optest.Args{"x": nil}), "x is null")
	optest.Refused(t, op.NullPointer, "SwiGlu", a(optest.Args{"out": nil}), "out is null")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"dim": 2}), "dimension 2 is out of range")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"dim": 0}), "dimension 0 of x float32[3,4]ND cannot be halved")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"x": optest.Tensor(t, f, []int64{}, 1), "dim": 0}), "cannot be halved")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"out": x}), "out float32[3,4]", "[3,2]")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"out": optest.Tensor(t, dtype.Float16, []int64{3, 2})}), "dtypes differ")
	optest.Refused(t, op.InvalidParam, "SwiGlu", a(optest.Args{"x": optest.Tensor(t, dtype.Int32, []int64{3, 4}, 1)}), "int32")
	grad := optest.Args{"yGrad": y, "x": x, "dim": 1, "out": optest.Tensor(t, f, []int64{3, 4})}
	optest.Refused(t, op.NullPointer, "SwiGluGrad", grad.With(optest.Args{"yGrad": nil}), "yGrad is null")
	optest.Refused(t, op.InvalidParam, "SwiGluGrad", grad.With(optest.Args{"yGrad": x}), "yGrad float32[3,4]", "[3,2]")
	optest.Refused(t, op.InvalidParam, "SwiGluGrad", grad.With(optest.Args{"out": y}), "out float32[3,2]")
}

func erfGelu(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }

func tanhGelu(x float64) float64 {
	return x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) / 2
}

func TestGatedUnits(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 2}, {3, 10}, {2, 3, 66}, {0, 4}} {
				last := len(shape) - 1
				width := int(shape[last])
				half := append(append([]int64{}, shape[:last]...), shape[last]/2)
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x, dy := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, half)
				y, gelu, dx := optest.TensorIn(t, d, l, half), optest.Tensor(t, d, half), optest.TensorIn(t, d, l, shape)
				for _, u := range []struct {
					forward, backward string
					left              bool
					f                 func(float64) float64
					a                 optest.Args
				}{
					{"Glu", "GluBackward", false, sigmoid, optest.Args{}},
					{"GeGlu", "GeGluBackward", false, erfGelu, optest.Args{"approximate": 0}},
					{"GeGlu", "GeGluBackward", false, tanhGelu, optest.Args{"approximate": 1}},
					{"GeGluV3", "GeGluV3Backward", false, tanhGelu, optest.Args{"approximate": 1}},
					{"GeGluV3", "GeGluV3Backward", true, erfGelu, optest.Args{"approximate": 0, "activateLeft": true}},
				} {
					what := u.forward + " of " + what
					forward, backward := u.a.With(optest.Args{"self": x, "dim": -1, "out": y}), u.a.With(optest.Args{"self": x, "dim": last})
					if u.forward == "Glu" {
						backward["gradOut"], backward["out"] = dy, dx
					} else {
						forward["outGelu"] = gelu
						backward["gradOutput"], backward["gelu"], backward["gradInput"] = dy, gelu, dx
					}
					optest.Run(t, u.forward, forward)
					optest.Run(t, u.backward, backward)
					if x.Len() == 0 {
						continue
					}
					definition := func(x []float64) []float64 { y, _ := optest.Gated(x, width, u.left, u.f); return y }
					optest.CloseTo(t, what, definition(optest.Values(x)), optest.Values(y), 2*optest.ResultLimit(d))
					if u.forward != "Glu" {
						_, activated := optest.Gated(optest.Values(x), width, u.left, u.f)
						optest.CloseTo(t, "activation of "+what, activated, optest.Values(gelu), 2*optest.ResultLimit(d))
					}
					optest.CloseTo(t, "gradient of "+what, optest.Gradient(definition, optest.Values(dy), optest.Values(x)), optest.Values(dx), 2*optest.ResultLimit(d)+1e-6)
				}
				if x.Len() == 0 {
					continue
				}
				for form, f := range map[string]func(float64) float64{"": erfGelu, "tanh": tanhGelu} {
					optest.Run(t, "GeluMul", optest.Args{"input": x, "approximateOptional": form, "out": y})
					want, _ := optest.Gated(optest.Values(x), width, true, f)
					optest.CloseTo(t, "GeluMul of "+what, want, optest.Values(y), 2*optest.ResultLimit(d))
				}
				optest.Run(t, "FatreluMul", optest.Args{"input": x, "threshold": optest.Tensor(t, d, []int64{1}, 0.25), "out": y})
				want, _ := optest.Gated(optest.Values(x), width, true, func(x float64) float64 {
					if x < 0.25 {
						return 0
					}
					return x
				})
				optest.CloseTo(t, "FatreluMul of "+what, want, optest.Values(y), optest.ResultLimit(d))
			}
		}
	}
}

func TestGatedUnitsRefuse(t *testing.T) {
	f := dtype.Float32
	x, y := optest.Tensor(t, f, []int64{3, 4}, 1), optest.Tensor(t, f, []int64{3, 2}, 1)
	a := optest.Args{"self": x, "dim": 1, "out": y, "outGelu": y}
	optest.Refused(t, op.InvalidParam, "GeGlu", a.With(optest.Args{"approximate": 2}), "approximate is 2")
	optest.Refused(t, op.NullPointer, "GeGlu", a.With(optest.Args{"outGelu": nil}), "outGelu is null")
	optest.Refused(t, op.InvalidParam, "GeGlu", a.With(optest.Args{"outGelu": x}), "shapes differ")
	optest.Refused(t, op.InvalidParam, "GeluMul", optest.Args{"input": x, "approximateOptional": "erf", "out": y}, "\"erf\"")
	optest.Refused(t, op.InvalidParam, "Glu", optest.Args{"self": y, "dim": 0, "out": y}, "cannot be halved")
	optest.Refused(t, op.InvalidParam, "FatreluMul", optest.Args{"input": x, "threshold": y, "out": y}, "one element")
	optest.Refused(t, op.NullPointer, "GluBackward", optest.Args{"self": x, "dim": 1, "out": x}, "gradOut is null")
}

func TestGluInDoublePrecision(t *testing.T) {
	d := dtype.Float64
	for _, l := range kerneltest.Layouts {
		x, dy := optest.Filled(t, 1, d, l, []int64{3, 4, 5}), optest.Filled(t, 2, d, l, []int64{3, 2, 5})
		y, dx := optest.TensorIn(t, d, l, []int64{3, 2, 5}), optest.TensorIn(t, d, l, []int64{3, 4, 5})
		optest.Run(t, "Glu", optest.Args{"self": x, "dim": 1, "out": y})
		optest.Run(t, "GluBackward", optest.Args{"gradOut": dy, "self": x, "dim": 1, "out": dx})
		v, slopes := optest.Values(x), optest.Values(dy)
		wantY, wantDX := make([]float64, 30), make([]float64, 60)
		for i := range 30 {
			at := i/10*20 + i%10
			s := 1 / (1 + math.Exp(-v[at+10]))
			wantY[i], wantDX[at], wantDX[at+10] = v[at]*s, slopes[i]*s, slopes[i]*v[at]*s*(1-s)
		}
		optest.CloseTo(t, "y", wantY, optest.Values(y), 1e-12)
		optest.CloseTo(t, "dx", wantDX, optest.Values(dx), 1e-12)
	}
}

func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range golden.Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			d := c.DType
			x, dy := optest.GoldenTensor(t, c, d, "x"), optest.GoldenTensor(t, c, d, "dy")
			y, dx := optest.Tensor(t, d, dy.Shape), optest.Tensor(t, d, x.Shape)
			optest.Run(t, "SwiGlu", optest.Args{"x": x, "dim": -1, "out": y})
			optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": dy, "x": x, "dim": -1, "out": dx})
			optest.RequireRMS(t, c, "y", y, optest.GoldenLimit(d))
			optest.RequireRMS(t, c, "dx", dx, optest.GoldenLimit(d))
		})
	}
}
