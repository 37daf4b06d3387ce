package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestDynamicBlockQuant(t *testing.T) {
	for n, s := range []struct {
		shape         []int64
		rows, columns int64
		least         float64
	}{
		{[]int64{4, 2}, 1, 128, 0}, {[]int64{3, 300}, 1, 128, 0}, {[]int64{2, 3, 128}, 1, 64, 500}, {[]int64{130, 70}, 64, 64, 0},
		{[]int64{2, 65, 193}, 64, 192, 100}, {[]int64{1, 1}, 512, 256, 0},
	} {
		for _, d := range op.FloatTypes {
			l := kerneltest.Layouts[n%len(kerneltest.Layouts)]
			x := optest.Filled(t, uint64(n), d, l, s.shape)
			m, k := x.Dim(-2), x.Dim(-1)
			down, across := (m+s.rows-1)/s.rows, (k+s.columns-1)/s.columns
			y, scale := optest.TensorIn(t, dtype.Int8, l, s.shape), optest.TensorIn(t, dtype.Float32, l, append(append([]int64{}, s.shape[:len(s.shape)-2]...), down, across))
			optest.Run(t, "DynamicBlockQuant", optest.Args{"x": x, "minScale": s.least, "roundModeOptional": "rint", "dstType": dtype.Int8, "rowBlockSize": s.rows, "colBlockSize": s.columns, "yOut": y, "scaleOut": scale})
			block := func(i int64) int64 { return (i/k/m*down+i/k%m/s.rows)*across + i%k/s.columns }
			want := make([]float64, scale.Len())
			for i, v := range optest.Values(x) {
				want[block(int64(i))] = max(want[block(int64(i))], math.Abs(v)/127)
			}
			for i := range want {
				if s.least > 0 {
					want[i] = min(want[i], 1/s.least)
				}
			}
			optest.CloseTo(t, fmt.Sprintf("scales of %v", x), want, optest.Values(scale), 1e-6)
			got := optest.Values(y)
			for i, v := range optest.Values(x) {
				// Ties may round either way.
				require.InDelta(t, min(max(v/want[block(int64(i))], -128), 127), got[i], 0.5+1e-4, "%v[%d]", x, i)
			}
		}
	}
}

// Blocks of zeros have scale 0 and stay zeros. V2 accepts blocks of one column.
func TestDynamicBlockQuantV2(t *testing.T) {
	x, y, scale := optest.Tensor(t, dtype.Float16, []int64{2, 3}, 0, 5, -2, 0, 1, 4), optest.Tensor(t, dtype.Int8, []int64{2, 3}), optest.Tensor(t, dtype.Float32, []int64{2, 3})
	a := optest.Args{"x": x, "dstType": dtype.Int8, "rowBlockSize": 1, "colBlockSize": 1, "yOut": y, "scaleOut": scale}
	optest.Run(t, "DynamicBlockQuantV2", a)
	require.Equal(t, []float64{0, 127, -127, 0, 127, 127}, optest.Values(y))
	optest.CloseTo(t, "scales", []float64{0, 5. / 127, 2. / 127, 0, 1. / 127, 4. / 127}, optest.Values(scale), 1e-7)
	for text, set := range map[string]optest.Args{
		"rowBlockSize is 2": {"rowBlockSize": 2}, "colBlockSize is 32": {"colBlockSize": 32}, "minScale": {"minScale": -1.0}, "roundModeOptional": {"roundModeOptional": "round"},
		"dstTypeMax": {"dstTypeMax": 15.0}, "dstType is": {"dstType": 34}, "one for each block": {"colBlockSize": 128}, "is empty": {"x": optest.Tensor(t, dtype.Float16, []int64{0, 3}), "yOut": optest.Tensor(t, dtype.Int8, []int64{0, 3})},
		"dimensions": {"x": optest.Tensor(t, dtype.Float16, []int64{3}), "yOut": optest.Tensor(t, dtype.Int8, []int64{3})},
	} {
		optest.Refused(t, op.InvalidParam, "DynamicBlockQuantV2", a.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "DynamicBlockQuant", optest.Args{"x": x, "dstType": dtype.Int8, "rowBlockSize": 1, "colBlockSize": 1, "yOut": y, "scaleOut": scale}, "colBlockSize is 1")
	optest.Refused(t, op.NullPointer, "DynamicBlockQuantV2", a.With(optest.Args{"scaleOut": nil}), "scaleOut is null")
}
