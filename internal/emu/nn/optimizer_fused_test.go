package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// adamTensors are a weight with its state and gradient, and what the definition makes of them.
type adamTensors struct {
	w, m, v, peak, grad *Tensor
	o                   *adamW
}

func newAdam(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, seed uint64) adamTensors {
	a := adamTensors{
		w: filled(t, seed, d, l, shape), m: filled(t, seed+1, d, l, shape), v: tensorIn(t, d, l, shape, .5, .25),
		peak: tensorIn(t, d, l, shape, .125, 1), grad: filled(t, seed+2, d, l, shape),
	}
	a.o = &adamW{lr: .0625, beta1: .875, beta2: .75, decay: .125, eps: .03125, d: d, gradType: d, w: values(a.w), m: values(a.m), v: values(a.v), peak: values(a.peak)}
	return a
}

func (a adamTensors) check(t *testing.T, what string) {
	t.Helper()
	limit := 1.5 * resultLimit(a.w.DType)
	closeTo(t, "w of "+what, a.o.w, values(a.w), limit)
	closeTo(t, "m of "+what, a.o.m, values(a.m), limit)
	closeTo(t, "v of "+what, a.o.v, values(a.v), limit)
	if a.o.amsgrad {
		closeTo(t, "peak of "+what, a.o.peak, values(a.peak), limit)
	}
}

func TestApplyAdamW(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {67}, {3, 35}} {
				for _, maximize := range []bool{false, true} {
					a := newAdam(t, d, l, shape, 1)
					a.o.maximize = maximize
					one := func(x float64) *Tensor { return tensor(t, d, []int64{1}, x) }
					run(t, "ApplyAdamW", args{
						"varRef": a.w, "mRef": a.m, "vRef": a.v, "grad": a.grad, "maximize": maximize, "beta1Power": one(.875), "beta2Power": one(.75),
						"lr": one(a.o.lr), "weightDecay": one(a.o.decay), "beta1": one(a.o.beta1), "beta2": one(a.o.beta2), "eps": one(a.o.eps),
					})
					a.o.update(values(a.grad), 2)
					a.check(t, fmt.Sprintf("%v %v %v", d, l, shape))
				}
			}
		}
	}
	x := tensor(t, dtype.Float32, []int64{2}, 1)
	one := tensor(t, dtype.Float32, []int64{1}, .5)
	a := args{"varRef": x, "mRef": x, "vRef": x, "grad": x, "beta1Power": one, "beta2Power": one, "lr": one, "weightDecay": one, "beta1": one, "beta2": one, "eps": one}
	refused(t, invalidParam, "ApplyAdamW", a.with(args{"lr": x}), "lr float32[2]", "one element")
	refused(t, nullPointer, "ApplyAdamW", a.with(args{"amsgrad": true}), "maxGradNormOptional is null")
	refused(t, invalidParam, "ApplyAdamW", a.with(args{"grad": one}), "shapes differ")
}

func TestFusedAdamW(t *testing.T) {
	for _, d := range transformerTypes {
		for _, amsgrad := range []bool{false, true} {
			for _, scale := range []float64{1, 4} {
				list := []adamTensors{newAdam(t, d, kerneltest.Contiguous, []int64{5}, 1), newAdam(t, d, kerneltest.Transposed, []int64{2, 33}, 5), newAdam(t, d, kerneltest.Contiguous, []int64{0}, 9)}
				a := args{
					"gradScaleOptional": tensor(t, dtype.Float32, []int64{1}, scale), "foundInfOptional": tensor(t, dtype.Float32, []int64{1}, 0), "amsgrad": amsgrad,
					"lr": list[0].o.lr, "beta1": list[0].o.beta1, "beta2": list[0].o.beta2, "weightDecay": list[0].o.decay, "eps": list[0].o.eps,
				}
				var params, grads, averages, squares, peaks, steps []*Tensor
				for i, x := range list {
					params, grads, averages, squares, peaks = append(params, x.w), append(grads, x.grad), append(averages, x.m), append(squares, x.v), append(peaks, x.peak)
					steps = append(steps, tensor(t, []dtype.Type{dtype.Int64, dtype.Float32}[i%2], []int64{1}, float64(i+1)))
				}
				a["paramsRef"], a["grads"], a["expAvgsRef"], a["expAvgSqsRef"], a["stateSteps"] = params, grads, averages, squares, steps
				if amsgrad {
					a["maxExpAvgSqsRef"] = peaks
				}
				run(t, "FusedAdamw", a)
				for i, x := range list {
					x.o.amsgrad = amsgrad
					grad := values(x.grad)
					for k := range grad {
						grad[k] /= scale
					}
					x.o.update(grad, float64(i+1))
					x.check(t, fmt.Sprintf("%v of %v, amsgrad %v, scale %g", d, x.w, amsgrad, scale))
				}
				before := values(params[1])
				run(t, "FusedAdamw", a.with(args{"foundInfOptional": tensor(t, dtype.Float32, []int64{1}, 1)}))
				assert.Equal(t, before, values(params[1]), "a gradient that is not finite stops the update")
				refused(t, invalidParam, "FusedAdamw", a.with(args{"grads": grads[:1]}), "grads has 1 tensors")
				refused(t, invalidParam, "FusedAdamw", a.with(args{"grads": []*Tensor{grads[1], grads[0], grads[2]}}), "shapes differ")
			}
		}
	}
}

func TestFusedEmaAdam(t *testing.T) {
	for _, d := range transformerTypes {
		for mode := range 2 {
			for _, correct := range []bool{false, true} {
				x := newAdam(t, d, kerneltest.Gapped, []int64{3, 7}, 1)
				average := filled(t, 8, d, kerneltest.Contiguous, []int64{3, 7})
				want := values(average)
				a := args{
					"grad": x.grad, "varRef": x.w, "mRef": x.m, "vRef": x.v, "sRef": average, "step": tensor(t, dtype.Int64, []int64{1}, 3), "emaDecay": .75,
					"lr": x.o.lr, "beta1": x.o.beta1, "beta2": x.o.beta2, "weightDecay": x.o.decay, "eps": x.o.eps, "mode": mode, "biasCorrection": correct,
				}
				grad := values(x.grad)
				if mode == 0 {
					grad, x.o.decay = added(x.o.w, grad, x.o.decay), 0
				}
				run(t, "ApplyFusedEmaAdam", a)
				updates := 3.0
				if !correct {
					updates = 1e9 // no power of a number below one is left
				}
				x.o.update(grad, updates)
				what := fmt.Sprintf("%v, mode %d, correction %v", d, mode, correct)
				x.check(t, what)
				for i := range want {
					want[i] = .75*want[i] + .25*x.o.w[i]
				}
				closeTo(t, "average of "+what, want, values(average), 2*resultLimit(d))
				refused(t, invalidParam, "ApplyFusedEmaAdam", a.with(args{"mode": 2}), "mode 2")
			}
		}
	}
}

func TestFusedSGD(t *testing.T) {
	for _, d := range transformerTypes {
		for _, o := range []struct{ momentum, nesterov, maximize, first bool }{{}, {true, false, false, true}, {true, true, false, false}, {true, false, true, false}} {
			shape := []int64{2, 9}
			w, g, b := filled(t, 1, d, kerneltest.Gapped, shape), filled(t, 2, d, kerneltest.Contiguous, shape), filled(t, 3, d, kerneltest.Contiguous, shape)
			ws, gs, bs := values(w), values(g), values(b)
			a := args{
				"paramsRef": []*Tensor{w}, "gradsRef": []*Tensor{g}, "gradScaleOptional": tensor(t, d, []int64{1}, 2), "weightDecay": .5, "momentum": .75, "lr": .25,
				"dampening": .125, "nesterov": o.nesterov, "maximize": o.maximize, "isFirstStep": o.first,
			}
			if o.momentum {
				a["momentumBufferListOptionalRef"] = []*Tensor{b}
			}
			run(t, "FusedSgd", a)
			for i := range ws {
				gs[i] /= 2
				grad := gs[i]
				if o.maximize {
					grad = -grad
				}
				grad += .5 * ws[i]
				if o.momentum {
					moving := .75*bs[i] + .875*grad
					if o.first {
						moving = grad
					}
					if bs[i] = moving; o.nesterov {
						grad += .75 * moving
					} else {
						grad = moving
					}
				}
				ws[i] -= .25 * grad
			}
			what := fmt.Sprintf("%v %+v", d, o)
			closeTo(t, "w of "+what, ws, values(w), 2*resultLimit(d))
			closeTo(t, "gradient of "+what, gs, values(g), resultLimit(d))
			closeTo(t, "buffer of "+what, bs, values(b), 2*resultLimit(d))
			refused(t, invalidParam, "FusedSgd", a.with(args{"lr": -1.0}), "negative")
			refused(t, invalidParam, "FusedSgd", a.with(args{"gradsRef": []*Tensor{}}), "gradsRef has 0 tensors")
		}
	}
}
