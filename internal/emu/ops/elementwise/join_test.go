package elementwise

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestListsOfTensors(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int64} {
		for _, l := range kerneltest.Layouts {
			list := []*op.Tensor{optest.TensorIn(t, d, l, []int64{2, 2}, 1, 5, 3, 0), optest.TensorIn(t, d, l, []int64{2, 2}, 4, 2, 3, 1), optest.Tensor(t, d, []int64{2}, 2, 3)}
			out := optest.TensorIn(t, d, l, []int64{2, 2})
			for name, want := range map[string][]float64{"AddN": {7, 10, 8, 4}, "Sum": {7, 10, 8, 4}, "SumV2": {7, 10, 8, 4}, "MaxN": {4, 5, 3, 3}, "MinN": {1, 2, 2, 0}} {
				tensors := list
				if name == "AddN" { // of one shape
					tensors = []*op.Tensor{list[0], list[1], optest.TensorIn(t, d, l, []int64{2, 2}, 2, 3, 2, 3)}
					optest.Refused(t, op.InvalidParam, "AddN", optest.Args{"tensors": list, "out": out})
				}
				if a := (optest.Args{"tensors": tensors, "out": out}); name == "Sum" && (d == dtype.BFloat16 || d == dtype.Int64) {
					optest.Refused(t, op.InvalidParam, name, a)
					continue
				}
				optest.Run(t, name, optest.Args{"tensors": tensors, "out": out})
				require.Equal(t, want, optest.Values(out), "%s %v %v", name, d, l)
			}
		}
	}
	half := func(v float64) *op.Tensor { return optest.Tensor(t, dtype.BFloat16, []int64{1}, v) }
	out := half(0)
	optest.Run(t, "AddN", optest.Args{"tensors": []*op.Tensor{half(256), half(1), half(1)}, "out": out})
	require.Equal(t, []float64{258}, optest.Values(out), "rounded once")
	optest.Refused(t, op.NullPointer, "AddN", optest.Args{"out": out}, "tensors")
	optest.Refused(t, op.InvalidParam, "MaxN", optest.Args{"tensors": []*op.Tensor{optest.Tensor(t, dtype.BFloat16, []int64{2}, 1)}, "out": out}, "broadcast")
}

func TestAddRelu(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32, dtype.Int64} {
		sum := optest.Tensor(t, d, []int64{3})
		optest.Run(t, "AddRelu", optest.Args{"self": optest.Tensor(t, d, []int64{3}, 1, 2, 3), "other": optest.Tensor(t, d, []int64{3}, 0, -2, -1), "alpha": optest.Scalar(2), "out": sum})
		require.Equal(t, []float64{1, 0, 1}, optest.Values(sum), "%v", d)
		optest.Run(t, "InplaceAddRelu", optest.Args{"selfRef": sum, "other": optest.Tensor(t, d, []int64{1}, -1), "alpha": optest.Scalar(1)})
		require.Equal(t, []float64{0, 0, 0}, optest.Values(sum), "%v", d)
	}
}

// FusedMulAddN computes x1 · x3 + x2 in each of its types and layouts, also in place.
func TestFusedMulAddN(t *testing.T) {
	// Multiples of a quarter are exact in each type of floats.
	for d, step := range map[dtype.Type]float64{dtype.Float32: .25, dtype.Float16: .25, dtype.BFloat16: .25, dtype.Int32: 1, dtype.Int16: 1} {
		for _, shape := range [][]int64{{}, {1}, {7}, {3, 5}, {2, 1, 3}, {3, 1025}, {2, 1, 2, 1, 2, 1, 2, 3}, {3, 0}} {
			n := kerneltest.Count(shape)
			a, b, want := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range n {
				a[i], b[i] = step*float64(i%13-6), step*float64(5-i%7)
				want[i] = a[i]*-3 + b[i]
			}
			for i, l := range kerneltest.Layouts {
				x1, x2 := optest.TensorIn(t, d, l, shape, a...), optest.TensorIn(t, d, kerneltest.Layouts[len(kerneltest.Layouts)-1-i], shape, b...)
				for _, one := range [][]int64{{}, {1}, {1, 1, 1}} {
					text := fmt.Sprintf("%v %v %v, factor of shape %v", d, shape, l, one)
					x3, y := optest.Tensor(t, d, one, -3), optest.TensorIn(t, d, l, shape)
					optest.Run(t, "FusedMulAddN", optest.Args{"x1": x1, "x2": x2, "x3": x3, "y": y})
					kerneltest.Within(t, d, 0, want, optest.Values(y), text)
				}
				optest.Run(t, "FusedMulAddN", optest.Args{"x1": x1, "x2": x2, "x3": optest.Tensor(t, d, []int64{1}, -3), "y": x1})
				kerneltest.Within(t, d, 0, want, optest.Values(x1), "in place")
			}
		}
	}
	repeated := optest.TensorIn(t, dtype.Float32, kerneltest.Broadcast, []int64{2, 3}, 1, 2, 3)
	y := optest.Tensor(t, dtype.Float32, []int64{2, 3})
	optest.Run(t, "FusedMulAddN", optest.Args{"x1": repeated, "x2": repeated, "x3": optest.Tensor(t, dtype.Float32, []int64{1}, 2), "y": y})
	require.Equal(t, []float64{3, 6, 9, 3, 6, 9}, optest.Values(y))
}

// Floats of 16 bits are rounded once, and integers wrap.
func TestFusedMulAddNRounding(t *testing.T) {
	for _, c := range []struct {
		dtype           dtype.Type
		x1, x2, x3, sum float64
	}{
		{dtype.Float16, 1 + 3./1024, -1, 1 + 3./1024, 6152. / (1 << 20)}, // of 6153 / 2^20; a rounded product would leave 6144
		{dtype.Float16, 60000, -60000, 2, 60000},                         // the product is above the largest number
		{dtype.BFloat16, 1 + 3./128, -1, 1 + 3./128, 776. / (1 << 14)},   // of 777 / 2^14; a rounded product would leave 768
		{dtype.Float32, 1 << 24, 1, 1, 1 << 24},
		{dtype.Int32, 1 << 30, 5, 4, 5},
		{dtype.Int32, 1<<31 - 1, 1, 1, -1 << 31},
		{dtype.Int32, -1 << 31, 0, -1, -1 << 31},
		{dtype.Int16, 300, 7, 300, 24464 + 7}, // 90000 - 65536
		{dtype.Int16, 1<<15 - 1, 1, 1, -1 << 15},
	} {
		of := func(v ...float64) *op.Tensor { return optest.Tensor(t, c.dtype, []int64{1}, v...) }
		y := of()
		optest.Run(t, "FusedMulAddN", optest.Args{"x1": of(c.x1), "x2": of(c.x2), "x3": of(c.x3), "y": y})
		kerneltest.Within(t, c.dtype, 0, []float64{c.sum}, optest.Values(y), fmt.Sprintf("%v", c))
	}
}

// It takes four tensors of one type, and of one shape except for the factor.
func TestFusedMulAddNRefusals(t *testing.T) {
	of := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	nz := of(dtype.Float16, 1, 1, 16, 16)
	nz.Shape, nz.Strides, nz.Format = []int64{3, 5}, []int64{5, 1}, dtype.FractalNZ
	half := optest.Args{"x1": of(dtype.Float16, 3, 5), "x2": of(dtype.Float16, 3, 5), "x3": of(dtype.Float16, 1), "y": of(dtype.Float16, 3, 5)}
	optest.Run(t, "FusedMulAddN", half)
	for name := range half {
		optest.Refused(t, op.NullPointer, "FusedMulAddN", half.With(optest.Args{name: nil}), name)
		other := of(dtype.BFloat16, 3, 5)
		if name == "x3" {
			other = of(dtype.BFloat16, 1)
		}
		optest.Refused(t, op.InvalidParam, "FusedMulAddN", half.With(optest.Args{name: other}), "dtypes differ", name)
		if name != "x3" {
			optest.Refused(t, op.InvalidParam, "FusedMulAddN", half.With(optest.Args{name: nz}), "FRACTAL_NZ", name)
		}
	}
	for name, shape := range map[string][]int64{"x1": {5}, "x2": {1, 5}, "y": {5, 3}} {
		optest.Refused(t, op.InvalidParam, "FusedMulAddN", half.With(optest.Args{name: of(dtype.Float16, shape...)}), "shapes differ", name)
	}
	for _, shape := range [][]int64{{2}, {0}, {3, 5}} {
		optest.Refused(t, op.InvalidParam, "FusedMulAddN", half.With(optest.Args{"x3": of(dtype.Float16, shape...)}), "x3", "one element")
	}
	optest.Refused(t, op.InvalidParam, "FusedMulAddN", half.With(optest.Args{"x3": of(dtype.Float16, 1, 1, 1, 1, 1, 1, 1, 1, 1)}), "x3", "9 dimensions")
	deep := of(dtype.Float32, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	optest.Refused(t, op.InvalidParam, "FusedMulAddN", optest.Args{"x1": deep, "x2": deep, "x3": of(dtype.Float32, 1), "y": deep}, "9 dimensions")
	for _, d := range []dtype.Type{dtype.Float64, dtype.Int64, dtype.Int8, dtype.Uint8, dtype.Bool} {
		x := of(d, 3)
		optest.Refused(t, op.InvalidParam, "FusedMulAddN", optest.Args{"x1": x, "x2": x, "x3": of(d, 1), "y": x}, "not supported")
	}
}
