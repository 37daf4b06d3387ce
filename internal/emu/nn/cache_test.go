package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestInplaceQuantScatter(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		for _, c := range []struct{ update, scale, zero dtype.Type }{{dtype.Float16, dtype.Float32, dtype.Int32}, {dtype.BFloat16, dtype.BFloat16, dtype.BFloat16}, {dtype.Float16, dtype.Float32, 0}} {
			const room, rows, width = 5, 2, 4
			self := tensorIn(t, dtype.Int8, l, []int64{3, room, width}, 7)
			updates, scales := filled(t, 1, c.update, l, []int64{2, rows, width}), tensor(t, c.scale, []int64{1, 1, width}, 0.5, 0.25, 2, 1)
			zero := []float64{0, 0, 0, 0}
			a := args{"selfRef": self, "indices": tensor(t, dtype.Int64, []int64{2}, 3, 1), "updates": updates, "quantScales": scales, "axis": -2, "quantAxis": -1, "reduction": 1}
			if c.zero != 0 {
				zero = []float64{1, -2, 3, 0}
				a["quantZeroPoints"] = tensor(t, c.zero, []int64{1, 1, width}, zero...)
			}
			run(t, "InplaceQuantScatter", a)
			want := make([]float64, 3*room*width)
			for i := range want {
				want[i] = 7
			}
			for i, v := range values(updates) {
				b, r, k := i/rows/width, i/width%rows, i%width
				q := math.RoundToEven(v/values(scales)[k] + zero[k])
				want[(b*room+[]int{3, 1}[b]+r)*width+k] = min(max(q, -128), 127)
			}
			assert.Equal(t, want, values(self), "%v %v", l, c)
			run(t, "InplaceQuantScatterV2", a.with(args{"roundMode": "rint"}))
			assert.Equal(t, want, values(self), "%v %v", l, c)
			assert.ErrorContains(t, execute(t, "InplaceQuantScatter", a.with(args{"indices": tensor(t, dtype.Int32, []int64{2}, 3, 4)})), "index 4 at position 1")
			for text, set := range map[string]args{
				"axis is 0": {"axis": 0}, "reduction is 2": {"reduction": 2}, "an element for each": {"quantScales": tensor(t, c.scale, []int64{3}, 1)},
				"an update for each index": {"indices": tensor(t, dtype.Int32, []int64{3}, 0)}, "dtype": {"selfRef": tensor(t, dtype.Int32, []int64{3, room, width}, 0)},
			} {
				refused(t, invalidParam, "InplaceQuantScatter", a.with(set), text)
			}
			refused(t, invalidParam, "InplaceQuantScatterV2", a.with(args{"roundMode": "floor"}), "roundMode")
			refused(t, nullPointer, "InplaceQuantScatter", a.with(args{"updates": nil}), "updates is null")
		}
	}
}

func TestScatterList(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Uint32} {
		for _, l := range kerneltest.Layouts {
			list := []*Tensor{tensorIn(t, d, l, []int64{4, 2}, 9), tensorIn(t, d, l, []int64{4, 2}, 9), tensorIn(t, d, l, []int64{4, 2}, 9)}
			updates := tensorIn(t, d, l, []int64{3, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13)
			a := args{"varRef": list, "indice": tensor(t, dtype.Int64, []int64{3}, 2, 0, 1), "updates": updates, "maskOptional": tensor(t, dtype.Uint8, []int64{3}, 1, 0, 1), "reduceOptional": "update", "axis": -2}
			run(t, "ScatterList", a)
			for i, want := range [][]float64{{9, 9, 9, 9, 1, 2, 3, 4}, {9, 9, 9, 9, 9, 9, 9, 9}, {9, 9, 10, 11, 12, 13, 9, 9}} {
				assert.Equal(t, want, values(list[i]), "%v %v", d, l)
			}
			run(t, "ScatterList", a.with(args{"maskOptional": nil}))
			assert.Equal(t, []float64{5, 6, 7, 8, 9, 9, 9, 9}, values(list[1]))
			assert.ErrorContains(t, execute(t, "ScatterList", a.with(args{"indice": tensor(t, dtype.Int32, []int64{3}, 3, 0, 0)})), "index 3 at position 0")
			pairs := []*Tensor{tensorIn(t, d, l, []int64{4, 2}, 9), tensorIn(t, d, l, []int64{4, 2}, 9), tensorIn(t, d, l, []int64{4, 2}, 9)}
			run(t, "ScatterList", a.with(args{"varRef": pairs, "maskOptional": nil, "indice": tensor(t, dtype.Int32, []int64{3, 2}, 3, 1, 0, 2, 4, 0)}))
			for i, want := range [][]float64{{9, 9, 9, 9, 9, 9, 1, 2}, {5, 6, 7, 8, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9, 9, 9}} {
				assert.Equal(t, want, values(pairs[i]), "%v %v", d, l)
			}
			assert.ErrorContains(t, execute(t, "ScatterList", a.with(args{"indice": tensor(t, dtype.Int32, []int64{3, 2}, 0, 3, 0, 2, 0, 1)})), "a length of 3")
			assert.ErrorContains(t, execute(t, "ScatterList", a.with(args{"indice": tensor(t, dtype.Int32, []int64{3, 2}, 0, -1, 0, 2, 0, 1)})), "-1 rows")
			refused(t, tilingRefused, "ScatterList", a.with(args{"indice": tensor(t, dtype.Int32, []int64{3, 3}, 0)}), "a place and a length")
			refused(t, tilingRefused, "ScatterList", a.with(args{"reduceOptional": "add"}), "reduceOptional")
			refused(t, tilingRefused, "ScatterList", a.with(args{"axis": 0}), "axis 0")
			refused(t, tilingRefused, "ScatterList", a.with(args{"varRef": list[:2]}), "for each tensor of varRef")
			refused(t, nullPointer, "ScatterList", a.with(args{"varRef": nil}), "varRef")
		}
	}
}
