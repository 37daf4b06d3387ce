package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// divergenceDefinitions are the losses of a prediction x and a target y, with the weight p
// of the positive class, and the values that x and y take in the tests.
var divergenceDefinitions = []struct {
	forward, backward, ofTarget string
	a                           args
	f                           func(x, y, p float64) float64
	x, y                        []float64
}{
	{"BinaryCrossEntropy", "BinaryCrossEntropyBackward", "", args{}, func(x, y, _ float64) float64 {
		return -(y*math.Log(x) + (1-y)*math.Log(1-x))
	}, []float64{.1, .9, .5, .03125, .75}, []float64{0, 1, .5, .25}},
	{"BinaryCrossEntropyWithLogits", "BinaryCrossEntropyWithLogitsBackward", "BinaryCrossEntropyWithLogitsTargetBackward", args{}, func(x, y, p float64) float64 {
		return (1-y)*math.Log1p(math.Exp(x)) + p*y*math.Log1p(math.Exp(-x))
	}, []float64{-3, 2, 0, .5, 20, -20}, []float64{0, 1, .5, .25}},
	{"KlDiv", "KlDivBackward", "KlDivTargetBackward", args{}, func(x, y, _ float64) float64 { return y * (math.Log(y) - x) }, []float64{-1, 2, .5}, []float64{.5, 1, .125, 3}},
	{"KlDiv", "KlDivBackward", "KlDivTargetBackward", args{"logTarget": true}, func(x, y, _ float64) float64 { return math.Exp(y) * (y - x) }, []float64{-1, 2, .5}, []float64{.5, 1, -2, 0}},
	{"SoftMarginLoss", "SoftMarginLossBackward", "", args{}, func(x, y, _ float64) float64 { return math.Log1p(math.Exp(-x * y)) }, []float64{-3, 2, 0, .5, 9}, []float64{1, -1, 1}},
}

func TestDivergences(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{}, {1}, {7}, {3, 5}} {
				for _, def := range divergenceDefinitions {
					for reduction := range 4 {
						for _, weighted := range []bool{false, true} {
							_, hasWeight := find(def.forward).parameter("weight", "weightOptional")
							if reduction == batchMean && def.forward != "KlDiv" || weighted && !hasWeight {
								continue
							}
							what := fmt.Sprintf("%s %v %v %v, reduction %d, weighted %v", def.forward, d, l, shape, reduction, weighted)
							x, y := tensorIn(t, d, l, shape, def.x...), tensorIn(t, d, l, shape, def.y...)
							w, p := make([]float64, x.Len()), 1.0
							for i := range w {
								w[i] = 1
							}
							a := def.a.with(args{"self": x, "target": y, "reduction": reduction})
							if weighted {
								name, _ := find(def.forward).parameter("weight", "weightOptional")
								weight := tensor(t, d, shape, .5, 2, 0, 1)
								w, a[name] = values(weight), weight
								if _, ok := find(def.forward).parameter("posWeightOptional"); ok {
									p, a["posWeightOptional"] = 3, tensor(t, d, []int64{1}, 3)
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

func divergenceTrial(t *testing.T, what string, a args, w []float64, p float64, forward, backward, ofTarget string, f func(x, y, p float64) float64) {
	x, y, reduction := a["self"].(*Tensor), a["target"].(*Tensor), a["reduction"].(int)
	xs, ys := values(x), values(y)
	outShape := x.Shape
	if reduction != 0 {
		outShape = []int64{1}
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
	out, limit := tensor(t, x.DType, outShape), 2*resultLimit(x.DType)
	run(t, forward, a.with(args{"out": out}))
	closeTo(t, what, loss(xs, ys), values(out), limit)
	dy := filled(t, 3, x.DType, kerneltest.Contiguous, outShape)
	dx := tensor(t, x.DType, x.Shape)
	for _, name := range []string{"weight", "weightOptional"} { // forward and backward do not agree on the name
		if weight, ok := a[name]; ok {
			delete(a, name)
			name, _ := find(backward).parameter("weight", "weightOptional")
			a[name] = weight
			break
		}
	}
	run(t, backward, a.with(args{"gradOutput": dy, "out": dx}))
	want := gradient(func(x []float64) []float64 { return loss(x, ys) }, values(dy), xs)
	closeTo(t, "gradient of "+what, want, values(dx), limit+1e-6)
	if ofTarget != "" {
		run(t, ofTarget, a.with(args{"gradOutput": dy, "gradTarget": dx}))
		want := gradient(func(y []float64) []float64 { return loss(xs, y) }, values(dy), ys)
		closeTo(t, "gradient in the target of "+what, want, values(dx), limit+1e-6)
	}
}

// parameter is the first of the names that the operator has.
func (o *operator) parameter(names ...string) (string, bool) {
	for _, n := range names {
		if (&Call{op: o}).Has(n) {
			return n, true
		}
	}
	return "", false
}

func TestDivergenceEdges(t *testing.T) {
	f := dtype.Float32
	x, out := tensor(t, f, []int64{2}, 0, 1), tensor(t, f, []int64{2})
	run(t, "BinaryCrossEntropy", args{"self": x, "target": tensor(t, f, []int64{2}, 1, 0), "out": out})
	assert.Equal(t, []float64{100, 100}, values(out), "logarithms stop at -100")
	run(t, "KlDiv", args{"self": x, "target": tensor(t, f, []int64{2}, 0, -1), "out": out})
	assert.True(t, math.IsNaN(values(out)[0]) && math.IsNaN(values(out)[1]), "as the device has it")
	none, one := tensor(t, f, []int64{0}), tensor(t, f, []int64{1})
	run(t, "SoftMarginLoss", args{"self": none, "target": none, "reduction": 1, "out": one})
	assert.True(t, math.IsNaN(values(one)[0]))
	run(t, "SoftMarginLoss", args{"self": none, "target": none, "out": none})
	run(t, "SoftMarginLossBackward", args{"gradOutput": one, "self": none, "target": none, "reduction": 2, "out": none})
}

func TestDivergencesRefuse(t *testing.T) {
	f := dtype.Float32
	x, y := tensor(t, f, []int64{2, 3}, 1), tensor(t, f, []int64{2}, 1)
	a := args{"self": x, "target": x, "out": x}
	refused(t, invalidParam, "BinaryCrossEntropy", a.with(args{"reduction": 3}), "reduction 3")
	refused(t, invalidParam, "BinaryCrossEntropy", a.with(args{"target": y}), "do not broadcast")
	refused(t, invalidParam, "BinaryCrossEntropy", a.with(args{"weight": y}), "weight float32[2]")
	refused(t, invalidParam, "BinaryCrossEntropy", a.with(args{"reduction": 1}), "one element")
	refused(t, invalidParam, "KlDiv", a.with(args{"out": y}), "out float32[2]")
	refused(t, invalidParam, "KlDiv", a.with(args{"self": tensor(t, dtype.Int64, []int64{2, 3}, 1)}), "int64")
	refused(t, nullPointer, "SoftMarginLoss", a.with(args{"target": nil}), "target is null")
	refused(t, nullPointer, "SoftMarginLossBackward", a, "gradOutput is null")
	refused(t, invalidParam, "SoftMarginLossBackward", a.with(args{"gradOutput": y}), "gradOutput float32[2]")
}
