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
