package normalization

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestRenorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for axis := range 3 {
				x := optest.Filled(t, 1, d, l, []int64{3, 4, 2})
				out, n := optest.TensorIn(t, d, l, x.Shape), int(x.Shape[axis])
				inner := int(optest.Elements(x.Shape[axis+1:]))
				xs := optest.Values(x)
				want := make([]float64, len(xs))
				for k := range n {
					var part []float64
					for i, v := range xs {
						if i/inner%n == k {
							part = append(part, v)
						}
					}
					norm := optest.PNorm(part, 2)
					for i, v := range xs {
						if i/inner%n == k {
							want[i] = v * min(1, 2.25/norm)
						}
					}
				}
				a := optest.Args{"self": x, "p": optest.Scalar(2.0), "dim": axis, "maxNorm": optest.Scalar(2.25)}
				optest.Run(t, "Renorm", a.With(optest.Args{"out": out}))
				optest.CloseTo(t, fmt.Sprintf("%v %v along %d", d, l, axis), want, optest.Values(out), optest.ResultLimit(d))
				optest.Run(t, "InplaceRenorm", optest.Args{"selfRef": x, "p": optest.Scalar(2.0), "dim": axis, "maxNorm": optest.Scalar(2.25)})
				assert.Equal(t, optest.Values(out), optest.Values(x))
				optest.Refused(t, op.InvalidParam, "Renorm", a.With(optest.Args{"out": out, "maxNorm": optest.Scalar(-1.0)}), "maxNorm -1")
			}
		}
	}
}
