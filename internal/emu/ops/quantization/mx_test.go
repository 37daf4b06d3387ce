package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Elements times their scales are the input, to half a step of the type, and scales of blocks are those
// of their largest elements. Groups begin blocks.
func TestGroupedDynamicMxQuant(t *testing.T) {
	for _, c := range []struct {
		d         dtype.Type
		exponent  int     // of the largest number
		most      float64 // the largest number
		precision float64 // half a step relative to a number
		least     float64 // half a step next to zero
		set       optest.Args
	}{
		{dtype.Float8E4M3, 8, 448, 0x1p-4, 0x1p-10, nil}, {dtype.Float8E5M2, 15, 57344, 0x1p-3, 0x1p-17, nil}, {dtype.Float4E2M1, 2, 6, 0x1p-2, 0.25, optest.Args{"scaleAlg": 0}},
		{dtype.Float4E1M2, 0, 1.75, 0x1p-3, 0.125, optest.Args{"scaleAlg": 0, "roundMode": "round"}}, {dtype.Float8E4M3, 8, 448, 0x1p-4, 0x1p-10, optest.Args{"scaleAlg": 1}},
		{dtype.Float4E2M1, 2, 6, 0x1p-2, 0.25, optest.Args{"scaleAlg": 2}}, {dtype.Float4E2M1, 2, 8, 0x1p-2, 0.25, optest.Args{"scaleAlg": 2, "dstTypeMax": 8.0}},
	} {
		for _, in := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
			for _, ends := range [][]float64{{70}, {3, 3, 100}, {64, 65, 129, 200}} {
				rows, n, g := int64(ends[len(ends)-1]), int64(4), int64(len(ends))
				what := fmt.Sprintf("%v of %v, groups %v, %v", c.d, in, ends, c.set)
				name, a := "GroupedDynamicMxQuant", optest.Args{"roundMode": "rint"}.With(c.set)
				if c.set != nil {
					name += "V2"
				}
				x := optest.Filled(t, 5, in, kerneltest.Gapped, []int64{rows, n})
				y, scale := optest.Minifloat(t, c.d, []int64{rows, n}), optest.Minifloat(t, dtype.Float8E8M0, []int64{rows/64 + g, n, 2})
				optest.RunOn(t, acceptance.Ascend950, name, a.With(optest.Args{"x": x, "groupIndex": optest.Tensor(t, dtype.Int32, []int64{g}, ends...), "dstType": c.d, "blocksize": 32, "y": y, "mxscale": scale}))
				values, got, scales := optest.Values(x), optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale)
				first := int64(0)
				for group, end := range ends {
					for from := first; from < int64(end); from += 32 {
						for j := range n {
							most := 0.0
							for i := from; i < min(from+32, int64(end)); i++ {
								most = max(most, math.Abs(values[i*n+j]))
							}
							want := math.Exp2(math.Floor(math.Log2(most)) - float64(c.exponent))
							if _, quotient := c.set["dstTypeMax"]; c.set["scaleAlg"] == 2 && !quotient {
								most = kerneltest.Round(dtype.BFloat16, most)
							}
							if algorithm, _ := c.set["scaleAlg"].(int); algorithm > 0 {
								want = math.Exp2(math.Ceil(math.Log2(most / c.most)))
							}
							row := first/64 + int64(group) + (from-first)/64
							s := scales[(row*n+j)*2+(from-first)/32%2]
							require.Equal(t, want, s, "%s: scale at %d,%d", what, from, j)
							for i := from; i < min(from+32, int64(end)); i++ {
								v := min(max(values[i*n+j], -min(c.most, y8(c.d))*s), min(c.most, y8(c.d))*s)
								require.InDelta(t, v, got[i*n+j]*s, max(math.Abs(v)*c.precision, c.least*s), "%s: %d,%d", what, i, j)
							}
						}
					}
					first = int64(end)
				}
			}
		}
	}
}

// y8 returns the largest number of a type.
func y8(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float8E4M3: 448, dtype.Float8E5M2: 57344, dtype.Float4E2M1: 6, dtype.Float4E1M2: 1.75}[d]
}

func TestGroupedDynamicMxQuantRefuses(t *testing.T) {
	a := optest.Args{
		"x": optest.Tensor(t, dtype.Float16, []int64{40, 2}, 1), "groupIndex": optest.Tensor(t, dtype.Int32, []int64{1}, 40), "roundMode": "rint", "dstType": dtype.Float8E4M3, "blocksize": 32,
		"y": optest.Minifloat(t, dtype.Float8E4M3, []int64{40, 2}), "mxscale": optest.Minifloat(t, dtype.Float8E8M0, []int64{1, 2, 2}),
	}
	four := optest.Args{"y": optest.Minifloat(t, dtype.Float4E2M1, []int64{40, 2}), "dstType": dtype.Float4E2M1}
	odd := optest.Minifloat(t, dtype.Float4E2M1, []int64{2, 4})
	odd.Shape, odd.Strides = []int64{2, 3}, []int64{3, 1}
	for text, c := range map[string]struct {
		set  optest.Args
		code int32
	}{
		"roundMode":     {optest.Args{"roundMode": "round"}, op.TilingRefused},
		"scaleAlg":      {optest.Args{"scaleAlg": 2}, op.TilingRefused},
		"dstTypeMax":    {four.With(optest.Args{"dstTypeMax": 13.0, "scaleAlg": 2}), op.TilingRefused},
		"scaleAlg is 1": {four.With(optest.Args{"scaleAlg": 1}), op.TilingRefused},
		"it must be 32": {optest.Args{"blocksize": 16}, op.InvalidParam},
		"must be even": {optest.Args{
			"x": optest.Tensor(t, dtype.Float16, []int64{2, 3}, 1), "dstType": dtype.Float4E2M1, "y": odd, "mxscale": optest.Minifloat(t, dtype.Float8E8M0, []int64{1, 3, 2}),
		}, op.TilingRefused},
	} {
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "GroupedDynamicMxQuantV2", a.With(c.set))
		var e *op.Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, c.code, e.Code, e.Text)
		require.Contains(t, e.Text, text)
	}
}

func TestAntiMxQuant(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float4E2M1, dtype.Float4E1M2} {
		for _, out := range op.FloatTypes {
			for _, c := range []struct {
				shape []int64
				axis  int
			}{{[]int64{2, 70}, 1}, {[]int64{2, 70}, -1}, {[]int64{100, 4}, 0}, {[]int64{3, 33, 2}, 1}} {
				axis := (c.axis + len(c.shape)) % len(c.shape)
				shape := append(append([]int64{}, c.shape...), 2)
				shape[axis] = (c.shape[axis] + 63) / 64
				var values, scales []float64
				for i := range optest.Elements(c.shape) {
					values = append(values, float64(i%7)*0.25-0.75)
				}
				for i := range optest.Elements(shape) {
					scales = append(scales, math.Exp2(float64(i%5)-2))
				}
				x, s, y := optest.Minifloat(t, d, c.shape, values...), optest.Minifloat(t, dtype.Float8E8M0, shape, scales...), optest.Tensor(t, out, c.shape)
				optest.Run(t, "AntiMxQuant", optest.Args{"x": x, "mxscale": s, "axis": c.axis, "dstType": out, "y": y})
				values = optest.MinifloatValues(t, x)
				i, got := 0, optest.Values(y)
				optest.Walk(c.shape, func(at []int64) {
					place, k := int64(0), at[axis]
					for j := range shape[:len(shape)-1] {
						p := at[j]
						if j == axis {
							p /= 64
						}
						place = place*shape[j] + p
					}
					require.Equal(t, values[i]*scales[2*place+k/32%2], got[i], "%v %v axis %d at %v", d, c.shape, c.axis, at)
					i++
				})
			}
		}
	}
	a := optest.Args{"x": optest.Minifloat(t, dtype.Float8E4M3, []int64{2, 40}, make([]float64, 80)...), "mxscale": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 1, 2}), "axis": 1, "dstType": dtype.Float16, "y": optest.Tensor(t, dtype.Float16, []int64{2, 40})}
	optest.Refused(t, op.InvalidParam, "AntiMxQuant", a.With(optest.Args{"axis": 2}))
	optest.Refused(t, op.InvalidParam, "AntiMxQuant", a.With(optest.Args{"axis": 0}), "pairs of scales")
	optest.Refused(t, op.NullPointer, "AntiMxQuant", a.With(optest.Args{"mxscale": nil}), "mxscale is null")
}
