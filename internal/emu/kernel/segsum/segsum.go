package segsum

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Exp sets element [i, j] of out [lead…, n, n] to exp(x[j+1] + … + x[i]) of x [lead…, n], and
// to 0 above the diagonal.
func Exp(out, x kernel.View) error {
	values, err := elementwise.Doubles(x)
	if err != nil || out.Len() == 0 {
		return err
	}
	n := int(x.Shape[len(x.Shape)-1])
	y := make([]float64, out.Len())
	for r := 0; r < len(values); r += n {
		for j := range n {
			sum := 0.0
			for i := j; i < n; i++ {
				if i > j {
					sum += values[r+i]
				}
				y[(r+i)*n+j] = math.Exp(sum)
			}
		}
	}
	return elementwise.SetFloats(out, y)
}

// ExpGrad computes the gradient of x from dy, the gradient of the result, and the result y.
func ExpGrad(dx, dy, y kernel.View) error {
	grad, err := elementwise.Doubles(dy)
	if err != nil || dx.Len() == 0 {
		return err
	}
	result, err := elementwise.Doubles(y)
	if err != nil {
		return err
	}
	n := int(dx.Shape[len(dx.Shape)-1])
	d := make([]float64, dx.Len())
	for r := 0; r < len(d); r += n {
		for j := range n {
			sum := 0.0 // over the rows from i on
			for i := n - 1; i > j; i-- {
				sum += grad[(r+i)*n+j] * result[(r+i)*n+j]
				d[r+i] += sum
			}
		}
	}
	return elementwise.SetFloats(dx, d)
}
