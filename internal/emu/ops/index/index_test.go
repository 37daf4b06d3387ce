package index

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// movableTypes are element types of every size, including all types that kernels compute with.
var movableTypes = []dtype.Type{
	dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Bool,
}

// without returns types but those.
func without(types []dtype.Type, those ...dtype.Type) []dtype.Type {
	return slices.DeleteFunc(slices.Clone(types), func(d dtype.Type) bool { return slices.Contains(those, d) })
}

// small returns values that are exact in every type except bool.
func small(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i * 7 % 50)
	}
	return v
}

func roundedTo(d dtype.Type, v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = kerneltest.Round(d, x)
	}
	return out
}

func TestGatherAlongDimension(t *testing.T) {
	x := small(12)
	for _, d := range movableTypes {
		for _, l := range kerneltest.Layouts {
			self := optest.TensorIn(t, d, l, []int64{3, 4}, x...)
			out := optest.TensorIn(t, d, l, []int64{2, 2}, 0)
			optest.Run(t, "Gather", optest.Args{"self": self, "dim": -2, "index": optest.TensorIn(t, dtype.Int32, l, []int64{2, 2}, 0, 2, -1, 1), "out": out})
			require.Equal(t, roundedTo(d, []float64{x[0], x[9], x[8], x[5]}), optest.Values(out), "%v %v", d, l)

			out = optest.TensorIn(t, d, l, []int64{3, 2, 1}, 0)
			optest.Run(t, "GatherV2", optest.Args{"self": self, "dim": 1, "index": optest.Tensor(t, dtype.Int64, []int64{2, 1}, 3, 0), "out": out})
			require.Equal(t, roundedTo(d, []float64{x[3], x[0], x[7], x[4], x[11], x[8]}), optest.Values(out), "%v %v", d, l)

			out = optest.TensorIn(t, d, l, []int64{2, 4}, 0)
			optest.Run(t, "IndexSelect", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{2}, 2, 2), "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[8:], x[8:])), optest.Values(out), "%v %v", d, l)
		}
	}
	scalar := optest.Tensor(t, dtype.Float32, []int64{}, 5)
	for name, shape := range map[string][]int64{"Gather": {}, "GatherV2": {}, "IndexSelect": {}} {
		out := optest.Tensor(t, dtype.Float32, shape, 0)
		optest.Run(t, name, optest.Args{"self": scalar, "dim": 0, "index": optest.Tensor(t, dtype.Int64, shape, 0), "out": out})
		require.Equal(t, []float64{5}, optest.Values(out), name)
	}
	empty := optest.Tensor(t, dtype.Int64, []int64{0, 4})
	optest.Run(t, "Gather", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3, 4}, 1), "dim": 0, "index": empty, "out": optest.Tensor(t, dtype.Float32, []int64{0, 4})})
}

// The page of the operator does not name the Ascend950; its source has a list of types for the chip.
func TestGatherOn950(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Float8E5M2, dtype.Float8E8M0} {
		self, out := optest.Tensor(t, d, []int64{3}), optest.Tensor(t, d, []int64{3})
		require.NoError(t, minifloat.Write(self.View(), []float64{1, 4, .5}, minifloat.Even))
		optest.RunOn(t, acceptance.Ascend950, "Gather", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int32, []int64{3}, 1, 2, 1), "out": out})
		got, err := minifloat.Read(out.View())
		require.NoError(t, err)
		require.Equal(t, []float64{4, .5, 4}, got, d)
	}
}

func TestScatterForms(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	index := func() *op.Tensor { return optest.Tensor(t, dtype.Int64, []int64{2, 2}, 0, 2, 2, 2) }
	cases := []struct {
		name string
		a    optest.Args
		want []float64
	}{
		{"Scatter", optest.Args{"reduce": 0}, []float64{10, 2, 20, 4, 5, 50}},
		{"Scatter", optest.Args{"reduce": 1}, []float64{11, 2, 23, 4, 5, 96}},
		{"Scatter", optest.Args{"reduce": 2}, []float64{10, 2, 60, 4, 5, 6 * 40 * 50}},
		{"Scatter", optest.Args{"reduce": 3}, []float64{10, 2, 20, 4, 5, 50}},
		{"Scatter", optest.Args{"reduce": 4}, []float64{1, 2, 3, 4, 5, 6}},
		{"Scatter", optest.Args{"reduce": 5}, []float64{5.5, 2, 11.5, 4, 5, 32}},
		{"ScatterValue", optest.Args{"reduce": 3, "value": optest.Scalar(2)}, []float64{2, 2, 3, 4, 5, 6}},
		{"ScatterValue", optest.Args{"reduce": 4, "value": optest.Scalar(2)}, []float64{1, 2, 2, 4, 5, 2}},
		{"ScatterValue", optest.Args{"reduce": 5, "value": optest.Scalar(3.0)}, []float64{2, 2, 3, 4, 5, 4}},
		{"ScatterAdd", optest.Args{}, []float64{11, 2, 23, 4, 5, 96}},
		{"ScatterValue", optest.Args{"reduce": 0, "value": optest.Scalar(7)}, []float64{7, 2, 7, 4, 5, 7}},
		{"ScatterValue", optest.Args{"reduce": 1, "value": optest.Scalar(7.0)}, []float64{8, 2, 10, 4, 5, 20}},
	}
	for _, k := range cases {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Int32, dtype.Int64} {
			for _, l := range kerneltest.Layouts {
				a := optest.Args{"dim": -1, "index": index()}
				for n, v := range k.a {
					a[n] = v
				}
				if a["value"] == nil {
					// The source has one column more than the index.
					a["src"] = optest.TensorIn(t, d, l, []int64{2, 3}, 10, 20, -1, 40, 50, -1)
				}
				if k.name != "ScatterAdd" {
					a["selfRef"] = optest.TensorIn(t, d, l, []int64{2, 3}, x...)
					optest.Run(t, "Inplace"+k.name, a)
					require.Equal(t, scatterWant(k.want, d), optest.Values(a["selfRef"].(*op.Tensor)), "Inplace%s %v %v", k.name, d, l)
					delete(a, "selfRef")
				}
				a["self"], a["out"] = optest.TensorIn(t, d, l, []int64{2, 3}, x...), optest.TensorIn(t, d, l, []int64{2, 3}, 0)
				optest.Run(t, k.name, a)
				require.Equal(t, scatterWant(k.want, d), optest.Values(a["out"].(*op.Tensor)), "%s %v %v", k.name, d, l)
				require.Equal(t, x, optest.Values(a["self"].(*op.Tensor)))
			}
		}
	}
}

// scatterWant rounds means down where elements are integers.
func scatterWant(want []float64, d dtype.Type) []float64 {
	if d.IsFloat() {
		return want
	}
	down := slices.Clone(want)
	for i, x := range down {
		down[i] = math.Floor(x)
	}
	return down
}

func TestIndexAddAndCopy(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int32} {
		self := optest.Tensor(t, d, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
		source := optest.Tensor(t, d, []int64{2, 2}, 10, 20, 30, 40)
		out := optest.Tensor(t, d, []int64{3, 2}, 0)
		optest.Run(t, "IndexAdd", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 2), "source": source, "alpha": optest.Scalar(2), "out": out})
		require.Equal(t, []float64{1, 2, 3, 4, 85, 126}, optest.Values(out), "%v", d)
		optest.Run(t, "IndexAddV2", optest.Args{"self": self, "dim": 0, "index": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 0), "source": source, "alpha": optest.Scalar(2), "out": out})
		require.Equal(t, []float64{61, 82, 3, 4, 25, 46}, optest.Values(out), "%v", d)
		optest.Run(t, "IndexCopy", optest.Args{"selfRef": self, "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{2}, 2, 0), "source": source, "outRef": out})
		require.Equal(t, []float64{30, 40, 3, 4, 10, 20}, optest.Values(out), "%v", d)
		optest.Run(t, "InplaceIndexCopy", optest.Args{"selfRef": self, "dim": 1, "index": optest.Tensor(t, dtype.Int64, []int64{1}, 1), "source": optest.Tensor(t, d, []int64{3, 1}, 7, 8, 9)})
		require.Equal(t, []float64{1, 7, 3, 8, 5, 9}, optest.Values(self), "%v", d)
	}
}

func TestIndexPut(t *testing.T) {
	x := small(24)
	start := func() *op.Tensor {
		return optest.TensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3, 4}, x...)
	}
	ints := func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Int64, []int64{int64(len(v))}, v...) }
	changed := func(f func(at func(i, j, k int) *float64)) []float64 {
		v := slices.Clone(x)
		f(func(i, j, k int) *float64 { return &v[i*12+j*4+k] })
		return v
	}
	whole := optest.Tensor(t, dtype.Int64, []int64{0})
	cases := map[string]struct {
		indices []*op.Tensor
		values  *op.Tensor
		add     bool
		want    []float64
	}{
		"leading": {[]*op.Tensor{ints(0, -1), ints(2, 0)}, optest.Tensor(t, dtype.Float32, []int64{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8), false,
			changed(func(at func(i, j, k int) *float64) {
				for k := range 4 {
					*at(0, 2, k), *at(1, 0, k) = float64(k+1), float64(k+5)
				}
			})},
		"same place adds": {[]*op.Tensor{ints(1, 1, 1)}, optest.Tensor(t, dtype.Float32, []int64{1, 1, 1}, 2), true,
			changed(func(at func(i, j, k int) *float64) {
				for j := range 3 {
					for k := range 4 {
						*at(1, j, k) += 6
					}
				}
			})},
		"middle": {[]*op.Tensor{whole, ints(2, 1)}, optest.Tensor(t, dtype.Float32, []int64{2, 2, 4}, small(16)...), false,
			changed(func(at func(i, j, k int) *float64) {
				for i := range 2 {
					for n, j := range []int{2, 1} {
						for k := range 4 {
							*at(i, j, k) = small(16)[i*8+n*4+k]
						}
					}
				}
			})},
		"not neighbours": {[]*op.Tensor{ints(0, 1), whole, ints(3, 2)}, optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 4, 5, 6), false,
			changed(func(at func(i, j, k int) *float64) {
				for j := range 3 {
					*at(0, j, 3), *at(1, j, 2) = float64(j+1), float64(j+4)
				}
			})},
		"mask": {[]*op.Tensor{optest.Tensor(t, dtype.Bool, []int64{2, 3}, 0, 1, 0, 1, 0, 0)}, optest.Tensor(t, dtype.Float32, []int64{}, -1), false,
			changed(func(at func(i, j, k int) *float64) {
				for k := range 4 {
					*at(0, 1, k), *at(1, 0, k) = -1, -1
				}
			})},
		"broadcast indices": {[]*op.Tensor{optest.Tensor(t, dtype.Int64, []int64{2, 1}, 0, 1), ints(0, 2), ints(1)}, optest.Tensor(t, dtype.Float32, []int64{}, 9), false,
			changed(func(at func(i, j, k int) *float64) {
				for i := range 2 {
					*at(i, 0, 1), *at(i, 2, 1) = 9, 9
				}
			})},
		"empty mask": {[]*op.Tensor{optest.Tensor(t, dtype.Bool, []int64{2}, 0, 0)}, optest.Tensor(t, dtype.Float32, []int64{}, 9), false, x},
	}
	for name, k := range cases {
		self := start()
		optest.Run(t, "IndexPutImpl", optest.Args{"selfRef": self, "indices": k.indices, "values": k.values, "accumulate": k.add})
		require.Equal(t, k.want, optest.Values(self), name)
	}
}

func TestIndexRefusals(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1) }
	at := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Int64, shape, 0) }
	optest.Refused(t, op.NullPointer, "Gather", optest.Args{"self": f(2, 2), "dim": 0, "out": f(2, 2)}, "index is null")
	optest.Refused(t, op.InvalidParam, "Gather", optest.Args{"self": f(2, 2), "dim": 2, "index": at(2, 2), "out": f(2, 2)}, "dimension 2 is out of range", "[2,2]")
	optest.Refused(t, op.InvalidParam, "Gather", optest.Args{"self": f(2, 2), "dim": 0, "index": at(2, 3), "out": f(2, 3)}, "smaller", "[2,3]")
	optest.Refused(t, op.InvalidParam, "Gather", optest.Args{"self": f(2, 2), "dim": 0, "index": at(2), "out": f(2)}, "same number of dimensions")
	optest.Refused(t, op.InvalidParam, "Gather", optest.Args{"self": f(2, 2), "dim": 0, "index": f(2, 2), "out": f(2, 2)}, "dtype")
	optest.Refused(t, op.InvalidParam, "Gather", optest.Args{"self": f(0, 2), "dim": 0, "index": at(1, 2), "out": f(1, 2)}, "empty")
	optest.Refused(t, op.InvalidParam, "IndexSelect", optest.Args{"self": f(2, 2), "dim": 0, "index": at(1, 1), "out": f(1, 1, 2)}, "dimensions")
	optest.Refused(t, op.InvalidParam, "GatherV2", optest.Args{"self": f(2, 2), "dim": 0, "index": at(3), "out": f(2, 2)}, "[3,2]")
	single := optest.Args{"self": f(), "dim": 0, "index": at(1), "out": f()}
	optest.Run(t, "GatherV2", single)
	require.ErrorContains(t, optest.Execute(t, "GatherV2", single.With(optest.Args{"index": at(2)})), "names 2 elements")
	optest.Refused(t, op.InvalidParam, "Scatter", optest.Args{"self": f(2, 2), "dim": 0, "index": at(2, 2), "src": f(2, 2), "reduce": 6, "out": f(2, 2)}, "reduce 6")
	optest.Refused(t, op.InvalidParam, "ScatterAdd", optest.Args{"self": f(2, 2), "dim": 0, "index": at(2, 2), "src": f(1, 2), "out": f(2, 2)}, "smaller")
	optest.Refused(t, op.InvalidParam, "IndexAdd", optest.Args{"self": f(2, 2), "dim": 0, "index": at(3), "source": f(2, 2), "alpha": optest.Scalar(1), "out": f(2, 2)}, "[3,2]")
	optest.Refused(t, op.InvalidParam, "IndexPutImpl", optest.Args{"selfRef": f(2), "indices": []*op.Tensor{at(1), at(1)}, "values": f(1)}, "more than the 1 dimensions")
	optest.Refused(t, op.InvalidParam, "IndexPutImpl", optest.Args{"selfRef": f(2), "indices": []*op.Tensor{optest.Tensor(t, dtype.Bool, []int64{3}, 1)}, "values": f(1)}, "mask")
	optest.Refused(t, op.NullPointer, "IndexPutImpl", optest.Args{"selfRef": f(2), "values": f(1)}, "indices")

	out := f(1, 2)
	err := optest.Execute(t, "Gather", optest.Args{"self": f(2, 2), "dim": 0, "index": optest.Tensor(t, dtype.Int64, []int64{1, 2}, 2), "out": out})
	require.ErrorContains(t, err, "index 2 at position 0 is out of range for a dimension of 2")
	err = optest.Execute(t, "Embedding", optest.Args{"weight": f(2, 3), "indices": optest.Tensor(t, dtype.Int64, []int64{1}, 7), "out": f(1, 3)})
	require.ErrorContains(t, err, "index 7")
}
