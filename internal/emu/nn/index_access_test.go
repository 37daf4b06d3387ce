package nn

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// What PutAt writes, Index reads: every form of subscript gives back what was put.
func TestIndexReadsWhatIndexPutWrites(t *testing.T) {
	x := small(24)
	ints := func(v ...float64) *Tensor { return tensor(t, dtype.Int64, []int64{int64(len(v))}, v...) }
	whole := tensor(t, dtype.Int64, []int64{0})
	at := func(i, j, k int) float64 { return x[i*12+j*4+k] }
	cases := map[string]struct {
		indices []*Tensor
		shape   []int64
		want    []float64
	}{
		"leading":         {[]*Tensor{ints(0, -1), ints(2, 0)}, []int64{2, 4}, slices.Concat(x[8:12], x[12:16])},
		"middle":          {[]*Tensor{whole, ints(2, 1)}, []int64{2, 2, 4}, slices.Concat(x[8:12], x[4:8], x[20:24], x[16:20])},
		"not neighbours":  {[]*Tensor{ints(0, 1), whole, ints(3, 2)}, []int64{2, 3}, []float64{at(0, 0, 3), at(0, 1, 3), at(0, 2, 3), at(1, 0, 2), at(1, 1, 2), at(1, 2, 2)}},
		"mask":            {[]*Tensor{tensor(t, dtype.Bool, []int64{2, 3}, 0, 1, 0, 1, 0, 0)}, []int64{2, 4}, slices.Concat(x[4:8], x[12:16])},
		"matrix of rows":  {[]*Tensor{tensor(t, dtype.Int32, []int64{1, 2}, 1, 0)}, []int64{1, 2, 3, 4}, slices.Concat(x[12:], x[:12])},
		"every dimension": {[]*Tensor{ints(1), ints(2), ints(3)}, []int64{1}, []float64{at(1, 2, 3)}},
	}
	for name, k := range cases {
		for _, d := range movableTypes {
			for _, l := range kerneltest.Layouts {
				self, out := tensorIn(t, d, l, []int64{2, 3, 4}, x...), tensorIn(t, d, l, k.shape)
				run(t, "Index", args{"self": self, "indices": k.indices, "out": out})
				require.Equal(t, roundedTo(d, k.want), values(out), "%s %v %v", name, d, l)
			}
		}
	}
	self := tensor(t, dtype.Float32, []int64{2, 3}, 1)
	err := execute(t, "Index", args{"self": self, "indices": []*Tensor{ints(2)}, "out": tensor(t, dtype.Float32, []int64{1, 3})})
	require.ErrorContains(t, err, "index 2 at position 0 is out of range for a dimension of 2")
	err = execute(t, "Index", args{"self": self, "indices": []*Tensor{tensor(t, dtype.Bool, []int64{2}, 1, 1)}, "out": tensor(t, dtype.Float32, []int64{1, 3})})
	require.ErrorContains(t, err, "the indices select shape [2 3]")
	refused(t, nullPointer, "Index", args{"self": self, "out": self}, "indices")
	refused(t, invalidParam, "Index", args{"self": self, "indices": []*Tensor{ints(0), ints(0), ints(0)}, "out": self}, "more than the 2 dimensions")
}

func TestTakeAndPutFlat(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self, out := tensorIn(t, d, l, []int64{2, 3}, small(6)...), tensorIn(t, d, l, []int64{2, 2})
			index := tensorIn(t, dtype.Int32, l, []int64{2, 2}, 5, 0, -2, 3)
			run(t, "Take", args{"self": self, "index": index, "out": out})
			require.Equal(t, roundedTo(d, []float64{small(6)[5], 0, small(6)[4], small(6)[3]}), values(out), "%v %v", d, l)
			run(t, "InplacePut", args{"selfRef": self, "index": tensor(t, dtype.Int64, []int64{2}, 1, -1), "source": tensor(t, d, []int64{2}, 1, 0)})
			want := roundedTo(d, small(6))
			want[1], want[5] = 1, 0
			require.Equal(t, want, values(self), "%v %v", d, l)
		}
	}
	self := tensor(t, dtype.Float32, []int64{4}, 1, 2, 3, 4)
	run(t, "InplacePut", args{"selfRef": self, "index": tensor(t, dtype.Int64, []int64{3}, 1, 1, 0), "source": tensor(t, dtype.Float32, []int64{3}, 10), "accumulate": true})
	require.Equal(t, []float64{11, 22, 3, 4}, values(self))
	require.ErrorContains(t, execute(t, "Take", args{"self": self, "index": tensor(t, dtype.Int64, []int64{1}, 4), "out": tensor(t, dtype.Float32, []int64{1})}), "index 4")
	refused(t, invalidParam, "InplacePut", args{"selfRef": self, "index": tensor(t, dtype.Int64, []int64{1}, 1), "source": self}, "as many")
}

func TestTuplesOfCoordinates(t *testing.T) {
	x := small(12)
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{2, 3, 2}, x...)
			pairs := tensorIn(t, dtype.Int64, l, []int64{2, 2}, 1, 2, 0, 1)
			out := tensorIn(t, d, l, []int64{2, 2})
			run(t, "GatherNd", args{"self": self, "indices": pairs, "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[10:12], x[2:4])), values(out), "%v %v", d, l)

			row := tensor(t, d, []int64{3, 2})
			run(t, "GatherNd", args{"self": self, "indices": tensor(t, dtype.Int32, []int64{1}, 1), "out": row})
			require.Equal(t, roundedTo(d, x[6:]), values(row), "%v %v", d, l)

			changed := tensorIn(t, d, l, []int64{2, 3, 2})
			updates := tensor(t, d, []int64{2, 2}, 1, 0, 0, 1)
			run(t, "ScatterNd", args{"data": self, "indices": pairs, "updates": updates, "out": changed})
			want := roundedTo(d, x)
			want[10], want[11], want[2], want[3] = 1, 0, 0, 1
			require.Equal(t, want, values(changed), "%v %v", d, l)
			run(t, "ScatterNdUpdate", args{"varRef": self, "indices": pairs, "updates": updates})
			require.Equal(t, want, values(self), "%v %v", d, l)
		}
	}
	f := func(shape ...int64) *Tensor { return tensor(t, dtype.Float32, shape, 1) }
	three := tensor(t, dtype.Int64, []int64{1, 3}, 0)
	refused(t, invalidParam, "GatherNd", args{"self": f(2, 2), "indices": three, "out": f(1)}, "tuples of 3")
	refused(t, invalidParam, "ScatterNd", args{"data": f(2, 2, 2), "indices": three, "updates": f(2), "out": f(2, 2, 2)}, "[1]")
	require.ErrorContains(t, execute(t, "GatherNd", args{"self": f(2), "indices": tensor(t, dtype.Int64, []int64{1, 1}, 3), "out": f(1)}), "index 3")
}

func TestGatherV3Batches(t *testing.T) {
	x := small(24)
	self := tensor(t, dtype.Float32, []int64{2, 3, 4}, x...)
	out := tensor(t, dtype.Float32, []int64{2, 3, 2})
	run(t, "GatherV3", args{"self": self, "dim": 2, "index": tensor(t, dtype.Int64, []int64{2, 2}, 0, 1, 3, 2), "batchDims": 1, "mode": 0, "out": out})
	var want []float64
	for i, at := range [][]int{{0, 1}, {3, 2}} {
		for j := range 3 {
			want = append(want, x[i*12+j*4+at[0]], x[i*12+j*4+at[1]])
		}
	}
	require.Equal(t, want, values(out))
	out = tensor(t, dtype.Float32, []int64{2, 1, 4})
	run(t, "GatherV3", args{"self": self, "dim": 1, "index": tensor(t, dtype.Int64, []int64{1}, 2), "out": out})
	require.Equal(t, slices.Concat(x[8:12], x[20:24]), values(out))
	refused(t, invalidParam, "GatherV3", args{"self": self, "dim": 0, "index": tensor(t, dtype.Int64, []int64{2, 1}, 0), "batchDims": 1, "out": out}, "batchDims")
}

// shapeAfter is the view shape the caller of a dynamic operator reads.
func shapeAfter(x *Tensor) []int64 { return x.Shape }

func TestNonzeroNarrowsItsOutput(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int64, dtype.Bool, dtype.Float64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{2, 3}, 0, 1, 0, 1, 0, 1)
			out := tensor(t, dtype.Int64, []int64{6, 2})
			run(t, "Nonzero", args{"self": self, "out": out})
			require.Equal(t, []int64{3, 2}, shapeAfter(out))
			require.Equal(t, []float64{0, 1, 1, 0, 1, 2}, values(out), "%v %v", d, l)
			out = tensor(t, dtype.Int64, []int64{2, 6})
			run(t, "NonzeroV2", args{"self": self, "out": out})
			require.Equal(t, []int64{2, 3}, shapeAfter(out))
			require.Equal(t, []float64{0, 1, 1, 1, 0, 2}, values(out), "%v %v", d, l)
		}
	}
	for _, shape := range [][]int64{{0}, {3, 0}, {2}} {
		out := tensor(t, dtype.Int64, []int64{2, int64(len(shape))}, 0)
		run(t, "Nonzero", args{"self": tensor(t, dtype.Float32, shape, 0), "out": out})
		require.Equal(t, []int64{0, int64(len(shape))}, shapeAfter(out))
	}
	out := tensor(t, dtype.Int64, []int64{1, 0})
	run(t, "Nonzero", args{"self": tensor(t, dtype.Float32, []int64{}, 2), "out": out})
	require.Equal(t, []int64{1, 0}, shapeAfter(out))
	err := execute(t, "Nonzero", args{"self": tensor(t, dtype.Float32, []int64{3}, 1), "out": tensor(t, dtype.Int64, []int64{2, 1})})
	require.ErrorContains(t, err, "no room")
	refused(t, invalidParam, "Nonzero", args{"self": out, "out": tensor(t, dtype.Int32, []int64{2, 1})}, "dtype")
}

func TestMaskedSelectAndScatter(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{2, 3}, small(6)...)
			mask := tensor(t, dtype.Bool, []int64{3}, 0, 1, 1)
			out := tensor(t, d, []int64{6})
			run(t, "MaskedSelect", args{"self": self, "mask": mask, "out": out})
			x := small(6)
			require.Equal(t, []int64{4}, shapeAfter(out))
			require.Equal(t, roundedTo(d, []float64{x[1], x[2], x[4], x[5]}), values(out), "%v %v", d, l)
			run(t, "InplaceMaskedScatter", args{"selfRef": self, "mask": mask, "source": tensor(t, d, []int64{5}, 1, 0, 0, 1, 1)})
			require.Equal(t, roundedTo(d, []float64{x[0], 1, 0, x[3], 0, 1}), values(self), "%v %v", d, l)
		}
	}
	self, none := tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), tensor(t, dtype.Bool, []int64{3}, 0)
	out := tensor(t, dtype.Float32, []int64{3})
	run(t, "MaskedSelect", args{"self": self, "mask": none, "out": out})
	require.Equal(t, []int64{0}, shapeAfter(out))
	err := execute(t, "InplaceMaskedScatter", args{"selfRef": self, "mask": tensor(t, dtype.Bool, []int64{}, 1), "source": tensor(t, dtype.Float32, []int64{2}, 1)})
	require.ErrorContains(t, err, "3 true elements, the source 2")
	refused(t, invalidParam, "MaskedSelect", args{"self": self, "mask": tensor(t, dtype.Bool, []int64{2}, 1), "out": out}, "broadcast")
}

func TestRepeatInterleave(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			x := small(4)
			self := tensorIn(t, d, l, []int64{2, 2}, x...)
			out := tensorIn(t, d, l, []int64{3, 2})
			run(t, "RepeatInterleaveWithDim", args{"self": self, "repeats": tensor(t, dtype.Int64, []int64{2}, 1, 2), "dim": 0, "outputSize": 3, "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[:2], x[2:], x[2:])), values(out), "%v %v", d, l)
			out = tensorIn(t, d, l, []int64{2, 4})
			run(t, "RepeatInterleaveIntWithDim", args{"self": self, "repeats": 2, "dim": -1, "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, []float64{x[0], x[0], x[1], x[1], x[2], x[2], x[3], x[3]}), values(out), "%v %v", d, l)
			out = tensorIn(t, d, l, []int64{4})
			run(t, "RepeatInterleave", args{"self": self, "repeats": tensor(t, dtype.Int64, []int64{4}, 0, 3, 0, 1), "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, []float64{x[1], x[1], x[1], x[3]}), values(out), "%v %v", d, l)
			run(t, "RepeatInterleaveInt", args{"self": self, "repeats": 1, "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, x), values(out), "%v %v", d, l)
		}
	}
	at := tensor(t, dtype.Int64, []int64{3})
	run(t, "RepeatInterleaveTensor", args{"repeats": tensor(t, dtype.Int64, []int64{3}, 2, 0, 1), "outputSize": 3, "out": at})
	require.Equal(t, []float64{0, 0, 2}, values(at))
	self := tensor(t, dtype.Float32, []int64{2}, 1)
	refused(t, invalidParam, "RepeatInterleaveInt", args{"self": self, "repeats": 2, "outputSize": 3, "out": tensor(t, dtype.Float32, []int64{3})}, "outputSize is 3")
	refused(t, invalidParam, "RepeatInterleaveInt", args{"self": self, "repeats": -1, "outputSize": 0, "out": tensor(t, dtype.Float32, []int64{0})}, "negative")
	require.ErrorContains(t, execute(t, "RepeatInterleaveTensor", args{"repeats": tensor(t, dtype.Int64, []int64{2}, 1, -1), "outputSize": 3, "out": at}), "negative")
}

func TestIndexFillForms(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			want := roundedTo(d, small(6))
			want[0], want[2], want[3], want[5] = 1, 1, 1, 1
			for _, list := range []any{tensor(t, dtype.Int32, []int64{2}, 0, -1), []int64{2, 0}} {
				name := "IndexFill"
				if _, ok := list.([]int64); ok {
					name += "Tensor"
				}
				self, out := tensorIn(t, d, l, []int64{2, 3}, small(6)...), tensorIn(t, d, l, []int64{2, 3})
				run(t, name, args{"self": self, "dim": 1, "index": list, "value": scalar(1), "out": out})
				require.Equal(t, want, values(out), "%s %v %v", name, d, l)
				run(t, "Inplace"+name, args{"selfRef": self, "dim": 1, "index": list, "value": scalar(1)})
				require.Equal(t, want, values(self), "%s %v %v", name, d, l)
			}
		}
	}
	self := tensor(t, dtype.Float32, []int64{2}, 1)
	refused(t, invalidParam, "InplaceIndexFillTensor", args{"selfRef": self, "index": []int64{2}, "value": scalar(0)}, "index 2")
	require.ErrorContains(t, execute(t, "InplaceIndexFill", args{"selfRef": self, "index": tensor(t, dtype.Int64, []int64{2}, 0, -3), "value": scalar(0)}), "index -3 at position 1")
	require.Equal(t, []float64{1, 1}, values(self), "nothing is written")
}

func TestScatterUpdateAndReduce(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		data := tensorIn(t, dtype.Float16, l, []int64{2, 4, 1}, 0)
		run(t, "InplaceScatterUpdate", args{"data": data, "indices": tensor(t, dtype.Int64, []int64{2}, 1, 2), "updates": tensor(t, dtype.Float16, []int64{2, 2, 1}, 1, 2, 3, 4), "axis": -2})
		require.Equal(t, []float64{0, 1, 2, 0, 0, 0, 3, 4}, values(data), "%v", l)
	}
	data := tensor(t, dtype.Float32, []int64{2, 4}, 0)
	up := tensor(t, dtype.Float32, []int64{2, 2}, 1)
	require.ErrorContains(t, execute(t, "InplaceScatterUpdate", args{"data": data, "indices": tensor(t, dtype.Int64, []int64{1}, 3), "updates": up, "axis": 1}), "no room for 2")
	refused(t, invalidParam, "InplaceScatterUpdate", args{"data": data, "indices": tensor(t, dtype.Int64, []int64{1}, 0), "updates": up, "axis": 0}, "axis is 0")

	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int32, dtype.Float64} {
		for reduce, want := range [][2][]float64{
			0: {{6, 2, 2}, {6, 2, 2}}, 1: {{12, 2, 9}, {10, 2, 6}}, 2: {{48, 2, 24}, {24, 2, 8}},
			3: {{6, 2, 4}, {6, 2, 4}}, 4: {{2, 2, 2}, {4, 2, 2}}, 5: {{4, 2, 3}, {5, 2, 3}},
		} {
			for i, keep := range []bool{true, false} {
				self := tensor(t, d, []int64{3}, 2, 2, 3)
				run(t, "InplaceScatterReduce", args{"selfRef": self, "dim": 0, "index": tensor(t, dtype.Int64, []int64{4}, 2, 0, 2, 0), "src": tensor(t, d, []int64{4}, 4, 4, 2, 6), "reduce": reduce, "includeSelf": keep})
				require.Equal(t, want[i], values(self), "%v reduce %d keep %v", d, reduce, keep)
			}
		}
	}
	refused(t, invalidParam, "InplaceScatterReduce", args{"selfRef": data, "index": tensor(t, dtype.Int64, []int64{1, 1}, 0), "src": up, "reduce": 6}, "reduce 6")
}
