package ops

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// CrossEntropyArgs is the mean over rows of −log softmax(Logits)[label], rows whose label is
// IgnoreIndex left out. When all rows are, the loss is NaN, as in PyTorch, and Count is 0; the
// gradient is then zero.
type CrossEntropyArgs struct {
	Logits      *aclnn.Tensor // [rows, classes]; float32, float16 or bfloat16
	Labels      *aclnn.Tensor // [rows], int32 or int64; one outside the classes is a fault of the device
	IgnoreIndex int64         // usually −100
	Loss        *aclnn.Tensor // [1], float32
	// LogProb receives log softmax(Logits), which CrossEntropyGrad needs: [rows, classes],
	// float32 or the dtype of Logits. The loss is computed in float32 in either case; 16 bits
	// save memory and cost the gradient precision. Nil if the gradient will not be computed.
	LogProb *aclnn.Tensor
	// Count receives the number of rows that count: [1], float32. Nil if it is not wanted.
	Count *aclnn.Tensor
}

func (a *CrossEntropyArgs) validate() error {
	var c check
	c.loss(a)
	c.tensor("Loss", a.Loss, aclnn.Float32)
	c.shape("Loss", a.Loss, 1)
	if c.optional("Count", a.Count, aclnn.Float32) {
		c.shape("Count", a.Count, 1)
	}
	if a.LogProb != nil {
		c.logProb(a)
	}
	return c.err
}

// loss checks logits and labels.
func (c *check) loss(a *CrossEntropyArgs) {
	c.tensor("Logits", a.Logits, floats...)
	if c.ok() && a.Logits.Rank() != 2 {
		c.fail("Logits is %v; it must be [rows, classes]", a.Logits)
	}
	c.tensor("Labels", a.Labels, indices...)
	if c.ok() {
		c.shape("Labels", a.Labels, a.Logits.Dim(0))
	}
}

func (c *check) logProb(a *CrossEntropyArgs) {
	if !c.ok() {
		return
	}
	c.tensor("LogProb", a.LogProb, aclnn.Float32, a.Logits.DType())
	c.like("LogProb", a.LogProb, "Logits", a.Logits)
}

func crossEntropySignature(a *CrossEntropyArgs) Signature {
	return dtypeSignature(a.Logits, a.Labels, a.LogProb)
}

var nan = math.NaN()

// mean is the reduction of CrossEntropyLoss.
const mean = "mean"

func newCrossEntropy(reg *Registry) *Op[CrossEntropyArgs] {
	return op(reg, "cross_entropy", (*CrossEntropyArgs).validate, crossEntropySignature,
		Kernel[CrossEntropyArgs]{
			Name: "CrossEntropyLoss",
			Supports: func(env *Env, _ *CrossEntropyArgs) error {
				return errors.Join(trainingChip(env, "CrossEntropyLoss"), available(&aclnn.CrossEntropyLossParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyArgs) error {
				return a.run(st, func(s *steps, logits, labels, logProb *aclnn.Tensor) {
					launch(s, aclnn.CrossEntropyLoss, aclnn.CrossEntropyLossParams{
						Input: logits, Target: labels, ReductionOptional: mean, IgnoreIndex: a.IgnoreIndex,
						LossOut: a.Loss, LogProbOut: logProb,
						// Not written, but they must be there.
						ZlossOut: s.tensor(aclnn.Float32, 1), LseForZlossOut: s.tensor(aclnn.Float32, logits.Dim(0)),
					})
					if a.Count != nil {
						s.count(a, a.Count)
					}
				})
			},
		},
		Kernel[CrossEntropyArgs]{
			Name: "composite", Supports: Always[CrossEntropyArgs],
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyArgs) error {
				return a.run(st, func(s *steps, logits, labels, logProb *aclnn.Tensor) {
					launch(s, aclnn.LogSoftmax, aclnn.LogSoftmaxParams{Self: logits, Dim: 1, Out: logProb})
					// Selected, not multiplied with zero: a logarithm may be −∞.
					picked := s.tensor(aclnn.Float32, logProb.Dim(0), logProb.Dim(1))
					s.store(picked, logProb)
					s.maskedFill(picked, s.compare(a, labels, logits.Dim(1), false), aclnn.Float(0))
					loss := s.sum(picked, 0, 1).Reshape(1)
					s.scale(loss, -1)
					count := a.Count
					if count == nil {
						count = s.tensor(aclnn.Float32, 1)
					}
					s.count(a, count)
					launch(s, aclnn.Div, aclnn.DivParams{Self: loss, Other: count, Out: a.Loss})
				})
			},
		})
}

// run brings the tensors into the dtypes that the kernels take, and calls compute.
func (a *CrossEntropyArgs) run(st *acl.Stream, compute func(s *steps, logits, labels, logProb *aclnn.Tensor)) error {
	return compose(st, func(s *steps) {
		if a.Logits.Dim(0) == 0 {
			s.fill(a.Loss, aclnn.Float(nan))
			if a.Count != nil {
				s.zero(a.Count)
			}
			return
		}
		logits := s.float(a.Logits)
		logProb := a.LogProb
		direct := logProb != nil && logProb.DType() == aclnn.Float32
		if !direct {
			logProb = s.tensor(aclnn.Float32, logits.Dim(0), logits.Dim(1))
		}
		compute(s, logits, s.cast(a.Labels, aclnn.Int64), logProb)
		if a.LogProb != nil && !direct {
			s.store(a.LogProb, logProb)
		}
	})
}

// count writes the number of labels that are not ignored.
func (s *steps) count(a *CrossEntropyArgs, out *aclnn.Tensor) {
	launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{
		Self: s.float(s.counted(a)), Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: out,
	})
}

// counted is which labels are not ignored, bool [rows].
func (s *steps) counted(a *CrossEntropyArgs) *aclnn.Tensor {
	t := s.tensor(aclnn.Bool, a.Labels.Dim(0))
	launch(s, aclnn.NeScalar, aclnn.NeScalarParams{Self: a.Labels, Other: aclnn.Int(a.IgnoreIndex), Out: t})
	return t
}

// compare relates labels to classes: bool [rows, classes]. In ignored rows no class is the
// label.
func (s *steps) compare(a *CrossEntropyArgs, labels *aclnn.Tensor, classes int64, equal bool) *aclnn.Tensor {
	n := labels.Dim(0)
	ignored := s.tensor(aclnn.Bool, n)
	launch(s, aclnn.EqScalar, aclnn.EqScalarParams{Self: labels, Other: aclnn.Int(a.IgnoreIndex), Out: ignored})
	target := s.tensor(aclnn.Int64, n)
	s.store(target, labels)
	s.maskedFill(target, ignored, aclnn.Int(-1)) // the ignored index may be a class
	index := s.tensor(aclnn.Int64, classes)
	launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(classes), Step: aclnn.Int(1), Out: index})
	out := s.tensor(aclnn.Bool, n, classes)
	p := aclnn.EqTensorParams{Self: target.Unsqueeze(1), Other: index, Out: out}
	if equal {
		launch(s, aclnn.EqTensor, p)
	} else {
		launch(s, aclnn.NeTensor, aclnn.NeTensorParams(p))
	}
	return out
}

// ones is a new float32 vector of ones.
func (s *steps) ones(n int64) *aclnn.Tensor {
	t := s.tensor(aclnn.Float32, n)
	launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{SelfRef: t})
	return t
}

// CrossEntropyGradArgs is the gradient of CrossEntropy with respect to Logits:
// (softmax(Logits) − onehot(label))·DLoss/count, zero in rows that are ignored.
type CrossEntropyGradArgs struct {
	CrossEntropyArgs               // as given to CrossEntropy, with LogProb
	DLoss            *aclnn.Tensor // [1], float32; nil means 1
	DLogits          *aclnn.Tensor // like Logits
}

func (a *CrossEntropyGradArgs) validate() error {
	var c check
	c.loss(&a.CrossEntropyArgs)
	c.logProb(&a.CrossEntropyArgs)
	if c.optional("DLoss", a.DLoss, aclnn.Float32) {
		c.shape("DLoss", a.DLoss, 1)
	}
	if c.ok() {
		c.tensor("DLogits", a.DLogits, a.Logits.DType())
		c.like("DLogits", a.DLogits, "Logits", a.Logits)
	}
	return c.err
}

func newCrossEntropyGrad(reg *Registry) *Op[CrossEntropyGradArgs] {
	return op(reg, "cross_entropy_grad", (*CrossEntropyGradArgs).validate,
		func(a *CrossEntropyGradArgs) Signature { return crossEntropySignature(&a.CrossEntropyArgs) },
		Kernel[CrossEntropyGradArgs]{
			Name: "CrossEntropyLossGrad",
			Supports: func(env *Env, _ *CrossEntropyGradArgs) error {
				return errors.Join(trainingChip(env, "CrossEntropyLossGrad"), available(&aclnn.CrossEntropyLossGradParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyGradArgs) error {
				return a.run(st, func(s *steps, dLoss, logProb, labels, dLogits *aclnn.Tensor) {
					launch(s, aclnn.CrossEntropyLossGrad, aclnn.CrossEntropyLossGradParams{
						GradLoss: dLoss, LogProb: logProb, Target: labels, ReductionOptional: mean, IgnoreIndex: a.IgnoreIndex, Out: dLogits,
					})
				})
			},
		},
		Kernel[CrossEntropyGradArgs]{
			Name: "composite", Supports: Always[CrossEntropyGradArgs],
			Run: func(_ context.Context, st *acl.Stream, a *CrossEntropyGradArgs) error {
				return a.run(st, a.composite)
			},
		})
}

// composite computes the gradient from ordinary operators. A label that is none of the
// classes has no part in it.
func (a *CrossEntropyGradArgs) composite(s *steps, dLoss, logProb, labels, dLogits *aclnn.Tensor) {
	launch(s, aclnn.Exp, aclnn.ExpParams{Self: logProb, Out: dLogits})
	s.add(dLogits, s.float(s.compare(&a.CrossEntropyArgs, labels, logProb.Dim(1), true)), -1)
	counted := s.float(s.counted(&a.CrossEntropyArgs))
	s.times(dLogits, counted.Unsqueeze(1))
	// With nothing to average over, divide by one: all gradients are zero anyway.
	count := s.sum(counted, 0)
	launch(s, aclnn.ClampMin, aclnn.ClampMinParams{Self: count, ClipValueMin: aclnn.Float(1), Out: count})
	launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{SelfRef: dLogits, Other: count})
	s.times(dLogits, dLoss)
}

// run brings the tensors into the dtypes that the kernels take, and calls compute.
func (a *CrossEntropyGradArgs) run(st *acl.Stream, compute func(s *steps, dLoss, logProb, labels, dLogits *aclnn.Tensor)) error {
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
			dLogits = s.tensor(aclnn.Float32, a.Logits.Dim(0), a.Logits.Dim(1))
		}
		compute(s, dLoss.Squeeze(0), s.float(a.LogProb), s.cast(a.Labels, aclnn.Int64), dLogits)
		if !direct {
			s.store(a.DLogits, dLogits)
		}
	})
}
