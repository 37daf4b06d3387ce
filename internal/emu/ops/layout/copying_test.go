package layout

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// count64 returns 0, 1, … n-1.
func count64(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

func TestCastAndCopy(t *testing.T) {
	for _, l := range kerneltest.Layouts {
		x := optest.TensorIn(t, dtype.Float32, l, []int64{2, 3}, 1.5, -2.5, 3e9, math.NaN(), 0, 7)
		y := optest.TensorIn(t, dtype.Int32, kerneltest.Transposed, []int64{2, 3})
		optest.Run(t, "Cast", optest.Args{"self": x, "dtype": dtype.Int32, "out": y})
		assert.Equal(t, []float64{1, -2, math.MaxInt32, 0, 0, 7}, optest.Values(y))
		optest.Refused(t, op.InvalidParam, "Cast", optest.Args{"self": x, "dtype": dtype.Int64, "out": y}, "int64")
	}
	x := optest.Tensor(t, dtype.BFloat16, []int64{2, 3}, 9)
	optest.Run(t, "InplaceCopy", optest.Args{"selfRef": x, "src": optest.Tensor(t, dtype.Int64, []int64{3}, 1, 2, 3)})
	assert.Equal(t, []float64{1, 2, 3, 1, 2, 3}, optest.Values(x))
	optest.Refused(t, op.InvalidParam, "InplaceCopy", optest.Args{"selfRef": x, "src": optest.Tensor(t, dtype.Int64, []int64{4}, 1)}, "src int64[4]", "selfRef bfloat16[2,3]")
	optest.Refused(t, op.NullPointer, "InplaceCopy", optest.Args{"selfRef": x}, "src is null")
	z := optest.Tensor(t, dtype.Complex64, []int64{2}, 0)
	optest.Run(t, "InplaceCopy", optest.Args{"selfRef": z, "src": optest.Tensor(t, dtype.Complex64, []int64{2}, 5, 6)})
	assert.Equal(t, []float64{5, 6}, optest.Values(z))
}

func TestRearranging(t *testing.T) {
	x := optest.TensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{2, 3}, count64(6)...)
	for _, c := range []struct {
		name  string
		a     optest.Args
		shape []int64
		want  []float64
	}{
		{"Permute", optest.Args{"dims": []int64{1, -2}}, []int64{3, 2}, []float64{0, 3, 1, 4, 2, 5}},
		{"Slice", optest.Args{"dim": 1, "start": -2, "end": 99, "step": 1}, []int64{2, 2}, []float64{1, 2, 4, 5}},
		{"Slice", optest.Args{"dim": -1, "start": 0, "end": 3, "step": 2}, []int64{2, 2}, []float64{0, 2, 3, 5}},
		{"Slice", optest.Args{"dim": 0, "start": 2, "end": 1, "step": 1}, []int64{0, 3}, []float64{}},
		{"SliceV2", optest.Args{"starts": []int64{1, 1}, "ends": []int64{2, 3}, "axes": []int64{0, 1}, "steps": []int64{1, 1}}, []int64{1, 2}, []float64{4, 5}},
		{"Flip", optest.Args{"dims": []int64{0, 1}}, []int64{2, 3}, []float64{5, 4, 3, 2, 1, 0}},
		{"Repeat", optest.Args{"repeats": []int64{2, 1, 2}}, []int64{2, 2, 6}, []float64{
			0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5,
		}},
		{"Expand", optest.Args{"size": []int64{2, -1, 3}}, []int64{2, 2, 3}, []float64{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
		{"Flatten", optest.Args{"axis": 0}, []int64{1, 6}, count64(6)},
		{"Tril", optest.Args{"diagonal": 0}, []int64{2, 3}, []float64{0, 0, 0, 3, 4, 0}},
		{"Triu", optest.Args{"diagonal": 1}, []int64{2, 3}, []float64{0, 1, 2, 0, 0, 5}},
		{"Tril", optest.Args{"diagonal": -5}, []int64{2, 3}, make([]float64, 6)},
		{"Tril", optest.Args{"diagonal": math.MaxInt64}, []int64{2, 3}, count64(6)},
		{"Triu", optest.Args{"diagonal": math.MinInt64}, []int64{2, 3}, count64(6)},
		{"ConstantPadNd", optest.Args{"pad": []int64{1, -1, 0, 1}, "value": optest.Scalar(9)}, []int64{3, 3}, []float64{9, 0, 1, 9, 3, 4, 9, 9, 9}},
	} {
		out := optest.Tensor(t, dtype.Float32, c.shape)
		c.a["self"], c.a["out"] = x, out
		optest.Run(t, c.name, c.a)
		assert.Equal(t, c.want, optest.Values(out), "%s %v", c.name, c.a)
		c.a["out"] = optest.Tensor(t, dtype.Float32, []int64{7, 7})
		optest.Refused(t, op.InvalidParam, c.name, c.a, "[7,7]")
	}
	for _, c := range []struct {
		shifts, dims []int64
		want         []float64
	}{{[]int64{1}, []int64{}, []float64{5, 0, 1, 2, 3, 4}}, {[]int64{-1}, []int64{1}, []float64{1, 2, 0, 4, 5, 3}}, {[]int64{1, 4}, []int64{0, 1}, []float64{5, 3, 4, 2, 0, 1}}} {
		y, out := optest.Tensor(t, dtype.Float32, []int64{2, 3}, count64(6)...), optest.Tensor(t, dtype.Float32, []int64{2, 3})
		optest.Run(t, "Roll", optest.Args{"x": y, "shifts": c.shifts, "dims": c.dims, "out": out})
		assert.Equal(t, c.want, optest.Values(out), "%v %v", c.shifts, c.dims)
	}
	optest.Refused(t, op.InvalidParam, "Permute", optest.Args{"self": x, "dims": []int64{0, 0}, "out": x}, "twice")
	optest.Refused(t, op.InvalidParam, "Permute", optest.Args{"self": x, "dims": []int64{0, 2}, "out": x}, "dimension 2 is out of range")
	optest.Refused(t, op.InvalidParam, "Slice", optest.Args{"self": x, "dim": 0, "start": 0, "end": 1, "step": 0, "out": x}, "step is 0")
}

func TestCatStackSplit(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Float32, []int64{2, 1}, 1, 2), optest.TensorIn(t, dtype.Float32, kerneltest.Transposed, []int64{2, 2}, 3, 4, 5, 6)
	none := optest.Tensor(t, dtype.Float32, []int64{0})
	out := optest.Tensor(t, dtype.Float32, []int64{2, 3})
	optest.Run(t, "Cat", optest.Args{"tensors": []*op.Tensor{x, none, y}, "dim": -1, "out": out})
	assert.Equal(t, []float64{1, 3, 4, 2, 5, 6}, optest.Values(out))
	wide := optest.Tensor(t, dtype.Float64, []int64{2, 3})
	optest.Run(t, "Cat", optest.Args{"tensors": []*op.Tensor{x, y}, "dim": 1, "out": wide})
	assert.Equal(t, []float64{1, 3, 4, 2, 5, 6}, optest.Values(wide))
	optest.Refused(t, op.InvalidParam, "Cat", optest.Args{"tensors": []*op.Tensor{x, y}, "dim": 0, "out": out}, "tensors[0]", "tensors[1]")
	optest.Refused(t, op.InvalidParam, "Cat", optest.Args{"tensors": []*op.Tensor{}, "dim": 0, "out": out}, "at least one")
	optest.Run(t, "Cat", optest.Args{"tensors": []*op.Tensor{none, none}, "dim": 0, "out": none})
	blocks := optest.Tensor(t, dtype.Float32, []int64{2, 2})
	blocks.Format, blocks.Storage = dtype.NC1HWC0, []int64{2, 2}
	optest.Refused(t, op.InvalidParam, "Cat", optest.Args{"tensors": []*op.Tensor{blocks, blocks}, "dim": 0, "out": optest.Tensor(t, dtype.Float32, []int64{4, 2})}, "private format")

	stacked := optest.Tensor(t, dtype.Float32, []int64{2, 2, 1})
	optest.Run(t, "Stack", optest.Args{"tensors": []*op.Tensor{x, optest.Tensor(t, dtype.Float32, []int64{2, 1}, 8, 9)}, "dim": 1, "out": stacked})
	assert.Equal(t, []float64{1, 8, 2, 9}, optest.Values(stacked))

	a, b := optest.Tensor(t, dtype.Float32, []int64{2, 2}), optest.Tensor(t, dtype.Float32, []int64{2, 1})
	optest.Run(t, "SplitTensor", optest.Args{"self": out, "splitSections": 2, "dim": 1, "out": []*op.Tensor{a, b}})
	assert.Equal(t, []float64{1, 3, 2, 5, 4, 6}, append(optest.Values(a), optest.Values(b)...))
	optest.Run(t, "SplitWithSize", optest.Args{"self": out, "splitSize": []int64{1, 2}, "dim": 1, "out": []*op.Tensor{b, a}})
	assert.Equal(t, []float64{1, 2, 3, 4, 5, 6}, append(optest.Values(b), optest.Values(a)...))
	optest.Refused(t, op.InvalidParam, "SplitWithSize", optest.Args{"self": out, "splitSize": []int64{1, 1}, "dim": 1, "out": []*op.Tensor{b, b}}, "adds up to 2")
}

// int64 values above 2^53, which float64 cannot hold, are counted and written exactly.
func TestArangeOfLargeIntegers(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		name             string
		start, end, step int
		want             []int64
	}{
		{"Arange", 1<<53 + 1, 1<<53 + 6, 2, []int64{1<<53 + 1, 1<<53 + 3, 1<<53 + 5}},
		{"Arange", most, most - 4, -3, []int64{most, most - 3}},
		{"Arange", math.MinInt64, most, most, []int64{math.MinInt64, -1, most - 1}},
		{"Range", 1<<60 + 1, 1<<60 + 3, 1, []int64{1<<60 + 1, 1<<60 + 2, 1<<60 + 3}},
		{"Range", -1 << 62, -1<<62 - 5, -2, []int64{-1 << 62, -1<<62 - 2, -1<<62 - 4}},
	} {
		out := optest.Tensor(t, dtype.Int64, []int64{int64(len(c.want))})
		optest.Run(t, c.name, optest.Args{"start": optest.Scalar(c.start), "end": optest.Scalar(c.end), "step": optest.Scalar(c.step), "out": out})
		assert.Equal(t, c.want, unsafe.Slice((*int64)(out.Data), len(c.want)))
	}
	out := optest.Tensor(t, dtype.Int64, []int64{2})
	optest.Refused(t, op.InvalidParam, "Arange", optest.Args{"start": optest.Scalar(0), "end": optest.Scalar(1), "step": optest.Scalar(.5), "out": out}, "step 0.5", "int64")
}

// An output may be strided where elements move in row-major order.
func TestMovesToStridedOutputs(t *testing.T) {
	for _, from := range kerneltest.Layouts {
		for _, to := range kerneltest.Layouts {
			x := optest.TensorIn(t, dtype.Int16, from, []int64{2, 2, 3}, count64(12)...)
			flat := optest.TensorIn(t, dtype.Int16, to, []int64{2, 6})
			optest.Run(t, "Flatten", optest.Args{"self": x, "axis": 1, "out": flat})
			assert.Equal(t, count64(12), optest.Values(flat), "%v to %v", from, to)
			rolled := optest.TensorIn(t, dtype.Int16, to, []int64{2, 2, 3})
			optest.Run(t, "Roll", optest.Args{"x": x, "shifts": []int64{-14}, "dims": []int64{}, "out": rolled})
			assert.Equal(t, []float64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1}, optest.Values(rolled), "%v to %v", from, to)
		}
	}
}

// A negative pad keeps the elements of the input, even if the output is the input's memory.
func TestConstantPadInPlace(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{2, 3}, count64(6)...)
	optest.Run(t, "ConstantPadNd", optest.Args{"self": x, "pad": []int64{-1, 1}, "value": optest.Scalar(9), "out": x})
	assert.Equal(t, []float64{1, 2, 9, 4, 5, 9}, optest.Values(x))
}

// Padding that adds elements leaves some in each dimension that it names, and no side cuts more than there is.
func TestConstantPadRefuses(t *testing.T) {
	x, empty := optest.Tensor(t, dtype.Float32, []int64{4, 4}), optest.Tensor(t, dtype.Float32, []int64{0, 3})
	for _, c := range []struct {
		self *op.Tensor
		pad  []int64
		out  []int64
		text string
	}{
		{x, []int64{-2, -2, 1, 1}, []int64{6, 0}, "leaves none"}, {x, []int64{-5, 3}, []int64{4, 2}, "cuts more"}, {empty, []int64{1, 0, 0, 0}, []int64{0, 4}, "leaves none"},
	} {
		args := optest.Args{"self": c.self, "pad": c.pad, "value": optest.Scalar(0), "out": optest.Tensor(t, dtype.Float32, c.out)}
		optest.Refused(t, op.InvalidParam, "ConstantPadNd", args, c.text)
	}
	optest.Run(t, "ConstantPadNd", optest.Args{"self": x, "pad": []int64{-2, -2}, "value": optest.Scalar(0), "out": optest.Tensor(t, dtype.Float32, []int64{4, 0})})
	optest.Run(t, "ConstantPadNd", optest.Args{"self": empty, "pad": []int64{1, 0}, "value": optest.Scalar(0), "out": optest.Tensor(t, dtype.Float32, []int64{0, 4})})
}

func TestFilling(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Bool} {
		x := optest.TensorIn(t, d, kerneltest.Gapped, []int64{3, 3}, 1)
		optest.Run(t, "InplaceZero", optest.Args{"selfRef": x})
		require.Equal(t, make([]float64, 9), optest.Values(x))
		optest.Run(t, "InplaceOne", optest.Args{"selfRef": x})
		require.Equal(t, []float64{1, 1, 1}, optest.Values(x)[6:])
		if d == dtype.Bool {
			continue
		}
		optest.Run(t, "InplaceFillScalar", optest.Args{"selfRef": x, "value": optest.Scalar(7)})
		require.Equal(t, []float64{7, 7, 7}, optest.Values(x)[6:])
		optest.Run(t, "InplaceFillTensor", optest.Args{"selfRef": x, "value": optest.Tensor(t, dtype.Int64, []int64{1}, 5)})
		require.Equal(t, []float64{5, 5, 5}, optest.Values(x)[6:])
		optest.Run(t, "InplaceFillDiagonal", optest.Args{"selfRef": x, "fillValue": optest.Scalar(2)})
		require.Equal(t, []float64{2, 5, 5, 5, 2, 5, 5, 5, 2}, optest.Values(x))
		optest.Run(t, "Eye", optest.Args{"n": 3, "m": 3, "out": x})
		require.Equal(t, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, optest.Values(x))
	}
	count, yes := optest.Tensor(t, dtype.Int32, []int64{1}), optest.Tensor(t, dtype.Bool, []int64{1})
	optest.Run(t, "InplaceFillScalar", optest.Args{"selfRef": count, "value": optest.Scalar(-8.9)})
	assert.Equal(t, []float64{-8}, optest.Values(count), "integers lose the fraction")
	optest.Run(t, "InplaceFillScalar", optest.Args{"selfRef": yes, "value": optest.Scalar(.5)})
	assert.Equal(t, []float64{1}, optest.Values(yes))
	optest.Refused(t, op.InvalidParam, "InplaceFillScalar", optest.Args{"selfRef": count, "value": &op.Scalar{DType: dtype.Complex64}}, "complex64")
	tall := optest.Tensor(t, dtype.Float32, []int64{7, 2}, 0)
	optest.Run(t, "InplaceFillDiagonal", optest.Args{"selfRef": tall, "fillValue": optest.Scalar(1), "wrap": true})
	assert.Equal(t, []float64{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0}, optest.Values(tall))

	for d, edges := range map[dtype.Type][2]float64{dtype.Int8: {-128, 127}, dtype.Int32: {math.MinInt32, math.MaxInt32}, dtype.Float16: {-65504, 65504}, dtype.Uint8: {0, 255}} {
		x := optest.Tensor(t, d, []int64{2, 2}, 1)
		for i, sign := range []float64{-1, 1} {
			optest.Run(t, "InplaceFillDiagonal", optest.Args{"selfRef": x, "fillValue": optest.Scalar(edges[i])})
			require.Equal(t, []float64{edges[i], 1, 1, edges[i]}, optest.Values(x))
			if edges[i] != 0 {
				optest.Refused(t, op.InvalidParam, "InplaceFillDiagonal", optest.Args{"selfRef": x, "fillValue": optest.Scalar(edges[i] + sign)}, "fillValue is", "holds")
			}
		}
	}

	v := optest.Tensor(t, dtype.Int64, []int64{4})
	optest.Run(t, "Arange", optest.Args{"start": optest.Scalar(2), "end": optest.Scalar(9), "step": optest.Scalar(2), "out": v})
	assert.Equal(t, []float64{2, 4, 6, 8}, optest.Values(v))
	f := optest.Tensor(t, dtype.Float32, []int64{5})
	optest.Run(t, "Range", optest.Args{"start": optest.Scalar(1.0), "end": optest.Scalar(2.0), "step": optest.Scalar(.25), "out": f})
	assert.Equal(t, []float64{1, 1.25, 1.5, 1.75, 2}, optest.Values(f))
	whole := optest.Tensor(t, dtype.Int32, []int64{4})
	optest.Run(t, "Range", optest.Args{"start": optest.Scalar(7), "end": optest.Scalar(1), "step": optest.Scalar(-2), "out": whole})
	assert.Equal(t, []float64{7, 5, 3, 1}, optest.Values(whole))
	cube := optest.TensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{2, 1, 3})
	optest.Run(t, "Arange", optest.Args{"start": optest.Scalar(0.0), "end": optest.Scalar(3.0), "step": optest.Scalar(.5), "out": cube})
	assert.Equal(t, []float64{0, .5, 1, 1.5, 2, 2.5}, optest.Values(cube), "out of any rank, filled in row-major order")
	optest.Refused(t, op.InvalidParam, "Range", optest.Args{"start": optest.Scalar(1), "end": optest.Scalar(1), "step": optest.Scalar(1), "out": optest.Tensor(t, dtype.Int64, []int64{})}, "dimensions")
	optest.Run(t, "Linspace", optest.Args{"start": optest.Scalar(1.0), "end": optest.Scalar(-1.0), "steps": 5, "out": f})
	line := optest.Tensor(t, dtype.Int32, []int64{5})
	optest.Run(t, "Linspace", optest.Args{"start": optest.Scalar(-5.0), "end": optest.Scalar(5.0), "steps": 5, "out": line})
	require.Equal(t, []float64{-5, -2, 0, 2, 5}, optest.Values(line))
	assert.Equal(t, []float64{1, .5, 0, -.5, -1}, optest.Values(f))
	optest.Refused(t, op.InvalidParam, "Arange", optest.Args{"start": optest.Scalar(2), "end": optest.Scalar(9), "step": optest.Scalar(-1), "out": v}, "step -1")
	optest.Refused(t, op.InvalidParam, "Arange", optest.Args{"start": optest.Scalar(2), "end": optest.Scalar(4), "step": optest.Scalar(1), "out": v}, "2 elements")
}

func TestInplaceTriangles(t *testing.T) {
	lower, upper := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 4, 5, 6), optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	optest.Run(t, "InplaceTril", optest.Args{"selfRef": lower, "diagonal": 1})
	optest.Run(t, "InplaceTriu", optest.Args{"selfRef": upper, "diagonal": 1})
	require.Equal(t, []float64{1, 2, 0, 4, 5, 6}, optest.Values(lower))
	require.Equal(t, []float64{0, 2, 3, 0, 0, 6}, optest.Values(upper))
	empty := optest.Tensor(t, dtype.Float32, []int64{1 << 62, 0})
	optest.Run(t, "InplaceTril", optest.Args{"selfRef": empty, "diagonal": 1}) // without a step for each row
}

func TestFlipOfOneDimensionTwice(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1)
	for _, dims := range [][]int64{{0, 1, -1}, {1, 1}, {-2, 0}} {
		optest.Refused(t, op.InvalidParam, "Flip", optest.Args{"self": x, "dims": dims, "out": x}, "twice")
	}
}
