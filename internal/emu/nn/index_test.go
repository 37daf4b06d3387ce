package nn

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// movableTypes are element types of every size, and all that are computed with.
var movableTypes = []dtype.Type{
	dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Bool,
}

// small values are exact in every type but bool.
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
			self := tensorIn(t, d, l, []int64{3, 4}, x...)
			out := tensorIn(t, d, l, []int64{2, 2}, 0)
			run(t, "Gather", args{"self": self, "dim": -2, "index": tensorIn(t, dtype.Int32, l, []int64{2, 2}, 0, 2, -1, 1), "out": out})
			require.Equal(t, roundedTo(d, []float64{x[0], x[9], x[8], x[5]}), values(out), "%v %v", d, l)

			out = tensorIn(t, d, l, []int64{3, 2, 1}, 0)
			run(t, "GatherV2", args{"self": self, "dim": 1, "index": tensor(t, dtype.Int64, []int64{2, 1}, 3, 0), "out": out})
			require.Equal(t, roundedTo(d, []float64{x[3], x[0], x[7], x[4], x[11], x[8]}), values(out), "%v %v", d, l)

			out = tensorIn(t, d, l, []int64{2, 4}, 0)
			run(t, "IndexSelect", args{"self": self, "dim": 0, "index": tensor(t, dtype.Int64, []int64{2}, 2, 2), "out": out})
			require.Equal(t, roundedTo(d, slices.Concat(x[8:], x[8:])), values(out), "%v %v", d, l)
		}
	}
	scalar := tensor(t, dtype.Float32, []int64{}, 5)
	for name, shape := range map[string][]int64{"Gather": {}, "GatherV2": {}, "IndexSelect": {}} {
		out := tensor(t, dtype.Float32, shape, 0)
		run(t, name, args{"self": scalar, "dim": 0, "index": tensor(t, dtype.Int64, shape, 0), "out": out})
		require.Equal(t, []float64{5}, values(out), name)
	}
	empty := tensor(t, dtype.Int64, []int64{0, 4})
	run(t, "Gather", args{"self": tensor(t, dtype.Float32, []int64{3, 4}, 1), "dim": 0, "index": empty, "out": tensor(t, dtype.Float32, []int64{0, 4})})
}

func TestScatterForms(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	index := func() *Tensor { return tensor(t, dtype.Int64, []int64{2, 2}, 0, 2, 2, 2) }
	cases := []struct {
		name string
		a    args
		want []float64
	}{
		{"Scatter", args{"reduce": 0}, []float64{10, 2, 20, 4, 5, 50}},
		{"Scatter", args{"reduce": 1}, []float64{11, 2, 23, 4, 5, 96}},
		{"Scatter", args{"reduce": 2}, []float64{10, 2, 60, 4, 5, 6 * 40 * 50}},
		{"ScatterAdd", args{}, []float64{11, 2, 23, 4, 5, 96}},
		{"ScatterValue", args{"reduce": 0, "value": scalar(7)}, []float64{7, 2, 7, 4, 5, 7}},
		{"ScatterValue", args{"reduce": 1, "value": scalar(7.0)}, []float64{8, 2, 10, 4, 5, 20}},
	}
	for _, k := range cases {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Int32, dtype.Int64} {
			for _, l := range kerneltest.Layouts {
				a := args{"dim": -1, "index": index()}
				for n, v := range k.a {
					a[n] = v
				}
				if a["value"] == nil {
					// One more column than the index reads.
					a["src"] = tensorIn(t, d, l, []int64{2, 3}, 10, 20, -1, 40, 50, -1)
				}
				if k.name != "ScatterAdd" {
					a["selfRef"] = tensorIn(t, d, l, []int64{2, 3}, x...)
					run(t, "Inplace"+k.name, a)
					require.Equal(t, k.want, values(a["selfRef"].(*Tensor)), "Inplace%s %v %v", k.name, d, l)
					delete(a, "selfRef")
				}
				a["self"], a["out"] = tensorIn(t, d, l, []int64{2, 3}, x...), tensorIn(t, d, l, []int64{2, 3}, 0)
				run(t, k.name, a)
				require.Equal(t, k.want, values(a["out"].(*Tensor)), "%s %v %v", k.name, d, l)
				require.Equal(t, x, values(a["self"].(*Tensor)))
			}
		}
	}
}

func TestIndexAddAndCopy(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int32} {
		self := tensor(t, d, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
		source := tensor(t, d, []int64{2, 2}, 10, 20, 30, 40)
		out := tensor(t, d, []int64{3, 2}, 0)
		run(t, "IndexAdd", args{"self": self, "dim": 0, "index": tensor(t, dtype.Int32, []int64{2}, 2, 2), "source": source, "alpha": scalar(2), "out": out})
		require.Equal(t, []float64{1, 2, 3, 4, 85, 126}, values(out), "%v", d)
		run(t, "IndexCopy", args{"selfRef": self, "dim": 0, "index": tensor(t, dtype.Int64, []int64{2}, 2, 0), "source": source, "outRef": out})
		require.Equal(t, []float64{30, 40, 3, 4, 10, 20}, values(out), "%v", d)
		run(t, "InplaceIndexCopy", args{"selfRef": self, "dim": 1, "index": tensor(t, dtype.Int64, []int64{1}, 1), "source": tensor(t, d, []int64{3, 1}, 7, 8, 9)})
		require.Equal(t, []float64{1, 7, 3, 8, 5, 9}, values(self), "%v", d)
	}
}

func TestIndexPut(t *testing.T) {
	x := small(24)
	start := func() *Tensor { return tensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 3, 4}, x...) }
	ints := func(v ...float64) *Tensor { return tensor(t, dtype.Int64, []int64{int64(len(v))}, v...) }
	changed := func(f func(at func(i, j, k int) *float64)) []float64 {
		v := slices.Clone(x)
		f(func(i, j, k int) *float64 { return &v[i*12+j*4+k] })
		return v
	}
	whole := tensor(t, dtype.Int64, []int64{0})
	cases := map[string]struct {
		indices []*Tensor
		values  *Tensor
		add     bool
		want    []float64
	}{
		"leading": {[]*Tensor{ints(0, -1), ints(2, 0)}, tensor(t, dtype.Float32, []int64{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8), false,
			changed(func(at func(i, j, k int) *float64) {
				for k := range 4 {
					*at(0, 2, k), *at(1, 0, k) = float64(k+1), float64(k+5)
				}
			})},
		"same place adds": {[]*Tensor{ints(1, 1, 1)}, tensor(t, dtype.Float32, []int64{1, 1, 1}, 2), true,
			changed(func(at func(i, j, k int) *float64) {
				for j := range 3 {
					for k := range 4 {
						*at(1, j, k) += 6
					}
				}
			})},
		"middle": {[]*Tensor{whole, ints(2, 1)}, tensor(t, dtype.Float32, []int64{2, 2, 4}, small(16)...), false,
			changed(func(at func(i, j, k int) *float64) {
				for i := range 2 {
					for n, j := range []int{2, 1} {
						for k := range 4 {
							*at(i, j, k) = small(16)[i*8+n*4+k]
						}
					}
				}
			})},
		"not neighbours": {[]*Tensor{ints(0, 1), whole, ints(3, 2)}, tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 4, 5, 6), false,
			changed(func(at func(i, j, k int) *float64) {
				for j := range 3 {
					*at(0, j, 3), *at(1, j, 2) = float64(j+1), float64(j+4)
				}
			})},
		"mask": {[]*Tensor{tensor(t, dtype.Bool, []int64{2, 3}, 0, 1, 0, 1, 0, 0)}, tensor(t, dtype.Float32, []int64{}, -1), false,
			changed(func(at func(i, j, k int) *float64) {
				for k := range 4 {
					*at(0, 1, k), *at(1, 0, k) = -1, -1
				}
			})},
		"broadcast indices": {[]*Tensor{tensor(t, dtype.Int64, []int64{2, 1}, 0, 1), ints(0, 2), ints(1)}, tensor(t, dtype.Float32, []int64{}, 9), false,
			changed(func(at func(i, j, k int) *float64) {
				for i := range 2 {
					*at(i, 0, 1), *at(i, 2, 1) = 9, 9
				}
			})},
		"empty mask": {[]*Tensor{tensor(t, dtype.Bool, []int64{2}, 0, 0)}, tensor(t, dtype.Float32, []int64{}, 9), false, x},
	}
	for name, k := range cases {
		self := start()
		run(t, "IndexPutImpl", args{"selfRef": self, "indices": k.indices, "values": k.values, "accumulate": k.add})
		require.Equal(t, k.want, values(self), name)
	}
}

func TestIndexRefusals(t *testing.T) {
	f := func(shape ...int64) *Tensor { return tensor(t, dtype.Float32, shape, 1) }
	at := func(shape ...int64) *Tensor { return tensor(t, dtype.Int64, shape, 0) }
	refused(t, nullPointer, "Gather", args{"self": f(2, 2), "dim": 0, "out": f(2, 2)}, "index is null")
	refused(t, invalidParam, "Gather", args{"self": f(2, 2), "dim": 2, "index": at(2, 2), "out": f(2, 2)}, "dimension 2 is out of range", "[2,2]")
	refused(t, invalidParam, "Gather", args{"self": f(2, 2), "dim": 0, "index": at(2, 3), "out": f(2, 3)}, "smaller", "[2,3]")
	refused(t, invalidParam, "Gather", args{"self": f(2, 2), "dim": 0, "index": at(2), "out": f(2)}, "same number of dimensions")
	refused(t, invalidParam, "Gather", args{"self": f(2, 2), "dim": 0, "index": f(2, 2), "out": f(2, 2)}, "dtype")
	refused(t, invalidParam, "Gather", args{"self": f(0, 2), "dim": 0, "index": at(1, 2), "out": f(1, 2)}, "empty")
	refused(t, invalidParam, "IndexSelect", args{"self": f(2, 2), "dim": 0, "index": at(1, 1), "out": f(1, 1, 2)}, "dimensions")
	refused(t, invalidParam, "GatherV2", args{"self": f(2, 2), "dim": 0, "index": at(3), "out": f(2, 2)}, "[3,2]")
	refused(t, invalidParam, "Scatter", args{"self": f(2, 2), "dim": 0, "index": at(2, 2), "src": f(2, 2), "reduce": 3, "out": f(2, 2)}, "reduce 3")
	refused(t, invalidParam, "ScatterAdd", args{"self": f(2, 2), "dim": 0, "index": at(2, 2), "src": f(1, 2), "out": f(2, 2)}, "smaller")
	refused(t, invalidParam, "IndexAdd", args{"self": f(2, 2), "dim": 0, "index": at(3), "source": f(2, 2), "alpha": scalar(1), "out": f(2, 2)}, "[3,2]")
	refused(t, invalidParam, "IndexPutImpl", args{"selfRef": f(2), "indices": []*Tensor{at(1), at(1)}, "values": f(1)}, "more than the 1 dimensions")
	refused(t, invalidParam, "IndexPutImpl", args{"selfRef": f(2), "indices": []*Tensor{tensor(t, dtype.Bool, []int64{3}, 1)}, "values": f(1)}, "mask")
	refused(t, nullPointer, "IndexPutImpl", args{"selfRef": f(2), "values": f(1)}, "indices")

	out := f(1, 2)
	err := execute(t, "Gather", args{"self": f(2, 2), "dim": 0, "index": tensor(t, dtype.Int64, []int64{1, 2}, 2), "out": out})
	require.ErrorContains(t, err, "index 2 at position 0 is out of range for a dimension of 2")
	err = execute(t, "Embedding", args{"weight": f(2, 3), "indices": tensor(t, dtype.Int64, []int64{1}, 7), "out": f(1, 3)})
	require.ErrorContains(t, err, "index 7")
}

func TestSortAndTopK(t *testing.T) {
	x := []float64{3, 1, 2, 9, 7, 8, 3, 3, 1}
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Float16, dtype.Int8, dtype.Int64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			self := tensorIn(t, d, l, []int64{3, 3}, x...)
			v, at := tensorIn(t, d, l, []int64{3, 3}), tensorIn(t, dtype.Int64, l, []int64{3, 3})
			run(t, "Sort", args{"self": self, "stable": true, "dim": -1, "descending": false, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{1, 2, 3, 7, 8, 9, 1, 3, 3}, values(v), "%v %v", d, l)
			require.Equal(t, []float64{1, 2, 0, 1, 2, 0, 2, 0, 1}, values(at), "%v %v", d, l)
			run(t, "Argsort", args{"self": self, "dim": 0, "descending": true, "out": at})
			require.Equal(t, []float64{1, 1, 1, 0, 2, 0, 2, 0, 2}, values(at), "%v %v", d, l)
			v, at = tensorIn(t, d, l, []int64{3, 2}), tensorIn(t, dtype.Int64, l, []int64{3, 2})
			run(t, "Topk", args{"self": self, "k": 2, "dim": 1, "largest": true, "sorted": true, "valuesOut": v, "indicesOut": at})
			require.Equal(t, []float64{3, 2, 9, 8, 3, 3}, values(v), "%v %v", d, l)
			require.Equal(t, []float64{0, 2, 0, 2, 0, 1}, values(at), "%v %v", d, l)
		}
	}
	one, v, at := tensor(t, dtype.Float32, []int64{}, 4), tensor(t, dtype.Float32, []int64{}), tensor(t, dtype.Int64, []int64{})
	run(t, "Topk", args{"self": one, "k": 1, "dim": 0, "largest": true, "sorted": true, "valuesOut": v, "indicesOut": at})
	require.Equal(t, []float64{4}, values(v))
	empty, none := tensor(t, dtype.Float32, []int64{2, 0}), tensor(t, dtype.Int64, []int64{2, 0})
	run(t, "Sort", args{"self": empty, "dim": 1, "valuesOut": empty, "indicesOut": none})
	refused(t, invalidParam, "Topk", args{"self": empty, "k": 1, "dim": 1, "valuesOut": empty, "indicesOut": none}, "k is 1", "0 elements")
	refused(t, invalidParam, "Sort", args{"self": one, "dim": 0, "valuesOut": v, "indicesOut": tensor(t, dtype.Int32, []int64{})}, "dtype")
	refused(t, nullPointer, "Argsort", args{"self": one}, "out is null")
}
