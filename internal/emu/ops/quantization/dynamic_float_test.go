package quantization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// nearestCode returns the code of the number of type d that is nearest to x, and of two of them the even one, or in
// HiFloat8 the larger one. NaN becomes zero.
func nearestCode(d dtype.Type, x float64) byte {
	best, distance := byte(0), math.Inf(1)
	if math.IsNaN(x) {
		return 0
	}
	for code, v := range minifloat.Values(d) {
		away := math.Abs(v - min(max(x, -minifloat.Largest(d)), minifloat.Largest(d)))
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Signbit(v) != math.Signbit(x) && (v != 0 || d != dtype.HiFloat8) || away > distance {
			continue
		}
		if away == distance && (d == dtype.HiFloat8 && math.Abs(v) < math.Abs(minifloat.Values(d)[best]) || d != dtype.HiFloat8 && code&1 == 1) {
			continue
		}
		best, distance = byte(code), away
	}
	return best
}

// single rounds to float32.
func single(x float64) float64 { return float64(float32(x)) }

// quantisedLine returns the codes, the scale and the offset of a line in float64, rounded as the device rounds.
func quantisedLine(d dtype.Type, most float64, v []float64, symmetric bool) (codes []byte, scale, offset float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range v {
		if symmetric {
			x = math.Abs(x)
		}
		lo, hi = min(lo, x), max(hi, x)
	}
	if scale = single(hi * single(1/most)); !symmetric {
		scale = single(single(hi-lo) * single(1/(2*most)))
		offset = single(most - single(hi/scale))
	}
	for _, x := range v {
		codes = append(codes, nearestCode(d, single(single(x/scale)+offset)))
	}
	return codes, scale, offset
}

// dynamicFloats is a call that quantises x [2,5,6] to floats of eight bits.
type dynamicFloats struct {
	d              dtype.Type
	mode           string
	symmetric      bool
	smooth, groups bool
	most           float64 // dstTypeMax
}

// lines returns the elements of each line by their places, and for each place that of its factor.
func (k dynamicFloats) lines() (lines [][]int, factor func(place int) int) {
	factor = func(place int) int { return place % 6 }
	switch {
	case k.mode == "perchannel":
		factor = func(place int) int { return place / 6 % 5 }
		for i := range 12 {
			var line []int
			for row := range 5 {
				line = append(line, i/6*30+row*6+i%6)
			}
			lines = append(lines, line)
		}
		return lines, factor
	case k.groups:
		factor = func(place int) int {
			if place/6 >= 4 {
				return 6 + place%6
			}
			return place % 6
		}
	}
	size := 6
	if k.mode == "pertensor" {
		size = 60
	}
	for i := range 60 {
		if i%size == 0 {
			lines = append(lines, nil)
		}
		lines[i/size] = append(lines[i/size], i)
	}
	return lines, factor
}

func (k dynamicFloats) check(t *testing.T, name string, in dtype.Type, l kerneltest.Layout) {
	t.Helper()
	shape, scaleShape := []int64{2, 5, 6}, map[string][]int64{"pertoken": {2, 5}, "pertensor": {1}, "perchannel": {2, 6}}[k.mode]
	values := optest.Normal(3, in, 60)
	for i := range 6 {
		values[i] = 0                             // a row without range
		values[30+6*(i%5)] = 1.25                 // a column that is one number
		values[6+i] *= float64(int(1) << (2 * i)) // numbers of all sizes
		values[12+i] *= 0x1p-14
	}
	most := minifloat.Largest(k.d)
	if k.most > 0 && k.d == dtype.HiFloat8 {
		most = k.most
	}
	copy(values[18:], []float64{most, 1.0625, 1.1875, -1.0625, 1.125, 1.375}) // of scale 1: some lie between two numbers
	x := optest.TensorIn(t, in, l, shape, values...)
	y, scale, offset := optest.TensorIn(t, dtype.Uint8, l, shape, 99), optest.TensorIn(t, dtype.Float32, l, scaleShape), optest.TensorIn(t, dtype.Float32, l, scaleShape)
	bytes := *y
	y.DType = k.d
	a := optest.Args{"x": x, "dstType": k.d, "isSymmetrical": k.symmetric, "quantMode": k.mode, "dstTypeMax": k.most, "yOut": y, "scaleOut": scale}
	if !k.symmetric {
		a["offsetOut"] = offset
	}
	lines, factor := k.lines()
	v := optest.Values(x)
	if k.smooth {
		n := []int64{6}
		if k.mode == "perchannel" {
			n[0] = 5
		}
		if k.groups {
			n = []int64{2, 6}
			a["groupIndexOptional"] = optest.Tensor(t, dtype.Int32, []int64{2}, 4, 10)
		}
		smooth := optest.Tensor(t, in, n, optest.Normal(8, in, op.Count(n))...)
		a["smoothScalesOptional"] = smooth
		for i := range v {
			v[i] = single(v[i] * optest.Values(smooth)[factor(i)])
		}
	}
	if name == "DynamicQuantV3" {
		delete(a, "dstTypeMax")
	}
	optest.Run(t, name, a)
	got := optest.Values(&bytes)
	for i, line := range lines {
		var of []float64
		for _, place := range line {
			of = append(of, v[place])
		}
		codes, s, o := quantisedLine(k.d, most, of, k.symmetric)
		require.Equal(t, s, optest.Values(scale)[i], "the scale of line %d", i)
		if !k.symmetric {
			shift := optest.Values(offset)[i]
			require.True(t, shift == o || math.IsNaN(shift) && math.IsNaN(o), "the offset of line %d is %g, not %g", i, shift, o)
		}
		for j, place := range line {
			require.Equal(t, float64(codes[j]), got[place], "element %d of %g in line %d of scale %g", place, of[j], i, s)
		}
	}
}

// Scales, offsets and elements have the bits of the device's float32 steps.
func TestDynamicQuantisationToFloats(t *testing.T) {
	for i, d := range eightBitFloats {
		for j, mode := range []string{"pertoken", "pertensor", "perchannel"} {
			for _, symmetric := range []bool{true, false} {
				for n, in := range op.HalfTypes {
					for _, smooth := range []bool{false, true} {
						k := dynamicFloats{d: d, mode: mode, symmetric: symmetric, smooth: smooth}
						l := kerneltest.Layouts[(i+j+n)%len(kerneltest.Layouts)]
						t.Run(fmt.Sprintf("%+v/%v/%v", k, in, l), func(t *testing.T) {
							k.check(t, "DynamicQuantV3", in, l)
							for _, most := range []float64{0, 15, 32768} {
								k.most = most
								k.check(t, "DynamicQuantV4", in, l)
							}
							if smooth && mode == "pertoken" {
								k.groups = true
								k.check(t, "DynamicQuantV4", in, l)
							}
						})
					}
				}
			}
		}
	}
	x, scale := optest.Tensor(t, dtype.Float16, []int64{2, 4}, 1), optest.Tensor(t, dtype.Float32, []int64{2})
	y := optest.Minifloat(t, dtype.Float8E5M2, []int64{2, 4})
	rows := optest.Args{"x": x, "yOut": y, "scaleOut": scale}
	optest.RunOn(t, acceptance.Ascend950, "DynamicQuant", rows)
	optest.Refused(t, op.InvalidParam, "DynamicQuant", rows, "float8_e5m2")
	optest.Refused(t, op.InvalidParam, "DynamicQuantV2", rows.With(optest.Args{"dstType": y.DType}), "float8_e5m2")
	a := optest.Args{"x": x, "dstType": y.DType, "isSymmetrical": true, "quantMode": "pertoken", "yOut": y, "scaleOut": scale}
	optest.Run(t, "DynamicQuantV4", a)
	optest.Refused(t, op.TilingRefused, "DynamicQuantV4", a.With(optest.Args{"dstTypeMax": 40000.0}), "dstTypeMax is 40000")
	optest.Refused(t, op.InvalidParam, "DynamicQuantV4", a.With(optest.Args{"dstType": dtype.Float8E4M3}), "dstType")
	optest.Refused(t, op.InvalidParam, "DynamicQuantV4", a.With(optest.Args{"yOut": optest.Minifloat(t, dtype.Float8E5M2, []int64{2, 2})}))
}
