package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// groupNormDefinition normalises x of n samples and len(gamma) channels in groups; with
// swish not 0 it applies y · sigmoid(swish · y) after.
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
	x, dy, gamma, beta, y, mean, rstd, dx, dgamma, dbeta *Tensor
	n, channels, groups                                  int64
}

func newGroupNorm(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, groups int64) groupNormTensors {
	channels := shape[1:2]
	stats := []int64{shape[0], groups}
	return groupNormTensors{
		x: filled(t, 1, d, l, shape), dy: filled(t, 2, d, l, shape), gamma: filled(t, 3, d, kerneltest.Contiguous, channels),
		beta: filled(t, 4, d, kerneltest.Contiguous, channels), y: tensorIn(t, d, l, shape), dx: tensorIn(t, d, l, shape),
		mean: tensor(t, d, stats), rstd: tensor(t, d, stats), dgamma: tensor(t, d, channels), dbeta: tensor(t, d, channels),
		n: shape[0], channels: shape[1], groups: groups,
	}
}

func (g groupNormTensors) forward() args {
	return args{
		"self": g.x, "gamma": g.gamma, "beta": g.beta, "N": g.n, "C": g.channels, "HxW": elements(g.x.Shape[2:]), "group": g.groups,
		"eps": epsilon, "out": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) silu() args {
	return args{
		"self": g.x, "gamma": g.gamma, "beta": g.beta, "group": g.groups, "eps": epsilon, "out": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) swish(scale float64) args {
	return args{
		"x": g.x, "gamma": g.gamma, "beta": g.beta, "numGroups": g.groups, "dataFormatOptional": "NCHW", "eps": epsilon,
		"activateSwish": scale != 0, "swishScale": scale, "yOut": g.y, "meanOut": g.mean, "rstdOut": g.rstd,
	}
}

func (g groupNormTensors) backward() args {
	return args{
		"gradOut": g.dy, "input": g.x, "mean": g.mean, "rstd": g.rstd, "gamma": g.gamma, "N": g.n, "C": g.channels,
		"HxW": elements(g.x.Shape[2:]), "group": g.groups, "outputMask": []bool{true, true, true},
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
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range groupNormShapes {
				g := newGroupNorm(t, d, l, s.shape, s.groups)
				what := fmt.Sprintf("%v %v %v, %d groups", d, l, s.shape, s.groups)
				x, gamma, beta := values(g.x), values(g.gamma), values(g.beta)
				definition := func(swish float64) ([]float64, []float64, []float64) {
					return groupNormDefinition(x, gamma, beta, int(g.n), int(g.groups), swish)
				}
				run(t, "GroupNorm", g.forward())
				y, mean, rstd := definition(0)
				closeTo(t, "y of "+what, y, values(g.y), 3*resultLimit(d))
				closeTo(t, "mean of "+what, mean, values(g.mean), resultLimit(d))
				closeTo(t, "rstd of "+what, rstd, values(g.rstd), resultLimit(d))
				silu, _, _ := definition(1)
				run(t, "GroupNormSilu", g.silu())
				closeTo(t, "silu of "+what, silu, values(g.y), 3*resultLimit(d))
				run(t, "GroupNormSiluV2", g.silu().with(args{"activateSilu": true}))
				closeTo(t, "silu of "+what, silu, values(g.y), 3*resultLimit(d))
				run(t, "GroupNormSiluV2", g.silu())
				closeTo(t, "y without silu of "+what, y, values(g.y), 3*resultLimit(d))
				swish, _, _ := definition(0.7)
				run(t, "GroupNormSwish", g.swish(0.7))
				closeTo(t, "swish of "+what, swish, values(g.y), 3*resultLimit(d))
				run(t, "GroupNormSwish", g.swish(0))
				closeTo(t, "y without swish of "+what, y, values(g.y), 3*resultLimit(d))
			}
		}
	}
}

func TestGroupNormGrad(t *testing.T) {
	for _, d := range transformerTypes {
		for _, s := range groupNormShapes {
			for _, swish := range []float64{0, 1.5} {
				g := newGroupNorm(t, d, kerneltest.Contiguous, s.shape, s.groups)
				g.mean, g.rstd = tensor(t, dtype.Float32, g.mean.Shape), tensor(t, dtype.Float32, g.rstd.Shape)
				what := fmt.Sprintf("%v %v, %d groups, swish %g", d, s.shape, s.groups, swish)
				run(t, "GroupNorm", g.forward())
				if swish == 0 {
					run(t, "GroupNormBackward", g.backward())
				} else {
					run(t, "GroupNormSwishGrad", args{
						"dy": g.dy, "mean": g.mean, "rstd": g.rstd, "x": g.x, "gamma": g.gamma, "beta": g.beta, "numGroups": g.groups,
						"swishScale": swish, "dgammaIsRequire": true, "dbetaIsRequire": true, "dxOut": g.dx, "dgammaOut": g.dgamma, "dbetaOut": g.dbeta,
					})
				}
				x, dy, gamma, beta := values(g.x), values(g.dy), values(g.gamma), values(g.beta)
				f := func(x, gamma, beta []float64) []float64 {
					y, _, _ := groupNormDefinition(x, gamma, beta, int(g.n), int(g.groups), swish)
					return y
				}
				dx := gradient(func(x []float64) []float64 { return f(x, gamma, beta) }, dy, x)
				closeTo(t, "dx of "+what, dx, values(g.dx), 4*resultLimit(d)+3e-5)
				dgamma := gradient(func(gamma []float64) []float64 { return f(x, gamma, beta) }, dy, gamma)
				closeTo(t, "dgamma of "+what, dgamma, values(g.dgamma), 4*resultLimit(d))
				dbeta := gradient(func(beta []float64) []float64 { return f(x, gamma, beta) }, dy, beta)
				closeTo(t, "dbeta of "+what, dbeta, values(g.dbeta), 4*resultLimit(d))
			}
		}
	}
}

func TestGroupNormParts(t *testing.T) {
	g := newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	plain := g.forward().with(args{"gamma": nil, "beta": nil})
	run(t, "GroupNorm", plain)
	want, _, _ := groupNormDefinition(values(g.x), []float64{1, 1, 1, 1}, make([]float64, 4), 2, 2, 0)
	closeTo(t, "without gamma and beta", want, values(g.y), 3e-6)

	run(t, "GroupNormBackward", g.backward())
	dx, dgamma := values(g.dx), values(g.dgamma)
	for i := range 3 {
		mask := make([]bool, 3)
		mask[i] = true
		for _, out := range []*Tensor{g.dx, g.dgamma, g.dbeta} {
			fill(out, 9)
		}
		run(t, "GroupNormBackward", g.backward().with(args{"outputMask": mask}))
		assert.Equal(t, i == 0, values(g.dx)[0] == dx[0])
		assert.Equal(t, i == 1, values(g.dgamma)[0] == dgamma[0])
		assert.Equal(t, i == 2, values(g.dbeta)[0] != 9)
	}
}

func TestGroupNormQuant(t *testing.T) {
	g := newGroupNorm(t, dtype.Float16, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	want, _, _ := groupNormDefinition(values(g.x), values(g.gamma), values(g.beta), 2, 2, 1)
	for _, scale := range []*Tensor{tensor(t, dtype.Float32, []int64{1}, 0.01), tensor(t, dtype.Float32, []int64{4}, 0.02, 0.01, 0.03, 0.01)} {
		out := tensor(t, dtype.Int8, g.x.Shape)
		a := g.silu().with(args{"quantScale": scale, "activateSilu": true, "out": out})
		run(t, "GroupNormSiluQuant", a)
		s := values(scale)
		for i, y := range values(out) {
			assert.InDelta(t, min(max(want[i]/s[i/3%4%len(s)], -128), 127), y, 0.51)
		}
		refused(t, invalidParam, "GroupNormSiluQuant", a.with(args{"out": g.y}), "out float16")
		refused(t, nullPointer, "GroupNormSiluQuant", a.with(args{"quantScale": nil}), "quantScale is null")
	}
}

func TestGroupNormOfNothing(t *testing.T) {
	g := newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 4, 0}, 2)
	run(t, "GroupNorm", g.forward())
	assert.Equal(t, make([]float64, 4), values(g.mean))
	assert.True(t, math.IsNaN(values(g.rstd)[3]))
	run(t, "GroupNormBackward", g.backward())
	assert.Equal(t, make([]float64, 8), append(values(g.dgamma), values(g.dbeta)...))
	g = newGroupNorm(t, dtype.Float32, kerneltest.Contiguous, []int64{0, 4, 3}, 2)
	run(t, "GroupNorm", g.forward())
	run(t, "GroupNormBackward", g.backward())
}

func TestGroupNormRefuses(t *testing.T) {
	f := dtype.Float32
	g := newGroupNorm(t, f, kerneltest.Contiguous, []int64{2, 4, 3}, 2)
	for _, r := range []struct {
		name  string
		code  int32
		a     args
		texts []string
	}{
		{"GroupNorm", nullPointer, args{"self": nil}, []string{"self is null"}},
		{"GroupNorm", nullPointer, args{"rstdOut": nil}, []string{"rstdOut is null"}},
		{"GroupNorm", invalidParam, args{"group": 3}, []string{"4 channels", "3 groups"}},
		{"GroupNorm", invalidParam, args{"group": 0}, []string{"0 groups"}},
		{"GroupNorm", invalidParam, args{"HxW": 4}, []string{"2·4·4"}},
		{"GroupNorm", invalidParam, args{"N": 4, "C": 2}, []string{"N and C"}},
		{"GroupNorm", invalidParam, args{"eps": 0.0}, []string{"eps is 0"}},
		{"GroupNorm", invalidParam, args{"gamma": tensor(t, f, []int64{3}, 1)}, []string{"gamma float32[3]", "4 elements"}},
		{"GroupNorm", invalidParam, args{"meanOut": tensor(t, f, []int64{4})}, []string{"meanOut float32[4]"}},
		{"GroupNorm", invalidParam, args{"out": tensor(t, dtype.Float16, []int64{2, 4, 3})}, []string{"dtypes differ"}},
		{"GroupNorm", invalidParam, args{"self": tensor(t, dtype.Int32, []int64{2, 4, 3}, 1)}, []string{"int32"}},
		{"GroupNormBackward", nullPointer, args{"gradGammaOut": nil}, []string{"gradGammaOut is null"}},
		{"GroupNormBackward", invalidParam, args{"outputMask": []bool{true}}, []string{"outputMask has 1"}},
		{"GroupNormBackward", invalidParam, args{"gradOut": g.gamma}, []string{"gradOut float32[4]", "24 elements"}},
		{"GroupNormSwish", invalidParam, args{"dataFormatOptional": "NHWC"}, []string{"NHWC"}},
	} {
		a := g.forward()
		switch r.name {
		case "GroupNormBackward":
			a = g.backward()
		case "GroupNormSwish":
			a = g.swish(1)
		}
		refused(t, r.code, r.name, a.with(r.a), r.texts...)
	}
}
