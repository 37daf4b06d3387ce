package nn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// count64 gives 0, 1, … n-1.
func count64(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

func TestCastAndCopy(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		x := tensorIn(t, dtype.Float32, l, []int64{2, 3}, 1.5, -2.5, 3e9, math.NaN(), 0, 7)
		y := tensorIn(t, dtype.Int32, kerneltest.Transposed, []int64{2, 3})
		run(t, "Cast", args{"self": x, "dtype": dtype.Int32, "out": y})
		assert.Equal(t, []float64{1, -2, math.MaxInt32, 0, 0, 7}, values(y))
		refused(t, invalidParam, "Cast", args{"self": x, "dtype": dtype.Int64, "out": y}, "int64")
	}
	x := tensor(t, dtype.BFloat16, []int64{2, 3}, 9)
	run(t, "InplaceCopy", args{"selfRef": x, "src": tensor(t, dtype.Int64, []int64{3}, 1, 2, 3)})
	assert.Equal(t, []float64{1, 2, 3, 1, 2, 3}, values(x))
	refused(t, invalidParam, "InplaceCopy", args{"selfRef": x, "src": tensor(t, dtype.Int64, []int64{4}, 1)}, "src int64[4]", "selfRef bfloat16[2,3]")
	refused(t, invalidParam, "InplaceCopy", args{"selfRef": x, "src": tensor(t, dtype.Complex64, []int64{3}, 1)}, "complex64")
	refused(t, nullPointer, "InplaceCopy", args{"selfRef": x}, "src is null")
	z := tensor(t, dtype.Complex64, []int64{2}, 0)
	run(t, "InplaceCopy", args{"selfRef": z, "src": tensor(t, dtype.Complex64, []int64{2}, 5, 6)})
	assert.Equal(t, []float64{5, 6}, values(z))
}

func TestRearranging(t *testing.T) {
	x := tensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{2, 3}, count64(6)...)
	for _, c := range []struct {
		name  string
		a     args
		shape []int64
		want  []float64
	}{
		{"Permute", args{"dims": []int64{1, -2}}, []int64{3, 2}, []float64{0, 3, 1, 4, 2, 5}},
		{"Slice", args{"dim": 1, "start": -2, "end": 99, "step": 1}, []int64{2, 2}, []float64{1, 2, 4, 5}},
		{"Slice", args{"dim": -1, "start": 0, "end": 3, "step": 2}, []int64{2, 2}, []float64{0, 2, 3, 5}},
		{"Slice", args{"dim": 0, "start": 2, "end": 1, "step": 1}, []int64{0, 3}, []float64{}},
		{"SliceV2", args{"starts": []int64{1, 1}, "ends": []int64{2, 3}, "axes": []int64{0, 1}, "steps": []int64{1, 1}}, []int64{1, 2}, []float64{4, 5}},
		{"Flip", args{"dims": []int64{0, 1}}, []int64{2, 3}, []float64{5, 4, 3, 2, 1, 0}},
		{"Repeat", args{"repeats": []int64{2, 1, 2}}, []int64{2, 2, 6}, []float64{
			0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5,
		}},
		{"Expand", args{"size": []int64{2, -1, 3}}, []int64{2, 2, 3}, []float64{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
		{"Flatten", args{"axis": 0}, []int64{1, 6}, count64(6)},
		{"Tril", args{"diagonal": 0}, []int64{2, 3}, []float64{0, 0, 0, 3, 4, 0}},
		{"Triu", args{"diagonal": 1}, []int64{2, 3}, []float64{0, 1, 2, 0, 0, 5}},
		{"Tril", args{"diagonal": -5}, []int64{2, 3}, make([]float64, 6)},
		{"ConstantPadNd", args{"pad": []int64{1, -1, 0, 1}, "value": scalar(9)}, []int64{3, 3}, []float64{9, 0, 1, 9, 3, 4, 9, 9, 9}},
	} {
		out := tensor(t, dtype.Float32, c.shape)
		c.a["self"], c.a["out"] = x, out
		run(t, c.name, c.a)
		assert.Equal(t, c.want, values(out), "%s %v", c.name, c.a)
		c.a["out"] = tensor(t, dtype.Float32, []int64{7, 7})
		refused(t, invalidParam, c.name, c.a, "[7,7]")
	}
	for _, c := range []struct {
		shifts, dims []int64
		want         []float64
	}{{[]int64{1}, nil, []float64{5, 0, 1, 2, 3, 4}}, {[]int64{-1}, []int64{1}, []float64{1, 2, 0, 4, 5, 3}}, {[]int64{1, 4}, []int64{0, 1}, []float64{5, 3, 4, 2, 0, 1}}} {
		y, out := tensor(t, dtype.Float32, []int64{2, 3}, count64(6)...), tensor(t, dtype.Float32, []int64{2, 3})
		run(t, "Roll", args{"x": y, "shifts": c.shifts, "dims": c.dims, "out": out})
		assert.Equal(t, c.want, values(out), "%v %v", c.shifts, c.dims)
	}
	refused(t, invalidParam, "Permute", args{"self": x, "dims": []int64{0, 0}, "out": x}, "twice")
	refused(t, invalidParam, "Permute", args{"self": x, "dims": []int64{0, 2}, "out": x}, "dimension 2 is out of range")
	refused(t, invalidParam, "Slice", args{"self": x, "dim": 0, "start": 0, "end": 1, "step": 0, "out": x}, "step is 0")
}

func TestCatStackSplit(t *testing.T) {
	x, y := tensor(t, dtype.Float32, []int64{2, 1}, 1, 2), tensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 2}, 3, 4, 5, 6)
	none := tensor(t, dtype.Float32, []int64{0})
	out := tensor(t, dtype.Float32, []int64{2, 3})
	run(t, "Cat", args{"tensors": []*Tensor{x, none, y}, "dim": -1, "out": out})
	assert.Equal(t, []float64{1, 3, 4, 2, 5, 6}, values(out))
	wide := tensor(t, dtype.Float64, []int64{2, 3})
	run(t, "Cat", args{"tensors": []*Tensor{x, y}, "dim": 1, "out": wide})
	assert.Equal(t, []float64{1, 3, 4, 2, 5, 6}, values(wide))
	refused(t, invalidParam, "Cat", args{"tensors": []*Tensor{x, y}, "dim": 0, "out": out}, "tensors[0]", "tensors[1]")
	refused(t, invalidParam, "Cat", args{"tensors": []*Tensor{}, "dim": 0, "out": out}, "at least one")
	run(t, "Cat", args{"tensors": []*Tensor{none, none}, "dim": 0, "out": none})

	stacked := tensor(t, dtype.Float32, []int64{2, 2, 1})
	run(t, "Stack", args{"tensors": []*Tensor{x, tensor(t, dtype.Float32, []int64{2, 1}, 8, 9)}, "dim": 1, "out": stacked})
	assert.Equal(t, []float64{1, 8, 2, 9}, values(stacked))

	a, b := tensor(t, dtype.Float32, []int64{2, 2}), tensor(t, dtype.Float32, []int64{2, 1})
	run(t, "SplitTensor", args{"self": out, "splitSections": 2, "dim": 1, "out": []*Tensor{a, b}})
	assert.Equal(t, []float64{1, 3, 2, 5, 4, 6}, append(values(a), values(b)...))
	run(t, "SplitWithSize", args{"self": out, "splitSize": []int64{1, 2}, "dim": 1, "out": []*Tensor{b, a}})
	assert.Equal(t, []float64{1, 2, 3, 4, 5, 6}, append(values(b), values(a)...))
	refused(t, invalidParam, "SplitWithSize", args{"self": out, "splitSize": []int64{1, 1}, "dim": 1, "out": []*Tensor{b, b}}, "adds up to 2")
}

func TestFilling(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Bool} {
		x := tensorIn(t, d, kerneltest.Gapped, []int64{3, 3}, 1)
		run(t, "InplaceZero", args{"selfRef": x})
		require.Equal(t, make([]float64, 9), values(x))
		run(t, "InplaceOne", args{"selfRef": x})
		require.Equal(t, []float64{1, 1, 1}, values(x)[6:])
		if d == dtype.Bool {
			continue
		}
		run(t, "InplaceFillScalar", args{"selfRef": x, "value": scalar(7)})
		require.Equal(t, []float64{7, 7, 7}, values(x)[6:])
		run(t, "InplaceFillTensor", args{"selfRef": x, "value": tensor(t, dtype.Int64, []int64{1}, 5)})
		require.Equal(t, []float64{5, 5, 5}, values(x)[6:])
		run(t, "InplaceFillDiagonal", args{"selfRef": x, "fillValue": scalar(2)})
		require.Equal(t, []float64{2, 5, 5, 5, 2, 5, 5, 5, 2}, values(x))
		run(t, "Eye", args{"n": 3, "m": 3, "out": x})
		require.Equal(t, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, values(x))
	}
	refused(t, invalidParam, "InplaceFillScalar", args{"selfRef": tensor(t, dtype.Int32, []int64{1}), "value": scalar(.5)}, "float64")
	tall := tensor(t, dtype.Float32, []int64{7, 2}, 0)
	run(t, "InplaceFillDiagonal", args{"selfRef": tall, "fillValue": scalar(1), "wrap": true})
	assert.Equal(t, []float64{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0}, values(tall))

	v := tensor(t, dtype.Int64, []int64{4})
	run(t, "Arange", args{"start": scalar(2), "end": scalar(9), "step": scalar(2), "out": v})
	assert.Equal(t, []float64{2, 4, 6, 8}, values(v))
	f := tensor(t, dtype.Float32, []int64{5})
	run(t, "Range", args{"start": scalar(1.0), "end": scalar(2.0), "step": scalar(.25), "out": f})
	assert.Equal(t, []float64{1, 1.25, 1.5, 1.75, 2}, values(f))
	run(t, "Linspace", args{"start": scalar(1.0), "end": scalar(-1.0), "steps": 5, "out": f})
	assert.Equal(t, []float64{1, .5, 0, -.5, -1}, values(f))
	refused(t, invalidParam, "Arange", args{"start": scalar(2), "end": scalar(9), "step": scalar(-1), "out": v}, "step -1")
	refused(t, invalidParam, "Arange", args{"start": scalar(2), "end": scalar(4), "step": scalar(1), "out": v}, "[2]")
}
