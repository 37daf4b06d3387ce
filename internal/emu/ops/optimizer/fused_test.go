package optimizer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// adamTensors are a weight with its state and gradient, and the values that the definition
// expects.
type adamTensors struct {
	w, m, v, peak, grad *op.Tensor
	o                   *adamW
}

func newAdam(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, seed uint64) adamTensors {
	a := adamTensors{
		w: optest.Filled(t, seed, d, l, shape), m: optest.Filled(t, seed+1, d, l, shape), v: optest.TensorIn(t, d, l, shape, .5, .25),
		peak: optest.TensorIn(t, d, l, shape, .125, 1), grad: optest.Filled(t, seed+2, d, l, shape),
	}
	a.o = &adamW{lr: .0625, beta1: .875, beta2: .75, decay: .125, eps: .03125, d: d, gradType: d, w: optest.Values(a.w), m: optest.Values(a.m), v: optest.Values(a.v), peak: optest.Values(a.peak)}
	return a
}

func (a adamTensors) check(t *testing.T, what string) {
	t.Helper()
	limit := 1.5 * optest.ResultLimit(a.w.DType)
	optest.CloseTo(t, "w of "+what, a.o.w, optest.Values(a.w), limit)
	optest.CloseTo(t, "m of "+what, a.o.m, optest.Values(a.m), limit)
	optest.CloseTo(t, "v of "+what, a.o.v, optest.Values(a.v), limit)
	if a.o.amsgrad {
		optest.CloseTo(t, "peak of "+what, a.o.peak, optest.Values(a.peak), limit)
	}
}

func TestApplyAdamW(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {67}, {3, 35}} {
				for _, maximize := range []bool{false, true} {
					a := newAdam(t, d, l, shape, 1)
					a.o.maximize = maximize
					one := func(x float64) *op.Tensor { return optest.Tensor(t, d, []int64{1}, x) }
					optest.Run(t, "ApplyAdamW", optest.Args{
						"varRef": a.w, "mRef": a.m, "vRef": a.v, "grad": a.grad, "maximize": maximize, "beta1Power": one(.875), "beta2Power": one(.75),
						"lr": one(a.o.lr), "weightDecay": one(a.o.decay), "beta1": one(a.o.beta1), "beta2": one(a.o.beta2), "eps": one(a.o.eps),
					})
					a.o.update(optest.Values(a.grad), 2)
					a.check(t, fmt.Sprintf("%v %v %v", d, l, shape))
				}
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{2}, 1)
	one := optest.Tensor(t, dtype.Float32, []int64{1}, .5)
	a := optest.Args{"varRef": x, "mRef": x, "vRef": x, "grad": x, "beta1Power": one, "beta2Power": one, "lr": one, "weightDecay": one, "beta1": one, "beta2": one, "eps": one}
	optest.Refused(t, op.InvalidParam, "ApplyAdamW", a.With(optest.Args{"lr": x}), "lr float32[2]", "one element")
	optest.Refused(t, op.NullPointer, "ApplyAdamW", a.With(optest.Args{"amsgrad": true}), "maxGradNormOptional is null")
	optest.Refused(t, op.InvalidParam, "ApplyAdamW", a.With(optest.Args{"grad": one}), "shapes differ")
}

func TestFusedAdamW(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, amsgrad := range []bool{false, true} {
			for k, scale := range []float64{1, 4} {
				list := []adamTensors{newAdam(t, d, kerneltest.Contiguous, []int64{5}, 1), newAdam(t, d, kerneltest.Transposed, []int64{2, 33}, 5), newAdam(t, d, kerneltest.Contiguous, []int64{0}, 9)}
				a := optest.Args{
					"gradScaleOptional": optest.Tensor(t, dtype.Float32, []int64{1}, scale), "foundInfOptional": optest.Tensor(t, dtype.Float32, []int64{1}, 0), "amsgrad": amsgrad,
					"lr": list[0].o.lr, "beta1": list[0].o.beta1, "beta2": list[0].o.beta2, "weightDecay": list[0].o.decay, "eps": list[0].o.eps,
				}
				var params, grads, averages, squares, peaks, steps []*op.Tensor
				for i, x := range list {
					params, grads, averages, squares, peaks = append(params, x.w), append(grads, x.grad), append(averages, x.m), append(squares, x.v), append(peaks, x.peak)
					steps = append(steps, optest.Tensor(t, []dtype.Type{dtype.Int64, dtype.Float32}[k], []int64{1}, float64(i+1)))
				}
				a["paramsRef"], a["grads"], a["expAvgsRef"], a["expAvgSqsRef"], a["stateSteps"] = params, grads, averages, squares, steps
				if amsgrad {
					a["maxExpAvgSqsRef"] = peaks
				}
				optest.Run(t, "FusedAdamw", a)
				for i, x := range list {
					x.o.amsgrad = amsgrad
					grad := optest.Values(x.grad)
					for k := range grad {
						grad[k] /= scale
					}
					x.o.update(grad, float64(i+1))
					x.check(t, fmt.Sprintf("%v of %v, amsgrad %v, scale %g", d, x.w, amsgrad, scale))
				}
				before := optest.Values(params[1])
				optest.Run(t, "FusedAdamw", a.With(optest.Args{"foundInfOptional": optest.Tensor(t, dtype.Float32, []int64{1}, 1)}))
				assert.Equal(t, before, optest.Values(params[1]), "a gradient that is not finite stops the update")
				optest.Refused(t, op.InvalidParam, "FusedAdamw", a.With(optest.Args{"grads": grads[:1]}), "grads")
				optest.Refused(t, op.NullPointer, "FusedAdamw", a.With(optest.Args{"paramsRef": nil}), "paramsRef is null")
				optest.Refused(t, op.InvalidParam, "FusedAdamw", a.With(optest.Args{"lr": -1.0}), "lr")
				optest.Refused(t, op.InvalidParam, "FusedAdamw", a.With(optest.Args{"grads": []*op.Tensor{grads[1], grads[0], grads[2]}}), "shapes differ")
			}
		}
	}
}

func TestFusedEmaAdam(t *testing.T) {
	for _, d := range op.FloatTypes {
		for mode := range 2 {
			for _, correct := range []bool{false, true} {
				x := newAdam(t, d, kerneltest.Gapped, []int64{3, 7}, 1)
				average := optest.Filled(t, 8, d, kerneltest.Contiguous, []int64{3, 7})
				want := optest.Values(average)
				a := optest.Args{
					"grad": x.grad, "varRef": x.w, "mRef": x.m, "vRef": x.v, "sRef": average, "step": optest.Tensor(t, dtype.Int64, []int64{1}, 3), "emaDecay": .75,
					"lr": x.o.lr, "beta1": x.o.beta1, "beta2": x.o.beta2, "weightDecay": x.o.decay, "eps": x.o.eps, "mode": mode, "biasCorrection": correct,
				}
				grad := optest.Values(x.grad)
				if mode == 0 {
					grad, x.o.decay = optest.Added(x.o.w, grad, x.o.decay), 0
				}
				optest.Run(t, "ApplyFusedEmaAdam", a)
				updates := 3.0
				if !correct {
					updates = 1e9 // so many that every beta^step is 0
				}
				x.o.update(grad, updates)
				what := fmt.Sprintf("%v, mode %d, correction %v", d, mode, correct)
				x.check(t, what)
				for i := range want {
					want[i] = .75*want[i] + .25*x.o.w[i]
				}
				optest.CloseTo(t, "average of "+what, want, optest.Values(average), 2*optest.ResultLimit(d))
				optest.Refused(t, op.InvalidParam, "ApplyFusedEmaAdam", a.With(optest.Args{"mode": 2}), "mode 2")
			}
		}
	}
}

func TestFusedSGD(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, o := range []struct{ momentum, nesterov, maximize, first bool }{{}, {true, false, false, true}, {true, true, false, false}, {true, false, true, false}} {
			shape := []int64{2, 9}
			w, g, b := optest.Filled(t, 1, d, kerneltest.Gapped, shape), optest.Filled(t, 2, d, kerneltest.Contiguous, shape), optest.Filled(t, 3, d, kerneltest.Contiguous, shape)
			ws, gs, bs := optest.Values(w), optest.Values(g), optest.Values(b)
			momentum, dampening := 0., .125 // without buffers there is no momentum, and Nesterov's has no dampening
			if o.momentum {
				momentum = .75
			}
			if o.nesterov {
				dampening = 0
			}
			a := optest.Args{
				"paramsRef": []*op.Tensor{w}, "gradsRef": []*op.Tensor{g}, "gradScaleOptional": optest.Tensor(t, d, []int64{1}, 2), "weightDecay": .5, "momentum": momentum, "lr": .25,
				"dampening": dampening, "nesterov": o.nesterov, "maximize": o.maximize, "isFirstStep": o.first,
			}
			if o.momentum {
				a["momentumBufferListOptionalRef"] = []*op.Tensor{b}
			}
			optest.Run(t, "FusedSgd", a)
			for i := range ws {
				gs[i] /= 2
				grad := gs[i]
				if o.maximize {
					grad = -grad
				}
				grad += .5 * ws[i]
				if o.momentum {
					moving := .75*bs[i] + (1-dampening)*grad
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
			optest.CloseTo(t, "w of "+what, ws, optest.Values(w), 2*optest.ResultLimit(d))
			optest.CloseTo(t, "gradient of "+what, gs, optest.Values(g), optest.ResultLimit(d))
			optest.CloseTo(t, "buffer of "+what, bs, optest.Values(b), 2*optest.ResultLimit(d))
			optest.Refused(t, op.InvalidParam, "FusedSgd", a.With(optest.Args{"lr": -1.0}), "negative")
			optest.Refused(t, op.InvalidParam, "FusedSgd", a.With(optest.Args{"gradsRef": []*op.Tensor{}}), "gradsRef has 0 tensors")
		}
	}
}
