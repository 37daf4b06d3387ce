package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// lossTrial is one call of CrossEntropyLoss and its gradient.
type lossTrial struct {
	x, target, weight *Tensor
	reduction         string
	ignore            int
	smoothing         float64
	gradLoss          []float64
}

// forward and backward are the arguments of both directions.
func (l *lossTrial) forward(t testing.TB) args {
	return args{
		"input": l.x, "target": l.target, "weightOptional": l.weight, "reductionOptional": l.reduction, "ignoreIndex": l.ignore, "labelSmoothing": l.smoothing,
		"lossOut": tensor(t, l.x.DType, l.lossShape()), "logProbOut": of(kerneltest.New(t, l.x.DType, kerneltest.Contiguous, l.x.Shape, nil)),
	}
}

func (l *lossTrial) backward(t testing.TB, logProb *Tensor) args {
	return args{
		"gradLoss": tensor(t, l.x.DType, l.gradShape(), l.gradLoss...), "logProb": logProb, "target": l.target, "weightOptional": l.weight,
		"reductionOptional": l.reduction, "ignoreIndex": l.ignore, "labelSmoothing": l.smoothing, "out": tensor(t, l.x.DType, l.x.Shape),
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

// compute runs both directions.
func (l *lossTrial) compute(t testing.TB) (loss, logProb, dx *Tensor) {
	t.Helper()
	a := l.forward(t)
	run(t, "CrossEntropyLoss", a)
	loss, logProb = a["lossOut"].(*Tensor), a["logProbOut"].(*Tensor)
	b := l.backward(t, logProb)
	run(t, "CrossEntropyLossGrad", b)
	return loss, logProb, b["out"].(*Tensor)
}

// define is the loss from its definition.
func (l *lossTrial) define(x []float64) (losses, logProb []float64) {
	rows, classes := int(l.x.Dim(0)), int(l.x.Dim(1))
	weight, target := slices.Repeat([]float64{1}, classes), values(l.target)
	if l.weight != nil {
		weight = values(l.weight)
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
	for _, d := range transformerTypes {
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
		x: filled(t, 5, d, l, shape), target: tensor(t, []dtype.Type{dtype.Int64, dtype.Int32}[classes%2], []int64{rows}, targets...),
		reduction: reduction, ignore: ignore, smoothing: smoothing, gradLoss: []float64{.5},
	}
	if reduction == "none" {
		trial.gradLoss = normal(6, d, rows)
	}
	if weighted {
		w := normal(7, dtype.Float32, classes)
		for i := range w {
			w[i] = math.Abs(w[i])
		}
		trial.weight = tensor(t, dtype.Float32, []int64{classes}, w...)
	}
	loss, logProb, dx := trial.compute(t)
	x := values(trial.x)
	wantLoss, wantLogProb := trial.define(x)
	closeTo(t, "loss of "+what, wantLoss, values(loss), resultLimit(d))
	closeTo(t, "logProb of "+what, wantLogProb, values(logProb), resultLimit(d))
	// Backward starts from the rounded log-probabilities.
	want := gradient(func(x []float64) []float64 { l, _ := trial.define(x); return l }, trial.gradLoss, x)
	closeTo(t, "dx of "+what, want, values(dx), 5*resultLimit(d))
}

func TestCrossEntropyExtremes(t *testing.T) {
	f := dtype.Float32
	x := tensor(t, f, []int64{2, 3}, 1e4, -1e4, 0, math.Inf(-1), 3, 3)
	trial := lossTrial{x: x, target: tensor(t, dtype.Int64, []int64{2}, 1, 2), reduction: "none", ignore: -100, gradLoss: []float64{1, 1}}
	loss, logProb, dx := trial.compute(t)
	closeTo(t, "loss", []float64{2e4, math.Ln2}, values(loss), 1e-6)
	assert.True(t, math.IsInf(values(logProb)[3], -1))
	closeTo(t, "dx", []float64{1, -1, 0, 0, .5, -.5}, values(dx), 1e-6)

	// The mean over no row is 0/0, its gradient has nothing to add.
	trial = lossTrial{x: x, target: tensor(t, dtype.Int64, []int64{2}, 1, 1), reduction: "mean", ignore: 1, gradLoss: []float64{1}}
	loss, _, dx = trial.compute(t)
	assert.True(t, math.IsNaN(values(loss)[0]))
	assert.Equal(t, make([]float64, 6), values(dx))

	none := lossTrial{x: tensor(t, f, []int64{0, 4}), target: tensor(t, dtype.Int64, []int64{0}), reduction: "sum", ignore: -100, gradLoss: []float64{1}}
	loss, _, _ = none.compute(t)
	assert.Equal(t, []float64{0}, values(loss))
	none.reduction = "none"
	none.compute(t)
}

func TestCrossEntropyRefuses(t *testing.T) {
	start := func() lossTrial {
		return lossTrial{
			x: tensor(t, dtype.Float32, []int64{2, 3}, 1, 2), target: tensor(t, dtype.Int64, []int64{2}, 0, 2), reduction: "mean", ignore: -100, gradLoss: []float64{1},
		}
	}
	for _, c := range []struct {
		change args
		code   int32
		texts  []string
	}{
		{args{"target": (*Tensor)(nil)}, nullPointer, []string{"target is null"}},
		{args{"target": tensor(t, dtype.Int64, []int64{3}, 0)}, invalidParam, []string{"target int64[3]", "[2]", "one class index"}},
		{args{"target": tensor(t, dtype.Float32, []int64{2}, 0)}, invalidParam, []string{"target float32[2]", "int64"}},
		{args{"weightOptional": tensor(t, dtype.Float32, []int64{2}, 1)}, invalidParam, []string{"weightOptional float32[2]", "[3]"}},
		{args{"weightOptional": tensor(t, dtype.Float16, []int64{3}, 1)}, invalidParam, []string{"weightOptional float16"}},
		{args{"reductionOptional": "average"}, invalidParam, []string{`"average"`, "mean, sum or none"}},
		{args{"labelSmoothing": 1.5}, invalidParam, []string{"labelSmoothing 1.5"}},
		{args{"lseSquareScaleForZloss": .1}, invalidParam, []string{"z-loss"}},
		{args{"reductionOptional": "none", "lossOut": tensor(t, dtype.Float32, []int64{1}), "gradLoss": tensor(t, dtype.Float32, []int64{1})}, invalidParam, []string{"float32[1]", "[2]"}},
		{args{"lossOut": tensor(t, dtype.Float32, []int64{2}), "gradLoss": tensor(t, dtype.Float32, []int64{2})}, invalidParam, []string{"float32[2]", "one element"}},
	} {
		l := start()
		for name, a := range map[string]args{"CrossEntropyLoss": l.forward(t), "CrossEntropyLossGrad": l.backward(t, l.x)} {
			for k, v := range c.change {
				if _, ok := a[k]; ok || !slices.Contains([]string{"lossOut", "gradLoss"}, k) {
					a[k] = v
				}
			}
			refused(t, c.code, name, a, c.texts...)
		}
	}
	l := start()
	a := l.forward(t)
	a["input"] = tensor(t, dtype.Float32, []int64{2, 3, 1}, 1)
	refused(t, invalidParam, "CrossEntropyLoss", a, "3 dimensions")
	a = l.forward(t)
	a["returnZloss"] = true
	refused(t, invalidParam, "CrossEntropyLoss", a, "z-loss")
	b := l.backward(t, l.x)
	b["gradZlossOptional"] = l.x
	refused(t, invalidParam, "CrossEntropyLossGrad", b, "pass null")
	// A target that names no class is a fault of the stream.
	l.target = tensor(t, dtype.Int64, []int64{2}, 0, 3)
	require.ErrorContains(t, execute(t, "CrossEntropyLoss", l.forward(t)), "target 3 of row 1 is out of range for 3 classes")
	require.ErrorContains(t, execute(t, "CrossEntropyLossGrad", l.backward(t, l.x)), "target 3 of row 1")
}
