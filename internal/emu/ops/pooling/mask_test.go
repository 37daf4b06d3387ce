package pooling

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Pooling with a mask agrees with pooling with indices, forward and backward.
func TestMaxPoolWithMask(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct {
				image, size, stride, padding []int64
				ceil                         bool
				out                          []int64
			}{
				{[]int64{1, 1, 4, 3}, []int64{2, 2}, []int64{2, 1}, []int64{0, 0}, false, []int64{1, 1, 2, 2}},
				{[]int64{2, 3, 7, 5}, []int64{3, 2}, []int64{2, 2}, []int64{1, 0}, true, []int64{2, 3, 4, 3}},
				{[]int64{2, 9, 9}, []int64{3}, []int64{2}, []int64{1}, false, []int64{2, 5, 5}},
			} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				x := optest.Filled(t, 1, d, l, s.image)
				mask := append([]int64{}, s.out...)
				n := len(mask)
				mask[n-2], mask[n-1] = s.size[0]*s.size[len(s.size)-1], ((s.out[n-2]*s.out[n-1]+15)/16+1)*32
				dy := optest.Filled(t, 2, d, l, s.out)
				var got [2][2]*op.Tensor
				for i, index := range []*op.Tensor{optest.TensorIn(t, dtype.Int8, l, mask), optest.TensorIn(t, dtype.Int32, l, s.out)} {
					name := []string{"MaxPool2dWithMask", "MaxPool2dWithIndices"}[i]
					d := d
					if i == 1 && d != dtype.Float32 { // the other gradient takes nothing else on the 910B
						d = dtype.Float32
						x, dy = optest.TensorIn(t, d, l, s.image, optest.Values(x)...), optest.TensorIn(t, d, l, s.out, optest.Values(dy)...)
					}
					set := optest.Args{"self": x, "kernelSize": s.size, "stride": s.stride, "padding": s.padding, "dilation": []int64{1}, "ceilMode": s.ceil, "indices": index}
					y, dx := optest.TensorIn(t, d, l, s.out), optest.TensorIn(t, d, l, s.image)
					set["out"] = y
					optest.Run(t, name, set)
					delete(set, "out")
					set["gradOutput"], set["gradInput"] = dy, dx
					optest.Run(t, name+"Backward", set)
					got[i] = [2]*op.Tensor{y, dx}
				}
				optest.CloseTo(t, what, optest.Values(got[1][0]), optest.Values(got[0][0]), 0)
				optest.CloseTo(t, "gradient of "+what, optest.Values(got[1][1]), optest.Values(got[0][1]), optest.ResultLimit(d))
			}
		}
	}
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"dilation": []int64{2}}, op.InvalidParam, "dilation"},
		{optest.Args{"indices": optest.Tensor(t, dtype.Int8, []int64{1, 4, 32})}, op.InvalidParam, "a row of bits"},
		{optest.Args{"indices": optest.Tensor(t, dtype.Int32, []int64{1, 4, 64})}, op.InvalidParam, "indices int32"},
		{optest.Args{"padding": []int64{2, 2}}, op.InvalidParam, "more than half"},
		{optest.Args{"kernelSize": nil}, op.NullPointer, "kernelSize is null"},
	} {
		a := optest.Args{
			"self": optest.Tensor(t, f, []int64{1, 4, 4}, 1), "kernelSize": []int64{2, 2}, "stride": []int64{2, 2}, "padding": []int64{0, 0}, "dilation": []int64{1, 1},
			"out": optest.Tensor(t, f, []int64{1, 2, 2}), "indices": optest.Tensor(t, dtype.Int8, []int64{1, 4, 64}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "MaxPool2dWithMask", a, c.text)
	}
}
