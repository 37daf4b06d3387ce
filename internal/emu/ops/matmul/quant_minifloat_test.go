package matmul

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// minifloatTensor returns a tensor of a type of eight bits with small numbers, and these.
func minifloatTensor(t *testing.T, d dtype.Type, seed int, shape ...int64) (*op.Tensor, []float64) {
	x := optest.Tensor(t, d, shape)
	v := make([]float64, x.Len())
	for i := range v {
		v[i] = float64((i*7+seed*5)%13-6) / 4
		if d == dtype.Float8E8M0 {
			v[i] = math.Exp2(float64((i*3+seed)%5 - 2))
		}
	}
	require.NoError(t, minifloat.Write(x.View(), v, minifloat.Even))
	v, err := minifloat.Read(x.View())
	require.NoError(t, err)
	return x, v
}

func TestTransposeQuantBatchMatMul(t *testing.T) {
	const batch, m = 3, 2
	for _, c := range []struct {
		x1, x2, scale, out dtype.Type
		k, n               int64
		nz                 bool
	}{
		{dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float32, dtype.Float16, 512, 128, false}, {dtype.Float8E5M2, dtype.Float8E5M2, dtype.Float32, dtype.BFloat16, 512, 128, false},
		{dtype.Float8E4M3, dtype.Float8E4M3, dtype.Float8E8M0, dtype.BFloat16, 128, 40, false}, {dtype.Float8E4M3, dtype.Float8E4M3, dtype.Float8E8M0, dtype.Float16, 64, 33, true},
		{dtype.HiFloat8, dtype.HiFloat8, dtype.Uint64, dtype.HiFloat8, 30, 5, false}, {dtype.HiFloat8, dtype.HiFloat8, dtype.Uint64, dtype.Float16, 7, 1, false},
		{dtype.HiFloat8, dtype.HiFloat8, dtype.Int64, dtype.BFloat16, 6, 3, false},
	} {
		for _, transposed := range []bool{false, true} {
			if transposed && c.scale == dtype.Float32 {
				continue
			}
			x1, a := minifloatTensor(t, c.x1, 1, m, batch, c.k)
			x2, b := minifloatTensor(t, c.x2, 2, batch, c.k, c.n)
			groups := (c.k + 63) / 64
			order, scaleShape := []int64{0, 1, 2}, []int64{batch, groups, c.n, 2}
			at := func(p, k, n int64) int64 { return (p*c.k+k)*c.n + n }
			if transposed {
				order, scaleShape = []int64{0, 2, 1}, []int64{batch, c.n, groups, 2}
				x2, b = minifloatTensor(t, c.x2, 2, batch, c.n, c.k)
				at = func(p, k, n int64) int64 { return (p*c.n+n)*c.k + k }
			}
			out := optest.Tensor(t, c.out, []int64{m, batch, c.n})
			args := optest.Args{"x1": x1, "x2": x2, "dtype": c.out, "permX1": []int64{1, 0, 2}, "permX2": order, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1, "out": out}
			rows := func(_, _, _ int64) float64 { return 1 }
			var columns func(_, _, _ int64) float64
			switch c.scale {
			case dtype.Float32:
				args["x1Scale"], args["x2Scale"] = optest.Tensor(t, c.scale, []int64{m}, 0.5, 3), optest.Filled(t, 9, c.scale, kerneltest.Contiguous, []int64{c.n})
				by := optest.Values(args["x2Scale"].(*op.Tensor))
				rows, columns = func(_, i, _ int64) float64 { return []float64{0.5, 3}[i] }, func(_, _, j int64) float64 { return by[j] }
			case dtype.Uint64, dtype.Int64:
				args["x2Scale"] = optest.Tensor(t, c.scale, []int64{c.n}, float64(math.Float32bits(0.25)))
				columns = func(_, _, _ int64) float64 { return 0.25 }
			default:
				args["groupSize"] = 32
				s1, v1 := minifloatTensor(t, c.scale, 3, m, batch, groups, 2)
				s2, v2 := minifloatTensor(t, c.scale, 4, scaleShape...)
				args["x1Scale"], args["x2Scale"] = s1, s2
				rows = func(p, i, k int64) float64 { return v1[(i*batch+p)*groups*2+k/32] }
				columns = func(p, k, j int64) float64 {
					if transposed {
						return v2[(p*c.n+j)*groups*2+k/32]
					}
					return v2[((p*groups+k/64)*c.n+j)*2+k/32%2]
				}
			}
			name := "TransposeQuantBatchMatMul"
			if c.nz {
				name += "WeightNz"
				args["x2"] = inNZ(t, x2)
			}
			optest.RunOn(t, acceptance.Ascend950, name, args)
			got, err := minifloat.Read(out.View())
			require.NoError(t, err)
			for i, v := range got {
				r, p, j := int64(i)/c.n/batch, int64(i)/c.n%batch, int64(i)%c.n
				want, size := 0.0, 0.0
				for k := range c.k {
					x := a[(r*batch+p)*c.k+k] * b[at(p, k, j)] * rows(p, r, k)
					if c.scale == dtype.Float8E8M0 {
						x *= columns(p, k, j)
					} else {
						x *= columns(p, r, j)
					}
					want, size = want+x, size+math.Abs(x)
				}
				limit := 1e-6*size + math.Abs(want)*map[dtype.Type]float64{dtype.Float16: 0x1p-11, dtype.BFloat16: 0x1p-8, dtype.HiFloat8: 0x1p-3}[c.out]
				require.InDelta(t, want, v, limit, "%+v transposed %v: %d", c, transposed, i)
			}
		}
	}
}

// inNZ returns the tensor in FRACTAL_NZ storage.
func inNZ(t *testing.T, x *op.Tensor) *op.Tensor {
	shape := op.NZShape(x.Shape, false, 32)
	y := optest.Tensor(t, dtype.Int8, []int64{op.Count(shape)}, 0)
	bytes := x.View()
	bytes.DType = dtype.Int8
	require.NoError(t, fractal.Pack(y.Data, 32, bytes))
	y.DType, y.Format, y.Shape, y.Strides, y.Storage = x.DType, dtype.FractalNZ, x.Shape, x.Strides, shape
	return y
}

func TestTransposeQuantBatchMatMulRefuses(t *testing.T) {
	x1, _ := minifloatTensor(t, dtype.HiFloat8, 1, 2, 3, 4)
	x2, _ := minifloatTensor(t, dtype.HiFloat8, 1, 3, 4, 5)
	a := optest.Args{
		"x1": x1, "x2": x2, "x2Scale": optest.Tensor(t, dtype.Uint64, []int64{5}, 1), "dtype": dtype.Float16, "permX1": []int64{1, 0, 2}, "permX2": []int64{0, 1, 2}, "permY": []int64{1, 0, 2}, "batchSplitFactor": 1,
		"out": optest.Tensor(t, dtype.Float16, []int64{2, 3, 5}),
	}
	for name, c := range map[string]struct {
		set  optest.Args
		code int32
	}{
		"no scale": {optest.Args{"x2Scale": nil}, op.NullPointer}, "order": {optest.Args{"permX1": []int64{0, 1, 2}}, op.InvalidParam}, "split": {optest.Args{"batchSplitFactor": 3}, op.InvalidParam},
		"type": {optest.Args{"dtype": dtype.BFloat16}, op.InvalidParam}, "out": {optest.Args{"out": optest.Tensor(t, dtype.Float16, []int64{3, 2, 5})}, op.InvalidParam},
		"bias": {optest.Args{"bias": optest.Tensor(t, dtype.Float32, []int64{5}, 1)}, op.InvalidParam}, "scale": {optest.Args{"x2Scale": optest.Tensor(t, dtype.Uint64, []int64{4}, 1)}, op.InvalidParam},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "TransposeQuantBatchMatMul", a.With(c.set))
			var e *op.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, e.Text)
		})
	}
}
