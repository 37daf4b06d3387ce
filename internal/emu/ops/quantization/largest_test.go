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

// Elements are those of x times their group's scale, to half a step, and amax has the largest magnitudes.
func TestQuantMax(t *testing.T) {
	for _, c := range []struct {
		d               dtype.Type
		round           string
		most, precision float64
	}{{dtype.Float8E4M3, "rint", 448, 0x1p-4}, {dtype.Float8E5M2, "rint", 57344, 0x1p-3}, {dtype.HiFloat8, "round", 32768, 0x1p-2}, {dtype.HiFloat8, "hybrid", 32768, 0x1p-2}} {
		for _, in := range op.FloatTypes {
			for _, ends := range [][]float64{nil, {5}, {1, 4, 5}} {
				what := fmt.Sprintf("%v of %v, groups %v", c.d, in, ends)
				shape, scales := []int64{5, 2, 3}, []float64{3, 0.5, 1e4}[:max(len(ends), 1)]
				x := optest.Filled(t, 7, in, kerneltest.Transposed, shape)
				y, amax := optest.Minifloat(t, c.d, shape), optest.Tensor(t, in, []int64{int64(len(scales))})
				name, a := "QuantMax", optest.Args{"x": x, "scale": optest.Tensor(t, dtype.Float32, amax.Shape, scales...), "roundMode": c.round, "dstType": c.d, "y": y, "amax": amax}
				if ends != nil {
					name = "GroupedQuantMax"
					a["groupList"] = optest.Tensor(t, dtype.Int64, amax.Shape, ends...)
				} else {
					ends = []float64{5}
				}
				optest.Run(t, name, a)
				got, most, group := optest.MinifloatValues(t, y), make([]float64, len(scales)), 0
				for i, v := range optest.Values(x) {
					for float64(i/6) >= ends[group] {
						group++
					}
					most[group] = max(most[group], math.Abs(v))
					want := min(max(v*scales[group], -c.most), c.most)
					require.InDelta(t, want, got[i], max(math.Abs(want)*c.precision, 0x1p-10), "%s: %d", what, i)
				}
				require.Equal(t, most, optest.Values(amax), what)
			}
		}
	}
}

func TestQuantMaxRefuses(t *testing.T) {
	f := dtype.Float32
	a := optest.Args{"x": optest.Tensor(t, f, []int64{2, 2}, 1), "scale": optest.Tensor(t, f, []int64{1}, 1), "roundMode": "rint", "dstType": dtype.Float8E4M3, "y": optest.Minifloat(t, dtype.Float8E4M3, []int64{2, 2}), "amax": optest.Tensor(t, f, []int64{1})}
	for name, set := range map[string]optest.Args{
		"type": {"dstType": dtype.Int8}, "mode": {"roundMode": "round"}, "no mode": {"roundMode": nil}, "scale": {"scale": optest.Tensor(t, f, []int64{2}, 1)},
		"amax": {"amax": optest.Tensor(t, dtype.Float16, []int64{1})}, "shape": {"y": optest.Minifloat(t, dtype.Float8E4M3, []int64{2, 3})}, "y": {"y": optest.Minifloat(t, dtype.HiFloat8, []int64{2, 2})},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, op.InvalidParam, "QuantMax", a.With(set)) })
	}
	optest.Refused(t, op.NullPointer, "QuantMax", a.With(optest.Args{"amax": nil}), "amax is null")
	grouped := a.With(optest.Args{"groupList": optest.Tensor(t, dtype.Int64, []int64{2}, 1, 2)})
	optest.Refused(t, op.InvalidParam, "GroupedQuantMax", grouped, "one for each group")
	grouped = a.With(optest.Args{"groupList": optest.Tensor(t, dtype.Int64, []int64{1}, 3)})
	require.ErrorContains(t, optest.Execute(t, "GroupedQuantMax", grouped), "must not fall and not exceed the 2 rows")
}
