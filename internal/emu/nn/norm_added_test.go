package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// added is scale·a + b element by element; b may be a row that repeats.
func added(a, b []float64, scale float64) []float64 {
	sum := make([]float64, len(a))
	for i, v := range a {
		sum[i] = scale*v + b[i%len(b)]
	}
	return sum
}

func TestAddLayerNorm(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range normShapes {
				n := newRMSNorm(t, d, d, l, s.shape, s.inner)
				inner := n.gamma.Shape
				beta, mean, sum := filled(t, 4, d, kerneltest.Contiguous, inner), tensor(t, dtype.Float32, n.rstd.Shape), tensorIn(t, d, l, s.shape)
				x, dy := values(n.x), values(n.dy)
				for _, bias := range []*Tensor{nil, filled(t, 5, d, kerneltest.Contiguous, inner), filled(t, 6, d, l, s.shape)} {
					what := fmt.Sprintf("%v %v %v, %d inner, bias %v", d, l, s.shape, s.inner, bias)
					a := args{
						"x1": n.x, "x2": n.dy, "gamma": n.gamma, "beta": beta, "biasOptional": bias, "epsilon": epsilon, "additionalOutput": true,
						"yOut": n.y, "meanOut": mean, "rstdOut": n.rstd, "xOut": sum,
					}
					run(t, "AddLayerNorm", a)
					total := added(x, dy, 1)
					if bias != nil {
						total = added(total, values(bias), 1)
					}
					y, m, r := layerNormDefinition(total, values(n.gamma), values(beta))
					closeTo(t, "sum of "+what, total, values(sum), resultLimit(d))
					closeTo(t, "y of "+what, y, values(n.y), 2*resultLimit(d))
					closeTo(t, "mean of "+what, m, values(mean), 2e-6)
					closeTo(t, "rstd of "+what, r, values(n.rstd), 1e-5)
					run(t, "AddLayerNorm", a.with(args{"additionalOutput": false, "xOut": nil}))
				}
			}
		}
	}
	// Operands of two types give the wider one.
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{2, 5}, 1)
	half := filled(t, 2, dtype.Float16, kerneltest.Contiguous, []int64{2, 5})
	mean := tensor(t, dtype.Float32, []int64{2, 1})
	a := args{
		"x1": n.x, "x2": half, "gamma": n.gamma, "beta": n.gamma, "epsilon": epsilon, "yOut": n.y, "meanOut": mean, "rstdOut": n.rstd,
	}
	run(t, "AddLayerNorm", a)
	y, _, _ := layerNormDefinition(added(values(n.x), values(half), 1), values(n.gamma), values(n.gamma))
	closeTo(t, "mixed", y, values(n.y), 5e-6)
	refused(t, invalidParam, "AddLayerNorm", a.with(args{"yOut": half}), "yOut float16")
	refused(t, invalidParam, "AddLayerNorm", a.with(args{"biasOptional": tensor(t, dtype.Float32, []int64{2}, 1)}), "biasOptional float32[2]")
	refused(t, invalidParam, "AddLayerNorm", a.with(args{"x2": n.gamma}), "shapes differ")
	refused(t, nullPointer, "AddLayerNorm", a.with(args{"additionalOutput": true}), "xOut is null")
	refused(t, invalidParam, "AddLayerNorm", a.with(args{"meanOut": tensor(t, dtype.Float32, []int64{3, 1})}), "meanOut")
}

func TestAddedNormGrad(t *testing.T) {
	for _, d := range transformerTypes {
		for _, s := range normShapes {
			if s.inner == 1 && s.shape[len(s.shape)-1] == 1 {
				continue // the slope at a deviation of 0 is no difference quotient
			}
			n := newRMSNorm(t, d, d, kerneltest.Contiguous, s.shape, s.inner)
			inner := n.gamma.Shape
			what := fmt.Sprintf("%v %v, %d inner", d, s.shape, s.inner)
			other, more := filled(t, 7, d, kerneltest.Contiguous, s.shape), filled(t, 8, d, kerneltest.Contiguous, s.shape)
			mean, dgamma, dbeta := tensor(t, dtype.Float32, n.rstd.Shape), tensor(t, dtype.Float32, inner), tensor(t, dtype.Float32, inner)
			x, b, dy, gamma, beta := values(n.x), values(other), values(n.dy), values(n.gamma), make([]float64, elements(inner))
			for _, scale := range []float64{1, 0.3} {
				f := func(x, gamma, beta []float64) []float64 {
					y, _, _ := layerNormDefinition(added(x, b, scale), gamma, beta)
					return y
				}
				run(t, "DeepNorm", args{
					"x": n.x, "gx": other, "beta": tensor(t, d, inner, 0), "gamma": n.gamma, "alpha": scale, "epsilon": epsilon,
					"meanOut": mean, "rstdOut": n.rstd, "yOut": n.y,
				})
				closeTo(t, "y of "+what, f(x, gamma, beta), values(n.y), 3*resultLimit(d))
				dx := gradient(func(x []float64) []float64 { return f(x, gamma, beta) }, dy, x)
				if scale == 1 {
					a := args{
						"dy": n.dy, "x1": n.x, "x2": other, "rstd": n.rstd, "mean": mean, "gamma": n.gamma, "dsumOptional": more,
						"dxOut": n.dx, "dgammaOut": dgamma, "dbetaOut": dbeta,
					}
					run(t, "AddLayerNormGrad", a)
					closeTo(t, "dx and more of "+what, added(dx, values(more), 1), values(n.dx), 4*resultLimit(d)+2e-5)
					run(t, "AddLayerNormGrad", a.with(args{"dsumOptional": nil}))
				} else {
					dgx := tensor(t, d, s.shape)
					run(t, "DeepNormGrad", args{
						"dy": n.dy, "x": n.x, "gx": other, "gamma": n.gamma, "mean": mean, "rstd": n.rstd, "alpha": scale,
						"dxOut": n.dx, "dgxOut": dgx, "dbetaOut": dbeta, "dgammaOut": dgamma,
					})
					closeTo(t, "dgx of "+what, values(n.dx), added(values(dgx), []float64{0}, scale), 2*resultLimit(d))
				}
				closeTo(t, "dx of "+what, dx, values(n.dx), 4*resultLimit(d)+2e-5)
				want := gradient(func(gamma []float64) []float64 { return f(x, gamma, beta) }, dy, gamma)
				closeTo(t, "dgamma of "+what, want, values(dgamma), 1e-5)
				want = gradient(func(beta []float64) []float64 { return f(x, gamma, beta) }, dy, beta)
				closeTo(t, "dbeta of "+what, want, values(dbeta), 1e-5)
			}
		}
	}
	none, stats := tensor(t, dtype.Float32, []int64{0, 3}), tensor(t, dtype.Float32, []int64{0, 1})
	row, dgamma, dbeta := tensor(t, dtype.Float32, []int64{3}, 1), tensor(t, dtype.Float32, []int64{3}, 1), tensor(t, dtype.Float32, []int64{3}, 1)
	a := args{
		"dy": none, "x1": none, "x2": none, "rstd": stats, "mean": stats, "gamma": row, "dxOut": none, "dgammaOut": dgamma, "dbetaOut": dbeta,
	}
	run(t, "AddLayerNormGrad", a)
	assert.Equal(t, make([]float64, 6), append(values(dgamma), values(dbeta)...))
	refused(t, invalidParam, "AddLayerNormGrad", a.with(args{"dgammaOut": tensor(t, dtype.Float16, []int64{3})}), "dgammaOut float16")
	refused(t, nullPointer, "AddLayerNormGrad", a.with(args{"mean": nil}), "mean is null")
	refused(t, invalidParam, "AddLayerNormGrad", a.with(args{"dsumOptional": row}), "shapes differ")
}

func TestGemmaRMSNorm(t *testing.T) {
	for _, d := range transformerTypes {
		n := newRMSNorm(t, d, d, kerneltest.Contiguous, []int64{3, 4, 9}, 1)
		run(t, "GemmaRmsNorm", n.forward())
		y, rstd := rmsNormDefinition(values(n.x), added(values(n.gamma), []float64{1}, 1))
		closeTo(t, "y", y, values(n.y), resultLimit(d))
		closeTo(t, "rstd", rstd, values(n.rstd), 1e-6)
	}
}

func TestLayerNormNames(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{4, 6}, 1)
	a := args{"input": n.x, "normalizedShape": []int64{6}, "weightOptional": n.gamma, "eps": epsilon, "out": n.y}
	want, _, _ := layerNormDefinition(values(n.x), values(n.gamma), make([]float64, 6))
	for name, more := range map[string]args{"FastLayerNorm": {}, "LayerNormWithImplMode": {"implMode": 1}} {
		fill(n.y, 0)
		run(t, name, a.with(more))
		closeTo(t, name, want, values(n.y), 3e-6)
	}
	refused(t, invalidParam, "LayerNormWithImplMode", a.with(args{"implMode": 3}), "implMode 3")
}

// adaptedDefinition is layerNormDefinition · (1 + scale) + shift; rows share them.
func adaptedDefinition(x, weight, bias, scale, shift []float64, rows int) []float64 {
	y, _, _ := layerNormDefinition(x, weight, bias)
	width := len(weight)
	for i := range y {
		k := i/(width*rows)*width + i%width
		y[i] = y[i]*(1+scale[k]) + shift[k]
	}
	return y
}

func TestAdaLayerNorm(t *testing.T) {
	for _, d := range transformerTypes {
		for _, shape := range [][]int64{{2, 3, 7}, {4, 5}, {2, 2, 1, 9}, {1, 1, 3}} {
			last := len(shape) - 1
			h, rows := shape[last], int(shape[last-1])
			wide := append(append([]int64{}, shape[:last-1]...), h)
			narrow := append(append([]int64{}, shape[:last-1]...), 1, h)
			x, dy, weight, bias := filled(t, 1, d, kerneltest.Gapped, shape), filled(t, 2, d, kerneltest.Contiguous, shape), filled(t, 3, d, kerneltest.Contiguous, []int64{h}), filled(t, 4, d, kerneltest.Contiguous, []int64{h})
			out, stats := tensor(t, d, shape), append(append([]int64{}, shape[:last]...), 1)
			mean, rstd := tensor(t, dtype.Float32, stats), tensor(t, dtype.Float32, stats)
			for _, form := range [][]int64{wide, narrow} {
				what := fmt.Sprintf("%v %v by %v", d, shape, form)
				scale, shift := filled(t, 5, d, kerneltest.Contiguous, form), filled(t, 6, d, kerneltest.Contiguous, form)
				f := func(x, weight, bias, scale, shift []float64) []float64 {
					return adaptedDefinition(x, weight, bias, scale, shift, rows)
				}
				xs, ws, bs, ss, hs := values(x), values(weight), values(bias), values(scale), values(shift)
				a := args{"x": x, "scale": scale, "shift": shift, "weightOptional": weight, "biasOptional": bias, "epsilon": epsilon, "out": out}
				run(t, "AdaLayerNorm", a)
				want := f(xs, ws, bs, ss, hs)
				closeTo(t, "y of "+what, want, values(out), 3*resultLimit(d))
				run(t, "AdaLayerNormV2", a.with(args{"meanOutOptional": mean, "rstdOutOptional": rstd}))
				closeTo(t, "y of "+what, want, values(out), 3*resultLimit(d))
				quant, extent := tensor(t, dtype.Int8, shape), tensor(t, dtype.Float32, shape[:last])
				run(t, "AdaLayerNormQuant", a.with(args{"quantMode": "dynamic", "out": quant, "quantScale": extent}))
				for i, q := range values(quant) {
					assert.InDelta(t, want[i], q*values(extent)[i/int(h)], 0.51*values(extent)[i/int(h)]+1e-4, what)
				}
				dx, dscale, dshift, dweight, dbias := tensor(t, d, shape), tensor(t, d, form), tensor(t, d, form), tensor(t, d, []int64{h}), tensor(t, d, []int64{h})
				run(t, "AdaLayerNormBackward", args{
					"gradOut": dy, "input": x, "normalizedShape": []int64{h}, "rstd": rstd, "mean": mean, "scale": scale, "shift": shift,
					"weightOptional": weight, "biasOptional": bias, "gradInputOut": dx, "gradScaleOut": dscale, "gradShiftOut": dshift,
					"gradWeightOut": dweight, "gradBiasOut": dbias,
				})
				g := values(dy)
				for _, o := range []struct {
					name string
					got  *Tensor
					at   []float64
					f    func(v []float64) []float64
				}{
					{"dx", dx, xs, func(v []float64) []float64 { return f(v, ws, bs, ss, hs) }},
					{"dweight", dweight, ws, func(v []float64) []float64 { return f(xs, v, bs, ss, hs) }},
					{"dbias", dbias, bs, func(v []float64) []float64 { return f(xs, ws, v, ss, hs) }},
					{"dscale", dscale, ss, func(v []float64) []float64 { return f(xs, ws, bs, v, hs) }},
					{"dshift", dshift, hs, func(v []float64) []float64 { return f(xs, ws, bs, ss, v) }},
				} {
					closeTo(t, o.name+" of "+what, gradient(o.f, g, o.at), values(o.got), 5*resultLimit(d)+2e-5)
				}
			}
		}
	}
	f := dtype.Float32
	x, row := tensor(t, f, []int64{2, 3, 4}, 1), tensor(t, f, []int64{2, 4}, 1)
	a := args{"x": x, "scale": row, "shift": row, "epsilon": epsilon, "out": tensor(t, f, []int64{2, 3, 4})}
	refused(t, invalidParam, "AdaLayerNorm", a.with(args{"scale": tensor(t, f, []int64{2, 3}, 1)}), "scale float32[2,3]")
	refused(t, invalidParam, "AdaLayerNorm", a.with(args{"shift": tensor(t, f, []int64{4}, 1)}), "shift float32[4]")
	refused(t, invalidParam, "AdaLayerNorm", a.with(args{"weightOptional": row}), "weightOptional float32[2,4]")
	refused(t, nullPointer, "AdaLayerNorm", a.with(args{"scale": nil}), "scale is null")
	q := a.with(args{"out": tensor(t, dtype.Int8, []int64{2, 3, 4}), "quantScale": tensor(t, f, []int64{2, 3}), "quantMode": "static"})
	refused(t, invalidParam, "AdaLayerNormQuant", q, "quantMode \"static\"")
}

// The forms of AddRmsNorm with a cast and in place give what the definition does of the sum.
func TestAddRmsNormForms(t *testing.T) {
	for _, shape := range [][]int64{{3, 4}, {1, 1}, {2, 3, 33}, {0, 4}} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %v", shape, d, l)
				last := shape[len(shape)-1:]
				x1, x2, gamma := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape), filled(t, 3, d, kerneltest.Contiguous, last)
				wide, y, sum := tensorIn(t, dtype.Float32, l, shape), tensorIn(t, d, l, shape), tensorIn(t, d, l, shape)
				rstd := tensor(t, dtype.Float32, append(slices.Clone(shape[:len(shape)-1]), 1))
				total := added(values(x1), values(x2), 1)
				want, wantRstd := rmsNormDefinition(total, values(gamma))
				a := args{"x1": x1, "x2": x2, "gamma": gamma, "epsilon": epsilon, "y1Out": wide, "y2Out": y, "rstdOut": rstd, "xOut": sum}
				run(t, "AddRmsNormCast", a)
				closeTo(t, what, want, values(wide), resultLimit(dtype.Float32))
				closeTo(t, what, want, values(y), resultLimit(d))
				closeTo(t, what, total, values(sum), resultLimit(d))
				closeTo(t, what, wantRstd, values(rstd), resultLimit(dtype.Float32))
				refused(t, invalidParam, "AddRmsNormCast", a.with(args{"y1Out": tensor(t, dtype.Int32, shape)}), "y1Out")
				run(t, "InplaceAddRmsNorm", args{"x1Ref": x1, "x2Ref": x2, "gamma": gamma, "epsilon": epsilon, "rstdOut": rstd})
				closeTo(t, what, want, values(x1), 2*resultLimit(d))
				closeTo(t, what, total, values(x2), resultLimit(d))
			}
		}
	}
}
