package quantization

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestStaticQuantisation(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x := optest.Filled(t, 1, d, l, []int64{3, 5})
			scale := optest.Tensor(t, d, []int64{5}, 16, 32, 64, 128, 8)
			offset := optest.Tensor(t, d, []int64{5}, 1, -2, 0, 3, 4)
			y := optest.TensorIn(t, dtype.Int8, l, []int64{3, 5})
			optest.Run(t, "AscendQuant", optest.Args{"x": x, "scale": scale, "offset": offset, "roundMode": "round", "dstType": dtype.Int8, "y": y})
			want := make([]float64, 15)
			for i, v := range optest.Values(x) {
				want[i] = optest.ToInt8(float64(float32(v)*float32(optest.Values(scale)[i%5])) + optest.Values(offset)[i%5])
			}
			require.Equal(t, want, optest.Values(y), "%v %v", d, l)

			rows := optest.Tensor(t, d, []int64{3}, 4, 5, 6)
			optest.Run(t, "AscendQuantV3", optest.Args{"x": x, "scale": rows, "sqrtMode": true, "roundMode": "floor", "dstType": dtype.Int8, "axis": 0, "y": y})
			for i, v := range optest.Values(x) {
				s := float32(optest.Values(rows)[i/5])
				want[i] = min(max(math.Floor(float64(float32(v)*s*s)), -128), 127)
			}
			require.Equal(t, want, optest.Values(y), "%v %v", d, l)
		}
	}
	x, one := optest.Tensor(t, dtype.Int8, []int64{2, 2}, -128, 127, 3, 0), optest.Tensor(t, dtype.Float32, []int64{1}, 0.5)
	y := optest.Tensor(t, dtype.Float16, []int64{2, 2})
	optest.Run(t, "AscendAntiQuant", optest.Args{"x": x, "scale": one, "offset": optest.Tensor(t, dtype.Float32, []int64{1}, 1), "dstType": dtype.Float16, "y": y})
	require.Equal(t, []float64{-63.5, 64, 2, 0.5}, optest.Values(y))
	zero := optest.Tensor(t, dtype.Uint8, []int64{2, 2})
	optest.Run(t, "Quantize", optest.Args{"x": y, "scales": optest.Tensor(t, dtype.Float32, []int64{2}, 0.5, 2), "zeroPoints": optest.Tensor(t, dtype.Int32, []int64{2}, 10, 20), "dtype": dtype.Uint8, "axis": 1, "out": zero})
	require.Equal(t, []float64{0, 52, 14, 20}, optest.Values(zero))
	optest.Refused(t, op.InvalidParam, "AscendQuant", optest.Args{"x": y, "scale": one, "roundMode": "up", "dstType": dtype.Int8, "y": x}, "roundMode")
	optest.Refused(t, op.InvalidParam, "AscendQuant", optest.Args{"x": y, "scale": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "dstType": dtype.Int8, "y": x}, "one for each place")
	optest.Refused(t, op.NullPointer, "AscendQuant", optest.Args{"x": y, "dstType": dtype.Int8, "y": x}, "scale is null")
}

func TestDynamicQuantisation(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			x := optest.Filled(t, 2, d, l, []int64{2, 3, 7})
			smooth := optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{2, 7})
			ends := []int64{2, 6}
			y, scale, offset := optest.TensorIn(t, dtype.Int8, l, []int64{2, 3, 7}), optest.TensorIn(t, dtype.Float32, l, []int64{2, 3}), optest.TensorIn(t, dtype.Float32, l, []int64{2, 3})
			check := func(symmetric bool) {
				for row := range 6 {
					v := make([]float64, 7)
					for i := range v {
						v[i] = optest.Values(x)[row*7+i] * optest.Values(smooth)[map[bool]int{true: 7}[int64(row) >= ends[0]]+i]
					}
					s, o := slices.MaxFunc(v, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) }), 0.0
					s = math.Abs(s) / 127
					if !symmetric {
						s = (slices.Max(v) - slices.Min(v)) / 255
						o = 127 - slices.Max(v)/s
						require.InDelta(t, o, optest.Values(offset)[row], 1e-3*math.Abs(o)+1e-3)
					}
					require.InDelta(t, s, optest.Values(scale)[row], 1e-5*s)
					for i := range v {
						require.InDelta(t, v[i]/s+o, optest.Values(y)[row*7+i], 0.5001, "%v %v row %d", d, l, row)
					}
				}
			}
			a := optest.Args{"x": x, "smoothScalesOptional": smooth, "groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 6), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": offset}
			optest.Run(t, "DynamicQuantV2", a)
			check(false)
			a["isSymmetrical"], a["quantMode"], a["offsetOut"] = true, "pertoken", nil
			optest.Run(t, "DynamicQuantV3", a)
			check(true)
		}
	}
	x, y := optest.Tensor(t, dtype.Float16, []int64{2, 2}, 0, 0, 4, -2), optest.Tensor(t, dtype.Int8, []int64{2, 2})
	scale := optest.Tensor(t, dtype.Float32, []int64{2})
	optest.Run(t, "DynamicQuant", optest.Args{"x": x, "yOut": y, "scaleOut": scale})
	require.Equal(t, []float64{0, 0, 127, -64}, optest.Values(y), "a row of zeros stays zero")
	whole := optest.Tensor(t, dtype.Float32, []int64{1})
	optest.Run(t, "DynamicQuantV3", optest.Args{"x": x, "dstType": dtype.Int8, "isSymmetrical": true, "quantMode": "pertensor", "yOut": y, "scaleOut": whole})
	require.InDelta(t, 4.0/127, optest.Values(whole)[0], 1e-7)
	optest.Refused(t, op.NullPointer, "DynamicQuantV2", optest.Args{"x": x, "groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 2), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": scale}, "smoothScalesOptional")
	optest.Refused(t, op.InvalidParam, "DynamicQuant", optest.Args{"x": x, "yOut": y, "scaleOut": whole}, "[2]")
	err := optest.Execute(t, "DynamicQuantV2", optest.Args{"x": x, "smoothScalesOptional": optest.Tensor(t, dtype.Float16, []int64{1, 2}, 1), "groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 3), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": scale})
	require.ErrorContains(t, err, "not exceed the 2 rows")
}

// Rows, columns and all of x are mapped to the numbers from -7 or -8 to 7.
func TestDynamicQuantisationToInt4(t *testing.T) {
	v := []float64{-7, 3, 1, 0, 2, -1, 6, 4, 14, -2, 4, 8, -14, 0, 1, 10}
	for _, d := range []dtype.Type{dtype.Int4, dtype.Int32} {
		for _, l := range kerneltest.Layouts {
			x, y := optest.TensorIn(t, dtype.Float16, l, []int64{2, 8}, v...), optest.Tensor(t, dtype.Int32, []int64{2, 1})
			if d == dtype.Int4 {
				y.DType, y.Shape, y.Strides, y.Storage = d, []int64{2, 8}, []int64{8, 1}, []int64{2, 8}
			}
			check := func(scales, offsets []float64, place func(i int) int) {
				t.Helper()
				bytes := optest.Tensor(t, dtype.Int8, []int64{16})
				require.NoError(t, gemm.UnpackInt4(bytes.View(), y.Data))
				for i, q := range optest.Values(bytes) {
					require.Equal(t, math.RoundToEven(v[i]/scales[place(i)]+offsets[place(i)]), q, "%v %v element %d", d, l, i)
				}
			}
			row, column, all := func(i int) int { return i / 8 }, func(i int) int { return i % 8 }, func(int) int { return 0 }
			scale, offset := optest.Tensor(t, dtype.Float32, []int64{2}), optest.Tensor(t, dtype.Float32, []int64{2})
			a := optest.Args{"x": x, "yOut": y, "scaleOut": scale}
			optest.Run(t, "DynamicQuant", a)
			require.Equal(t, []float64{1, 2}, optest.Values(scale))
			check([]float64{1, 2}, []float64{0, 0}, row)
			a["dstType"], a["isSymmetrical"] = int(d), true
			whole := optest.Tensor(t, dtype.Float32, []int64{1})
			optest.Run(t, "DynamicQuantV3", a.With(optest.Args{"quantMode": "pertensor", "scaleOut": whole}))
			require.Equal(t, []float64{2}, optest.Values(whole))
			check([]float64{2}, []float64{0}, all)
			columns := optest.Tensor(t, dtype.Float32, []int64{8})
			optest.Run(t, "DynamicQuantV4", a.With(optest.Args{"quantMode": "perchannel", "scaleOut": columns}))
			check(optest.Values(columns), make([]float64, 8), column)
			delete(a, "isSymmetrical")
			optest.Run(t, "DynamicQuantV2", a.With(optest.Args{"offsetOut": offset}))
			require.InDelta(t, 28./15, optest.Values(scale)[1], 1e-6)
			require.InDelta(t, 7-14*15./28, optest.Values(offset)[1], 1e-6)
			check(optest.Values(scale), optest.Values(offset), row)
			optest.Refused(t, op.InvalidParam, "DynamicQuantV2", a.With(optest.Args{"offsetOut": offset, "dstType": int(dtype.Int8)}))
			narrow := optest.TensorIn(t, dtype.Float16, l, []int64{2, 7})
			optest.Refused(t, op.InvalidParam, "DynamicQuant", optest.Args{"x": narrow, "yOut": y, "scaleOut": scale}, "multiple")
		}
	}
}

// An int4 tensor has two numbers in a byte, an int32 tensor eight in an element.
func TestQuantisationToInt4(t *testing.T) {
	x := []float64{-30, -8, -1, -.5, 0, .5, 1, 3, 4, 7, 7.6, 30, 2, -2, 5, -7}
	want := []float64{-8, -8, -1, 0, 0, 0, 1, 3, 4, 7, 7, 7, 2, -2, 5, -7}
	for _, d := range []dtype.Type{dtype.Int4, dtype.Int32} {
		of := func(columns int64) *op.Tensor { // of int4 or of int32, for that many numbers in each of two rows
			if d == dtype.Int32 {
				return optest.Tensor(t, d, []int64{2, columns / 8})
			}
			x := optest.Tensor(t, dtype.Int8, []int64{2, columns / 2})
			x.DType, x.Shape, x.Strides, x.Storage = d, []int64{2, columns}, []int64{columns, 1}, []int64{2, columns}
			return x
		}
		for _, l := range kerneltest.Layouts {
			in, y := optest.TensorIn(t, dtype.Float16, l, []int64{2, 8}, x...), of(8)
			scale := optest.Tensor(t, dtype.Float16, []int64{8}, 1)
			a := optest.Args{"x": in, "scale": scale, "roundMode": "round", "dstType": int(d), "axis": -1, "y": y}
			optest.Run(t, "AscendQuantV3", a)
			back := optest.TensorIn(t, dtype.Float16, l, []int64{2, 8})
			b := optest.Args{"x": y, "scale": optest.Tensor(t, dtype.Float32, []int64{1}, 2), "offset": optest.Tensor(t, dtype.Float32, []int64{1}, 1), "dstType": int(dtype.Float16), "y": back}
			optest.Run(t, "AscendAntiQuant", b)
			for i, v := range optest.Values(back) {
				assert.Equal(t, (want[i]+1)*2, v, "%v %v element %d", d, l, i)
			}
			optest.Refused(t, op.InvalidParam, "AscendQuantV3", a.With(optest.Args{"dstType": int(dtype.Int8)}))
			optest.Refused(t, op.InvalidParam, "AscendQuantV3", a.With(optest.Args{"y": of(16)}))
			optest.Refused(t, op.InvalidParam, "AscendAntiQuant", b.With(optest.Args{"y": optest.Tensor(t, dtype.Float16, []int64{2, 4})}))
		}
	}
	alone := optest.Tensor(t, dtype.Int32, []int64{})
	optest.StoreInt4(t, alone, want[:8])
	y := optest.Tensor(t, dtype.BFloat16, []int64{8})
	optest.Run(t, "AscendAntiQuant", optest.Args{"x": alone, "scale": optest.Tensor(t, dtype.Float32, []int64{1}, 1), "dstType": int(dtype.BFloat16), "y": y})
	assert.Equal(t, want[:8], optest.Values(y))
}
