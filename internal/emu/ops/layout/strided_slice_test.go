package layout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestStridedSlice(t *testing.T) {
	shape := []int64{4, 3, 5}
	data := make([]float64, 60)
	for i := range data {
		data[i] = float64(i)
	}
	all := func(n int64) []int64 { return op.InOrder(int(n)) }
	for _, x := range []struct {
		what  string
		spec  optest.Args
		out   []int64
		takes [3][]int64 // selected positions of each dimension
	}{
		{"ranges", optest.Args{"begin": []int64{1, 0, 0}, "end": []int64{3, 3, 5}, "strides": []int64{1, 2, 3}}, []int64{2, 2, 2}, [3][]int64{{1, 2}, {0, 2}, {0, 3}}},
		{"fewer entries than dimensions", optest.Args{"begin": []int64{-3}, "end": []int64{99}, "strides": []int64{2}}, []int64{2, 3, 5}, [3][]int64{{1, 3}, all(3), all(5)}},
		{"backwards", optest.Args{"begin": []int64{3, 2}, "end": []int64{0, -99}, "strides": []int64{-2, -1}}, []int64{2, 3, 5}, [3][]int64{{3, 1}, {2, 1, 0}, all(5)}},
		{"nothing", optest.Args{"begin": []int64{2}, "end": []int64{2}, "strides": []int64{1}}, []int64{0, 3, 5}, [3][]int64{{}, all(3), all(5)}},
		{"masks", optest.Args{"begin": []int64{2, 2}, "end": []int64{3, 1}, "strides": []int64{1, 1}, "beginMask": 1, "endMask": 2}, []int64{3, 1, 5}, [3][]int64{{0, 1, 2}, {2}, all(5)}},
		{"masks backwards", optest.Args{"begin": []int64{1}, "end": []int64{2}, "strides": []int64{-1}, "beginMask": 1, "endMask": 1}, []int64{4, 3, 5}, [3][]int64{{3, 2, 1, 0}, all(3), all(5)}},
		{"ellipsis", optest.Args{"begin": []int64{1, 0, 4}, "end": []int64{2, 0, 5}, "strides": []int64{1, 1, 1}, "ellipsisMask": 2}, []int64{1, 3, 1}, [3][]int64{{1}, all(3), {4}}},
		{"ellipsis of nothing", optest.Args{"begin": []int64{0, 0, 0, 1}, "end": []int64{1, 1, 0, 3}, "strides": []int64{1, 1, 1, 1}, "ellipsisMask": 4}, []int64{1, 1, 2}, [3][]int64{{0}, {0}, {1, 2}}},
		{"one place", optest.Args{"begin": []int64{-1, 1}, "end": []int64{0, 3}, "strides": []int64{1, 1}, "shrinkAxisMask": 1}, []int64{2, 5}, [3][]int64{{3}, {1, 2}, all(5)}},
		{"new dimensions", optest.Args{"begin": []int64{0, 2, 0}, "end": []int64{0, 3, 0}, "strides": []int64{1, 1, 1}, "newAxisMask": 5}, []int64{1, 1, 1, 3, 5}, [3][]int64{{2}, all(3), all(5)}},
		{"all kinds", optest.Args{"begin": []int64{0, 9, 1, 4}, "end": []int64{0, 9, 0, 0}, "strides": []int64{1, 1, 1, -2}, "newAxisMask": 1, "ellipsisMask": 2, "shrinkAxisMask": 4}, []int64{1, 4, 2}, [3][]int64{all(4), {1}, {4, 2}}},
	} {
		for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int64, dtype.Uint16} {
			for _, l := range kerneltest.Layouts {
				out := optest.TensorIn(t, d, l, x.out)
				optest.Run(t, "StridedSlice", x.spec.With(optest.Args{"self": optest.TensorIn(t, d, l, shape, data...), "out": out}))
				var want []float64
				for _, i := range x.takes[0] {
					for _, j := range x.takes[1] {
						for _, k := range x.takes[2] {
							want = append(want, data[(i*3+j)*5+k])
						}
					}
				}
				require.Equal(t, len(want), int(out.Len()), x.what)
				if len(want) > 0 {
					require.Equal(t, want, optest.Values(out), "%s %v %v", x.what, d, l)
				}
			}
		}
	}
	self, out := optest.Tensor(t, dtype.Float32, shape, data...), optest.Tensor(t, dtype.Float32, shape)
	a := optest.Args{"self": self, "begin": []int64{0}, "end": []int64{4}, "strides": []int64{1}, "out": out}
	optest.Run(t, "StridedSlice", a)
	for text, set := range map[string]optest.Args{
		"no stride may be 0": {"strides": []int64{0}}, "as many": {"end": []int64{1, 2}}, "only one bit": {"ellipsisMask": 3}, "name dimensions": {"begin": []int64{0, 0, 0, 0}, "end": []int64{1, 1, 1, 1}, "strides": []int64{1, 1, 1, 1}},
		"a single place must exist": {"begin": []int64{4}, "shrinkAxisMask": 1}, "stride be above 0": {"strides": []int64{-1}, "shrinkAxisMask": 1}, "and the masks name": {"end": []int64{3}},
		"dtypes differ": {"out": optest.Tensor(t, dtype.Float16, shape)},
	} {
		optest.Refused(t, op.InvalidParam, "StridedSlice", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "StridedSlice", a.With(optest.Args{"begin": nil}), "begin is null")
}
