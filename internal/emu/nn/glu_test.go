package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// swiGLUDefinition gates an axis that has n elements after each of its own.
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
	for _, d := range transformerTypes {
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
				x, dy := filled(t, 1, d, l, c.shape), filled(t, 2, d, l, halved)
				y, dx := tensorIn(t, d, l, halved), tensorIn(t, d, l, c.shape)
				run(t, "SwiGlu", args{"x": x, "dim": c.dim, "out": y})
				run(t, "SwiGluGrad", args{"yGrad": dy, "x": x, "dim": c.dim, "out": dx})
				definition := func(x []float64) []float64 { return swiGLUDefinition(x, c.shape[axis], elements(c.shape[axis+1:])) }
				if x.Len() == 0 {
					continue
				}
				closeTo(t, "y of "+what, definition(values(x)), values(y), resultLimit(d))
				closeTo(t, "dx of "+what, gradient(definition, values(dy), values(x)), values(dx), resultLimit(d))
			}
		}
	}
}

func TestSwiGLUExtremes(t *testing.T) {
	x := tensor(t, dtype.Float32, []int64{6}, 1e4, -1e4, 0, 2, 2, 2)
	y, dx := tensor(t, dtype.Float32, []int64{3}), tensor(t, dtype.Float32, []int64{6})
	run(t, "SwiGlu", args{"x": x, "dim": 0, "out": y})
	closeTo(t, "y", []float64{2e4, 0, 0}, values(y), 1e-7)
	run(t, "SwiGluGrad", args{"yGrad": tensor(t, dtype.Float32, []int64{3}, 1), "x": x, "dim": 0, "out": dx})
	closeTo(t, "dx", []float64{2, 0, 1, 1e4, 0, 0}, values(dx), 1e-7)
	// In place: the gradient may take the place of x.
	run(t, "SwiGluGrad", args{"yGrad": tensor(t, dtype.Float32, []int64{3}, 1), "x": x, "dim": 0, "out": x})
	closeTo(t, "dx", values(dx), values(x), 0)
}

func TestSwiGLURefuses(t *testing.T) {
	f := dtype.Float32
	x, y := tensor(t, f, []int64{3, 4}, 1), tensor(t, f, []int64{3, 2}, 1)
	a := func(change args) args {
		return args{"x": x, "dim": 1, "out": y}.with(change)
	}
	refused(t, nullPointer, "SwiGlu", a(args{"x": nil}), "x is null")
	refused(t, nullPointer, "SwiGlu", a(args{"out": nil}), "out is null")
	refused(t, invalidParam, "SwiGlu", a(args{"dim": 2}), "dimension 2 is out of range")
	refused(t, invalidParam, "SwiGlu", a(args{"dim": 0}), "dimension 0 of x float32[3,4]ND cannot be halved")
	refused(t, invalidParam, "SwiGlu", a(args{"x": tensor(t, f, []int64{}, 1), "dim": 0}), "cannot be halved")
	refused(t, invalidParam, "SwiGlu", a(args{"out": x}), "out float32[3,4]", "[3,2]")
	refused(t, invalidParam, "SwiGlu", a(args{"out": tensor(t, dtype.Float16, []int64{3, 2})}), "dtypes differ")
	refused(t, invalidParam, "SwiGlu", a(args{"x": tensor(t, dtype.Int32, []int64{3, 4}, 1)}), "int32")
	grad := args{"yGrad": y, "x": x, "dim": 1, "out": tensor(t, f, []int64{3, 4})}
	refused(t, nullPointer, "SwiGluGrad", grad.with(args{"yGrad": nil}), "yGrad is null")
	refused(t, invalidParam, "SwiGluGrad", grad.with(args{"yGrad": x}), "yGrad float32[3,4]", "[3,2]")
	refused(t, invalidParam, "SwiGluGrad", grad.with(args{"out": y}), "out float32[3,2]")
}

// gatedDefinition multiplies one half of rows with the other after an activation.
func gatedDefinition(x []float64, width int, left bool, f func(float64) float64) (y, activated []float64) {
	for lo := 0; lo < len(x); lo += width {
		for i := range width / 2 {
			through, other := x[lo+width/2+i], x[lo+i]
			if left {
				through, other = other, through
			}
			activated = append(activated, f(through))
			y = append(y, f(through)*other)
		}
	}
	return y, activated
}

func erfGelu(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }

func tanhGelu(x float64) float64 {
	return x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) / 2
}

func TestGatedUnits(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 2}, {3, 10}, {2, 3, 66}, {0, 4}} {
				last := len(shape) - 1
				width := int(shape[last])
				half := append(append([]int64{}, shape[:last]...), shape[last]/2)
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				x, dy := filled(t, 1, d, l, shape), filled(t, 2, d, l, half)
				y, gelu, dx := tensorIn(t, d, l, half), tensor(t, d, half), tensorIn(t, d, l, shape)
				for _, u := range []struct {
					forward, backward string
					left              bool
					f                 func(float64) float64
					a                 args
				}{
					{"Glu", "GluBackward", false, sigmoid, args{}},
					{"GeGlu", "GeGluBackward", false, erfGelu, args{"approximate": 0}},
					{"GeGlu", "GeGluBackward", false, tanhGelu, args{"approximate": 1}},
					{"GeGluV3", "GeGluV3Backward", false, tanhGelu, args{"approximate": 1}},
					{"GeGluV3", "GeGluV3Backward", true, erfGelu, args{"approximate": 0, "activateLeft": true}},
				} {
					what := u.forward + " of " + what
					forward, backward := u.a.with(args{"self": x, "dim": -1, "out": y}), u.a.with(args{"self": x, "dim": last})
					if u.forward == "Glu" {
						backward["gradOut"], backward["out"] = dy, dx
					} else {
						forward["outGelu"] = gelu
						backward["gradOutput"], backward["gelu"], backward["gradInput"] = dy, gelu, dx
					}
					run(t, u.forward, forward)
					run(t, u.backward, backward)
					if x.Len() == 0 {
						continue
					}
					definition := func(x []float64) []float64 { y, _ := gatedDefinition(x, width, u.left, u.f); return y }
					closeTo(t, what, definition(values(x)), values(y), 2*resultLimit(d))
					if u.forward != "Glu" {
						_, activated := gatedDefinition(values(x), width, u.left, u.f)
						closeTo(t, "activation of "+what, activated, values(gelu), 2*resultLimit(d))
					}
					closeTo(t, "gradient of "+what, gradient(definition, values(dy), values(x)), values(dx), 2*resultLimit(d)+1e-6)
				}
				if x.Len() == 0 {
					continue
				}
				for form, f := range map[string]func(float64) float64{"": erfGelu, "tanh": tanhGelu} {
					run(t, "GeluMul", args{"input": x, "approximateOptional": form, "out": y})
					want, _ := gatedDefinition(values(x), width, true, f)
					closeTo(t, "GeluMul of "+what, want, values(y), 2*resultLimit(d))
				}
				run(t, "FatreluMul", args{"input": x, "threshold": tensor(t, d, []int64{1}, 0.25), "out": y})
				want, _ := gatedDefinition(values(x), width, true, func(x float64) float64 {
					if x < 0.25 {
						return 0
					}
					return x
				})
				closeTo(t, "FatreluMul of "+what, want, values(y), resultLimit(d))
			}
		}
	}
}

func TestGatedUnitsRefuse(t *testing.T) {
	f := dtype.Float32
	x, y := tensor(t, f, []int64{3, 4}, 1), tensor(t, f, []int64{3, 2}, 1)
	a := args{"self": x, "dim": 1, "out": y, "outGelu": y}
	refused(t, invalidParam, "GeGlu", a.with(args{"approximate": 2}), "approximate is 2")
	refused(t, nullPointer, "GeGlu", a.with(args{"outGelu": nil}), "outGelu is null")
	refused(t, invalidParam, "GeGlu", a.with(args{"outGelu": x}), "shapes differ")
	refused(t, invalidParam, "GeluMul", args{"input": x, "approximateOptional": "erf", "out": y}, "\"erf\"")
	refused(t, invalidParam, "Glu", args{"self": y, "dim": 0, "out": y}, "cannot be halved")
	refused(t, invalidParam, "FatreluMul", args{"input": x, "threshold": y, "out": y}, "one element")
	refused(t, nullPointer, "GluBackward", args{"self": x, "dim": 1, "out": x}, "gradOut is null")
}
