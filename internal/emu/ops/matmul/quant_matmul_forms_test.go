package matmul

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestQuantMatmulForms(t *testing.T) {
	// x1 is int4 [3,4], x2 is int4 [4,16], and the scales have the format of TransQuantParam.
	x1, x2 := make([]float64, 12), make([]float64, 64)
	for i := range x1 {
		x1[i] = float64(i%16 - 8)
	}
	for i := range x2 {
		x2[i] = float64(i*7%16 - 8)
	}
	want := make([]float64, 48)
	for i := range 3 {
		for j := range 16 {
			for k := range 4 {
				want[i*16+j] += x1[i*4+k] * x2[k*16+j] * .5
			}
		}
	}
	scale, out := optest.Tensor(t, dtype.Int64, []int64{16}, float64(op.PackScale(.5, nil, false))), optest.Tensor(t, dtype.Float16, []int64{3, 16})
	optest.Run(t, "QuantMatmulV2", optest.Args{"x1": optest.Tensor(t, dtype.Int8, []int64{3, 4}, x1...), "x2": optest.Tensor(t, dtype.Int8, []int64{4, 16}, x2...), "deqScale": scale, "out": out})
	assert.Equal(t, want, optest.Values(out))

	optest.Fill(out, 0)
	optest.Run(t, "QuantMatmulV3", optest.Args{"x1": optest.Tensor(t, dtype.Int8, []int64{3, 4}, x1...), "x2": optest.Tensor(t, dtype.Int8, []int64{4, 16}, x2...), "scale": scale, "out": out})
	assert.Equal(t, want, optest.Values(out))

	pack := func(shape []int64, v []float64) *op.Tensor {
		bytes := optest.Tensor(t, dtype.Uint8, []int64{optest.Elements(shape) / 2})
		p := optest.Of(bytes.View())
		p.DType, p.Shape, p.Strides, p.Storage = dtype.Int4, shape, op.ContiguousStrides(shape), shape
		optest.StoreInt4(t, p, v)
		return p
	}
	optest.Fill(out, 0)
	optest.Run(t, "QuantMatmulV4", optest.Args{"x1": pack([]int64{3, 4}, x1), "x2": pack([]int64{4, 16}, x2), "scale": scale, "out": out})
	assert.Equal(t, want, optest.Values(out))

	weight := optest.Tensor(t, dtype.Int8, []int64{1, 1, 16, 32}, 0)
	nz := optest.Of(weight.View())
	nz.Shape, nz.Strides, nz.Format = []int64{4, 16}, []int64{16, 1}, dtype.FractalNZ
	optest.StoreNZ(t, nz, optest.Tensor(t, dtype.Int8, []int64{4, 16}, x2...))
	optest.Fill(out, 0)
	optest.Run(t, "QuantMatmulWeightNz", optest.Args{"x1": optest.Tensor(t, dtype.Int8, []int64{3, 4}, x1...), "x2": nz, "x2Scale": scale, "out": out})
	assert.Equal(t, want, optest.Values(out))
}
