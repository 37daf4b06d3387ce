package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// groupNormDefinition normalises x, with n samples and len(gamma) channels, in groups. If swish
// is not 0 it then applies y · sigmoid(swish · y).
func groupNormDefinition(x, gamma, beta []float64, n, groups int, swish float64) (y, mean, rstd []float64) {
	ones, zeros := make([]float64, len(x)/n/groups), make([]float64, len(x)/n/groups)
	for i := range ones {
		ones[i] = 1
	}
	y, mean, rstd = layerNormDefinition(x, ones, zeros)
	place := len(x) / n / len(gamma)
	for i := range y {
		channel := i / place % len(gamma)
		y[i] = y[i]*gamma[channel] + beta[channel]
		if swish != 0 {
			y[i] /= 1 + math.Exp(-swish*y[i])
		}
	}
	return y, mean, rstd
}

type groupNormTensors struct {
	x, dy, gamma, beta, y, mean, rstd, dx, dgamma, dbeta *op.Tensor
	n, channels, groups                                  int64
}

func newGroupNorm(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, groups int64) groupNormTensors {
	channels := shape[1:2]
	stats := []int64{shape[0], groups}
	return groupNormTensors{
		x: optest.Filled(t, 1, d, l, shape), dy: optest.Filled(t, 2, d, l, shape), gamma: optest.Filled(t, 3, d, kerneltest.Contiguous, channels),
		beta: optest.Filled(t, 4, d, kerneltest.Contiguous, channels), y: optest.TensorIn(t, d, l, shape), dx: optest.TensorIn(t, d, l, shape),
		mean: optest.Tensor(t, d, stats), rstd: optest.Tensor(t, d, stats), dgamma: optest.Tensor(t, d, channels), dbeta: optest.Tensor(t, d, channels),
		n: shape[0], channels: shape[1], groups: groups,
	}
}

func (g groupNormTensors) forward() optest.Args {
	return optest.Args{
		"self": g.x, "gamma": g.gamma, "beta": g.beta, "N": g.n, "C": g.channels, "HxW": optest.Elements(g.x.Shape[2:]), "group": g.groups,
		"eps": epsilon, "out": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) silu() optest.Args {
	return optest.Args{
		"self": g.x, "gamma": g.gamma, "beta": g.beta, "group": g.groups, "eps": epsilon, "out": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) swish(scale float64) optest.Args {
	return optest.Args{
		"x": g.x, "gamma": g.gamma, "beta": g.beta, "numGroups": g.groups, "dataFormatOptional": "NCHW", "eps": epsilon,
		"activateSwish": scale != 0, "swishScale": scale, "yOut": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) swishGrad(scale float64) optest.Args {
	return optest.Args{
		"dy": g.dy, "mean": g.mean, "rstd": g.rstd, "x": g.x, "gamma": g.gamma, "beta": g.beta, "numGroups": g.groups,
		"swishScale": scale, "dgammaIsRequire": true, "dbetaIsRequire": true, "dxOut": g.dx, "dgammaOut": g.dgamma, "dbetaOut": g.dbeta,
	}
}

func (g groupNormTensors) backward() optest.Args {
	return optest.Args{
		"gradOut": g.dy, "input": g.x, "mean": g.mean, "rstd": g.rstd, "gamma": g.gamma, "N": g.n, "C": g.channels,
		"HxW": optest.Elements(g.x.Shape[2:]), "group": g.groups, "outputMask": []bool{true, true, true},
		"gradInput": g.dx, "gradGammaOut": g.dgamma, "gradBetaOut": g.dbeta,
	}
}

var groupNormShapes = []struct {
	shape  []int64
	groups int64
}{
	{[]int64{1, 2}, 1}, {[]int64{2, 6, 5}, 3}, {[]int64{3, 4, 2, 3}, 4}, {[]int64{1, 3, 17}, 1}, {[]int64{2, 4, 1, 1, 1, 2, 1, 3}, 2},
}

func TestGroupNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range groupNormShapes {
				g := newGroupNorm(t, d, l, s.shape, s.groups)
				what := fmt.Sprintf("%v %v %v, %d groups", d, l, s.shape, s.groups)
				x, gamma, beta := optest.Values(g.x), optest.Values(g.gamma), optest.Values(g.beta)
				definition := func(swish float64) ([]float64, []float64, []float64) {
					return groupNormDefinition(x, gamma, beta, int(g.n), int(g.groups), swish)
				}
				optest.Run(t, "GroupNorm", g.forward())
				y, mean, rstd := definition(0)
				optest.CloseTo(t, "y of "+what, y, optest.Values(g.y), 3*optest.ResultLimit(d))
				optest.CloseTo(t, "mean of "+what, mean, optest.Values(g.mean), optest.ResultLimit(d))
				optest.CloseTo(t, "rstd of "+what, rstd, optest.Values(g.rstd), optest.ResultLimit(d))
				silu, _, _ := definition(1)
				optest.Run(t, "GroupNormSilu", g.silu())
				optest.CloseTo(t, "silu of "+what, silu, optest.Values(g.y), 3*optest.ResultLimit(d))
				optest.Run(t, "GroupNormSiluV2", g.silu().With(optest.Args{"activateSilu": true}))
				optest.CloseTo(t, "silu of "+what, silu, optest.Values(g.y), 3*optest.ResultLimit(d))
				optest.Run(t, "GroupNormSiluV2", g.silu())
				optest.CloseTo(t, "y without silu of "+what, y, optest.Values(g.y), 3*optest.ResultLimit(d))
				swish, _, _ := definition(0.7)
				optest.Run(t, "GroupNormSwish", g.swish(0.7))
				optest.CloseTo(t, "swish of "+what, swish, optest.Values(g.y), 3*optest.ResultLimit(d))
				optest.Run(t, "GroupNormSwish", g.swish(0))
				optest.CloseTo(t, "y without swish of "+what, y, optest.Values(g.y), 3*optest.ResultLimit(d))
			}
		}
	}
}

// groupNormGradient is the gradient with the moments that the call is given.
func groupNormGradient(g groupNormTensors, x, dy, gamma []float64, swish float64) (dx, dgamma, dbeta []float64) {
	beta, mean, rstd := optest.Values(g.beta), optest.Values(g.mean), optest.Values(g.rstd)
	dx, dgamma, dbeta = make([]float64, len(x)), make([]float64, len(gamma)), make([]float64, len(gamma))
	part, place := len(x)/len(mean), len(x)/int(g.n)/len(gamma)
	for k := range mean {
		var sum, product float64
		for pass := range 2 {
			for i := k * part; i < (k+1)*part; i++ {
				channel, unit := i/place%len(gamma), (x[i]-mean[k])*rstd[k]
				grad := dy[i]
				if swish != 0 {
					y := unit*gamma[channel] + beta[channel]
					s := 1 / (1 + math.Exp(-swish*y))
					grad *= s * (1 + swish*y*(1-s))
				}
				if pass == 0 {
					sum += grad * gamma[channel] / float64(part)
					product += grad * gamma[channel] * unit / float64(part)
					dgamma[channel] += grad * unit
					dbeta[channel] += grad
				} else {
					dx[i] = rstd[k] * (grad*gamma[channel] - sum - unit*product)
				}
			}
		}
	}
	return dx, dgamma, dbeta
}

func TestGroupNormGrad(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, s := range groupNormShapes {
			for _, swish := range []float64{0, 1.5} {
				g := newGroupNorm(t, d, kerneltest.Contiguous, s.shape, s.groups)
				what := fmt.Sprintf("%v %v, %d groups, swish %g", d, s.shape, s.groups, swish)
				optest.Run(t, "GroupNorm", g.forward())
				if swish == 0 {
					optest.Run(t, "GroupNormBackward", g.backward())
				} else {
					optest.Run(t, "GroupNormSwishGrad", g.swishGrad(swish))
				}
				x, dy, gamma, beta := optest.Values(g.x), optest.Values(g.dy), optest.Values(g.gamma), optest.Values(g.beta)
				if d != dtype.Float32 { // the moments have been rounded
					dx, dgamma, dbeta := groupNormGradient(g, x, dy, gamma, swish)
					optest.CloseTo(t, "dx of "+what, dx, optest.Values(g.dx), 4*optest.ResultLimit(d))
					optest.CloseTo(t, "dgamma of "+what, dgamma, optest.Values(g.dgamma), 4*optest.ResultLimit(d))
					optest.CloseTo(t, "dbeta of "+what, dbeta, optest.Values(g.dbeta), 4*optest.ResultLimit(d))
					continue
				}
				f := func(x, gamma, beta []float64) []float64 {
					y, _, _ := groupNormDefinition(x, gamma, beta, int(g.n), int(g.groups), swish)
					return y
				}
				dx := optest.Gradient(func(x []float64) []float64 { return f(x, gamma, beta) }, dy, x)
				optest.CloseTo(t, "dx of "+what, dx, optest.Values(g.dx), 4*optest.ResultLimit(d)+3e-5)
				dgamma := optest.Gradient(func(gamma []float64) []float64 { return f(x, gamma, beta) }, dy, gamma)
				optest.CloseTo(t, "dgamma of "+what, dgamma, optest.Values(g.dgamma), 4*optest.ResultLimit(d))
				dbeta := optest.Gradient(func(beta []float64) []float64 { return f(x, gamma, beta) }, dy, beta)
				optest.CloseTo(t, "dbeta of "+what, dbeta, optest.Values(g.dbeta), 4*optest.ResultLimit(d))
			}
		}
	}
}

func TestGroupNormParts(t *testing.T) {
	g := newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	plain := g.forward().With(optest.Args{"gamma": nil, "beta": nil})
	optest.Run(t, "GroupNorm", plain)
	want, _, _ := groupNormDefinition(optest.Values(g.x), []float64{1, 1, 1, 1}, make([]float64, 4), 2, 2, 0)
	optest.CloseTo(t, "without gamma and beta", want, optest.Values(g.y), 3e-6)

	optest.Run(t, "GroupNormBackward", g.backward())
	dx, dgamma := optest.Values(g.dx), optest.Values(g.dgamma)
	for i := range 3 {
		mask := make([]bool, 3)
		mask[i] = true
		for _, out := range []*op.Tensor{g.dx, g.dgamma, g.dbeta} {
			optest.Fill(out, 9)
		}
		optest.Run(t, "GroupNormBackward", g.backward().With(optest.Args{"outputMask": mask}))
		assert.Equal(t, i == 0, optest.Values(g.dx)[0] == dx[0])
		assert.Equal(t, i == 1, optest.Values(g.dgamma)[0] == dgamma[0])
		assert.Equal(t, i == 2, optest.Values(g.dbeta)[0] != 9)
	}
}

func TestGroupNormQuant(t *testing.T) {
	g := newGroupNorm(t, dtype.Float16, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	want, _, _ := groupNormDefinition(optest.Values(g.x), optest.Values(g.gamma), optest.Values(g.beta), 2, 2, 1)
	for _, scale := range []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}, 0.01), optest.Tensor(t, dtype.Float32, []int64{4}, 0.02, 0.01, 0.03, 0.01)} {
		out := optest.Tensor(t, dtype.Int8, g.x.Shape)
		a := g.silu().With(optest.Args{"quantScale": scale, "activateSilu": true, "out": out})
		optest.Run(t, "GroupNormSiluQuant", a)
		s := optest.Values(scale)
		for i, y := range optest.Values(out) {
			assert.InDelta(t, min(max(want[i]/s[i/3%4%len(s)], -128), 127), y, 0.51)
		}
		optest.Refused(t, op.InvalidParam, "GroupNormSiluQuant", a.With(optest.Args{"out": g.y}), "out float16")
		optest.Refused(t, op.NullPointer, "GroupNormSiluQuant", a.With(optest.Args{"quantScale": nil}), "quantScale is null")
	}
}

func TestGroupNormOfNothing(t *testing.T) {
	g := newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 4, 0}, 2)
	optest.Run(t, "GroupNorm", g.forward())
	assert.Equal(t, make([]float64, 4), optest.Values(g.mean))
	assert.True(t, math.IsNaN(optest.Values(g.rstd)[3]))
	optest.Run(t, "GroupNormBackward", g.backward())
	assert.Equal(t, make([]float64, 8), append(optest.Values(g.dgamma), optest.Values(g.dbeta)...))
	g = newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{0, 4, 3}, 2)
	optest.Run(t, "GroupNorm", g.forward())
	optest.Run(t, "GroupNormBackward", g.backward())
}

func TestGroupNormRefuses(t *testing.T) {
	f := dtype.Float32
	g := newGroupNorm(t, f, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	for _, r := range []struct {
		name  string
		code  int32
		a     optest.Args
		texts []string
	}{
		{"GroupNorm", op.NullPointer, optest.Args{"self": nil}, []string{"self is null"}},
		{"GroupNorm", op.NullPointer, optest.Args{"rstdOut": nil}, []string{"rstdOut is null"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"group": 3}, []string{"4 channels", "3 groups"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"group": 0}, []string{"0 groups"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"HxW": 4}, []string{"2·4·4"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"N": 4, "C": 2}, []string{"N and C"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"eps": 0.0}, []string{"eps is 0"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"gamma": optest.Tensor(t, f, []int64{3}, 1)}, []string{"gamma float32[3]", "4 elements"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"meanOut": optest.Tensor(t, f, []int64{4})}, []string{"meanOut float32[4]"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"out": optest.Tensor(t, dtype.Float16, []int64{2, 4, 3})}, []string{"dtypes differ"}},
		{"GroupNorm", op.InvalidParam, optest.Args{"self": optest.Tensor(t, dtype.Int32, []int64{2, 4, 3}, 1)}, []string{"int32"}},
		{"GroupNormBackward", op.InvalidParam, optest.Args{"gradGammaOut": nil}, []string{"gradGammaOut"}},
		{"GroupNormBackward", op.InvalidParam, optest.Args{"outputMask": []bool{true}}, []string{"outputMask has 1"}},
		{"GroupNormBackward", op.InvalidParam, optest.Args{"gradOut": g.gamma}, []string{"gradOut float32[4]", "24 elements"}},
		{"GroupNormSwish", op.InvalidParam, optest.Args{"dataFormatOptional": "NHWC"}, []string{"NHWC"}},
		{"GroupNormSwishGrad", op.InvalidParam, optest.Args{"x": g.gamma, "dy": g.gamma}, []string{"float32[4]", "dimensions"}},
		{"GroupNormSwishGrad", op.InvalidParam, optest.Args{"x": optest.Tensor(t, f, []int64{}, 1)}, []string{"float32[]", "dimensions"}},
	} {
		a := g.forward()
		switch r.name {
		case "GroupNormBackward":
			a = g.backward()
		case "GroupNormSwish":
			a = g.swish(1)
		case "GroupNormSwishGrad":
			a = g.swishGrad(1)
		}
		optest.Refused(t, r.code, r.name, a.With(r.a), r.texts...)
	}
}
