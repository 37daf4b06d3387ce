package nn

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// A pooling with a mask gives what one with indices gives, forward and backward.
func TestMaxPoolWithMask(t *testing.T) {
	for _, d := range transformerTypes {
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
				x := filled(t, 1, d, l, s.image)
				mask := append([]int64{}, s.out...)
				n := len(mask)
				mask[n-2], mask[n-1] = s.size[0]*s.size[len(s.size)-1], ((s.out[n-2]*s.out[n-1]+15)/16+1)*32
				dy := filled(t, 2, d, l, s.out)
				var got [2][2]*Tensor
				for i, index := range []*Tensor{tensorIn(t, dtype.Int8, l, mask), tensorIn(t, dtype.Int32, l, s.out)} {
					name := []string{"MaxPool2dWithMask", "MaxPool2dWithIndices"}[i]
					set := args{"self": x, "kernelSize": s.size, "stride": s.stride, "padding": s.padding, "dilation": []int64{1}, "ceilMode": s.ceil, "indices": index}
					y, dx := tensorIn(t, d, l, s.out), tensorIn(t, d, l, s.image)
					set["out"] = y
					run(t, name, set)
					delete(set, "out")
					set["gradOutput"], set["gradInput"] = dy, dx
					run(t, name+"Backward", set)
					got[i] = [2]*Tensor{y, dx}
				}
				closeTo(t, what, values(got[1][0]), values(got[0][0]), 0)
				closeTo(t, "gradient of "+what, values(got[1][1]), values(got[0][1]), 0)
			}
		}
	}
	f := dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"dilation": []int64{2}}, invalidParam, "dilation"},
		{args{"indices": tensor(t, dtype.Int8, []int64{1, 4, 32})}, invalidParam, "a row of bits"},
		{args{"indices": tensor(t, dtype.Int32, []int64{1, 4, 64})}, invalidParam, "indices int32"},
		{args{"padding": []int64{2, 2}}, invalidParam, "more than half"},
		{args{"kernelSize": nil}, nullPointer, "kernelSize is null"},
	} {
		a := args{
			"self": tensor(t, f, []int64{1, 4, 4}, 1), "kernelSize": []int64{2, 2}, "stride": []int64{2, 2}, "padding": []int64{0, 0}, "dilation": []int64{1, 1},
			"out": tensor(t, f, []int64{1, 2, 2}), "indices": tensor(t, dtype.Int8, []int64{1, 4, 64}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "MaxPool2dWithMask", a, c.text)
	}
}
