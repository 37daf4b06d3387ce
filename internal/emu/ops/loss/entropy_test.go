package loss

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

// divergenceDefinitions are the losses of a prediction x and a target y with the weight p of the
// positive class, and the values that x and y take in the tests.
var divergenceDefinitions = []struct {
	forward, backward, ofTarget string
	a                           optest.Args
	f                           func(x, y, p float64) float64
	x, y                        []float64
}{
	{"BinaryCrossEntropy", "BinaryCrossEntropyBackward", "", optest.Args{}, func(x, y, _ float64) float64 {
		return -(y*math.Log(x) + (1-y)*math.Log(1-x))
	}, []float64{.1, .9, .5, .03125, .75}, []float64{0, 1, .5, .25}},
	{"BinaryCrossEntropyWithLogits", "BinaryCrossEntropyWithLogitsBackward", "BinaryCrossEntropyWithLogitsTargetBackward", optest.Args{}, func(x, y, p float64) float64 {
		return (1-y)*math.Log1p(math.Exp(x)) + p*y*math.Log1p(math.Exp(-x))
	}, []float64{-3, 2, 0, .5, 20, -20}, []float64{0, 1, .5, .25}},
	{"KlDiv", "KlDivBackward", "KlDivTargetBackward", optest.Args{}, func(x, y, _ float64) float64 { return y * (math.Log(y) - x) }, []float64{-1, 2, .5}, []float64{.5, 1, .125, 3}},
	{"KlDiv", "KlDivBackward", "KlDivTargetBackward", optest.Args{"logTarget": true}, func(x, y, _ float64) float64 { return math.Exp(y) * (y - x) }, []float64{-1, 2, .5}, []float64{.5, 1, -2, 0}},
	{"SoftMarginLoss", "SoftMarginLossBackward", "", optest.Args{}, func(x, y, _ float64) float64 { return math.Log1p(math.Exp(-x * y)) }, []float64{-3, 2, 0, .5, 9}, []float64{1, -1, 1}},
}

func TestDivergences(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{}, {1}, {7}, {3, 5}} {
				for _, def := range divergenceDefinitions {
					for reduction := range 4 {
						for _, weighted := range []bool{false, true} {
							_, hasWeight := parameter(op.Find(def.forward), "weight", "weightOptional")
							if reduction == batchMean && def.forward != "KlDiv" || weighted && !hasWeight {
								continue
							}
							what := fmt.Sprintf("%s %v %v %v, reduction %d, weighted %v", def.forward, d, l, shape, reduction, weighted)
							x, y := optest.TensorIn(t, d, l, shape, def.x...), optest.TensorIn(t, d, l, shape, def.y...)
							w, p := make([]float64, x.Len()), 1.0
							for i := range w {
								w[i] = 1
							}
							a := def.a.With(optest.Args{"self": x, "target": y, "reduction": reduction})
							if weighted {
								name, _ := parameter(op.Find(def.forward), "weight", "weightOptional")
								weight := optest.Tensor(t, d, shape, .5, 2, 0, 1)
								w, a[name] = optest.Values(weight), weight
								if _, ok := parameter(op.Find(def.forward), "posWeightOptional"); ok {
									p, a["posWeightOptional"] = 3, optest.Tensor(t, d, []int64{1}, 3)
								}
								if len(shape) == 0 {
									delete(a, "posWeightOptional")
									p = 1
								}
							}
							divergenceTrial(t, what, a, w, p, def.forward, def.backward, def.ofTarget, def.f)
						}
					}
				}
			}
		}
	}
}

func divergenceTrial(t *testing.T, what string, a optest.Args, w []float64, p float64, forward, backward, ofTarget string, f func(x, y, p float64) float64) {
	x, y, reduction := a["self"].(*op.Tensor), a["target"].(*op.Tensor), a["reduction"].(int)
	xs, ys := optest.Values(x), optest.Values(y)
	outShape := x.Shape
	if reduction != 0 {
		outShape = []int64{}
	}
	loss := func(xs, ys []float64) []float64 {
		each, sum := make([]float64, len(xs)), 0.0
		for i := range xs {
			each[i] = w[i] * f(xs[i], ys[i], p)
			sum += each[i]
		}
		switch reduction {
		case 0:
			return each
		case 1:
			sum /= float64(len(xs))
		case batchMean:
			if x.Rank() > 0 {
				sum /= float64(x.Shape[0])
			}
		}
		return []float64{sum}
	}
	out, limit := optest.Tensor(t, x.DType, outShape), 2*optest.ResultLimit(x.DType)
	optest.Run(t, forward, a.With(optest.Args{"out": out}))
	optest.CloseTo(t, what, loss(xs, ys), optest.Values(out), limit)
	dy := optest.Filled(t, 3, x.DType, kerneltest.Contiguous, outShape)
	dx := optest.Tensor(t, x.DType, x.Shape)
	for _, name := range []string{"weight", "weightOptional"} { // forward and backward use different names
		if weight, ok := a[name]; ok {
			delete(a, name)
			name, _ := parameter(op.Find(backward), "weight", "weightOptional")
			a[name] = weight
			break
		}
	}
	optest.Run(t, backward, a.With(optest.Args{"gradOutput": dy, "out": dx}))
	want := optest.Gradient(func(x []float64) []float64 { return loss(x, ys) }, optest.Values(dy), xs)
	optest.CloseTo(t, "gradient of "+what, want, optest.Values(dx), limit+1e-6)
	if ofTarget != "" {
		optest.Run(t, ofTarget, a.With(optest.Args{"gradOutput": dy, "gradTarget": dx}))
		want := optest.Gradient(func(y []float64) []float64 { return loss(xs, y) }, optest.Values(dy), ys)
		optest.CloseTo(t, "gradient in the target of "+what, want, optest.Values(dx), limit+1e-6)
	}
}

// parameter returns the first of the names that the operator declares.
func parameter(o *op.Operator, names ...string) (string, bool) {
	for _, n := range names {
		if (&op.Call{Op: o}).Has(n) {
			return n, true
		}
	}
	return "", false
}

func TestDivergenceEdges(t *testing.T) {
	f := dtype.Float32
	x, out := optest.Tensor(t, f, []int64{2}, 0, 1), optest.Tensor(t, f, []int64{2})
	optest.Run(t, "BinaryCrossEntropy", optest.Args{"self": x, "target": optest.Tensor(t, f, []int64{2}, 1, 0), "out": out})
	assert.Equal(t, []float64{100, 100}, optest.Values(out), "logarithms stop at -100")
	optest.Run(t, "KlDiv", optest.Args{"self": x, "target": optest.Tensor(t, f, []int64{2}, 0, -1), "out": out})
	assert.True(t, math.IsNaN(optest.Values(out)[0]) && math.IsNaN(optest.Values(out)[1]), "as the device has it")
	none, one := optest.Tensor(t, f, []int64{0}), optest.Tensor(t, f, []int64{})
	optest.Run(t, "SoftMarginLoss", optest.Args{"self": none, "target": none, "reduction": 1, "out": one})
	assert.True(t, math.IsNaN(optest.Values(one)[0]))
	optest.Run(t, "SoftMarginLoss", optest.Args{"self": none, "target": none, "out": none})
	optest.Run(t, "SoftMarginLossBackward", optest.Args{"gradOutput": one, "self": none, "target": none, "reduction": 2, "out": none})
}

// CANN gives a meaning to every reduction of these operators.
func TestUnknownReductions(t *testing.T) {
	f := dtype.Float32
	x, y := optest.Tensor(t, f, []int64{2}, -1, -2), optest.Tensor(t, f, []int64{2}, .25, .5)
	for _, name := range []string{"KlDivBackward", "KlDivTargetBackward"} {
		out := name[len("KlDiv"):]
		out = map[string]string{"Backward": "out", "TargetBackward": "gradTarget"}[out]
		var results [2][]float64
		for i, reduction := range []int64{0, 6} {
			dx := optest.Tensor(t, f, []int64{2})
			optest.Run(t, name, optest.Args{"gradOutput": x, "self": x, "target": y, "reduction": reduction, out: dx})
			results[i] = optest.Values(dx)
		}
		assert.Equal(t, results[0], results[1], name)
	}
	for _, reduction := range []int64{3, -4} {
		sum, want := optest.Tensor(t, f, []int64{}), optest.Tensor(t, f, []int64{})
		optest.Run(t, "SoftMarginLoss", optest.Args{"self": x, "target": y, "reduction": 2, "out": want})
		optest.Run(t, "SoftMarginLoss", optest.Args{"self": x, "target": y, "reduction": reduction, "out": sum})
		assert.Equal(t, optest.Values(want), optest.Values(sum))
	}
}

// TestRelativeEntropyGradientsOfBroadcasts compares the gradients of operands that are broadcast, which have the
// shape of their operand, with differences of the loss.
func TestRelativeEntropyGradientsOfBroadcasts(t *testing.T) {
	cases := []struct{ self, target, joined []int64 }{
		{[]int64{3, 1}, []int64{3, 5}, []int64{3, 5}},
		{[]int64{3, 5, 1}, []int64{6, 3, 1, 7}, []int64{6, 3, 5, 7}},
		{[]int64{3, 5}, []int64{1, 5}, []int64{3, 5}},
		{[]int64{2, 3}, []int64{}, []int64{2, 3}},
	}
	place := func(i int, shape, joined []int64) (at int) { // the element of a tensor of shape that element i of joined reads
		step := 1
		for k := len(joined) - 1; k >= 0; k-- {
			n := int(joined[k])
			if own := k - (len(joined) - len(shape)); own >= 0 {
				if shape[own] > 1 {
					at += i % n * step
				}
				step *= int(shape[own])
			}
			i /= n
		}
		return at
	}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range cases {
				for reduction := range 3 {
					for _, logTarget := range []bool{false, true} {
						what := fmt.Sprintf("%v %v %v and %v, reduction %d, logTarget %v", d, l, c.self, c.target, reduction, logTarget)
						x, y := optest.TensorIn(t, d, l, c.self, -1, 2, .5), optest.TensorIn(t, d, l, c.target, .5, 1, .25, 2)
						outShape := c.joined
						if reduction != 0 {
							outShape = []int64{}
						}
						dy := optest.Filled(t, 3, d, kerneltest.Contiguous, outShape)
						loss := func(xs, ys []float64) []float64 {
							each, sum := make([]float64, op.Count(c.joined)), 0.0
							for i := range each {
								a, b := xs[place(i, c.self, c.joined)], ys[place(i, c.target, c.joined)]
								if each[i] = b * (math.Log(b) - a); logTarget {
									each[i] = math.Exp(b) * (b - a)
								}
								sum += each[i]
							}
							switch reduction {
							case 0:
								return each
							case 1:
								sum /= float64(len(each))
							}
							return []float64{sum}
						}
						xs, ys := optest.Values(x), optest.Values(y)
						a := optest.Args{"gradOutput": dy, "self": x, "target": y, "reduction": reduction, "logTarget": logTarget}
						dx, dt := optest.TensorIn(t, d, l, c.self), optest.TensorIn(t, d, l, c.target)
						optest.Run(t, "KlDivBackward", a.With(optest.Args{"out": dx}))
						want := optest.Gradient(func(xs []float64) []float64 { return loss(xs, ys) }, optest.Values(dy), xs)
						optest.CloseTo(t, what, want, optest.Values(dx), 4*optest.ResultLimit(d))
						optest.Run(t, "KlDivTargetBackward", a.With(optest.Args{"gradTarget": dt}))
						want = optest.Gradient(func(ys []float64) []float64 { return loss(xs, ys) }, optest.Values(dy), ys)
						optest.CloseTo(t, "of target: "+what, want, optest.Values(dt), 4*optest.ResultLimit(d))
					}
				}
			}
		}
	}
}

func TestDivergencesRefuse(t *testing.T) {
	f := dtype.Float32
	x, y := optest.Tensor(t, f, []int64{2, 3}, 1), optest.Tensor(t, f, []int64{2}, 1)
	a := optest.Args{"self": x, "target": x, "out": x}
	optest.Refused(t, op.InvalidParam, "BinaryCrossEntropy", a.With(optest.Args{"reduction": 3}), "reduction 3")
	optest.Refused(t, op.InvalidParam, "BinaryCrossEntropy", a.With(optest.Args{"target": y}), "do not broadcast")
	optest.Refused(t, op.InvalidParam, "BinaryCrossEntropy", a.With(optest.Args{"weight": y}), "weight float32[2]")
	optest.Refused(t, op.InvalidParam, "BinaryCrossEntropy", a.With(optest.Args{"reduction": 1}), "one element")
	optest.Refused(t, op.InvalidParam, "KlDiv", a.With(optest.Args{"out": y}), "out float32[2]")
	optest.Refused(t, op.InvalidParam, "KlDiv", a.With(optest.Args{"self": optest.Tensor(t, dtype.Int64, []int64{2, 3}, 1)}), "int64")
	optest.Refused(t, op.NullPointer, "SoftMarginLoss", a.With(optest.Args{"target": nil}), "target is null")
	optest.Refused(t, op.NullPointer, "SoftMarginLossBackward", a, "gradOutput is null")
	optest.Refused(t, op.InvalidParam, "SoftMarginLossBackward", a.With(optest.Args{"gradOutput": y}), "gradOutput float32[2]")
}
