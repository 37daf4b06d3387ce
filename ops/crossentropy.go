package ops

import (
	"context"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/internal/labels"
	"github.com/goascend/cann/ops/key"
)

// IgnoredLabel is the label of rows that do not count, unless CrossEntropyArgs.IgnoreIndex names another;
// PyTorch's is the same.
const IgnoredLabel = -100

// CrossEntropyArgs describes the mean over rows of −log softmax(Logits)[label], without the rows
// whose label is that of IgnoreIndex. If all rows are ignored, the loss is NaN, as in PyTorch, Count is 0,
// and the gradient is zero.
type CrossEntropyArgs struct {
	Logits      *aclnn.Tensor // [rows, classes]; float32, float16 or bfloat16
	Labels      *aclnn.Tensor // [rows], int32 or int64; others are a fault on the device
	IgnoreIndex *int64        // label of rows that do not count; nil is IgnoredLabel
	Loss        *aclnn.Tensor // [1], float32
	// LogProb receives log softmax(Logits), which CrossEntropyGrad needs: [rows, classes], float32
	// or the dtype of Logits. The loss is computed in float32 either way; 16 bits save memory but
	// make the gradient less precise. Nil if the gradient is not needed.
	LogProb *aclnn.Tensor
	// Count receives the number of rows that are not ignored: [1], float32. Nil if it is not
	// needed.
	Count *aclnn.Tensor
}

// Ignored returns the label of rows that do not count.
func (a *CrossEntropyArgs) Ignored() int64 {
	if a.IgnoreIndex == nil {
		return IgnoredLabel
	}
	return *a.IgnoreIndex
}

func (a *CrossEntropyArgs) validate() error {
	var c args
	c.loss(a)
	c.Tensor("Loss", a.Loss, aclnn.Float32)
	c.Shape("Loss", a.Loss, 1)
	if c.Optional("Count", a.Count, aclnn.Float32) {
		c.Shape("Count", a.Count, 1)
	}
	if a.LogProb != nil {
		c.logProb(a)
	}
	return c.Err
}

// loss checks logits and labels.
func (c *args) loss(a *CrossEntropyArgs) {
	c.Tensor("Logits", a.Logits, floats...)
	if c.OK() && a.Logits.Rank() != 2 {
		c.Fail("Logits is %v; it must be [rows, classes]", a.Logits)
	}
	c.Tensor("Labels", a.Labels, indices...)
	if c.OK() {
		c.Shape("Labels", a.Labels, a.Logits.Dim(0))
	}
}

func (c *args) logProb(a *CrossEntropyArgs) {
	if !c.OK() {
		return
	}
	c.Tensor("LogProb", a.LogProb, aclnn.Float32, a.Logits.DType())
	c.Like("LogProb", a.LogProb, "Logits", a.Logits)
}

func (a *CrossEntropyArgs) key() key.CrossEntropy {
	return key.CrossEntropy{
		Logits: a.Logits.DType(), Labels: a.Labels.DType(), LogProb: dtypeOf(a.LogProb), Classes: a.Logits.Dim(1), Rows: key.ExtentOf(a.Logits.Dim(0)),
		Count: a.Count != nil, Contiguous: contiguous(a.Logits, a.Labels, a.Loss, a.LogProb, a.Count),
	}
}

var nan = math.NaN()

// mean is the reduction argument of CrossEntropyLoss.
const mean = "mean"

func newCrossEntropy(reg *Registry) *Op[CrossEntropyArgs, key.CrossEntropy] {
	return op(reg, "cross_entropy", (*CrossEntropyArgs).validate, (*CrossEntropyArgs).key,
		Kernel[CrossEntropyArgs, key.CrossEntropy]{
			Name: "CrossEntropyLoss", Supports: trains[key.CrossEntropy](&aclnn.CrossEntropyLossParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyArgs) error {
				return a.run(st, func(s *steps, logits, ids, logProb *aclnn.Tensor) {
					launch(s, aclnn.CrossEntropyLoss, aclnn.CrossEntropyLossParams{
						Input: logits, Target: ids, Reduction: mean, IgnoreIndex: a.Ignored(),
						LossOut: a.Loss, LogProbOut: logProb,
						// The operator does not write these, but requires them.
						ZlossOut: s.Tensor(aclnn.Float32, 1), LseForZlossOut: s.Tensor(aclnn.Float32, logits.Dim(0)),
					})
					if a.Count != nil {
						labels.Count(&s.Scope, a.Labels, a.Ignored(), a.Count)
					}
				})
			},
		},
		Kernel[CrossEntropyArgs, key.CrossEntropy]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyArgs) error {
				return a.run(st, func(s *steps, logits, ids, logProb *aclnn.Tensor) {
					launch(s, aclnn.LogSoftmax, aclnn.LogSoftmaxParams{Self: logits, Dim: 1, Out: logProb})
					// Select instead of multiplying by zero, because a log-probability may be −∞.
					picked := s.Tensor(aclnn.Float32, logProb.Dim(0), logProb.Dim(1))
					s.Copy(picked, logProb)
					labels.Fill(&s.Scope, picked, labels.Match(&s.Scope, ids, a.Ignored(), logits.Dim(1), false), aclnn.Float(0))
					loss := s.sum(picked, 0, 1).Reshape(1)
					s.scale(loss, -1)
					count := a.Count
					if count == nil {
						count = s.Tensor(aclnn.Float32, 1)
					}
					labels.Count(&s.Scope, a.Labels, a.Ignored(), count)
					launch(s, aclnn.Div, aclnn.DivParams{Self: loss, Other: count, Out: a.Loss})
				})
			},
		})
}

// run converts the tensors to the dtypes that the kernels take, and calls compute.
func (a *CrossEntropyArgs) run(st *acl.Stream, compute func(s *steps, logits, ids, logProb *aclnn.Tensor)) error {
	return compose(st, func(s *steps) {
		if a.Logits.Dim(0) == 0 {
			s.Fill(a.Loss, aclnn.Float(nan))
			if a.Count != nil {
				s.Zero(a.Count)
			}
			return
		}
		logits := s.float(a.Logits)
		logProb := a.LogProb
		direct := logProb != nil && logProb.DType() == aclnn.Float32
		if !direct {
			logProb = s.Tensor(aclnn.Float32, logits.Dim(0), logits.Dim(1))
		}
		compute(s, logits, s.Cast(a.Labels, aclnn.Int64), logProb)
		if a.LogProb != nil && !direct {
			s.Copy(a.LogProb, logProb)
		}
	})
}

// ones makes a float32 vector of ones.
func (s *steps) ones(n int64) *aclnn.Tensor {
	t := s.Tensor(aclnn.Float32, n)
	launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{Self: t})
	return t
}

// CrossEntropyGradArgs describes the gradient of CrossEntropy with respect to Logits:
// (softmax(Logits) − onehot(label))·DLoss/count, zero in ignored rows.
type CrossEntropyGradArgs struct {
	CrossEntropyArgs               // as given to CrossEntropy, with LogProb
	DLoss            *aclnn.Tensor // [1], float32; nil means 1
	DLogits          *aclnn.Tensor // like Logits
}

func (a *CrossEntropyGradArgs) validate() error {
	var c args
	c.loss(&a.CrossEntropyArgs)
	c.logProb(&a.CrossEntropyArgs)
	if c.Optional("DLoss", a.DLoss, aclnn.Float32) {
		c.Shape("DLoss", a.DLoss, 1)
	}
	if c.OK() {
		c.Same("DLogits", a.DLogits, "Logits", a.Logits)
	}
	return c.Err
}

func (a *CrossEntropyGradArgs) key() key.CrossEntropyGrad {
	return key.CrossEntropyGrad{
		Logits: a.Logits.DType(), Labels: a.Labels.DType(), LogProb: a.LogProb.DType(), Classes: a.Logits.Dim(1), Rows: key.ExtentOf(a.Logits.Dim(0)),
		DLoss: a.DLoss != nil, Contiguous: contiguous(a.Labels, a.LogProb, a.DLoss, a.DLogits),
	}
}

func newCrossEntropyGrad(reg *Registry) *Op[CrossEntropyGradArgs, key.CrossEntropyGrad] {
	return op(reg, "cross_entropy_grad", (*CrossEntropyGradArgs).validate, (*CrossEntropyGradArgs).key,
		Kernel[CrossEntropyGradArgs, key.CrossEntropyGrad]{
			Name: "CrossEntropyLossGrad", Supports: trains[key.CrossEntropyGrad](&aclnn.CrossEntropyLossGradParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyGradArgs) error {
				return a.run(st, func(s *steps, dLoss, logProb, ids, dLogits *aclnn.Tensor) {
					launch(s, aclnn.CrossEntropyLossGrad, aclnn.CrossEntropyLossGradParams{
						GradLoss: dLoss, LogProb: logProb, Target: ids, Reduction: mean, IgnoreIndex: a.Ignored(), Out: dLogits,
					})
				})
			},
		},
		Kernel[CrossEntropyGradArgs, key.CrossEntropyGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyGradArgs) error {
				return a.run(st, func(s *steps, dLoss, logProb, ids, dLogits *aclnn.Tensor) {
					labels.Gradient(&s.Scope, dLoss, logProb, ids, a.Ignored(), dLogits)
				})
			},
		})
}

// run converts the tensors to the dtypes that the kernels take, and calls compute.
func (a *CrossEntropyGradArgs) run(st *acl.Stream, compute func(s *steps, dLoss, logProb, ids, dLogits *aclnn.Tensor)) error {
	if a.Logits.Len() == 0 {
		return nil
	}
	return compose(st, func(s *steps) {
		dLoss := a.DLoss
		if dLoss == nil {
			dLoss = s.ones(1)
		}
		dLogits := a.DLogits
		direct := dLogits.DType() == aclnn.Float32
		if !direct {
			dLogits = s.Tensor(aclnn.Float32, a.Logits.Dim(0), a.Logits.Dim(1))
		}
		compute(s, dLoss.Squeeze(0), s.float(a.LogProb), s.Cast(a.Labels, aclnn.Int64), dLogits)
		if !direct {
			s.Copy(a.DLogits, dLogits)
		}
	})
}
