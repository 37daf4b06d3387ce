package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// adamW is the update from its definition; the moments are kept as the state's type holds
// them.
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
	w, m, v := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape), tensorIn(t, d, l, shape, 0)
	peak := tensorIn(t, gradType, l, shape, 0, .125)
	o.w, o.m, o.v, o.peak = values(w), values(m), values(v), values(peak)
	for step := range 3 {
		grad := filled(t, uint64(10+step), gradType, l, shape)
		a := args{
			"varRef": w, "mRef": m, "vRef": v, "grad": grad, "step": tensor(t, []dtype.Type{dtype.Int64, dtype.Float32}[step%2], []int64{1}, float64(step)),
			"lr": o.lr, "beta1": o.beta1, "beta2": o.beta2, "weightDecay": o.decay, "eps": o.eps, "amsgrad": amsgrad, "maximize": maximize,
		}
		if amsgrad {
			a["maxGradNormOptionalRef"] = peak
		}
		run(t, "ApplyAdamWV2", a)
		o.update(values(grad), float64(step+1))
		what := fmt.Sprintf("%v with %v %v %v amsgrad %v maximize %v step %d", d, gradType, l, shape, amsgrad, maximize, step)
		for _, r := range []struct {
			name string
			want []float64
			got  *Tensor
		}{{"w", o.w, w}, {"m", o.m, m}, {"v", o.v, v}, {"peak", o.peak, peak}} {
			limit := 1.5 * resultLimit(r.got.DType)
			closeTo(t, r.name+" of "+what, r.want, values(r.got), limit)
		}
		// What a rounding decides must not add up over the steps.
		o.w, o.m, o.v, o.peak = values(w), values(m), values(v), values(peak)
	}
}

// Without a gradient so far the update is 0 / (0 + eps), and with eps 0 it is NaN as in the definition.
func TestAdamWOfZeroGradient(t *testing.T) {
	f := dtype.Float32
	for _, eps := range []float64{1e-8, 0} {
		w := tensor(t, f, []int64{1}, 1)
		run(t, "ApplyAdamWV2", args{
			"varRef": w, "mRef": tensor(t, f, []int64{1}, 0), "vRef": tensor(t, f, []int64{1}, 0), "grad": tensor(t, f, []int64{1}, 0),
			"step": tensor(t, dtype.Int64, []int64{1}, 0), "lr": .5, "beta1": .9, "beta2": .99, "weightDecay": .5, "eps": eps,
		})
		if eps == 0 {
			require.True(t, math.IsNaN(values(w)[0]))
		} else {
			require.Equal(t, []float64{.75}, values(w))
		}
	}
}

func TestAdamWRefuses(t *testing.T) {
	f := dtype.Float32
	three := func() *Tensor { return tensor(t, f, []int64{3}, 1) }
	a := args{"varRef": three(), "mRef": three(), "vRef": three(), "grad": three(), "step": tensor(t, dtype.Int64, []int64{1}, 0), "lr": .1}
	for _, c := range []struct {
		code   int32
		change args
		texts  []string
	}{
		{nullPointer, args{"grad": nil}, []string{"grad is null"}},
		{nullPointer, args{"step": nil}, []string{"step is null"}},
		{nullPointer, args{"amsgrad": true}, []string{"maxGradNormOptionalRef is null", "amsgrad"}},
		{invalidParam, args{"mRef": tensor(t, dtype.Float16, []int64{3}, 1)}, []string{"dtypes differ", "mRef float16"}},
		{invalidParam, args{"vRef": tensor(t, f, []int64{2}, 1)}, []string{"shapes differ", "vRef float32[2]"}},
		{invalidParam, args{"grad": tensor(t, f, []int64{1, 3}, 1)}, []string{"grad float32[1,3]"}},
		{invalidParam, args{"step": tensor(t, dtype.Int64, []int64{2}, 1)}, []string{"step int64[2]", "one element"}},
		{invalidParam, args{"step": tensor(t, dtype.Int32, []int64{1}, 1)}, []string{"step int32[1]"}},
		{invalidParam, args{"varRef": tensor(t, dtype.Float64, []int64{3}, 1)}, []string{"varRef float64"}},
		{invalidParam, args{"maxGradNormOptionalRef": tensor(t, f, []int64{4}, 1), "amsgrad": true}, []string{"maxGradNormOptionalRef float32[4]"}},
	} {
		refused(t, c.code, "ApplyAdamWV2", a.with(c.change), c.texts...)
	}
	assert.NoError(t, execute(t, "ApplyAdamWV2", a))
}
