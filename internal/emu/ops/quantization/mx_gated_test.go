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

// roundedForms are the forms with the scales of algorithms 0 and 1, for numbers that are rounded to a type first.
func roundedForms(d dtype.Type) (forms []mxForm) {
	for _, f := range mxForms {
		if f.algorithm < 2 {
			f.slack = map[dtype.Type]float64{dtype.Float16: 0x1p-10, dtype.BFloat16: 0x1p-7}[d]
			forms = append(forms, f)
		}
	}
	return forms
}

// gatedAlong returns f(a)·b of the halves a and b of an axis, with the first half as a if left is set.
func gatedAlong(x []float64, shape []int64, axis int, left bool, f func(a, b float64) float64) []float64 {
	n, inner := shape[axis], optest.Elements(shape[axis+1:])
	out := make([]float64, 0, len(x)/2)
	for row := range optest.Elements(shape[:axis]) {
		for k := range n / 2 {
			for j := range inner {
				a, b := x[(row*n+k)*inner+j], x[(row*n+n/2+k)*inner+j]
				if !left {
					a, b = b, a
				}
				out = append(out, f(a, b))
			}
		}
	}
	return out
}

func swish(a, b float64) float64 { return a * optest.Sigmoid(a) * b }

func TestSwigluMxQuant(t *testing.T) {
	n := 0
	for k, d := range halfFloats {
		for i, f := range roundedForms(d) {
			for j, c := range []struct {
				shape       []int64
				gated, axis int
			}{{[]int64{3, 140}, 1, 1}, {[]int64{3, 80}, -1, -1}, {[]int64{70, 12}, -1, -2}, {[]int64{68, 6}, 0, 0}, {[]int64{2, 66, 40}, 1, 2}, {[]int64{2, 3, 64}, 2, 2}, {[]int64{1, 2, 33, 8}, -1, 2}} {
				r := len(c.shape)
				gated, axis, half := (c.gated+r)%r, (c.axis+r)%r, slices.Clone(c.shape)
				half[gated] /= 2
				x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], c.shape)
				y, scale, left := optest.Minifloat(t, f.d, half), scalesOf(t, half, axis, 32), n%2 == 0
				a := optest.Args{"x": x, "activateDim": c.gated, "activateLeft": left, "axis": c.axis, "dstType": f.d, "roundModeOptional": f.rounding, "scaleAlg": f.algorithm, "yOut": y, "mxscaleOut": scale}
				want := gatedAlong(optest.Values(x), c.shape, gated, left, swish)
				if gated == r-1 && n%3 == 0 {
					a["swigluMode"], a["clampLimit"], a["gluAlpha"], a["gluBias"] = 1, 1.25, 1.7, 0.5
					v := optest.Values(x)
					for i := range want {
						glu, linear := min(v[2*i], 1.25), min(max(v[2*i+1], -1.25), 1.25)
						want[i] = glu * optest.Sigmoid(1.7*glu) * (linear + 0.5)
					}
				}
				optest.Run(t, "SwigluMxQuant", a)
				f.along(t, fmt.Sprintf("%v of %v %v", f, d, c), half, axis, 32, want, optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale), 0)
				n++
			}
		}
	}
	require.Greater(t, n, 100)
}

// Groups count rows; the rows after them keep what they have.
func TestSwigluMxQuantGroups(t *testing.T) {
	for _, f := range []mxForm{{dtype.Float8E4M3, 0, 0, "rint", 0x1p-10}, {dtype.Float4E2M1, 0, 0, "rint", 0x1p-10}} {
		x := optest.Filled(t, 3, dtype.Float16, kerneltest.Contiguous, []int64{2, 3, 80})
		fill := make([]float64, 240)
		for i := range fill {
			fill[i] = 1
		}
		y, scale := optest.Minifloat(t, f.d, []int64{2, 3, 40}, fill[:240]...), optest.Minifloat(t, dtype.Float8E8M0, []int64{2, 3, 1, 2}, fill[:12]...)
		optest.Run(t, "SwigluMxQuant", optest.Args{
			"x": x, "groupIndexOptional": optest.Tensor(t, dtype.Int64, []int64{2}, 3, 1), "activateDim": -1, "activateLeft": true, "axis": -1, "dstType": f.d, "yOut": y, "mxscaleOut": scale,
		})
		want := gatedAlong(optest.Values(x), []int64{6, 80}, 1, true, swish)
		got, scales := optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale)
		f.along(t, "groups", []int64{4, 40}, 1, 32, want[:160], got[:160], scales[:8], 0)
		require.Equal(t, fill[160:], got[160:])
		require.Equal(t, fill[:4], scales[8:])
	}
}

func TestSwigluMxQuantWithDualAxis(t *testing.T) {
	n := 0
	for k, d := range halfFloats {
		for i, f := range roundedForms(d) {
			for j, ends := range [][]float64{nil, {70}, {3, 36, 100}, nil} {
				shape := []int64{33, 80}
				if j == 3 {
					shape = []int64{2, 136}
				}
				if ends != nil {
					shape[0] = int64(ends[len(ends)-1])
				}
				half, left := []int64{shape[0], shape[1] / 2}, n%2 == 0
				x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], shape)
				y1, s1, y2, s2 := optest.Minifloat(t, f.d, half), scalesOf(t, half, 1, 32), optest.Minifloat(t, f.d, half), scalesOf(t, half, 0, 32)
				a := optest.Args{"x": x, "activateLeft": left, "roundModeOptional": f.rounding, "scaleAlg": f.algorithm, "dstType": f.d, "y1Out": y1, "mxscale1Out": s1, "y2Out": y2}
				groups := []float64{float64(shape[0])}
				if ends != nil {
					groups = ends
					a["groupIndexOptional"] = optest.Tensor(t, dtype.Int64, []int64{int64(len(ends))}, ends...)
					s2 = optest.Minifloat(t, dtype.Float8E8M0, []int64{shape[0]/64 + int64(len(ends)), half[1], 2})
				}
				optest.Run(t, "SwigluMxQuantWithDualAxis", a.With(optest.Args{"mxscale2Out": s2}))
				what, want := fmt.Sprintf("%v of %v %v, groups %v", f, d, shape, ends), gatedAlong(optest.Values(x), shape, 1, left, swish)
				f.along(t, what, half, 1, 32, want, optest.MinifloatValues(t, y1), optest.MinifloatValues(t, s1), 0)
				got, scales, first := optest.MinifloatValues(t, y2), optest.MinifloatValues(t, s2), int64(0)
				for g, e := range groups {
					end, wide := int64(e), half[1]
					at := (first/64 + int64(g)) * wide * 2
					f.along(t, what, []int64{end - first, wide}, 0, 32, want[first*wide:end*wide], got[first*wide:end*wide], scales[at:at+(end-first+63)/64*wide*2], 0)
					first = end
				}
				n++
			}
		}
	}
	require.Greater(t, n, 50)
}

func TestSituMxQuant(t *testing.T) {
	n := 0
	for k, d := range halfFloats {
		for i, f := range roundedForms(d) {
			if f.d.Bits() == 4 || f.algorithm != 0 {
				continue
			}
			for j, shape := range [][]int64{{3, 140}, {2, 3, 64}, {4, 2}, {2, 260}, {1, 1, 5, 66}} {
				for _, linear := range []float64{0, 0.75} {
					last, half, left := len(shape)-1, slices.Clone(shape), n%2 == 0
					half[last] /= 2
					x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], shape)
					y, scale := optest.Minifloat(t, f.d, half), scalesOf(t, half, last, 32)
					optest.Run(t, "SituMxQuant", optest.Args{"x": x, "beta": 1.5, "linearBeta": linear, "activateLeft": left, "axis": -1, "dstType": f.d, "yOut": y, "yScaleOut": scale})
					want := gatedAlong(optest.Values(x), shape, last, left, func(gate, up float64) float64 {
						if linear > 0 {
							up = linear * math.Tanh(up/linear)
						}
						return 1.5 * math.Tanh(gate/1.5) * optest.Sigmoid(gate) * up
					})
					f.along(t, fmt.Sprintf("%v of %v %v, linear %g", f, d, shape, linear), half, last, 32, want, optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale), 0)
					n++
				}
			}
		}
	}
	require.GreaterOrEqual(t, n, 40)
}

func TestDynamicDualLevelMxQuant(t *testing.T) {
	n := 0
	for k, d := range halfFloats {
		for i, rounding := range []string{"rint", "round", "floor"} {
			for j, shape := range [][]int64{{3, 40}, {2, 1026}, {1, 2, 512}, {2, 70}} {
				for _, smoothed := range []bool{false, true} {
					f := mxForm{dtype.Float4E2M1, 0, 0, rounding, 0}
					last := len(shape) - 1
					wide := shape[last]
					x := optest.Filled(t, uint64(n), d, kerneltest.Layouts[(i+j+k)%len(kerneltest.Layouts)], shape)
					y, scale := optest.Minifloat(t, f.d, shape), scalesOf(t, shape, last, 32)
					blocks := (wide + 511) / 512
					coarse := optest.Tensor(t, dtype.Float32, append(slices.Clone(shape[:last]), blocks))
					a := optest.Args{"x": x, "roundModeOptional": rounding, "level0BlockSize": 512, "level1BlockSize": 32, "yOut": y, "level0ScaleOut": coarse, "level1ScaleOut": scale}
					v := optest.Values(x)
					if smoothed {
						smooth := optest.Filled(t, 9, d, kerneltest.Contiguous, []int64{wide})
						a["smoothScaleOptional"] = smooth
						for i, s := 0, optest.Values(smooth); i < len(v); i++ {
							v[i] = kerneltest.Round(d, v[i]*s[i%len(s)])
						}
					}
					optest.Run(t, "DynamicDualLevelMxQuant", a)
					found := optest.Values(coarse)
					for row := range optest.Elements(shape[:last]) {
						for b := range blocks {
							block, most := v[row*wide+b*512:row*wide+min(b*512+512, wide)], 0.0
							for _, u := range block {
								most = max(most, math.Abs(u))
							}
							s := found[row*blocks+b]
							require.InEpsilon(t, most/6, s, 1e-6)
							for i := range block {
								block[i] = kerneltest.Round(d, kerneltest.Round(dtype.Float32, block[i]/s))
							}
						}
					}
					f.along(t, fmt.Sprintf("%v of %v %v, smoothed %t", f, d, shape, smoothed), shape, last, 32, v, optest.MinifloatValues(t, y), optest.MinifloatValues(t, scale), 0)
					n++
				}
			}
		}
	}
	require.GreaterOrEqual(t, n, 48)
	zeros := optest.Tensor(t, dtype.Float16, []int64{1, 4}, 0)
	y, scale, coarse := optest.Minifloat(t, dtype.Float4E2M1, []int64{1, 4}), optest.Minifloat(t, dtype.Float8E8M0, []int64{1, 1, 2}), optest.Tensor(t, dtype.Float32, []int64{1, 1}, 5)
	optest.Run(t, "DynamicDualLevelMxQuant", optest.Args{"x": zeros, "level0BlockSize": 512, "level1BlockSize": 32, "yOut": y, "level0ScaleOut": coarse, "level1ScaleOut": scale})
	require.Equal(t, make([]float64, 4), optest.MinifloatValues(t, y))
	require.Equal(t, []float64{0}, optest.Values(coarse))
}

func TestMxGatesRefuse(t *testing.T) {
	half := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	e4 := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float8E4M3, shape) }
	e2 := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float4E2M1, shape) }
	s := func(shape ...int64) *op.Tensor { return optest.Minifloat(t, dtype.Float8E8M0, shape) }
	groups := optest.Tensor(t, dtype.Int64, []int64{1}, 4)
	gate := optest.Args{"x": half(4, 80), "activateDim": -1, "axis": -1, "dstType": dtype.Float8E4M3, "yOut": e4(4, 40), "mxscaleOut": s(4, 1, 2)}
	dual := optest.Args{"x": half(4, 80), "dstType": dtype.Float8E4M3, "y1Out": e4(4, 40), "mxscale1Out": s(4, 1, 2), "y2Out": e4(4, 40), "mxscale2Out": s(1, 40, 2)}
	situ := optest.Args{"x": half(4, 80), "beta": 1.0, "axis": -1, "dstType": dtype.Float8E4M3, "yOut": e4(4, 40), "yScaleOut": s(4, 1, 2)}
	levels := optest.Args{"x": half(4, 40), "level0BlockSize": 512, "level1BlockSize": 32, "yOut": e2(4, 40), "level0ScaleOut": optest.Tensor(t, dtype.Float32, []int64{4, 1}), "level1ScaleOut": s(4, 1, 2)}
	for _, c := range []struct {
		name string
		base optest.Args
		code int32
		text string
		set  optest.Args
	}{
		{"SwigluMxQuant", gate, op.TilingRefused, "swigluMode is 2", optest.Args{"swigluMode": 2}},
		{"SwigluMxQuant", gate, op.TilingRefused, "clampLimit is 0", optest.Args{"swigluMode": 1}},
		{"SwigluMxQuant", gate, op.TilingRefused, "clampLimit is +Inf", optest.Args{"swigluMode": 1, "clampLimit": math.Inf(1)}},
		{"SwigluMxQuant", gate, op.TilingRefused, "activateDim must be", optest.Args{"swigluMode": 1, "clampLimit": 1.0, "activateDim": 0}},
		{"SwigluMxQuant", gate, op.TilingRefused, "maxDtypeValue", optest.Args{"maxDtypeValue": 6.0}},
		{"SwigluMxQuant", gate, op.TilingRefused, "scaleAlg is 2", optest.Args{"scaleAlg": 2}},
		{"SwigluMxQuant", gate, op.TilingRefused, "must be even", optest.Args{"x": half(4, 81)}},
		{"SwigluMxQuant", gate, op.TilingRefused, "last two", optest.Args{"x": half(2, 2, 80), "axis": 0, "yOut": e4(2, 2, 40), "mxscaleOut": s(2, 2, 1, 2)}},
		{"SwigluMxQuant", gate, op.TilingRefused, "groupMode is 1", optest.Args{"groupIndexOptional": groups, "groupMode": 1}},
		{"SwigluMxQuant", gate, op.TilingRefused, "not the last dimension", optest.Args{"groupIndexOptional": groups, "axis": 0, "mxscaleOut": s(1, 40, 2)}},
		{"SwigluMxQuant", gate, op.InvalidParam, "dtype", optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 4)}},
		{"SwigluMxQuantWithDualAxis", dual, op.TilingRefused, "maxDtypeValue", optest.Args{"maxDtypeValue": 1.0}},
		{"SwigluMxQuantWithDualAxis", dual, op.TilingRefused, "scaleAlg is 2", optest.Args{"scaleAlg": 2}},
		{"SwigluMxQuantWithDualAxis", dual, op.TilingRefused, "pairs of scales", optest.Args{"mxscale2Out": s(2, 40, 2)}},
		{"SwigluMxQuantWithDualAxis", dual, op.InvalidParam, "dtype", optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 4)}},
		{"SituMxQuant", situ, op.TilingRefused, "beta is 0", optest.Args{"beta": 0.0}},
		{"SituMxQuant", situ, op.TilingRefused, "axis is 1", optest.Args{"axis": 1}},
		{"SituMxQuant", situ, op.InvalidParam, "dtype", optest.Args{"yOut": e2(4, 40)}},
		{"SituMxQuant", situ, op.TilingRefused, "linearBeta is NaN", optest.Args{"linearBeta": math.NaN()}},
		{"DynamicDualLevelMxQuant", levels, op.TilingRefused, "level0BlockSize", optest.Args{"level0BlockSize": 256}},
		{"DynamicDualLevelMxQuant", levels, op.TilingRefused, "level1BlockSize", optest.Args{"level1BlockSize": 64}},
		{"DynamicDualLevelMxQuant", levels, op.TilingRefused, "blocks of 512", optest.Args{"level0ScaleOut": optest.Tensor(t, dtype.Float32, []int64{4, 2})}},
		{"DynamicDualLevelMxQuant", levels, op.InvalidParam, "dtypes differ", optest.Args{"smoothScaleOptional": optest.Tensor(t, dtype.BFloat16, []int64{40}, 1)}},
	} {
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, c.name, c.base.With(c.set))
		var e *op.Error
		require.ErrorAs(t, err, &e, "%s %s", c.name, c.text)
		require.Equal(t, c.code, e.Code, e.Text)
		require.Contains(t, e.Text, c.text)
	}
	none := optest.Tensor(t, dtype.Int64, []int64{2}, 0, 4)
	require.ErrorContains(t, optest.Execute(t, "SwigluMxQuant", gate.With(optest.Args{"groupIndexOptional": none})), "group 0 without rows")
	dual = dual.With(optest.Args{"groupIndexOptional": none, "mxscale2Out": s(2, 40, 2)})
	require.ErrorContains(t, optest.Execute(t, "SwigluMxQuantWithDualAxis", dual), "group 0 without rows")
}
