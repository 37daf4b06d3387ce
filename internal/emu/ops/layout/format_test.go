package layout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenFormatCast(t *testing.T) {
	for _, c := range golden.Cases(t, "nd_to_nz") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			shape, nd, nz := optest.ShapeOf(c.Shape("nd")), optest.Floats(c.Float32("nd")), optest.Floats(c.Float32("nz"))
			src := optest.Tensor(t, c.DType, shape, nd...)
			dst := optest.NZ(t, c.DType, shape, false, int64(c.Int("c0")))
			require.Equal(t, optest.ShapeOf(c.Shape("nz")), dst.Storage)
			optest.Run(t, "NpuFormatCast", optest.Args{"srcTensor": src, "dstTensor": dst})
			require.Equal(t, nz, optest.Storage(dst))
			back := optest.Tensor(t, c.DType, shape)
			optest.Run(t, "NpuFormatCast", optest.Args{"srcTensor": dst, "dstTensor": back})
			require.Equal(t, nd, optest.Values(back))

			weight := optest.Tensor(t, c.DType, []int64{op.Count(dst.Storage)}, nd...)
			weight.Shape, weight.Strides, weight.Storage = shape, op.ContiguousStrides(shape), []int64{op.Count(shape)}
			optest.Run(t, "TransMatmulWeight", optest.Args{"mmWeightRef": weight})
			require.Equal(t, dtype.FractalNZ, weight.Format)
			require.Equal(t, dst.Storage, weight.Storage)
			require.Equal(t, nz, optest.Storage(weight))
		})
	}
}

func TestGoldenSliceNz(t *testing.T) {
	for _, c := range golden.Cases(t, "slice_nz") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			out := optest.NZ(t, c.DType, []int64{int64(c.Int("E")), int64(c.Int("K")), int64(c.Int("N"))}, false, 16)
			self := optest.Tensor(t, c.DType, optest.ShapeOf(c.Shape("flat")), optest.Floats(c.Float32("flat"))...)
			require.NoError(t, optest.Execute(t, "SliceNz", optest.Args{"self": self, "dim": 1, "start": c.Int("start"), "end": c.Int("end"), "out": out}))
			require.Equal(t, optest.Floats(c.Float32("nz")), optest.Storage(out))
		})
	}
}

func TestSliceNzRefuses(t *testing.T) {
	bf := dtype.BFloat16
	self := optest.Tensor(t, bf, []int64{2, 300})
	out := func() *op.Tensor { return optest.NZ(t, bf, []int64{1, 16, 16}, false, 16) }
	dense := optest.Tensor(t, bf, []int64{1, 16, 16})
	for name, c := range map[string]struct {
		a    optest.Args
		text string
	}{
		"null":       {optest.Args{"dim": 1, "end": 128, "out": out()}, "self is null"},
		"dim":        {optest.Args{"self": self, "dim": 0, "end": 2, "out": out()}, "dim 0"},
		"range":      {optest.Args{"self": self, "dim": 1, "start": 200, "end": 301, "out": out()}, "columns 200 to 301"},
		"backwards":  {optest.Args{"self": self, "dim": 1, "start": 200, "end": 100, "out": out()}, "columns 200 to 100"},
		"too few":    {optest.Args{"self": self, "dim": 1, "start": 0, "end": 127, "out": out()}, "hold 254 elements"},
		"not NZ":     {optest.Args{"self": self, "dim": 1, "start": 0, "end": 128, "out": dense}, "FRACTAL_NZ"},
		"swapped":    {optest.Args{"self": self, "dim": 1, "start": 0, "end": 128, "out": optest.NZ(t, bf, []int64{1, 16, 16}, true, 16)}, "dense strides"},
		"other type": {optest.Args{"self": optest.Tensor(t, dtype.Float16, []int64{2, 300}), "dim": 1, "end": 128, "out": out()}, "dtypes differ"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, optest.Execute(t, "SliceNz", c.a), c.text) })
	}
}

func TestFormatCastRefuses(t *testing.T) {
	f16 := dtype.Float16
	nd, nz := optest.Tensor(t, f16, []int64{16, 16}), optest.NZ(t, f16, []int64{16, 16}, false, 16)
	small := optest.NZ(t, f16, []int64{16, 16}, false, 16)
	small.Storage = []int64{1, 1, 8, 16}
	for name, c := range map[string]struct {
		code     int32
		src, dst *op.Tensor
		text     string
	}{
		"null":         {op.NoStep, nil, nz, "null"},
		"both ND":      {op.Unsupported, nd, optest.Tensor(t, f16, []int64{16, 16}), "between ND and FRACTAL_NZ"},
		"both NZ":      {op.Unsupported, nz, nz, "between ND and FRACTAL_NZ"},
		"empty":        {op.Unsupported, optest.Tensor(t, f16, []int64{0, 16}), optest.NZ(t, f16, []int64{0, 16}, false, 16), "empty"},
		"strided":      {op.InvalidParam, optest.TensorIn(t, f16, kerneltest.Transposed, []int64{16, 16}), nz, "contiguous"},
		"shapes":       {op.InvalidParam, optest.Tensor(t, f16, []int64{16, 8}), nz, "shapes differ"},
		"dtypes":       {op.InvalidParam, optest.Tensor(t, dtype.BFloat16, []int64{16, 16}), nz, "dtypes differ"},
		"double":       {op.InvalidParam, optest.Tensor(t, dtype.Float64, []int64{16, 16}), nz, "not supported"},
		"vector":       {op.InvalidParam, optest.Tensor(t, f16, []int64{16}), &op.Tensor{Shape: []int64{16}, Strides: []int64{1}, DType: f16, Format: dtype.FractalNZ, Storage: []int64{16}}, "dimensions"},
		"storage size": {op.InvalidParam, nd, small, "FRACTAL_NZ needs [1,1,16,16]"},
	} {
		t.Run(name, func(t *testing.T) {
			optest.Refused(t, c.code, "NpuFormatCast", optest.Args{"srcTensor": c.src, "dstTensor": c.dst}, c.text)
		})
	}
}

func TestTransMatmulWeight(t *testing.T) {
	optest.Refused(t, op.NullPointer, "TransMatmulWeight", optest.Args{}, "mmWeightRef is null")
	optest.Refused(t, op.InvalidParam, "TransMatmulWeight", optest.Args{"mmWeightRef": optest.Tensor(t, dtype.Float32, []int64{16, 16})}, "not supported")
	optest.Refused(t, op.InvalidParam, "TransMatmulWeight", optest.Args{"mmWeightRef": optest.NZ(t, dtype.Float16, []int64{16, 16}, false, 16)}, "transformed once")
	optest.Refused(t, op.InvalidParam, "TransMatmulWeight", optest.Args{"mmWeightRef": optest.Tensor(t, dtype.Float16, []int64{16})}, "dimensions")
	empty := optest.Tensor(t, dtype.Float16, []int64{0, 16})
	optest.Run(t, "TransMatmulWeight", optest.Args{"mmWeightRef": empty})
	require.Equal(t, dtype.ND, empty.Format)

	// A strided weight is stored as its dense view; int8 tiles have 32 columns.
	for d, c0 := range map[dtype.Type]int64{dtype.Int8: 32, dtype.BFloat16: 16} {
		w := optest.Tensor(t, d, []int64{2048}, 1, 2, 3, 4, 5, 6, 7)
		w.Shape, w.Strides, w.Storage = []int64{20, 33}, []int64{1, 20}, []int64{660}
		var want []float64
		for i := range (fractal.Layout{Rows: 20, Cols: 33, C0: c0}).Len() {
			v := 0.0
			if r, c, ok := (fractal.Layout{Rows: 20, Cols: 33, C0: c0}).At(i); ok {
				v = float64((c*20+r)%7 + 1)
			}
			want = append(want, v)
		}
		optest.Run(t, "TransMatmulWeight", optest.Args{"mmWeightRef": w})
		require.Equal(t, want, optest.Storage(w))
	}
}
