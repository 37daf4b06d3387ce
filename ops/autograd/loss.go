package autograd

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// CrossEntropy computes the mean of −log softmax(logits)[label] over the rows whose label is not ignore (ops.CrossEntropy): logits [rows,
// classes], labels [rows] of int32 or int64; the result is [1], float32.
func (t *Tape) CrossEntropy(logits, labels *Var, ignore int64) *Var {
	return t.crossEntropy("cross-entropy", logits, labels, ignore,
		func(c *Call, a *ops.CrossEntropyArgs) { run(c, t.reg.CrossEntropy, a) },
		func(g *Gradients, a *ops.CrossEntropyGradArgs) { runGrad(g, t.reg.CrossEntropyGrad, a) })
}

func (t *Tape) crossEntropy(
	name string, logits, labels *Var, ignore int64, forward func(*Call, *ops.CrossEntropyArgs), backward func(*Gradients, *ops.CrossEntropyGradArgs),
) *Var {
	c := t.begin(name, logits, labels)
	if c == nil {
		return t.failed()
	}
	a := ops.CrossEntropyArgs{Logits: logits.Value, Labels: labels.Value, IgnoreIndex: ignore, Loss: c.Output(aclnn.Float32, 1)}
	a.LogProb = c.Scratch(logits.Value.DType(), logits.Shape()...)
	forward(c, &a)
	c.Keep(logits, labels)
	c.Backward(func(g *Gradients) {
		grad := ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: g.Input(0)}
		if !g.unit(0) {
			grad.DLoss = g.Output(0)
		}
		backward(g, &grad)
	})
	return c.end()[0]
}
