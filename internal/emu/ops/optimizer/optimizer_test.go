package optimizer

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// adamW computes the update from its definition. The moments are rounded to the type of the
// state.
type adamW struct {
	lr, beta1, beta2, decay, eps float64
	amsgrad, maximize            bool
	d, gradType                  dtype.Type
	w, m, v, peak                []float64
}

func (o *adamW) update(grad []float64, t float64) {
	for i, g := range grad {
		if o.maximize {
			g = -g
		}
		m, v := o.beta1*o.m[i]+(1-o.beta1)*g, o.beta2*o.v[i]+(1-o.beta2)*g*g
		o.m[i], o.v[i] = kerneltest.Round(o.d, m), kerneltest.Round(o.d, v)
		if o.amsgrad {
			v = max(v, o.peak[i])
			o.peak[i] = kerneltest.Round(o.gradType, v)
		}
		w := o.w[i]*(1-o.lr*o.decay) - o.lr/(1-math.Pow(o.beta1, t))*m/(math.Sqrt(v)/math.Sqrt(1-math.Pow(o.beta2, t))+o.eps)
		o.w[i] = kerneltest.Round(o.d, w)
	}
}

func TestAdamW(t *testing.T) {
	types := []struct{ state, grad dtype.Type }{
		{dtype.Float32, dtype.Float32}, {dtype.BFloat16, dtype.BFloat16}, {dtype.Float16, dtype.Float16}, {dtype.Float32, dtype.BFloat16}, {dtype.Float32, dtype.Float16},
	}
	for _, d := range types {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {}, {1}, {67}, {3, 35}} {
				for _, option := range []struct{ amsgrad, maximize bool }{{false, false}, {true, false}, {false, true}} {
					adamWTrial(t, d.state, d.grad, l, shape, option.amsgrad, option.maximize)
				}
			}
		}
	}
}

func adamWTrial(t *testing.T, d, gradType dtype.Type, l kerneltest.Layout, shape []int64, amsgrad, maximize bool) {
	o := &adamW{lr: .01, beta1: .9, beta2: .95, decay: .1, eps: 1e-6, amsgrad: amsgrad, maximize: maximize, d: d, gradType: gradType}
	w, m, v := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape), optest.TensorIn(t, d, l, shape, 0)
	peak := optest.TensorIn(t, gradType, l, shape, 0, .125)
	o.w, o.m, o.v, o.peak = optest.Values(w), optest.Values(m), optest.Values(v), optest.Values(peak)
	for step := range 3 {
		grad := optest.Filled(t, uint64(10+step), gradType, l, shape)
		a := optest.Args{
			"varRef": w, "mRef": m, "vRef": v, "grad": grad, "step": optest.Tensor(t, []dtype.Type{dtype.Int64, dtype.Float32}[step%2], []int64{1}, float64(step)),
			"lr": o.lr, "beta1": o.beta1, "beta2": o.beta2, "weightDecay": o.decay, "eps": o.eps, "amsgrad": amsgrad, "maximize": maximize,
		}
		if amsgrad {
			a["maxGradNormOptionalRef"] = peak
		}
		optest.Run(t, "ApplyAdamWV2", a)
		o.update(optest.Values(grad), float64(step+1))
		what := fmt.Sprintf("%v with %v %v %v amsgrad %v maximize %v step %d", d, gradType, l, shape, amsgrad, maximize, step)
		for _, r := range []struct {
			name string
			want []float64
			got  *op.Tensor
		}{{"w", o.w, w}, {"m", o.m, m}, {"v", o.v, v}, {"peak", o.peak, peak}} {
			limit := 1.5 * optest.ResultLimit(r.got.DType)
			optest.CloseTo(t, r.name+" of "+what, r.want, optest.Values(r.got), limit)
		}
		// Rounding differences must not accumulate over the steps.
		o.w, o.m, o.v, o.peak = optest.Values(w), optest.Values(m), optest.Values(v), optest.Values(peak)
	}
}

// TestAdamWOfSeveralTypes updates with each tensor in a type of its own, as CANN does by casts to float32.
func TestAdamWOfSeveralTypes(t *testing.T) {
	run := func(types [5]dtype.Type) (got [][]float64) {
		w, m, v := optest.Tensor(t, types[0], []int64{2}, 1, -.5), optest.Tensor(t, types[1], []int64{2}, .25, .5), optest.Tensor(t, types[2], []int64{2}, .5, 2)
		peak, grad := optest.Tensor(t, types[3], []int64{2}, .25, 4), optest.Tensor(t, types[4], []int64{2}, 2, -1)
		optest.Run(t, "ApplyAdamWV2", optest.Args{
			"varRef": w, "mRef": m, "vRef": v, "maxGradNormOptionalRef": peak, "grad": grad, "step": optest.Tensor(t, dtype.Int64, []int64{1}, 1),
			"lr": .5, "beta1": .5, "beta2": .75, "weightDecay": .5, "eps": 1e-8, "amsgrad": true,
		})
		return [][]float64{optest.Values(w), optest.Values(m), optest.Values(v), optest.Values(peak)}
	}
	f, h, b := dtype.Float32, dtype.Float16, dtype.BFloat16
	want := run([5]dtype.Type{f, f, f, f, f})
	for _, types := range [][5]dtype.Type{{f, h, f, f, f}, {h, f, f, f, b}, {f, f, b, h, f}, {f, h, f, f, h}} {
		for i, got := range run(types) {
			optest.CloseTo(t, fmt.Sprintf("result %d of %v", i, types), want[i], got, 2*optest.ResultLimit(types[i]))
		}
	}
}

// Before the first nonzero gradient the update is 0 / (0 + eps). With eps 0 it is NaN, as in the
// definition.
func TestAdamWOfZeroGradient(t *testing.T) {
	f := dtype.Float32
	for _, eps := range []float64{1e-8, 0} {
		w := optest.Tensor(t, f, []int64{1}, 1)
		optest.Run(t, "ApplyAdamWV2", optest.Args{
			"varRef": w, "mRef": optest.Tensor(t, f, []int64{1}, 0), "vRef": optest.Tensor(t, f, []int64{1}, 0), "grad": optest.Tensor(t, f, []int64{1}, 0),
			"step": optest.Tensor(t, dtype.Int64, []int64{1}, 0), "lr": .5, "beta1": .9, "beta2": .99, "weightDecay": .5, "eps": eps,
		})
		if eps == 0 {
			require.True(t, math.IsNaN(optest.Values(w)[0]))
		} else {
			require.Equal(t, []float64{.75}, optest.Values(w))
		}
	}
}

func TestAdamWRefuses(t *testing.T) {
	f := dtype.Float32
	three := func() *op.Tensor { return optest.Tensor(t, f, []int64{3}, 1) }
	a := optest.Args{"varRef": three(), "mRef": three(), "vRef": three(), "grad": three(), "step": optest.Tensor(t, dtype.Int64, []int64{1}, 0), "lr": .1}
	for _, c := range []struct {
		code   int32
		change optest.Args
		texts  []string
	}{
		{op.NullPointer, optest.Args{"grad": nil}, []string{"grad is null"}},
		{op.NullPointer, optest.Args{"step": nil}, []string{"step is null"}},
		{op.NullPointer, optest.Args{"amsgrad": true}, []string{"maxGradNormOptionalRef is null", "amsgrad"}},
		{op.InvalidParam, optest.Args{"mRef": optest.Tensor(t, dtype.Float64, []int64{3}, 1)}, []string{"mRef float64"}},
		{op.InvalidParam, optest.Args{"vRef": optest.Tensor(t, f, []int64{2}, 1)}, []string{"shapes differ", "vRef float32[2]"}},
		{op.InvalidParam, optest.Args{"grad": optest.Tensor(t, f, []int64{1, 3}, 1)}, []string{"grad float32[1,3]"}},
		{op.InvalidParam, optest.Args{"step": optest.Tensor(t, dtype.Int64, []int64{2}, 1)}, []string{"step int64[2]", "one element"}},
		{op.InvalidParam, optest.Args{"step": optest.Tensor(t, dtype.Int32, []int64{1}, 1)}, []string{"step int32[1]"}},
		{op.InvalidParam, optest.Args{"varRef": optest.Tensor(t, dtype.Float64, []int64{3}, 1)}, []string{"varRef float64"}},
		{op.InvalidParam, optest.Args{"maxGradNormOptionalRef": optest.Tensor(t, f, []int64{4}, 1), "amsgrad": true}, []string{"maxGradNormOptionalRef float32[4]"}},
	} {
		optest.Refused(t, c.code, "ApplyAdamWV2", a.With(c.change), c.texts...)
	}
	assert.NoError(t, optest.Execute(t, "ApplyAdamWV2", a))
}
