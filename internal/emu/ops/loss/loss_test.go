package loss

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// lossTrial is one call of CrossEntropyLoss and its gradient.
type lossTrial struct {
	x, target, weight *op.Tensor
	reduction         string
	ignore            int
	smoothing         float64
	gradLoss          []float64
}

// forward and backward are the arguments of both directions.
func (l *lossTrial) forward(t testing.TB) optest.Args {
	return optest.Args{
		"input": l.x, "target": l.target, "weightOptional": l.weight, "reductionOptional": l.reduction, "ignoreIndex": l.ignore, "labelSmoothing": l.smoothing,
		"lossOut": optest.Tensor(t, l.x.DType, l.lossShape()), "logProbOut": optest.Of(kerneltest.New(t, l.x.DType, kerneltest.Contiguous, l.x.Shape, nil)),
	}
}

func (l *lossTrial) backward(t testing.TB, logProb *op.Tensor) optest.Args {
	return optest.Args{
		"gradLoss": optest.Tensor(t, l.x.DType, l.gradShape(), l.gradLoss...), "logProb": logProb, "target": l.target, "weightOptional": l.weight,
		"reductionOptional": l.reduction, "ignoreIndex": l.ignore, "labelSmoothing": l.smoothing, "out": optest.Tensor(t, l.x.DType, l.x.Shape),
	}
}

func (l *lossTrial) lossShape() []int64 {
	if l.reduction == "none" {
		return l.x.Shape[:1]
	}
	return []int64{1}
}

func (l *lossTrial) gradShape() []int64 {
	if l.reduction == "none" {
		return l.x.Shape[:1]
	}
	return []int64{}
}

// compute runs forward and backward.
func (l *lossTrial) compute(t testing.TB) (loss, logProb, dx *op.Tensor) {
	t.Helper()
	a := l.forward(t)
	optest.Run(t, "CrossEntropyLoss", a)
	loss, logProb = a["lossOut"].(*op.Tensor), a["logProbOut"].(*op.Tensor)
	b := l.backward(t, logProb)
	optest.Run(t, "CrossEntropyLossGrad", b)
	return loss, logProb, b["out"].(*op.Tensor)
}

// define computes the loss from its definition.
func (l *lossTrial) define(x []float64) (losses, logProb []float64) {
	rows, classes := int(l.x.Dim(0)), int(l.x.Dim(1))
	weight, target := slices.Repeat([]float64{1}, classes), optest.Values(l.target)
	if l.weight != nil {
		weight = optest.Values(l.weight)
	}
	losses, total := make([]float64, rows), 0.0
	for i := range rows {
		row := x[i*classes:][:classes]
		sum, most := 0.0, slices.Max(row)
		for _, v := range row {
			sum += math.Exp(v - most)
		}
		for _, v := range row {
			logProb = append(logProb, v-most-math.Log(sum))
		}
		if int(target[i]) == l.ignore {
			continue
		}
		k := int(target[i])
		total += weight[k]
		losses[i] = -(1 - l.smoothing) * weight[k] * logProb[i*classes+k]
		for c, w := range weight {
			losses[i] -= l.smoothing / float64(classes) * w * logProb[i*classes+c]
		}
	}
	if l.reduction == "none" {
		return losses, logProb
	}
	one := 0.0
	for _, v := range losses {
		one += v
	}
	if l.reduction == "mean" {
		one /= total
	}
	return []float64{one}, logProb
}

func TestCrossEntropy(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{1, 1}, {1, 2}, {5, 3}, {3, 67}, {9, 33}} {
				for _, reduction := range []string{"mean", "sum", "none"} {
					for _, smoothing := range []float64{0, .1, 1} {
						for _, weighted := range []bool{false, true} {
							what := fmt.Sprintf("%v %v %v %s smoothing %v weighted %v", d, l, shape, reduction, smoothing, weighted)
							crossEntropyTrial(t, what, d, l, shape, reduction, smoothing, weighted)
						}
					}
				}
			}
		}
	}
}

func crossEntropyTrial(t *testing.T, what string, d dtype.Type, l kerneltest.Layout, shape []int64, reduction string, smoothing float64, weighted bool) {
	rows, classes := shape[0], shape[1]
	targets := make([]float64, rows)
	for i := range targets {
		targets[i] = float64(int64(i*7) % classes)
	}
	ignore := -100
	if rows > 1 {
		targets[1] = -100
	}
	trial := lossTrial{
		x: optest.Filled(t, 5, d, l, shape), target: optest.Tensor(t, []dtype.Type{dtype.Int64, dtype.Int32}[classes%2], []int64{rows}, targets...),
		reduction: reduction, ignore: ignore, smoothing: smoothing, gradLoss: []float64{.5},
	}
	if reduction == "none" {
		trial.gradLoss = optest.Normal(6, d, rows)
	}
	if weighted {
		w := optest.Normal(7, dtype.Float32, classes)
		for i := range w {
			w[i] = math.Abs(w[i])
		}
		trial.weight = optest.Tensor(t, dtype.Float32, []int64{classes}, w...)
	}
	loss, logProb, dx := trial.compute(t)
	x := optest.Values(trial.x)
	wantLoss, wantLogProb := trial.define(x)
	optest.CloseTo(t, "loss of "+what, wantLoss, optest.Values(loss), optest.ResultLimit(d))
	optest.CloseTo(t, "logProb of "+what, wantLogProb, optest.Values(logProb), optest.ResultLimit(d))
	// Backward starts from the rounded log-probabilities.
	want := optest.Gradient(func(x []float64) []float64 { l, _ := trial.define(x); return l }, trial.gradLoss, x)
	optest.CloseTo(t, "dx of "+what, want, optest.Values(dx), 5*optest.ResultLimit(d))
}

func TestCrossEntropyExtremes(t *testing.T) {
	f := dtype.Float32
	x := optest.Tensor(t, f, []int64{2, 3}, 1e4, -1e4, 0, math.Inf(-1), 3, 3)
	trial := lossTrial{x: x, target: optest.Tensor(t, dtype.Int64, []int64{2}, 1, 2), reduction: "none", ignore: -100, gradLoss: []float64{1, 1}}
	loss, logProb, dx := trial.compute(t)
	optest.CloseTo(t, "loss", []float64{2e4, math.Ln2}, optest.Values(loss), 1e-6)
	assert.True(t, math.IsInf(optest.Values(logProb)[3], -1))
	optest.CloseTo(t, "dx", []float64{1, -1, 0, 0, .5, -.5}, optest.Values(dx), 1e-6)

	// The mean over no rows is 0/0, and the gradient has no terms.
	trial = lossTrial{x: x, target: optest.Tensor(t, dtype.Int64, []int64{2}, 1, 1), reduction: "mean", ignore: 1, gradLoss: []float64{1}}
	loss, _, dx = trial.compute(t)
	assert.True(t, math.IsNaN(optest.Values(loss)[0]))
	assert.Equal(t, make([]float64, 6), optest.Values(dx))

	none := lossTrial{x: optest.Tensor(t, f, []int64{0, 4}), target: optest.Tensor(t, dtype.Int64, []int64{0}), reduction: "sum", ignore: -100, gradLoss: []float64{1}}
	loss, _, _ = none.compute(t)
	assert.Equal(t, []float64{0}, optest.Values(loss))
	none.reduction = "none"
	none.compute(t)
}

func TestCrossEntropyRefuses(t *testing.T) {
	start := func() lossTrial {
		return lossTrial{
			x: optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1, 2), target: optest.Tensor(t, dtype.Int64, []int64{2}, 0, 2), reduction: "mean", ignore: -100, gradLoss: []float64{1},
		}
	}
	for _, c := range []struct {
		change optest.Args
		code   int32
		texts  []string
	}{
		{optest.Args{"target": (*op.Tensor)(nil)}, op.NullPointer, []string{"target is null"}},
		{optest.Args{"target": optest.Tensor(t, dtype.Int64, []int64{3}, 0)}, op.InvalidParam, []string{"target int64[3]", "[2]", "one class index"}},
		{optest.Args{"target": optest.Tensor(t, dtype.Float32, []int64{2}, 0)}, op.InvalidParam, []string{"target float32[2]", "int64"}},
		{optest.Args{"weightOptional": optest.Tensor(t, dtype.Float32, []int64{2}, 1)}, op.InvalidParam, []string{"weightOptional float32[2]", "[3]"}},
		{optest.Args{"weightOptional": optest.Tensor(t, dtype.Float16, []int64{3}, 1)}, op.InvalidParam, []string{"weightOptional float16"}},
		{optest.Args{"reductionOptional": "average"}, op.InvalidParam, []string{`"average"`, "mean, sum or none"}},
		{optest.Args{"labelSmoothing": 1.5}, op.InvalidParam, []string{"labelSmoothing 1.5"}},
		{optest.Args{"lseSquareScaleForZloss": .1}, op.InvalidParam, []string{"z-loss"}},
		{optest.Args{"reductionOptional": "none", "lossOut": optest.Tensor(t, dtype.Float32, []int64{1}), "gradLoss": optest.Tensor(t, dtype.Float32, []int64{1})}, op.InvalidParam, []string{"float32[1]", "[2]"}},
		{optest.Args{"lossOut": optest.Tensor(t, dtype.Float32, []int64{2}), "gradLoss": optest.Tensor(t, dtype.Float32, []int64{2})}, op.InvalidParam, []string{"float32[2]", "one element"}},
	} {
		l := start()
		for name, a := range map[string]optest.Args{"CrossEntropyLoss": l.forward(t), "CrossEntropyLossGrad": l.backward(t, l.x)} {
			for k, v := range c.change {
				if _, ok := a[k]; ok || !slices.Contains([]string{"lossOut", "gradLoss"}, k) {
					a[k] = v
				}
			}
			optest.Refused(t, c.code, name, a, c.texts...)
		}
	}
	l := start()
	a := l.forward(t)
	a["input"] = optest.Tensor(t, dtype.Float32, []int64{2, 3, 1}, 1)
	optest.Refused(t, op.InvalidParam, "CrossEntropyLoss", a, "3 dimensions")
	a = l.forward(t)
	a["returnZloss"] = true
	optest.Refused(t, op.InvalidParam, "CrossEntropyLoss", a, "z-loss")
	b := l.backward(t, l.x)
	b["gradZlossOptional"] = l.x
	optest.Refused(t, op.InvalidParam, "CrossEntropyLossGrad", b, "pass null")
	// A target outside the classes is an error of the stream.
	l.target = optest.Tensor(t, dtype.Int64, []int64{2}, 0, 3)
	require.ErrorContains(t, optest.Execute(t, "CrossEntropyLoss", l.forward(t)), "target 3 of row 1 is out of range for 3 classes")
	require.ErrorContains(t, optest.Execute(t, "CrossEntropyLossGrad", l.backward(t, l.x)), "target 3 of row 1")
}
