package autograd

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// CrossEntropy computes the mean of −log softmax(logits)[label] over the rows whose label is not ignore (ops.CrossEntropy): logits [rows,
// classes], labels [rows] of int32 or int64; the result is [1], float32.
func (t *Tape) CrossEntropy(logits, labels *Var, ignore int64) *Var {
	return t.crossEntropy("cross-entropy", logits, labels, ignore,
		func(c *Call, a *ops.CrossEntropyArgs) { run(c, t.reg.CrossEntropy(), a) },
		func(g *Gradients, a *ops.CrossEntropyGradArgs) { runGrad(g, t.reg.CrossEntropyGrad(), a) })
}

func (t *Tape) crossEntropy(
	name string, logits, labels *Var, ignore int64, forward func(*Call, *ops.CrossEntropyArgs), backward func(*Gradients, *ops.CrossEntropyGradArgs),
) *Var {
	c := t.begin(name, logits, labels)
	if c == nil {
		return t.failed()
	}
	a := ops.CrossEntropyArgs{Logits: logits.Value, Labels: labels.Value, IgnoreIndex: &ignore, Loss: c.Output(aclnn.Float32, 1)}
	a.LogProb = c.Scratch(logits.Value.DType(), logits.Shape()...)
	forward(c, &a)
	c.Keep(logits, labels)
	c.Backward(func(g *Gradients) {
		grad := ops.CrossEntropyGradArgs{CrossEntropyArgs: a, DLogits: g.Input(0)}
		if g.factor(0) != 1 {
			grad.DLoss = g.Output(0)
		}
		backward(g, &grad)
	})
	return c.end()[0]
}

// LinearLoss configures LinearCrossEntropy. The zero value computes on one rank.
type LinearLoss struct {
	// Parallel splits the vocabulary over its ranks: the weight holds this rank's rows, and x is the same on all ranks, as Gather
	// returns it. Nil means that this rank has all rows.
	Parallel *parallel.TensorParallel
	// Bytes is how much memory the logits of a chunk of rows may take; 0 means 32 MiB. A chunk has one row at least.
	Bytes int64
}

// LinearCrossEntropy is CrossEntropy of Linear(x, weight, nil), the head of a language model, without logits for all rows at once, neither
// forward nor backward: x [rows, in], weight [classes, in], labels [rows]. Rows are computed in chunks, whose logits the backward
// pass computes once more. So the memory needed depends neither on the number of rows nor on that of classes.
func (t *Tape) LinearCrossEntropy(x, weight, labels *Var, ignore int64, l LinearLoss) *Var {
	const name = "linear cross-entropy"
	c := t.begin(name, x, weight, labels)
	if c == nil {
		return t.failed()
	}
	if x.Value.Rank() != 2 || weight.Value.Rank() != 2 || x.Dim(0) == 0 || weight.Dim(0) == 0 {
		t.Fail(fmt.Errorf("%s: %w: x is %v and weight %v; they must be [rows, in] and [classes, in] with a row at least", name, ops.ErrInvalid, x, weight))
		return t.failed()
	}
	if l.Bytes < 0 {
		t.Fail(fmt.Errorf("%s: %w: Bytes is %d; it must be positive, or 0 for 32 MiB", name, ops.ErrInvalid, l.Bytes))
		return t.failed()
	}
	h := head{tape: t, LinearLoss: l, x: x.Value, weight: weight.Value, labels: labels.Value, ignore: ignore}
	h.rows = h.chunkRows()
	n := (x.Dim(0) + h.rows - 1) / h.rows
	loss := c.Output(aclnn.Float32, 1)
	counts := c.Scratch(aclnn.Float32, n)
	t.do(func() error {
		return aclnn.Compose(t.st, func(s *aclnn.Scope) {
			means, number := s.Tensor(aclnn.Float32, n), counts
			if number == nil {
				number = s.Tensor(aclnn.Float32, n)
			}
			for i := range n {
				h.chunk(s, i, func(s *aclnn.Scope, a *ops.CrossEntropyArgs) {
					a.Loss, a.Count = means.Narrow(0, i, 1), number.Narrow(0, i, 1)
					s.Do(func() error { return h.crossEntropy(a) })
				})
			}
			// The mean of a chunk without labels is no number. Others that are none must show in the loss.
			sums, total, empty := means, s.Tensor(aclnn.Float32, 1), s.Tensor(aclnn.Bool, n)
			aclnn.Launch(s, aclnn.EqScalar, aclnn.EqScalarParams{Self: number, Other: aclnn.Float(0), Out: empty})
			aclnn.Launch(s, aclnn.InplaceMaskedFillScalar, aclnn.InplaceMaskedFillScalarParams{Self: sums, Mask: empty, Value: aclnn.Float(0)})
			aclnn.Launch(s, aclnn.InplaceMul, aclnn.InplaceMulParams{Self: sums, Other: number})
			h.sum(s, sums, loss)
			h.sum(s, number, total)
			aclnn.Launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: loss, Other: total})
		})
	})
	c.Keep(x, weight, labels)
	c.Backward(func(g *Gradients) {
		h.x, h.weight = x.now(h.x), weight.now(h.weight)
		dx := g.Input(0)
		dWeight, accumulate := g.Weight(1)
		dLoss, weights := g.Output(0), g.Scratch(aclnn.Float32, n)
		g.Do(func() error {
			return aclnn.Compose(t.st, func(s *aclnn.Scope) {
				total := s.Tensor(aclnn.Float32, 1)
				h.sum(s, counts, total)
				aclnn.Launch(s, aclnn.Div, aclnn.DivParams{Self: counts, Other: total, Out: weights})
				aclnn.Launch(s, aclnn.InplaceMul, aclnn.InplaceMulParams{Self: weights, Other: dLoss})
				for i := range n {
					h.chunk(s, i, func(s *aclnn.Scope, a *ops.CrossEntropyArgs) {
						a.Loss, a.LogProb = s.Tensor(aclnn.Float32, 1), s.Like(a.Logits)
						s.Do(func() error { return h.crossEntropy(a) })
						grad := ops.CrossEntropyGradArgs{CrossEntropyArgs: *a, DLoss: weights.Narrow(0, i, 1), DLogits: s.Like(a.Logits)}
						s.Do(func() error { return h.crossEntropyGrad(&grad) })
						linear := ops.LinearGradArgs{X: h.part(h.x, i), Weight: h.weight, DOut: grad.DLogits, DWeight: dWeight, Accumulate: accumulate || i > 0}
						if dx != nil {
							linear.DX = h.part(dx, i)
						}
						s.Do(func() error { return t.reg.LinearGrad().Run(t.ctx, t.st, &linear) })
					})
				}
			})
		})
	})
	return c.end()[0]
}

// head is a computation of LinearCrossEntropy.
type head struct {
	LinearLoss
	tape              *Tape
	x, weight, labels *aclnn.Tensor
	ignore            int64
	rows              int64 // of a chunk
}

func (h *head) chunkRows() int64 {
	const usual = 32 << 20
	limit := h.Bytes
	if limit == 0 {
		limit = usual
	}
	return min(max(limit/(h.weight.Dim(0)*int64(h.x.DType().Size())), 1), h.x.Dim(0))
}

// part returns the rows of chunk i.
func (h *head) part(t *aclnn.Tensor, i int64) *aclnn.Tensor {
	return t.Narrow(0, i*h.rows, min(h.rows, t.Dim(0)-i*h.rows))
}

// chunk computes the logits of chunk i in a scope that ends with use.
func (h *head) chunk(outer *aclnn.Scope, i int64, use func(s *aclnn.Scope, a *ops.CrossEntropyArgs)) {
	outer.Do(func() error {
		return aclnn.Compose(outer.Stream, func(s *aclnn.Scope) {
			x := h.part(h.x, i)
			logits := s.Tensor(x.DType(), x.Dim(0), h.weight.Dim(0))
			s.Do(func() error {
				return h.tape.reg.Linear().Run(h.tape.ctx, s.Stream, &ops.LinearArgs{X: x, Weight: h.weight, Out: logits})
			})
			use(s, &ops.CrossEntropyArgs{Logits: logits, Labels: h.part(h.labels, i), IgnoreIndex: &h.ignore})
		})
	})
}

func (h *head) crossEntropy(a *ops.CrossEntropyArgs) error {
	if h.Parallel != nil {
		return h.Parallel.CrossEntropy(h.tape.ctx, h.tape.st, a)
	}
	return h.tape.reg.CrossEntropy().Run(h.tape.ctx, h.tape.st, a)
}

func (h *head) crossEntropyGrad(a *ops.CrossEntropyGradArgs) error {
	if h.Parallel != nil {
		return h.Parallel.CrossEntropyGrad(h.tape.ctx, h.tape.st, a)
	}
	return h.tape.reg.CrossEntropyGrad().Run(h.tape.ctx, h.tape.st, a)
}

// sum adds up the numbers of the chunks.
func (h *head) sum(s *aclnn.Scope, of, out *aclnn.Tensor) {
	aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: of, Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: out})
}
