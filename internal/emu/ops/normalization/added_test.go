package normalization

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestAddLayerNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range normShapes {
				n := newRMSNorm(t, d, d, l, s.shape, s.inner)
				inner := n.gamma.Shape
				beta, mean, sum := optest.Filled(t, 4, d, kerneltest.Contiguous, inner), optest.Tensor(t, dtype.Float32, n.rstd.Shape), optest.TensorIn(t, d, l, s.shape)
				x, dy := optest.Values(n.x), optest.Values(n.dy)
				for _, bias := range []*op.Tensor{nil, optest.Filled(t, 5, d, kerneltest.Contiguous, inner), optest.Filled(t, 6, d, l, s.shape)} {
					what := fmt.Sprintf("%v %v %v, %d inner, bias %v", d, l, s.shape, s.inner, bias)
					a := optest.Args{
						"x1": n.x, "x2": n.dy, "gamma": n.gamma, "beta": beta, "biasOptional": bias, "epsilon": epsilon, "additionalOutput": true,
						"yOut": n.y, "meanOut": mean, "rstdOut": n.rstd, "xOut": sum,
					}
					optest.Run(t, "AddLayerNorm", a)
					total := optest.Added(x, dy, 1)
					if bias != nil {
						total = optest.Added(total, optest.Values(bias), 1)
					}
					y, m, r := layerNormDefinition(total, optest.Values(n.gamma), optest.Values(beta))
					optest.CloseTo(t, "sum of "+what, total, optest.Values(sum), optest.ResultLimit(d))
					optest.CloseTo(t, "y of "+what, y, optest.Values(n.y), 2*optest.ResultLimit(d))
					optest.CloseTo(t, "mean of "+what, m, optest.Values(mean), 2e-6)
					optest.CloseTo(t, "rstd of "+what, r, optest.Values(n.rstd), 1e-5)
					optest.Run(t, "AddLayerNorm", a.With(optest.Args{"additionalOutput": false, "xOut": nil}))
				}
			}
		}
	}
	// Operands of two types produce the wider type.
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{2, 5}, 1)
	half := optest.Filled(t, 2, dtype.Float16, kerneltest.Contiguous, []int64{2, 5})
	mean := optest.Tensor(t, dtype.Float32, []int64{2, 1})
	a := optest.Args{
		"x1": n.x, "x2": half, "gamma": n.gamma, "beta": n.gamma, "epsilon": epsilon, "yOut": n.y, "meanOut": mean, "rstdOut": n.rstd,
	}
	optest.Run(t, "AddLayerNorm", a)
	y, _, _ := layerNormDefinition(optest.Added(optest.Values(n.x), optest.Values(half), 1), optest.Values(n.gamma), optest.Values(n.gamma))
	optest.CloseTo(t, "mixed", y, optest.Values(n.y), 5e-6)
	optest.Refused(t, op.InvalidParam, "AddLayerNorm", a.With(optest.Args{"yOut": half}), "yOut float16")
	optest.Refused(t, op.InvalidParam, "AddLayerNorm", a.With(optest.Args{"biasOptional": optest.Tensor(t, dtype.Float32, []int64{2}, 1)}), "biasOptional float32[2]")
	optest.Refused(t, op.InvalidParam, "AddLayerNorm", a.With(optest.Args{"x2": n.gamma}), "shapes differ")
	optest.Refused(t, op.NullPointer, "AddLayerNorm", a.With(optest.Args{"additionalOutput": true}), "xOut is null")
	optest.Refused(t, op.InvalidParam, "AddLayerNorm", a.With(optest.Args{"meanOut": optest.Tensor(t, dtype.Float32, []int64{3, 1})}), "meanOut")
}

func TestAddedNormGrad(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, s := range normShapes {
			if s.inner == 1 && s.shape[len(s.shape)-1] == 1 {
				continue // a difference quotient fails at a deviation of 0
			}
			n := newRMSNorm(t, d, d, kerneltest.Contiguous, s.shape, s.inner)
			inner := n.gamma.Shape
			what := fmt.Sprintf("%v %v, %d inner", d, s.shape, s.inner)
			other, more := optest.Filled(t, 7, d, kerneltest.Contiguous, s.shape), optest.Filled(t, 8, d, kerneltest.Contiguous, s.shape)
			mean, dgamma, dbeta := optest.Tensor(t, dtype.Float32, n.rstd.Shape), optest.Tensor(t, dtype.Float32, inner), optest.Tensor(t, dtype.Float32, inner)
			x, b, dy, gamma, beta := optest.Values(n.x), optest.Values(other), optest.Values(n.dy), optest.Values(n.gamma), make([]float64, optest.Elements(inner))
			for _, scale := range []float64{1, 0.3} {
				f := func(x, gamma, beta []float64) []float64 {
					y, _, _ := layerNormDefinition(optest.Added(x, b, scale), gamma, beta)
					return y
				}
				optest.Run(t, "DeepNorm", optest.Args{
					"x": n.x, "gx": other, "beta": optest.Tensor(t, d, inner, 0), "gamma": n.gamma, "alpha": scale, "epsilon": epsilon,
					"meanOut": mean, "rstdOut": n.rstd, "yOut": n.y,
				})
				optest.CloseTo(t, "y of "+what, f(x, gamma, beta), optest.Values(n.y), 3*optest.ResultLimit(d))
				dx := optest.Gradient(func(x []float64) []float64 { return f(x, gamma, beta) }, dy, x)
				if scale == 1 {
					a := optest.Args{
						"dy": n.dy, "x1": n.x, "x2": other, "rstd": n.rstd, "mean": mean, "gamma": n.gamma, "dsumOptional": more,
						"dxOut": n.dx, "dgammaOut": dgamma, "dbetaOut": dbeta,
					}
					optest.Run(t, "AddLayerNormGrad", a)
					optest.CloseTo(t, "dx and more of "+what, optest.Added(dx, optest.Values(more), 1), optest.Values(n.dx), 4*optest.ResultLimit(d)+2e-5)
					optest.Run(t, "AddLayerNormGrad", a.With(optest.Args{"dsumOptional": nil}))
				} else {
					dgx := optest.Tensor(t, d, s.shape)
					optest.Run(t, "DeepNormGrad", optest.Args{
						"dy": n.dy, "x": n.x, "gx": other, "gamma": n.gamma, "mean": mean, "rstd": n.rstd, "alpha": scale,
						"dxOut": n.dx, "dgxOut": dgx, "dbetaOut": dbeta, "dgammaOut": dgamma,
					})
					optest.CloseTo(t, "dgx of "+what, optest.Values(n.dx), optest.Added(optest.Values(dgx), []float64{0}, scale), 2*optest.ResultLimit(d))
				}
				optest.CloseTo(t, "dx of "+what, dx, optest.Values(n.dx), 4*optest.ResultLimit(d)+2e-5)
				want := optest.Gradient(func(gamma []float64) []float64 { return f(x, gamma, beta) }, dy, gamma)
				optest.CloseTo(t, "dgamma of "+what, want, optest.Values(dgamma), 1e-5)
				want = optest.Gradient(func(beta []float64) []float64 { return f(x, gamma, beta) }, dy, beta)
				optest.CloseTo(t, "dbeta of "+what, want, optest.Values(dbeta), 1e-5)
			}
		}
	}
	none, stats := optest.Tensor(t, dtype.Float32, []int64{0, 3}), optest.Tensor(t, dtype.Float32, []int64{0, 1})
	row, dgamma, dbeta := optest.Tensor(t, dtype.Float32, []int64{3}, 1), optest.Tensor(t, dtype.Float32, []int64{3}, 1), optest.Tensor(t, dtype.Float32, []int64{3}, 1)
	a := optest.Args{
		"dy": none, "x1": none, "x2": none, "rstd": stats, "mean": stats, "gamma": row, "dxOut": none, "dgammaOut": dgamma, "dbetaOut": dbeta,
	}
	optest.Run(t, "AddLayerNormGrad", a)
	assert.Equal(t, make([]float64, 6), append(optest.Values(dgamma), optest.Values(dbeta)...))
	optest.Refused(t, op.InvalidParam, "AddLayerNormGrad", a.With(optest.Args{"dgammaOut": optest.Tensor(t, dtype.Float16, []int64{3})}), "dgammaOut float16")
	optest.Refused(t, op.NullPointer, "AddLayerNormGrad", a.With(optest.Args{"mean": nil}), "mean is null")
	optest.Refused(t, op.InvalidParam, "AddLayerNormGrad", a.With(optest.Args{"dsumOptional": row}), "shapes differ")
}

func TestGemmaRMSNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		n := newRMSNorm(t, d, d, kerneltest.Contiguous, []int64{3, 4, 9}, 1)
		optest.Run(t, "GemmaRmsNorm", n.forward())
		y, rstd := optest.RMSNorm(optest.Values(n.x), optest.Added(optest.Values(n.gamma), []float64{1}, 1))
		optest.CloseTo(t, "y", y, optest.Values(n.y), optest.ResultLimit(d))
		optest.CloseTo(t, "rstd", rstd, optest.Values(n.rstd), 1e-6)
	}
}

func TestLayerNormNames(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{4, 6}, 1)
	a := optest.Args{"input": n.x, "normalizedShape": []int64{6}, "weightOptional": n.gamma, "eps": epsilon, "out": n.y}
	want, _, _ := layerNormDefinition(optest.Values(n.x), optest.Values(n.gamma), make([]float64, 6))
	for name, more := range map[string]optest.Args{"FastLayerNorm": {}, "LayerNormWithImplMode": {"implMode": 1}} {
		optest.Fill(n.y, 0)
		optest.Run(t, name, a.With(more))
		optest.CloseTo(t, name, want, optest.Values(n.y), 3e-6)
	}
	optest.Refused(t, op.InvalidParam, "LayerNormWithImplMode", a.With(optest.Args{"implMode": 3}), "implMode 3")
}

// adaptedDefinition computes layerNormDefinition · (1 + scale) + shift; rows share scale and
// shift.
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
	for _, d := range op.FloatTypes {
		for _, shape := range [][]int64{{2, 3, 7}, {4, 5}, {2, 2, 1, 9}, {1, 1, 3}} {
			last := len(shape) - 1
			h, rows := shape[last], int(shape[last-1])
			wide := append(append([]int64{}, shape[:last-1]...), h)
			narrow := append(append([]int64{}, shape[:last-1]...), 1, h)
			x, dy, weight, bias := optest.Filled(t, 1, d, kerneltest.Gapped, shape), optest.Filled(t, 2, d, kerneltest.Contiguous, shape), optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{h}), optest.Filled(t, 4, d, kerneltest.Contiguous, []int64{h})
			out, stats := optest.Tensor(t, d, shape), append(append([]int64{}, shape[:last]...), 1)
			mean, rstd := optest.Tensor(t, d, stats), optest.Tensor(t, d, stats)
			for _, form := range [][]int64{wide, narrow} {
				what := fmt.Sprintf("%v %v by %v", d, shape, form)
				scale, shift := optest.Filled(t, 5, d, kerneltest.Contiguous, form), optest.Filled(t, 6, d, kerneltest.Contiguous, form)
				f := func(x, weight, bias, scale, shift []float64) []float64 {
					return adaptedDefinition(x, weight, bias, scale, shift, rows)
				}
				xs, ws, bs, ss, hs := optest.Values(x), optest.Values(weight), optest.Values(bias), optest.Values(scale), optest.Values(shift)
				a := optest.Args{"x": x, "scale": scale, "shift": shift, "weightOptional": weight, "biasOptional": bias, "epsilon": epsilon, "out": out}
				optest.Run(t, "AdaLayerNorm", a)
				want := f(xs, ws, bs, ss, hs)
				optest.CloseTo(t, "y of "+what, want, optest.Values(out), 3*optest.ResultLimit(d))
				optest.Run(t, "AdaLayerNormV2", a.With(optest.Args{"meanOutOptional": mean, "rstdOutOptional": rstd}))
				optest.CloseTo(t, "y of "+what, want, optest.Values(out), 3*optest.ResultLimit(d))
				quant, extent := optest.Tensor(t, dtype.Int8, shape), optest.Tensor(t, dtype.Float32, shape[:last])
				quantised := a.With(optest.Args{"quantMode": "dynamic", "out": quant, "quantScale": extent})
				if d == dtype.Float32 {
					optest.Refused(t, op.InvalidParam, "AdaLayerNormQuant", quantised, "dtype")
				} else {
					optest.Run(t, "AdaLayerNormQuant", quantised)
					for i, q := range optest.Values(quant) {
						assert.InDelta(t, want[i], q*optest.Values(extent)[i/int(h)], 0.51*optest.Values(extent)[i/int(h)]+1e-4, what)
					}
				}
				dx, dscale, dshift, dweight, dbias := optest.Tensor(t, d, shape), optest.Tensor(t, d, form), optest.Tensor(t, d, form), optest.Tensor(t, d, []int64{h}), optest.Tensor(t, d, []int64{h})
				optest.Run(t, "AdaLayerNormBackward", optest.Args{
					"gradOut": dy, "input": x, "normalizedShape": []int64{h}, "rstd": rstd, "mean": mean, "scale": scale, "shift": shift,
					"weightOptional": weight, "biasOptional": bias, "gradInputOut": dx, "gradScaleOut": dscale, "gradShiftOut": dshift,
					"gradWeightOut": dweight, "gradBiasOut": dbias,
				})
				only := optest.Tensor(t, d, form) // each gradient may be left out
				optest.Run(t, "AdaLayerNormBackward", optest.Args{
					"gradOut": dy, "input": x, "normalizedShape": []int64{h}, "rstd": rstd, "mean": mean, "scale": scale, "shift": shift, "gradScaleOut": only,
					"weightOptional": weight, "biasOptional": bias,
				})
				assert.Equal(t, optest.Values(dscale), optest.Values(only), what)
				optest.Run(t, "AdaLayerNormBackward", optest.Args{
					"gradOut": dy, "input": x, "normalizedShape": []int64{h}, "rstd": rstd, "mean": mean, "scale": scale, "shift": shift,
				})
				g := optest.Values(dy)
				for _, o := range []struct {
					name string
					got  *op.Tensor
					at   []float64
					f    func(v []float64) []float64
				}{
					{"dx", dx, xs, func(v []float64) []float64 { return f(v, ws, bs, ss, hs) }},
					{"dweight", dweight, ws, func(v []float64) []float64 { return f(xs, v, bs, ss, hs) }},
					{"dbias", dbias, bs, func(v []float64) []float64 { return f(xs, ws, v, ss, hs) }},
					{"dscale", dscale, ss, func(v []float64) []float64 { return f(xs, ws, bs, v, hs) }},
					{"dshift", dshift, hs, func(v []float64) []float64 { return f(xs, ws, bs, ss, v) }},
				} {
					optest.CloseTo(t, o.name+" of "+what, optest.Gradient(o.f, g, o.at), optest.Values(o.got), 5*optest.ResultLimit(d)+2e-5)
				}
			}
		}
	}
	f := dtype.Float32
	x, row := optest.Tensor(t, f, []int64{2, 3, 4}, 1), optest.Tensor(t, f, []int64{2, 4}, 1)
	a := optest.Args{"x": x, "scale": row, "shift": row, "epsilon": epsilon, "out": optest.Tensor(t, f, []int64{2, 3, 4})}
	optest.Refused(t, op.InvalidParam, "AdaLayerNorm", a.With(optest.Args{"scale": optest.Tensor(t, f, []int64{2, 3}, 1)}), "scale float32[2,3]")
	optest.Refused(t, op.InvalidParam, "AdaLayerNorm", a.With(optest.Args{"shift": optest.Tensor(t, f, []int64{4}, 1)}), "shift float32[4]")
	optest.Refused(t, op.InvalidParam, "AdaLayerNorm", a.With(optest.Args{"weightOptional": row}), "weightOptional float32[2,4]")
	optest.Refused(t, op.NullPointer, "AdaLayerNorm", a.With(optest.Args{"scale": nil}), "scale is null")
	q := a.With(optest.Args{"out": optest.Tensor(t, dtype.Int8, []int64{2, 3, 4}), "quantScale": optest.Tensor(t, f, []int64{2, 3}), "quantMode": "static"})
	optest.Refused(t, op.InvalidParam, "AdaLayerNormQuant", q, "quantMode \"static\"")
}

// The forms of AddRmsNorm with a cast and in place agree with the definition applied to the sum.
func TestAddRmsNormForms(t *testing.T) {
	for _, shape := range [][]int64{{3, 4}, {1, 1}, {2, 3, 33}, {0, 4}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprintf("%v %v %v", shape, d, l)
				last := shape[len(shape)-1:]
				x1, x2, gamma := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape), optest.Filled(t, 3, d, kerneltest.Contiguous, last)
				wide, y, sum := optest.TensorIn(t, dtype.Float32, l, shape), optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape)
				rstd := optest.Tensor(t, dtype.Float32, append(slices.Clone(shape[:len(shape)-1]), 1))
				total := optest.Added(optest.Values(x1), optest.Values(x2), 1)
				want, wantRstd := optest.RMSNorm(total, optest.Values(gamma))
				a := optest.Args{"x1": x1, "x2": x2, "gamma": gamma, "epsilon": epsilon, "y1Out": wide, "y2Out": y, "rstdOut": rstd, "xOut": sum}
				optest.Run(t, "AddRmsNormCast", a)
				optest.CloseTo(t, what, want, optest.Values(wide), optest.ResultLimit(dtype.Float32))
				optest.CloseTo(t, what, want, optest.Values(y), optest.ResultLimit(d))
				optest.CloseTo(t, what, total, optest.Values(sum), optest.ResultLimit(d))
				optest.CloseTo(t, what, wantRstd, optest.Values(rstd), optest.ResultLimit(dtype.Float32))
				optest.Refused(t, op.InvalidParam, "AddRmsNormCast", a.With(optest.Args{"y1Out": optest.Tensor(t, dtype.Int32, shape)}), "y1Out")
				optest.Run(t, "InplaceAddRmsNorm", optest.Args{"x1Ref": x1, "x2Ref": x2, "gamma": gamma, "epsilon": epsilon, "rstdOut": rstd})
				optest.CloseTo(t, what, want, optest.Values(x1), 2*optest.ResultLimit(d))
				optest.CloseTo(t, what, total, optest.Values(x2), optest.ResultLimit(d))
			}
		}
	}
}
