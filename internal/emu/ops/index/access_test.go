package index

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Index reads back the values that IndexPut wrote, with every form of subscript.
func TestIndexReadsWhatIndexPutWrites(t *testing.T) {
	x := small(24)
	ints := func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Int64, []int64{int64(len(v))}, v...) }
	whole := optest.Tensor(t, dtype.Int64, []int64{0})
	at := func(i, j, k int) float64 { return x[i*12+j*4+k] }
	cases := map[string]struct {
		indices []*op.Tensor
		shape   []int64
		want    []float64
	}{
		"leading":         {[]*op.Tensor{ints(0, -1), ints(2, 0)}, []int64{2, 4}, slices.Concat(x[8:12], x[12:16])},
		"middle":          {[]*op.Tensor{whole, ints(2, 1)}, []int64{2, 2, 4}, slices.Concat(x[8:12], x[4:8], x[20:24], x[16:20])},
		"not neighbours":  {[]*op.Tensor{ints(0, 1), whole, ints(3, 2)}, []int64{2, 3}, []float64{at(0, 0, 3), at(0, 1, 3), at(0, 2, 3), at(1, 0, 2), at(1, 1, 2), at(1, 2, 2)}},
		"mask":            {[]*op.Tensor{optest.Tensor(t, dtype.Bool, []int64{2, 3}, 0, 1, 0, 1, 0, 0)}, []int64{2, 4}, slices.Concat(x[4:8], x[12:16])},
		"matrix of rows":  {[]*op.Tensor{optest.Tensor(t, dtype.Int32, []int64{1, 2}, 1, 0)}, []int64{1, 2, 3, 4}, slices.Concat(x[12:], x[:12])},
		"every dimension": {[]*op.Tensor{ints(1), ints(2), ints(3)}, []int64{1}, []float64{at(1, 2, 3)}},
	}
	for name, k := range cases {
		for _, d := range movableTypes {
			for _, l := range kerneltest.Layouts {
				self, out := optest.TensorIn(t, d, l, []int64{2, 3, 4}, x...), optest.TensorIn(t, d, l, k.shape)
				optest.Run(t, "Index", optest.Args{"self": self, "indices": k.indices, "out": out})
				require.Equal(t, roundedTo(d, k.want), optest.Values(out), "%s %v %v", name, d, l)
			}
		}
	}
	self := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1)
	err := optest.Execute(t, "Index", optest.Args{"self": self, "indices": []*op.Tensor{ints(2)}, "out": optest.Tensor(t, dtype.Float32, []int64{1, 3})})
	require.ErrorContains(t, err, "index 2 at position 0 is out of range for a dimension of 2")
	err = optest.Execute(t, "Index", optest.Args{"self": self, "indices": []*op.Tensor{optest.Tensor(t, dtype.Bool, []int64{2}, 1, 1)}, "out": optest.Tensor(t, dtype.Float32, []int64{1, 3})})
	require.ErrorContains(t, err, "the indices select shape [2 3]")
	optest.Refused(t, op.NullPointer, "Index", optest.Args{"self": self, "out": self}, "indices")
	optest.Refused(t, op.InvalidParam, "Index", optest.Args{"self": self, "indices": []*op.Tensor{ints(0), ints(0), ints(0)}, "out": self}, "more than the 2 dimensions")
}

func TestTakeAndPutFlat(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self, out := optest.TensorIn(t, d, l, []int64{2, 3}, small(6)...), optest.TensorIn(t, d, l, []int64{2, 2})
			index := optest.TensorIn(t, dtype.Int32, l, []int64{2, 2}, 5, 0, -2, 3)
			optest.Run(t, "Take", optest.Args{"self": self, "index": index, "out": out})
			require.Equal(t, roundedTo(d, []float64{small(6)[5], 0, small(6)[4], small(6)[3]}), optest.Values(out), "%v %v", d, l)
			optest.Run(t, "InplacePut", optest.Args{"selfRef": self, "index": optest.Tensor(t, dtype.Int64, []int64{2}, 1, -1), "source": optest.Tensor(t, d, []int64{2}, 1, 0)})
			want := roundedTo(d, small(6))
			want[1], want[5] = 1, 0
			require.Equal(t, want, optest.Values(self), "%v %v", d, l)
		}
	}
	self := optest.Tensor(t, dtype.Float32, []int64{4}, 1, 2, 3, 4)
	optest.Run(t, "InplacePut", optest.Args{"selfRef": self, "index": optest.Tensor(t, dtype.Int64, []int64{3}, 1, 1, 0), "source": optest.Tensor(t, dtype.Float32, []int64{3}, 10), "accumulate": true})
	require.Equal(t, []float64{11, 22, 3, 4}, optest.Values(self))
	places := make([]float64, 36)
	for i := range places {
		places[i] = float64(i)
	}
	deep, picked := optest.Tensor(t, dtype.Float32, []int64{1, 2, 3, 1, 2, 3, 1, 1, 1}, places...), optest.Tensor(t, dtype.Float32, []int64{2})
	optest.Run(t, "Take", optest.Args{"self": deep, "index": optest.Tensor(t, dtype.Int64, []int64{2}, 35, 7), "out": picked})
	require.Equal(t, []float64{35, 7}, optest.Values(picked))
	require.ErrorContains(t, optest.Execute(t, "Take", optest.Args{"self": self, "index": optest.Tensor(t, dtype.Int64, []int64{1}, 4), "out": optest.Tensor(t, dtype.Float32, []int64{1})}), "index 4")
	optest.Refused(t, op.InvalidParam, "InplacePut", optest.Args{"selfRef": self, "index": optest.Tensor(t, dtype.Int64, []int64{1}, 1), "source": self}, "as many")
}

func TestTuplesOfCoordinates(t *testing.T) {
	x := small(12)
	for _, d := range without(movableTypes, dtype.Float64) {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{2, 3, 2}, x...)
			pairs := optest.TensorIn(t, dtype.Int64, l, []int64{2, 2}, 1, 2, 0, 1)
			out := optest.TensorIn(t, d, l, []int64{2, 2})
			optest.Run(t, "GatherNd", optest.Args{"self": self, "indices": pairs, "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[10:12], x[2:4])), optest.Values(out), "%v %v", d, l)

			row := optest.Tensor(t, d, []int64{3, 2})
			optest.Run(t, "GatherNd", optest.Args{"self": self, "indices": optest.Tensor(t, dtype.Int32, []int64{1}, 1), "out": row})
			require.Equal(t, roundedTo(d, x[6:]), optest.Values(row), "%v %v", d, l)

			changed := optest.TensorIn(t, d, l, []int64{2, 3, 2})
			updates := optest.Tensor(t, d, []int64{2, 2}, 1, 0, 0, 1)
			want := roundedTo(d, x)
			want[10], want[11], want[2], want[3] = 1, 0, 0, 1
			if d.IsFloat() || d == dtype.Bool {
				optest.Run(t, "ScatterNd", optest.Args{"data": self, "indices": pairs, "updates": updates, "out": changed})
				require.Equal(t, want, optest.Values(changed), "%v %v", d, l)
			}
			if d != dtype.Uint8 {
				optest.Run(t, "ScatterNdUpdate", optest.Args{"varRef": self, "indices": pairs, "updates": updates})
				require.Equal(t, want, optest.Values(self), "%v %v", d, l)
			}
		}
	}
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1) }
	three := optest.Tensor(t, dtype.Int64, []int64{1, 3}, 0)
	optest.Refused(t, op.InvalidParam, "GatherNd", optest.Args{"self": f(2, 2), "indices": three, "out": f(1)}, "tuples of 3")
	optest.Refused(t, op.InvalidParam, "ScatterNd", optest.Args{"data": f(2, 2, 2), "indices": three, "updates": f(2), "out": f(2, 2, 2)}, "[1]")
	require.ErrorContains(t, optest.Execute(t, "GatherNd", optest.Args{"self": f(2), "indices": optest.Tensor(t, dtype.Int64, []int64{1, 1}, 3), "out": f(1)}), "index 3")
}

func TestGatherV3Batches(t *testing.T) {
	x := small(24)
	self := optest.Tensor(t, dtype.Float32, []int64{2, 3, 4}, x...)
	out := optest.Tensor(t, dtype.Float32, []int64{2, 3, 2})
	a := optest.Args{"self": self, "dim": 2, "index": optest.Tensor(t, dtype.Int64, []int64{2, 2}, 0, 1, 3, 2), "batchDims": 1, "mode": 0, "out": out}
	optest.RunOn(t, acceptance.Ascend950, "GatherV3", a)
	optest.Refused(t, op.InvalidParam, "GatherV3", a, "dim is 2; it must be 0") // on the 910B
	var want []float64
	for i, at := range [][]int{{0, 1}, {3, 2}} {
		for j := range 3 {
			want = append(want, x[i*12+j*4+at[0]], x[i*12+j*4+at[1]])
		}
	}
	require.Equal(t, want, optest.Values(out))
	out = optest.Tensor(t, dtype.Float32, []int64{2, 1, 4})
	optest.RunOn(t, acceptance.Ascend950, "GatherV3", optest.Args{"self": self, "dim": 1, "index": optest.Tensor(t, dtype.Int64, []int64{1}, 2), "out": out})
	require.Equal(t, slices.Concat(x[8:12], x[20:24]), optest.Values(out))
	for _, l := range kerneltest.Layouts {
		out := optest.TensorIn(t, dtype.Float32, l, []int64{1, 2, 3, 4})
		self := optest.TensorIn(t, dtype.Float32, l, []int64{2, 3, 4}, x...)
		optest.Run(t, "GatherV3", optest.Args{"self": self, "dim": 0, "index": optest.TensorIn(t, dtype.Int64, l, []int64{1, 2}, 1, 0), "mode": 1, "out": out})
		require.Equal(t, slices.Concat(x[12:24], x[:12]), optest.Values(out), "%v", l)
	}
	optest.Refused(t, op.InvalidParam, "GatherV3", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{2, 1}, 0), "batchDims": 1, "out": out}, "batchDims")
}

// shapeAfter returns the view shape that the caller of an operator with a dynamic output reads.
func shapeAfter(x *op.Tensor) []int64 { return x.Shape }

func TestNonzeroNarrowsItsOutput(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int64, dtype.Bool, dtype.Float64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{2, 3}, 0, 1, 0, 1, 0, 1)
			out := optest.Tensor(t, dtype.Int64, []int64{6, 2})
			optest.Run(t, "Nonzero", optest.Args{"self": self, "out": out})
			require.Equal(t, []int64{3, 2}, shapeAfter(out))
			require.Equal(t, []float64{0, 1, 1, 0, 1, 2}, optest.Values(out), "%v %v", d, l)
			out = optest.Tensor(t, dtype.Int64, []int64{2, 6})
			optest.Run(t, "NonzeroV2", optest.Args{"self": self, "out": out})
			require.Equal(t, []int64{2, 3}, shapeAfter(out))
			require.Equal(t, []float64{0, 1, 1, 1, 0, 2}, optest.Values(out), "%v %v", d, l)
		}
	}
	for _, shape := range [][]int64{{0}, {3, 0}, {2}} {
		out := optest.Tensor(t, dtype.Int64, []int64{2, int64(len(shape))}, 0)
		optest.Run(t, "Nonzero", optest.Args{"self": optest.Tensor(t, dtype.Float32, shape, 0), "out": out})
		require.Equal(t, []int64{0, int64(len(shape))}, shapeAfter(out))
	}
	out := optest.Tensor(t, dtype.Int64, []int64{1, 0})
	optest.Run(t, "Nonzero", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{}, 2), "out": out})
	require.Equal(t, []int64{1, 0}, shapeAfter(out))
	err := optest.Execute(t, "Nonzero", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "out": optest.Tensor(t, dtype.Int64, []int64{2, 1})})
	require.ErrorContains(t, err, "no room")
	optest.Refused(t, op.InvalidParam, "Nonzero", optest.Args{"self": out, "out": optest.Tensor(t, dtype.Int32, []int64{2, 1})}, "dtype")
}

func TestMaskedSelectAndScatter(t *testing.T) {
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{2, 3}, small(6)...)
			mask := optest.Tensor(t, dtype.Bool, []int64{3}, 0, 1, 1)
			out := optest.Tensor(t, d, []int64{6})
			optest.Run(t, "MaskedSelect", optest.Args{"self": self, "mask": mask, "out": out})
			x := small(6)
			require.Equal(t, []int64{4}, shapeAfter(out))
			require.Equal(t, roundedTo(d, []float64{x[1], x[2], x[4], x[5]}), optest.Values(out), "%v %v", d, l)
			optest.Run(t, "InplaceMaskedScatter", optest.Args{"selfRef": self, "mask": mask, "source": optest.Tensor(t, d, []int64{5}, 1, 0, 0, 1, 1)})
			require.Equal(t, roundedTo(d, []float64{x[0], 1, 0, x[3], 0, 1}), optest.Values(self), "%v %v", d, l)
		}
	}
	self, none := optest.Tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), optest.Tensor(t, dtype.Bool, []int64{3}, 0)
	out := optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Run(t, "MaskedSelect", optest.Args{"self": self, "mask": none, "out": out})
	require.Equal(t, []int64{0}, shapeAfter(out))
	err := optest.Execute(t, "InplaceMaskedScatter", optest.Args{"selfRef": self, "mask": optest.Tensor(t, dtype.Bool, []int64{}, 1), "source": optest.Tensor(t, dtype.Float32, []int64{2}, 1)})
	require.ErrorContains(t, err, "3 true elements, the source 2")
	optest.Refused(t, op.InvalidParam, "MaskedSelect", optest.Args{"self": self, "mask": optest.Tensor(t, dtype.Bool, []int64{2}, 1), "out": out}, "broadcast")
}

func TestRepeatInterleave(t *testing.T) {
	for _, d := range without(movableTypes, dtype.Float64) {
		for _, l := range kerneltest.Layouts {
			x := small(4)
			self := optest.TensorIn(t, d, l, []int64{2, 2}, x...)
			out := optest.TensorIn(t, d, l, []int64{3, 2})
			optest.Run(t, "RepeatInterleaveWithDim", optest.Args{"self": self, "repeats": optest.Tensor(t, dtype.Int64, []int64{2}, 1, 2), "dim": 0, "outputSize": 3, "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[:2], x[2:], x[2:])), optest.Values(out), "%v %v", d, l)
			out = optest.TensorIn(t, d, l, []int64{2, 4})
			optest.Run(t, "RepeatInterleaveIntWithDim", optest.Args{"self": self, "repeats": 2, "dim": -1, "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, []float64{x[0], x[0], x[1], x[1], x[2], x[2], x[3], x[3]}), optest.Values(out), "%v %v", d, l)
			out = optest.TensorIn(t, d, l, []int64{4})
			optest.Run(t, "RepeatInterleave", optest.Args{"self": self, "repeats": optest.Tensor(t, dtype.Int64, []int64{4}, 0, 3, 0, 1), "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, []float64{x[1], x[1], x[1], x[3]}), optest.Values(out), "%v %v", d, l)
			optest.Run(t, "RepeatInterleaveInt", optest.Args{"self": self, "repeats": 1, "outputSize": 4, "out": out})
			require.Equal(t, roundedTo(d, x), optest.Values(out), "%v %v", d, l)
		}
	}
	at := optest.Tensor(t, dtype.Int64, []int64{3})
	optest.Run(t, "RepeatInterleaveTensor", optest.Args{"repeats": optest.Tensor(t, dtype.Int64, []int64{3}, 2, 0, 1), "outputSize": 3, "out": at})
	require.Equal(t, []float64{0, 0, 2}, optest.Values(at))
	self := optest.Tensor(t, dtype.Float32, []int64{2}, 1)
	optest.Refused(t, op.InvalidParam, "RepeatInterleaveInt", optest.Args{"self": self, "repeats": 2, "outputSize": 3, "out": optest.Tensor(t, dtype.Float32, []int64{3})}, "outputSize is 3")
	optest.Refused(t, op.InvalidParam, "RepeatInterleaveInt", optest.Args{"self": self, "repeats": -1, "outputSize": 0, "out": optest.Tensor(t, dtype.Float32, []int64{0})}, "negative")
	require.ErrorContains(t, optest.Execute(t, "RepeatInterleaveTensor", optest.Args{"repeats": optest.Tensor(t, dtype.Int64, []int64{2}, 1, -1), "outputSize": 3, "out": at}), "negative")
}

func TestIndexFillForms(t *testing.T) {
	for _, d := range without(movableTypes, dtype.Float64, dtype.Int8, dtype.Uint8) {
		for _, l := range kerneltest.Layouts {
			want := roundedTo(d, small(6))
			want[0], want[2], want[3], want[5] = 1, 1, 1, 1
			for _, list := range []any{optest.Tensor(t, dtype.Int32, []int64{2}, 0, -1), []int64{2, 0}} {
				name := "IndexFill"
				if _, ok := list.([]int64); ok {
					name += "Tensor"
				}
				self, out := optest.TensorIn(t, d, l, []int64{2, 3}, small(6)...), optest.TensorIn(t, d, l, []int64{2, 3})
				optest.Run(t, name, optest.Args{"self": self, "dim": 1, "index": list, "value": optest.Scalar(1), "out": out})
				require.Equal(t, want, optest.Values(out), "%s %v %v", name, d, l)
				optest.Run(t, "Inplace"+name, optest.Args{"selfRef": self, "dim": 1, "index": list, "value": optest.Scalar(1)})
				require.Equal(t, want, optest.Values(self), "%s %v %v", name, d, l)
			}
		}
	}
	self := optest.Tensor(t, dtype.Float32, []int64{2}, 1)
	optest.Refused(t, op.InvalidParam, "InplaceIndexFillTensor", optest.Args{"selfRef": self, "index": []int64{2}, "value": optest.Scalar(0)}, "index 2")
	require.ErrorContains(t, optest.Execute(t, "InplaceIndexFill", optest.Args{"selfRef": self, "index": optest.Tensor(t, dtype.Int64, []int64{2}, 0, -3), "value": optest.Scalar(0)}), "index -3 at position 1")
	require.Equal(t, []float64{1, 1}, optest.Values(self), "nothing is written")
}

func TestScatterUpdateAndReduce(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		data := optest.TensorIn(t, dtype.Float16, l, []int64{2, 4, 1}, 0)
		optest.Run(t, "InplaceScatterUpdate", optest.Args{"data": data, "indices": optest.Tensor(t, dtype.Int64, []int64{2}, 1, 2), "updates": optest.Tensor(t, dtype.Float16, []int64{2, 2, 1}, 1, 2, 3, 4), "axis": -2})
		require.Equal(t, []float64{0, 1, 2, 0, 0, 0, 3, 4}, optest.Values(data), "%v", l)
	}
	data := optest.Tensor(t, dtype.Float32, []int64{2, 4}, 0)
	up := optest.Tensor(t, dtype.Float32, []int64{2, 2}, 1)
	require.ErrorContains(t, optest.Execute(t, "InplaceScatterUpdate", optest.Args{"data": data, "indices": optest.Tensor(t, dtype.Int64, []int64{1}, 3), "updates": up, "axis": 1}), "no room for 2")
	optest.Refused(t, op.InvalidParam, "InplaceScatterUpdate", optest.Args{"data": data, "indices": optest.Tensor(t, dtype.Int64, []int64{1}, 0), "updates": up, "axis": 0}, "axis is 0")

	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int32, dtype.Float64} {
		for reduce, want := range [][2][]float64{
			0: {{6, 2, 2}, {6, 2, 2}}, 1: {{12, 2, 9}, {10, 2, 6}}, 2: {{48, 2, 24}, {24, 2, 8}},
			3: {{6, 2, 4}, {6, 2, 4}}, 4: {{2, 2, 2}, {4, 2, 2}}, 5: {{4, 2, 3}, {5, 2, 3}},
		} {
			for i, keep := range []bool{true, false} {
				self := optest.Tensor(t, d, []int64{3}, 2, 2, 3)
				run := func(name string, a optest.Args) {
					if d == dtype.Float32 && keep {
						optest.Run(t, name, a)
						return
					}
					optest.RunOn(t, acceptance.Ascend950, name, a)
					optest.Refused(t, op.InvalidParam, name, a) // the 910B has float32 only, and keeps what was there
				}
				run("InplaceScatterReduce", optest.Args{"selfRef": self, "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{4}, 2, 0, 2, 0), "src": optest.Tensor(t, d, []int64{4}, 4, 4, 2, 6), "reduce": reduce, "includeSelf": keep})
				require.Equal(t, want[i], optest.Values(self), "%v reduce %d keep %v", d, reduce, keep)
				self, out := optest.Tensor(t, d, []int64{3}, 2, 2, 3), optest.Tensor(t, d, []int64{3})
				run("ScatterReduce", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{4}, 2, 0, 2, 0), "src": optest.Tensor(t, d, []int64{4}, 4, 4, 2, 6), "reduce": reduce, "includeSelf": keep, "out": out})
				require.Equal(t, want[i], optest.Values(out), "%v reduce %d keep %v", d, reduce, keep)
			}
		}
	}
	optest.Refused(t, op.InvalidParam, "InplaceScatterReduce", optest.Args{"selfRef": data, "index": optest.Tensor(t, dtype.Int64, []int64{1, 1}, 0), "src": up, "reduce": 6, "includeSelf": true}, "reduce 6")
}
