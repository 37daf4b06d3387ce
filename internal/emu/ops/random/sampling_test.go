package random

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestTopKTopP(t *testing.T) {
	inf := math.Inf(-1)
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			// The probabilities of the first row are 1/8, 1/2, 1/4 and 1/8.
			x := optest.TensorIn(t, d, l, []int64{2, 4}, -3, -1, -2, -3, 1, 2, 3, 4)
			for i, v := range []float64{-3, -1, -2, -3} {
				assert.Equal(t, v, optest.Values(x)[i])
			}
			out := optest.TensorIn(t, d, l, x.Shape)
			for _, c := range []struct {
				p, k *op.Tensor
				want []float64
			}{
				{nil, optest.Tensor(t, dtype.Int32, []int64{2}, 2, 9), []float64{inf, -1, -2, inf, 1, 2, 3, 4}},
				{nil, optest.Tensor(t, dtype.Int32, []int64{2}, 3, 0), []float64{-3, -1, -2, -3, 1, 2, 3, 4}},
				{optest.Tensor(t, d, []int64{2}, 1, 0), nil, []float64{-3, -1, -2, -3, inf, inf, inf, 4}},
				{optest.Tensor(t, d, []int64{2}, .75, .5), optest.Tensor(t, dtype.Int32, []int64{2}, 2, 4), []float64{inf, -1, -2, inf, inf, inf, inf, 4}},
			} {
				optest.Run(t, "ApplyTopKTopP", optest.Args{"logits": x, "p": c.p, "k": c.k, "out": out})
				assert.Equal(t, c.want, optest.Values(out), "%v %v p %v k %v", d, l, c.p, c.k)
			}
			optest.Refused(t, op.NullPointer, "ApplyTopKTopP", optest.Args{"logits": x, "out": out}, "p and k are null")
			optest.Refused(t, op.InvalidParam, "ApplyTopKTopP", optest.Args{"logits": x, "k": optest.Tensor(t, dtype.Int32, []int64{3}, 1), "out": out}, "k int32[3]")
		}
	}
}
