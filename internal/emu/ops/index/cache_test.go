package index

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestInplaceQuantScatter(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		for _, c := range []struct{ update, scale, zero dtype.Type }{{dtype.Float16, dtype.Float32, dtype.Int32}, {dtype.BFloat16, dtype.BFloat16, dtype.BFloat16}, {dtype.Float16, dtype.Float32, 0}} {
			const room, rows, width = 5, 2, 4
			self := optest.TensorIn(t, dtype.Int8, l, []int64{3, room, width}, 7)
			updates, scales := optest.Filled(t, 1, c.update, l, []int64{2, rows, width}), optest.Tensor(t, c.scale, []int64{1, 1, width}, 0.5, 0.25, 2, 1)
			zero := []float64{0, 0, 0, 0}
			a := optest.Args{"selfRef": self, "indices": optest.Tensor(t, dtype.Int64, []int64{2}, 3, 1), "updates": updates, "quantScales": scales, "axis": -2, "quantAxis": -1, "reduction": 1}
			if c.zero != 0 {
				zero = []float64{1, -2, 3, 0}
				a["quantZeroPoints"] = optest.Tensor(t, c.zero, []int64{1, 1, width}, zero...)
			}
			optest.Run(t, "InplaceQuantScatter", a)
			want := make([]float64, 3*room*width)
			for i := range want {
				want[i] = 7
			}
			for i, v := range optest.Values(updates) {
				b, r, k := i/rows/width, i/width%rows, i%width
				q := math.RoundToEven(v/optest.Values(scales)[k] + zero[k])
				want[(b*room+[]int{3, 1}[b]+r)*width+k] = min(max(q, -128), 127)
			}
			assert.Equal(t, want, optest.Values(self), "%v %v", l, c)
			optest.Run(t, "InplaceQuantScatterV2", a.With(optest.Args{"roundMode": "rint"}))
			assert.Equal(t, want, optest.Values(self), "%v %v", l, c)
			assert.ErrorContains(t, optest.Execute(t, "InplaceQuantScatter", a.With(optest.Args{"indices": optest.Tensor(t, dtype.Int32, []int64{2}, 3, 4)})), "index 4 at position 1")
			for text, set := range map[string]optest.Args{
				"axis is 0": {"axis": 0}, "reduction is 2": {"reduction": 2}, "an element for each": {"quantScales": optest.Tensor(t, c.scale, []int64{3}, 1)},
				"an update for each index": {"indices": optest.Tensor(t, dtype.Int32, []int64{3}, 0)}, "dtype": {"selfRef": optest.Tensor(t, dtype.Int32, []int64{3, room, width}, 0)},
			} {
				optest.Refused(t, op.InvalidParam, "InplaceQuantScatter", a.With(set), text)
			}
			optest.Refused(t, op.InvalidParam, "InplaceQuantScatterV2", a.With(optest.Args{"roundMode": "floor"}), "roundMode")
			optest.Refused(t, op.NullPointer, "InplaceQuantScatter", a.With(optest.Args{"updates": nil}), "updates is null")
		}
	}
}

// InplaceQuantScatterV2 writes floats of eight bits as well: the nearest to what int8 would be rounded from.
func TestInplaceQuantScatterOfFloats(t *testing.T) {
	for _, c := range []struct {
		d         dtype.Type
		round     string
		precision float64
	}{{dtype.Float8E4M3, "rint", 0x1p-4}, {dtype.Float8E5M2, "rint", 0x1p-3}, {dtype.HiFloat8, "round", 0x1p-2}, {dtype.HiFloat8, "hybrid", 0x1p-2}} {
		const room, rows, width = 5, 2, 4
		self, zero := optest.Tensor(t, dtype.Int8, []int64{3, room, width}, 0), []float64{1, -2, 3, 0}
		self.DType = c.d
		updates, scales := optest.Filled(t, 1, dtype.Float16, kerneltest.Gapped, []int64{2, rows, width}), optest.Tensor(t, dtype.Float32, []int64{width}, 0.5, 0.25, 2, 1)
		a := optest.Args{
			"selfRef": self, "indices": optest.Tensor(t, dtype.Int64, []int64{2}, 3, 1), "updates": updates, "quantScales": scales, "quantZeroPoints": optest.Tensor(t, dtype.Int32, []int64{width}, zero...),
			"axis": -2, "quantAxis": -1, "reduction": 1, "roundMode": c.round,
		}
		optest.Run(t, "InplaceQuantScatterV2", a)
		want := make([]float64, 3*room*width)
		for i, v := range optest.Values(updates) {
			b, r, k := i/rows/width, i/width%rows, i%width
			want[(b*room+[]int{3, 1}[b]+r)*width+k] = v/optest.Values(scales)[k] + zero[k]
		}
		got, err := minifloat.Read(self.View())
		require.NoError(t, err)
		for i, v := range want {
			require.InDelta(t, v, got[i], max(math.Abs(v)*c.precision, 0x1p-10), "%v %s element %d", c.d, c.round, i)
		}
		optest.Refused(t, op.InvalidParam, "InplaceQuantScatterV2", a.With(optest.Args{"roundMode": "floor"}))
		delete(a, "roundMode")
		optest.Refused(t, op.InvalidParam, "InplaceQuantScatter", a)
	}
}

func TestScatterList(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Uint32} {
		for _, l := range kerneltest.Layouts {
			list := []*op.Tensor{optest.TensorIn(t, d, l, []int64{4, 2}, 9), optest.TensorIn(t, d, l, []int64{4, 2}, 9), optest.TensorIn(t, d, l, []int64{4, 2}, 9)}
			updates := optest.TensorIn(t, d, l, []int64{3, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13)
			a := optest.Args{"varRef": list, "indice": optest.Tensor(t, dtype.Int64, []int64{3}, 2, 0, 1), "updates": updates, "maskOptional": optest.Tensor(t, dtype.Uint8, []int64{3}, 1, 0, 1), "reduceOptional": "update", "axis": -2}
			optest.Run(t, "ScatterList", a)
			for i, want := range [][]float64{{9, 9, 9, 9, 1, 2, 3, 4}, {9, 9, 9, 9, 9, 9, 9, 9}, {9, 9, 10, 11, 12, 13, 9, 9}} {
				assert.Equal(t, want, optest.Values(list[i]), "%v %v", d, l)
			}
			optest.Run(t, "ScatterList", a.With(optest.Args{"maskOptional": nil}))
			assert.Equal(t, []float64{5, 6, 7, 8, 9, 9, 9, 9}, optest.Values(list[1]))
			assert.ErrorContains(t, optest.Execute(t, "ScatterList", a.With(optest.Args{"indice": optest.Tensor(t, dtype.Int32, []int64{3}, 3, 0, 0)})), "index 3 at position 0")
			pairs := []*op.Tensor{optest.TensorIn(t, d, l, []int64{4, 2}, 9), optest.TensorIn(t, d, l, []int64{4, 2}, 9), optest.TensorIn(t, d, l, []int64{4, 2}, 9)}
			optest.Run(t, "ScatterList", a.With(optest.Args{"varRef": pairs, "maskOptional": nil, "indice": optest.Tensor(t, dtype.Int32, []int64{3, 2}, 3, 1, 0, 2, 4, 0)}))
			for i, want := range [][]float64{{9, 9, 9, 9, 9, 9, 1, 2}, {5, 6, 7, 8, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9, 9, 9}} {
				assert.Equal(t, want, optest.Values(pairs[i]), "%v %v", d, l)
			}
			assert.ErrorContains(t, optest.Execute(t, "ScatterList", a.With(optest.Args{"indice": optest.Tensor(t, dtype.Int32, []int64{3, 2}, 0, 3, 0, 2, 0, 1)})), "a length of 3")
			assert.ErrorContains(t, optest.Execute(t, "ScatterList", a.With(optest.Args{"indice": optest.Tensor(t, dtype.Int32, []int64{3, 2}, 0, -1, 0, 2, 0, 1)})), "-1 rows")
			optest.Refused(t, op.TilingRefused, "ScatterList", a.With(optest.Args{"indice": optest.Tensor(t, dtype.Int32, []int64{3, 3}, 0)}), "a place and a length")
			optest.Refused(t, op.TilingRefused, "ScatterList", a.With(optest.Args{"reduceOptional": "add"}), "reduceOptional")
			optest.Refused(t, op.TilingRefused, "ScatterList", a.With(optest.Args{"axis": 0}), "axis 0")
			optest.Refused(t, op.TilingRefused, "ScatterList", a.With(optest.Args{"varRef": list[:2]}), "for each tensor of varRef")
			optest.Refused(t, op.NullPointer, "ScatterList", a.With(optest.Args{"varRef": nil}), "varRef")
		}
	}
}
