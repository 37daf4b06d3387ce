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

// mxForm is a type with the way in which numbers become it: the algorithm of the scales, the number to which the
// largest is mapped, and the rounding.
type mxForm struct {
	d         dtype.Type
	algorithm int
	most      float64
	rounding  string
	slack     float64 // by which the numbers that are quantised may differ from the exact ones, relative to these
}

// mxForms are the forms of the documents.
var mxForms = []mxForm{
	{dtype.Float8E4M3, 0, 0, "rint", 0}, {dtype.Float8E4M3, 1, 0, "rint", 0}, {dtype.Float8E5M2, 0, 0, "rint", 0}, {dtype.Float8E5M2, 1, 0, "rint", 0},
	{dtype.Float4E2M1, 0, 0, "rint", 0}, {dtype.Float4E2M1, 0, 0, "floor", 0}, {dtype.Float4E2M1, 0, 0, "round", 0}, {dtype.Float4E1M2, 0, 0, "rint", 0},
	{dtype.Float4E1M2, 0, 0, "round", 0}, {dtype.Float4E2M1, 2, 0, "rint", 0}, {dtype.Float4E2M1, 2, 6, "floor", 0}, {dtype.Float4E2M1, 2, 7, "rint", 0}, {dtype.Float4E2M1, 2, 9.5, "rint", 0},
}

// exponent returns the exponent of the largest number of the type.
func (f mxForm) exponent() float64 {
	return map[dtype.Type]float64{dtype.Float8E4M3: 8, dtype.Float8E5M2: 15, dtype.Float4E2M1: 2, dtype.Float4E1M2: 0}[f.d]
}

// scale returns the scale of a block by the formulas of the documents. most is its largest magnitude.
func (f mxForm) scale(most float64) float64 {
	limit := f.most
	if limit == 0 {
		limit = y8(f.d)
	}
	switch {
	case f.algorithm == 0:
		return math.Exp2(math.Floor(math.Log2(most)) - f.exponent())
	case f.algorithm == 2 && (limit == 6 || limit == 7):
		most = kerneltest.Round(dtype.BFloat16, most) // its fraction is that of bfloat16
	}
	return math.Exp2(math.Ceil(math.Log2(most / limit)))
}

// check compares what became of the numbers at some places with these numbers: they have one scale, and differ by at
// most half a step of the type, or by a step if it rounds down, in the direction that the rounding has.
func (f mxForm) check(t *testing.T, what string, values, got []float64, places []int64, scale, least float64) {
	t.Helper()
	most, bits := least, map[dtype.Type][2]float64{
		dtype.Float8E4M3: {0x1p-4, 0x1p-10}, dtype.Float8E5M2: {0x1p-3, 0x1p-17}, dtype.Float4E2M1: {0x1p-2, 0.25}, dtype.Float4E1M2: {0x1p-3, 0.125},
	}[f.d]
	zeros := true
	for _, i := range places {
		most = max(most, math.Abs(values[i]))
		zeros = zeros && values[i] == 0
	}
	if zeros {
		require.Equal(t, 0x1p-127, scale, "%s: scale of zeros", what)
		return
	}
	require.Contains(t, []float64{f.scale(most), f.scale(most * (1 - f.slack)), f.scale(most * (1 + f.slack))}, scale, "%s: scale of the block at %d", what, places[0])
	for _, i := range places {
		v := min(max(values[i]/scale, -y8(f.d)), y8(f.d))
		limit := max(math.Abs(v)*bits[0], bits[1])
		if f.rounding == "floor" {
			require.LessOrEqual(t, got[i], v+math.Abs(v)*f.slack, "%s: %d is rounded down", what, i)
			limit *= 2
		}
		require.InDelta(t, v, got[i], limit+math.Abs(v)*f.slack, "%s: element %d", what, i)
	}
}

// along compares numbers and their scales for blocks of an axis. Missing blocks have the least scale.
func (f mxForm) along(t *testing.T, what string, shape []int64, axis int, size int64, values, got, scales []float64, least float64) {
	t.Helper()
	n, inner := shape[axis], optest.Elements(shape[axis+1:])
	pairs := (n + 2*size - 1) / (2 * size)
	seen := 0
	for row := range optest.Elements(shape[:axis]) {
		for j := range inner {
			for b := range 2 * pairs {
				s := scales[((row*pairs+b/2)*inner+j)*2+b%2]
				seen++
				var places []int64
				for k := b * size; k < min((b+1)*size, n); k++ {
					places = append(places, (row*n+k)*inner+j)
				}
				if len(places) == 0 {
					require.Equal(t, 0x1p-127, s, "%s: the missing block", what)
					continue
				}
				f.check(t, what, values, got, places, s, least)
			}
		}
	}
	require.Len(t, scales, seen, what)
}

// scalesOf returns scales for blocks of an axis.
func scalesOf(t *testing.T, shape []int64, axis int, size int64) *op.Tensor {
	pairs := append(append([]int64{}, shape...), 2)
	pairs[axis] = (shape[axis] + 2*size - 1) / (2 * size)
	return optest.Minifloat(t, dtype.Float8E8M0, pairs)
}

func TestDynamicMxQuant(t *testing.T) {
	n := 0
	for i, f := range mxForms {
		for j, c := range []struct {
			shape []int64
			axis  int
			size  int64
		}{
			{[]int64{70}, 0, 32}, {[]int64{3, 40}, -1, 32}, {[]int64{70, 6}, 0, 32}, {[]int64{2, 33, 4}, 1, 32}, {[]int64{3, 128}, 1, 64},
			{[]int64{100, 2}, -2, 96}, {[]int64{2, 2, 66}, 2, 1024}, {[]int64{32, 2, 2}, 0, 32},
		} {
			if f.algorithm == 2 {
				c.size = 32
			}
			for k, d := range op.FloatTypes {
				axis := (c.axis + len(c.shape)) % len(c.shape)
				if d == dtype.Float32 && (c.shape[axis] < 32 || c.size != 32) {
					continue
				}
				l := kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)]
				if len(c.shape) == 1 && l == kerneltest.Transposed {
					l = kerneltest.Gapped
				}
				x := optest.Filled(t, uint64(n), d, l, c.shape)
				y, scale := optest.Minifloat(t, f.d, c.shape), scalesOf(t, c.shape, axis, c.size)
				name, a := "DynamicMxQuant", optest.Args{"x": x, "axis": c.axis, "roundModeOptional": f.rounding, "dstType": f.d, "blocksize": c.size, "scaleAlg": f.algorithm, "yOut": y, "mxscaleOut": scale}
				if f.algorithm == 2 || n%3 > 0 {
					name, a["dstTypeMax"] = "DynamicMxQuantV2", f.most
				}
				least := 0.0
				if n%3 == 2 {
					name = "DynamicMxQuantV3"
					if f.algorithm == 1 {
						least = 2.5
					}
					a["maxLowBound"] = least
				}
				optest.Run(t, name, a)
				what := fmt.Sprintf("%s %v of %v %v, axis %d, %v", name, f, d, c.shape, c.axis, l)
				f.along(t, what, c.shape, axis, c.size, optest.Values(x), optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale), least)
				n++
			}
		}
	}
	require.Greater(t, n, 200)
}

// CANN's example: 0, 8, 64 and 512 have the scale 2. Without a rounding they are rounded to even.
func TestDynamicMxQuantExtremes(t *testing.T) {
	run := func(d dtype.Type, set optest.Args, x ...float64) (y, scales []float64) {
		shape := []int64{1, int64(len(x))}
		out, scale := optest.Minifloat(t, dtype.Float8E4M3, shape), optest.Minifloat(t, dtype.Float8E8M0, []int64{1, 1, 2})
		a := optest.Args{"x": optest.Tensor(t, d, shape, x...), "axis": -1, "dstType": dtype.Float8E4M3, "blocksize": 32, "yOut": out, "mxscaleOut": scale}
		optest.Run(t, "DynamicMxQuantV3", a.With(set))
		return optest.MinifloatValues(t, out), optest.MinifloatValues(t, scale)
	}
	y, scales := run(dtype.BFloat16, nil, 0, 8, 64, 512)
	require.Equal(t, []float64{0, 4, 32, 256}, y)
	require.Equal(t, []float64{2, 0x1p-127}, scales)
	y, scales = run(dtype.BFloat16, optest.Args{"scaleAlg": 1, "maxLowBound": 448.0}, 0, 1, 17, 3)
	require.Equal(t, []float64{0, 1, 16, 3}, y)
	require.Equal(t, []float64{1, 0x1p-127}, scales)
	y, scales = run(dtype.BFloat16, optest.Args{"scaleAlg": 1, "maxLowBound": 448.0}, 0, 0)
	require.Equal(t, []float64{0, 0}, y)
	require.Equal(t, []float64{0x1p-127, 0x1p-127}, scales, "a block of zeros")
	y, scales = run(dtype.Float16, nil, 1, math.Inf(-1))
	require.Equal(t, []float64{0, 0}, y)
	require.True(t, math.IsNaN(scales[0]))
}

func TestDynamicMxQuantWithDualAxis(t *testing.T) {
	n := 0
	for i, f := range mxForms {
		for j, shape := range [][]int64{{3, 40}, {70, 6}, {2, 33, 64}, {1, 2, 65, 2}} {
			for k, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
				last := len(shape) - 1
				x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], shape)
				y1, s1 := optest.Minifloat(t, f.d, shape), scalesOf(t, shape, last, 32)
				y2, s2 := optest.Minifloat(t, f.d, shape), scalesOf(t, shape, last-1, 32)
				name, a := "DynamicMxQuantWithDualAxis", optest.Args{"x": x, "roundModeOptional": f.rounding, "dstType": f.d, "scaleAlg": f.algorithm, "y1Out": y1, "mxscale1Out": s1, "y2Out": y2, "mxscale2Out": s2}
				if f.algorithm == 2 || n%2 > 0 {
					name, a["dstTypeMax"] = name+"V2", f.most
				}
				optest.Run(t, name, a)
				what, v := fmt.Sprintf("%s %v of %v %v", name, f, d, shape), optest.Values(x)
				f.along(t, what, shape, last, 32, v, optest.MinifloatValues(t, y1), optest.MinifloatValues(t, s1), 0)
				f.along(t, what, shape, last-1, 32, v, optest.MinifloatValues(t, y2), optest.MinifloatValues(t, s2), 0)
				n++
			}
		}
	}
	require.Greater(t, n, 100)
}

// Each group of rows begins a block of rows. Groups do not change the blocks of columns.
func TestGroupedDynamicMxQuantWithDualAxis(t *testing.T) {
	n := 0
	for _, f := range []mxForm{{dtype.Float8E4M3, 1, 0, "rint", 0}, {dtype.Float8E5M2, 1, 0, "rint", 0}} {
		for i, ends := range [][]float64{{70}, {3, 3, 100}, {64, 65, 129, 200}, {0, 32}} {
			for k, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
				for _, columns := range []int64{64, 128} {
					shape := []int64{int64(ends[len(ends)-1]), columns}
					x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+k)%len(kerneltest.Layouts)], shape)
					y1, s1 := optest.Minifloat(t, f.d, shape), scalesOf(t, shape, 1, 32)
					places := shape[0]/64 + int64(len(ends))
					y2, s2 := optest.Minifloat(t, f.d, shape), optest.Minifloat(t, dtype.Float8E8M0, []int64{places, columns, 2}, slices.Repeat([]float64{1}, int(places*columns*2))...)
					optest.Run(t, "GroupedDynamicMxQuantWithDualAxis", optest.Args{
						"x": x, "groupIndex": optest.Tensor(t, dtype.Int64, []int64{int64(len(ends))}, ends...), "scaleAlg": 1, "dstDtype": f.d, "y1Out": y1, "y1ScaleOut": s1, "y2Out": y2, "y2ScaleOut": s2,
					})
					what, v := fmt.Sprintf("%v of %v, groups %v", f, d, ends), optest.Values(x)
					f.along(t, what, shape, 1, 32, v, optest.MinifloatValues(t, y1), optest.MinifloatValues(t, s1), 0)
					got, scales, first := optest.MinifloatValues(t, y2), optest.MinifloatValues(t, s2), int64(0)
					for g, e := range ends {
						rows := int64(e) - first
						at := (first/64 + int64(g)) * columns * 2
						// Scales between a group and the next one become zeros; the place of an empty group is not written.
						if gap := at + (rows+63)/64*columns*2; rows > 0 {
							for _, s := range scales[gap : (int64(e)/64+int64(g)+1)*columns*2] {
								require.Equal(t, 0x1p-127, s, "%s: between groups", what)
							}
						} else {
							require.Equal(t, 1.0, scales[at], "%s: an empty group", what)
						}
						f.along(t, what, []int64{rows, columns}, 0, 32, v[first*columns:int64(e)*columns], got[first*columns:int64(e)*columns], scales[at:at+(rows+63)/64*columns*2], 0)
						first = int64(e)
					}
					n++
				}
			}
		}
	}
	require.GreaterOrEqual(t, n, 32)
}

// squares compares scales of rows and columns of blocks with the blocks, which f checks.
func squares(t *testing.T, what string, shape []int64, scales1, scales2 []float64, f func(places []int64, scale float64)) {
	last := len(shape) - 1
	m, n := shape[last-1], shape[last]
	pairs1, pairs2 := (n+63)/64, (m+63)/64
	for matrix := range optest.Elements(shape[:last-1]) {
		for i := range 2 * pairs2 {
			for j := range 2 * pairs1 {
				var places []int64
				scale := scales1[(matrix*m+min(i*32, m-1))*pairs1*2+j]
				for r := i * 32; r < min(i*32+32, m); r++ {
					if j*32 >= n {
						scale = 0x1p-127
					}
					require.Equal(t, scale, scales1[(matrix*m+r)*pairs1*2+j], "%s: row %d", what, r)
					for c := j * 32; c < min(j*32+32, n); c++ {
						places = append(places, (matrix*m+r)*n+c)
					}
				}
				for c := j * 32; c < min(j*32+32, n); c++ {
					if i*32 >= m {
						scale = 0x1p-127
					}
					require.Equal(t, scale, scales2[((matrix*pairs2+i/2)*n+c)*2+i%2], "%s: column %d", what, c)
				}
				if len(places) > 0 {
					f(places, scale)
				}
			}
		}
	}
}

func TestDynamicBlockMxQuant(t *testing.T) {
	n := 0
	for i, f := range mxForms {
		if f.algorithm == 1 || f.most == 9.5 {
			continue
		}
		for j, shape := range [][]int64{{3, 40}, {70, 66}, {2, 33, 64}} {
			for k, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
				x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], shape)
				last := len(shape) - 1
				y, s1, s2 := optest.Minifloat(t, f.d, shape), scalesOf(t, shape, last, 32), scalesOf(t, shape, last-1, 32)
				optest.Run(t, "DynamicBlockMxQuant", optest.Args{
					"x": x, "roundModeOptional": f.rounding, "dstType": f.d, "scaleAlg": f.algorithm, "dstTypeMax": f.most, "yOut": y, "scale1Out": s1, "scale2Out": s2,
				})
				what, v, got := fmt.Sprintf("%v of %v %v", f, d, shape), optest.Values(x), optest.MinifloatValues(t, y)
				squares(t, what, shape, optest.MinifloatValues(t, s1), optest.MinifloatValues(t, s2), func(places []int64, scale float64) {
					f.check(t, what, v, got, places, scale, 0)
				})
				n++
			}
		}
	}
	require.GreaterOrEqual(t, n, 50)
}

func TestMxToBlockMxQuant(t *testing.T) {
	n := 0
	for from, most := range map[dtype.Type]map[dtype.Type]float64{
		dtype.Float4E2M1: {dtype.Float8E5M2: 13, dtype.Float8E4M3: 6}, dtype.Float4E1M2: {dtype.Float8E5M2: 15, dtype.Float8E4M3: 8},
	} {
		for to, offset := range most {
			for _, shape := range [][]int64{{64, 40}, {64, 2}, {128, 66}, {2, 64, 64}, {1, 64, 130}, {3, 64, 34}} {
				last := len(shape) - 1
				values, given := make([]float64, optest.Elements(shape)), make([]float64, optest.Elements(shape[:last])*((shape[last]+63)/64)*2)
				for i := range values {
					values[i] = float64(i*7%13)*0.25 - 1.5
				}
				for i := range given {
					given[i] = math.Exp2(float64(i*5%23 - 11))
				}
				x, mxscale := optest.Minifloat(t, from, shape, values...), scalesOf(t, shape, last, 32)
				mxscale = optest.Minifloat(t, dtype.Float8E8M0, mxscale.Shape, given...)
				y, s1, s2 := optest.Minifloat(t, to, shape), scalesOf(t, shape, last, 32), scalesOf(t, shape, last-1, 32)
				optest.Run(t, "MxToBlockMxQuant", optest.Args{"x": x, "mxscale": mxscale, "dstType": to, "y": y, "scale1": s1, "scale2": s2})
				what, in, got := fmt.Sprintf("%v to %v %v", from, to, shape), optest.MinifloatValues(t, x), optest.MinifloatValues(t, y)
				wide := shape[last]
				squares(t, what, shape, optest.MinifloatValues(t, s1), optest.MinifloatValues(t, s2), func(places []int64, scale float64) {
					of := func(i int64) float64 { return given[i/wide*((wide+63)/64)*2+i%wide/32] }
					highest := 0.0
					for _, i := range places {
						highest = max(highest, of(i))
					}
					require.Equal(t, highest/math.Exp2(offset), scale, what)
					for _, i := range places {
						require.Equal(t, kerneltest.Round(dtype.Float32, nearestTo(t, to, in[i]*of(i)/scale)), got[i], "%s: %d", what, i)
					}
				})
				n++
			}
		}
	}
	require.GreaterOrEqual(t, n, 24)
}

// nearestTo rounds a number to a type of eight bits by its exponent and fraction.
func nearestTo(t *testing.T, d dtype.Type, v float64) float64 {
	fraction, least := 3, -6
	if d == dtype.Float8E5M2 {
		fraction, least = 2, -14
	}
	if v == 0 {
		return v
	}
	_, e := math.Frexp(v)
	step := math.Ldexp(1, max(e-1, least)-fraction)
	return math.RoundToEven(v/step) * step
}

func TestMxQuantisersRefuse(t *testing.T) {
	half := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	e4 := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float8E4M3, shape) }
	e2 := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float4E2M1, shape) }
	s := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float8E8M0, shape) }
	plain := optest.Args{"x": half(4, 40), "axis": 1, "roundModeOptional": "rint", "dstType": dtype.Float8E4M3, "blocksize": 32, "yOut": e4(4, 40), "mxscaleOut": s(4, 1, 2)}
	four := optest.Args{"yOut": e2(4, 40), "dstType": dtype.Float4E2M1}
	wide := optest.Tensor(t, dtype.Float32, []int64{4, 40}, 1)
	dual := optest.Args{"x": half(4, 40), "dstType": dtype.Float8E4M3, "y1Out": e4(4, 40), "mxscale1Out": s(4, 1, 2), "y2Out": e4(4, 40), "mxscale2Out": s(1, 40, 2)}
	grouped := optest.Args{"x": half(4, 64), "groupIndex": optest.Tensor(t, dtype.Int64, []int64{1}, 4), "scaleAlg": 1, "dstDtype": dtype.Float8E4M3, "y1Out": e4(4, 64), "y1ScaleOut": s(4, 1, 2), "y2Out": e4(4, 64), "y2ScaleOut": s(1, 64, 2)}
	block := optest.Args{"x": half(4, 40), "dstType": dtype.Float8E4M3, "yOut": e4(4, 40), "scale1Out": s(4, 1, 2), "scale2Out": s(1, 40, 2)}
	convert := optest.Args{"x": e2(64, 40), "mxscale": s(64, 1, 2), "dstType": dtype.Float8E4M3, "y": e4(64, 40), "scale1": s(64, 1, 2), "scale2": s(1, 40, 2)}
	gapped := e4(4, 80)
	gapped.Shape, gapped.Strides = []int64{4, 40}, []int64{80, 2}
	for _, c := range []struct {
		name string
		base optest.Args
		code int32
		text string
		set  optest.Args
	}{
		{"DynamicMxQuantV3", plain, op.InvalidParam, "out of range", optest.Args{"axis": 2}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "blocksize is 48", optest.Args{"blocksize": 48}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "blocksize is 2048", optest.Args{"blocksize": 2048}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "blocksize is 64", optest.Args{"blocksize": 64, "x": wide}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "at least 32", optest.Args{"axis": 0, "x": wide}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "maxLowBound is 1", optest.Args{"maxLowBound": 1.0}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "maxLowBound is -1", optest.Args{"maxLowBound": -1.0, "scaleAlg": 1}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "maxLowBound is NaN", optest.Args{"maxLowBound": math.NaN(), "scaleAlg": 1}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "roundMode", optest.Args{"roundModeOptional": "floor"}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "scaleAlg is 2", optest.Args{"scaleAlg": 2}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "dstTypeMax is 6", optest.Args{"dstTypeMax": 6.0}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "pairs of scales", optest.Args{"mxscaleOut": s(4, 2, 2)}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "same type", optest.Args{"dstType": dtype.Float8E5M2}},
		{"DynamicMxQuantV3", plain, op.InvalidParam, "contiguous", optest.Args{"yOut": gapped}},
		{"DynamicMxQuantV3", plain, op.NullPointer, "yOut is null", optest.Args{"yOut": nil}},
		{"DynamicMxQuantV3", plain, op.TilingRefused, "is empty", optest.Args{"x": half(0, 40), "yOut": e4(0, 40), "mxscaleOut": s(0, 1, 2)}},
		{"DynamicMxQuantV2", plain.With(four), op.TilingRefused, "dstTypeMax is 13", optest.Args{"scaleAlg": 2, "dstTypeMax": 13.0}},
		{"DynamicMxQuantV2", plain.With(four), op.TilingRefused, "dstTypeMax is NaN", optest.Args{"scaleAlg": 2, "dstTypeMax": math.NaN()}},
		{"DynamicMxQuantV2", plain.With(four), op.TilingRefused, "does not use", optest.Args{"dstTypeMax": 7.0}},
		{"DynamicMxQuant", plain.With(four), op.TilingRefused, "scaleAlg is 2", optest.Args{"scaleAlg": 2}},
		{"DynamicMxQuantV2", plain, op.TilingRefused, "scaleAlg is 2", optest.Args{"scaleAlg": 2, "dstType": dtype.Float4E1M2, "yOut": optest.Minifloat(t, dtype.Float4E1M2, []int64{4, 40})}},
		{"DynamicMxQuantWithDualAxis", dual, op.InvalidParam, "dtype", optest.Args{"x": wide}},
		{"DynamicMxQuantWithDualAxisV2", dual, op.TilingRefused, "pairs of scales", optest.Args{"mxscale2Out": s(4, 1, 2)}},
		{"DynamicMxQuantWithDualAxisV2", dual, op.TilingRefused, "same type", optest.Args{"y2Out": optest.Minifloat(t, dtype.Float8E5M2, []int64{4, 40})}},
		{"GroupedDynamicMxQuantWithDualAxis", grouped, op.TilingRefused, "scaleAlg is 0", optest.Args{"scaleAlg": 0}},
		{"GroupedDynamicMxQuantWithDualAxis", grouped, op.TilingRefused, "maxDtypeValue", optest.Args{"maxDtypeValue": 1.0}},
		{"GroupedDynamicMxQuantWithDualAxis", grouped, op.TilingRefused, "multiple of 64", optest.Args{"x": half(4, 40), "y1Out": e4(4, 40), "y2Out": e4(4, 40)}},
		{"GroupedDynamicMxQuantWithDualAxis", grouped, op.InvalidParam, "dtype", optest.Args{"groupIndex": optest.Tensor(t, dtype.Int32, []int64{1}, 4)}},
		{"DynamicBlockMxQuant", block, op.TilingRefused, "scaleAlg is 1", optest.Args{"scaleAlg": 1}},
		{"DynamicBlockMxQuant", block, op.TilingRefused, "dstTypeMax is 8", optest.Args{"dstTypeMax": 8.0}},
		{"DynamicBlockMxQuant", block, op.TilingRefused, "2 to 3", optest.Args{"x": half(40), "yOut": e4(40)}},
		{"MxToBlockMxQuant", convert, op.TilingRefused, "multiple of 64", optest.Args{"x": e2(32, 40), "y": e4(32, 40)}},
		{"MxToBlockMxQuant", convert, op.TilingRefused, "pairs of scales", optest.Args{"mxscale": s(64, 2, 2)}},
		{"MxToBlockMxQuant", convert, op.InvalidParam, "dtype", optest.Args{"y": e2(64, 40)}},
	} {
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, c.name, c.base.With(c.set))
		var e *op.Error
		require.ErrorAs(t, err, &e, "%s %s", c.name, c.text)
		require.Equal(t, c.code, e.Code, e.Text)
		require.Contains(t, e.Text, c.text)
	}
	err := optest.Execute(t, "GroupedDynamicMxQuantWithDualAxis", grouped.With(optest.Args{"groupIndex": optest.Tensor(t, dtype.Int64, []int64{1}, 3)}))
	require.ErrorContains(t, err, "the last end must be 4")
}
