package quantization

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// gateCall is a call of SwigluGroupQuant without scales and attributes of a mode, and the rows of the
// gated unit that it quantises.
func gateCall(t *testing.T, d, to dtype.Type, shape []int64, limit float64, weighted bool) (optest.Args, []float64) {
	last := len(shape) - 1
	rows, n := op.Count(shape[:last]), shape[last]/2
	half := append(slices.Clone(shape[:last]), n)
	x := optest.Filled(t, 1, d, kerneltest.Contiguous, shape)
	a := optest.Args{
		"x": x, "dstType": to, "blockSize": 0, "roundScale": true, "clampLimit": limit, "dstTypeMax": 15.0, "outputOrigin": false,
		"yOut": optest.Minifloat(t, to, half), "yOriginOut": optest.Tensor(t, d, half),
	}
	weights := slices.Repeat([]float64{1}, int(rows))
	if weighted {
		w := optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, shape[:last])
		a["weightOptional"], weights = w, optest.Values(w)
	}
	v, y := optest.Values(x), make([]float64, rows*n)
	for i := range y {
		r, j := int64(i)/n, int64(i)%n
		left, right := v[r*2*n+j], v[r*2*n+n+j]
		if limit > 0 {
			left, right = min(left, limit), min(max(right, -limit), limit)
		}
		y[i] = left * optest.Sigmoid(left) * right * weights[r]
	}
	return a, y
}

// Blocks of 128 have scales of float32 and those of 32 powers of two; elements times their scales are
// the gated unit, to half a step of the type. Rows beyond the groups stay as they are.
func TestSwigluGroupQuantBlocks(t *testing.T) {
	for _, c := range []struct {
		to          dtype.Type
		mode        int
		most        float64
		step, least float64 // half a step relative to a number and next to zero
	}{
		{dtype.Float8E4M3, 0, 448, 0x1p-4, 0x1p-10}, {dtype.Float8E5M2, 0, 57344, 0x1p-3, 0x1p-17}, {dtype.Float8E4M3, 1, 448, 0x1p-4, 0x1p-10}, {dtype.Float8E5M2, 1, 57344, 0x1p-3, 0x1p-17},
		{dtype.Float4E2M1, 1, 6, 0x1p-2, 0.25}, {dtype.Float4E1M2, 1, 1.75, 0x1p-3, 0.125},
	} {
		for i, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float16, dtype.BFloat16} {
			for _, power := range []bool{false, true} {
				if c.mode == 1 && !power {
					continue
				}
				shape, limit, block := []int64{4, 256}, []float64{-1, 0.5}[i%2], int64(128)
				if i > 1 {
					shape = []int64{2, 2, 768}
				}
				what := fmt.Sprintf("%v of %v %v, mode %d, power %t", c.to, d, shape, c.mode, power)
				a, want := gateCall(t, d, c.to, shape, limit, i%2 == 1)
				n := shape[len(shape)-1] / 2
				scale := optest.Tensor(t, dtype.Float32, append(slices.Clone(shape[:len(shape)-1]), n/128))
				if c.mode == 1 {
					block = 32
					scale = optest.Minifloat(t, dtype.Float8E8M0, append(slices.Clone(shape[:len(shape)-1]), (n+63)/64, 2))
				}
				a["quantMode"], a["roundScale"], a["yScaleOut"], a["blockSize"] = c.mode, power, scale, int(block)*(i%2)
				rows := int64(4)
				if i%2 == 0 {
					rows = 3
					a["groupIndexOptional"] = optest.Tensor(t, dtype.Int64, []int64{3}, 2, 0, 1)
				}
				optest.RunOn(t, acceptance.Ascend950, "SwigluGroupQuant", a)
				got, scales := optest.MinifloatValues(t, a["yOut"].(*op.Tensor)), optest.MinifloatValues(t, scale)
				columns := int64(len(scales)) / 4
				for r := range rows {
					for from := int64(0); from < n; from += block {
						s, most := scales[r*columns+from/block], 1e-4
						part := want[r*n+from : r*n+from+block]
						if c.to.Bits() == 4 {
							most = 0
							for j := range part {
								part[j] = kerneltest.Round(d, part[j])
							}
						}
						for _, v := range part {
							most = max(most, math.Abs(v))
						}
						switch {
						case c.to.Bits() == 4:
							require.Equal(t, math.Exp2(math.Floor(math.Log2(most))-math.Floor(math.Log2(c.most))), s, what)
						case power:
							require.Equal(t, math.Exp2(math.Ceil(math.Log2(most/c.most))), s, what)
						default:
							require.InEpsilon(t, most/c.most, s, 1e-5, what)
						}
						for j, v := range part {
							v = min(max(v, -c.most*s), c.most*s)
							require.InDelta(t, v, got[r*n+from+int64(j)]*s, max(math.Abs(v)*(c.step+1e-4), c.least*s), "%s: row %d", what, r)
						}
					}
				}
				if rows == 3 {
					require.Equal(t, make([]float64, n), got[3*n:], what)
				}
			}
		}
	}
}

// HiFloat8 has the scales that are given or those of the groups' largest elements. Rows beyond the
// groups are zero, and the unit before the quantisation has them too.
func TestSwigluGroupQuantGroups(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, counts := range [][]float64{nil, {1, 0, 2}, {4}} {
			for _, dynamic := range []bool{false, true} {
				what := fmt.Sprintf("%v, groups %v, dynamic %t", d, counts, dynamic)
				a, want := gateCall(t, d, dtype.HiFloat8, []int64{2, 2, 6}, -1, counts != nil)
				a["yOut"] = optest.Minifloat(t, dtype.HiFloat8, []int64{2, 2, 3}, slices.Repeat([]float64{1}, 12)...)
				groups, ends := int64(1), []int64{4}
				if counts != nil {
					groups, ends = int64(len(counts)), nil
					a["groupIndexOptional"] = optest.Tensor(t, dtype.Int64, []int64{groups}, counts...)
					for i, n := range counts {
						ends = append(ends, int64(n)+append([]int64{0}, ends...)[i])
					}
				}
				scale, given := optest.Tensor(t, dtype.Float32, []int64{groups}, 99), optest.Tensor(t, dtype.Float32, []int64{groups}, 3, 4, 5)
				a["quantMode"], a["yScaleOut"], a["outputOrigin"], a["roundScale"] = 2, scale, counts == nil || dynamic, false
				if dynamic {
					a["quantMode"] = 3
				} else {
					a["scaleOptional"] = given
				}
				optest.RunOn(t, acceptance.Ascend950, "SwigluGroupQuant", a)
				got, scales, factors := optest.MinifloatValues(t, a["yOut"].(*op.Tensor)), optest.Values(scale), optest.Values(given)
				first := int64(0)
				for g, end := range ends {
					rows, factor := want[first*3:end*3], factors[g]
					if dynamic && end > first {
						most := 0.0
						for _, v := range rows {
							most = max(most, math.Abs(v))
						}
						require.InEpsilon(t, most/15, scales[g], 1e-5, what)
						factor = 15 / most
					}
					for i, v := range rows {
						v *= factor
						require.InDelta(t, v, got[first*3+int64(i)], max(math.Abs(v)*0.0626, 0x1p-7), "%s: group %d", what, g) // half a step from 1/8 to 8
					}
					if dynamic && end == first {
						require.Equal(t, 99.0, scales[g], "%s: a group without rows", what)
					}
					first = end
				}
				require.Equal(t, make([]float64, len(want)-int(first)*3), got[first*3:], what)
				if a["outputOrigin"] == true {
					optest.CloseTo(t, what, want, optest.Values(a["yOriginOut"].(*op.Tensor)), optest.ResultLimit(d))
				}
			}
		}
	}
}

// An element of a block of 128 that is not finite does not count for the scale and becomes the
// largest number, or zero for NaN.
func TestSwigluGroupQuantInfinite(t *testing.T) {
	a, _ := gateCall(t, dtype.Float16, dtype.Float8E4M3, []int64{1, 256}, -1, false)
	x := optest.Tensor(t, dtype.Float16, []int64{1, 256}, 1)
	values := optest.Values(x)
	values[0], values[1] = math.Inf(1), math.NaN()
	scale := optest.Tensor(t, dtype.Float32, []int64{1, 1})
	optest.RunOn(t, acceptance.Ascend950, "SwigluGroupQuant", a.With(optest.Args{"quantMode": 0, "roundScale": false, "x": optest.Tensor(t, dtype.Float16, []int64{1, 256}, values...), "yScaleOut": scale}))
	require.InEpsilon(t, optest.Sigmoid(1)/448, optest.Values(scale)[0], 1e-5)
	require.Equal(t, []float64{448, 0, 448}, optest.MinifloatValues(t, a["yOut"].(*op.Tensor))[:3])
}

func TestSwigluGroupQuantRefuses(t *testing.T) {
	f := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	h, w := dtype.Float16, dtype.Float32
	a, _ := gateCall(t, h, dtype.Float8E4M3, []int64{2, 256}, -1, true)
	a["quantMode"], a["yScaleOut"] = 0, f(w, 2, 1)
	mx := a.With(optest.Args{"quantMode": 1, "yScaleOut": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 2, 2})})
	groups := a.With(optest.Args{"quantMode": 3, "yOut": optest.Minifloat(t, dtype.HiFloat8, []int64{2, 128}), "yScaleOut": f(w, 1)})
	four := optest.Minifloat(t, dtype.Float4E2M1, []int64{2, 128})
	for text, c := range map[string]struct {
		a, set optest.Args
		code   int32
	}{
		"quantMode is 4":     {a, optest.Args{"quantMode": 4}, op.TilingRefused},
		"blockSize is 32":    {a, optest.Args{"blockSize": 32}, op.TilingRefused},
		"clampLimit is 0":    {a, optest.Args{"clampLimit": 0.0}, op.TilingRefused},
		"outputOrigin":       {a, optest.Args{"outputOrigin": true}, op.TilingRefused},
		"dstType is":         {a, optest.Args{"dstType": dtype.Float8E5M2}, op.TilingRefused},
		"needs quantMode 1":  {a, optest.Args{"yOut": four, "dstType": dtype.Float4E2M1}, op.TilingRefused},
		"roundScale":         {mx, optest.Args{"roundScale": false}, op.TilingRefused},
		"pairs of scales":    {mx, optest.Args{"yScaleOut": optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 4})}, op.TilingRefused},
		"multiple of 256":    {a, optest.Args{"x": f(h, 2, 128)}, op.TilingRefused},
		"dimensions":         {a, optest.Args{"x": f(h, 256)}, op.TilingRefused},
		"element for each":   {a, optest.Args{"weightOptional": f(w, 3)}, op.TilingRefused},
		"a vector":           {a, optest.Args{"groupIndexOptional": f(dtype.Int64, 1, 1)}, op.TilingRefused},
		"each block of 128":  {a, optest.Args{"yScaleOut": f(w, 2, 2)}, op.TilingRefused},
		"x float32":          {a, optest.Args{"x": f(w, 2, 256)}, op.InvalidParam},
		"groupIndexOptional": {a, optest.Args{"groupIndexOptional": f(dtype.Int32, 1)}, op.InvalidParam},
		"yScaleOut":          {a, optest.Args{"yScaleOut": f(h, 2, 1)}, op.InvalidParam},
		"yOriginOut is null": {a, optest.Args{"yOriginOut": nil}, op.NullPointer},
		"scaleOptional":      {groups, optest.Args{"quantMode": 2}, op.TilingRefused},
		"one for each group": {groups, optest.Args{"yScaleOut": f(w, 2)}, op.TilingRefused},
		"dstTypeMax":         {groups, optest.Args{"dstTypeMax": 0.0}, op.TilingRefused},
		"yOut float8":        {groups, optest.Args{"yOut": optest.Minifloat(t, dtype.Float8E5M2, []int64{2, 128})}, op.InvalidParam},
	} {
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "SwigluGroupQuant", c.a.With(c.set))
		var e *op.Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, c.code, e.Code, e.Text)
		require.Contains(t, e.Text, text)
	}
}
