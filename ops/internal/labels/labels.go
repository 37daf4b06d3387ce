package labels

import "github.com/goascend/cann/aclnn"

// Counted returns a bool tensor [rows] that is true where the label is not the ignored one.
func Counted(s *aclnn.Scope, labels *aclnn.Tensor, ignore int64) *aclnn.Tensor {
	t := s.Tensor(aclnn.Bool, labels.Dim(0))
	aclnn.Launch(s, aclnn.NeScalar, aclnn.NeScalarParams{Self: labels, Other: aclnn.Int(ignore), Out: t})
	return t
}

// Count writes the number of labels that are not the ignored one to out, [1] in float32.
func Count(s *aclnn.Scope, labels *aclnn.Tensor, ignore int64, out *aclnn.Tensor) {
	aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{
		Self: s.Cast(Counted(s, labels, ignore), aclnn.Float32), Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: out,
	})
}

// Match compares labels with classes: it returns bool [rows, classes], true where they are equal,
// or where they differ if equal is false. In ignored rows the label equals no class. Labels are not
// filled in: CANN does that with int64 on the slow AI CPU.
func Match(s *aclnn.Scope, labels *aclnn.Tensor, ignore, classes int64, equal bool) *aclnn.Tensor {
	n := labels.Dim(0)
	index := s.Tensor(aclnn.Int64, classes)
	aclnn.Launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(classes), Step: aclnn.Int(1), Out: index})
	out := s.Tensor(aclnn.Bool, n, classes)
	p := aclnn.EqTensorParams{Self: labels.Unsqueeze(1), Other: index, Out: out}
	if equal {
		aclnn.Launch(s, aclnn.EqTensor, p)
		counted := Counted(s, labels, ignore) // the ignored index may be a class
		aclnn.Launch(s, aclnn.LogicalAnd, aclnn.LogicalAndParams{Self: out, Other: counted.Unsqueeze(1), Out: out})
		return out
	}
	ignored := s.Tensor(aclnn.Bool, n)
	aclnn.Launch(s, aclnn.EqScalar, aclnn.EqScalarParams{Self: labels, Other: aclnn.Int(ignore), Out: ignored})
	aclnn.Launch(s, aclnn.NeTensor, aclnn.NeTensorParams(p))
	aclnn.Launch(s, aclnn.LogicalOr, aclnn.LogicalOrParams{Self: out, Other: ignored.Unsqueeze(1), Out: out})
	return out
}

// Fill sets the elements of t to v where the bool tensor where is true.
func Fill(s *aclnn.Scope, t, where *aclnn.Tensor, v aclnn.Scalar) {
	aclnn.Launch(s, aclnn.InplaceMaskedFillScalar, aclnn.InplaceMaskedFillScalarParams{Self: t, Mask: where, Value: v})
}

// Gradient writes (softmax − onehot(label))·dLoss/count to dLogits, with zeros in ignored rows.
// logProb and dLogits are float32 [rows, classes]; dLoss has no dimensions. A label outside the
// classes contributes no onehot term.
func Gradient(s *aclnn.Scope, dLoss, logProb, labels *aclnn.Tensor, ignore int64, dLogits *aclnn.Tensor) {
	float := func(t *aclnn.Tensor) *aclnn.Tensor { return s.Cast(t, aclnn.Float32) }
	times := func(x, y *aclnn.Tensor) {
		aclnn.Launch(s, aclnn.InplaceMul, aclnn.InplaceMulParams{Self: x, Other: y})
	}
	aclnn.Launch(s, aclnn.Exp, aclnn.ExpParams{Self: logProb, Out: dLogits})
	hot := float(Match(s, labels, ignore, logProb.Dim(1), true))
	aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: dLogits, Other: hot, Alpha: aclnn.Float(-1)})
	times(dLogits, float(Counted(s, labels, ignore)).Unsqueeze(1))
	// With nothing to average over, divide by one: all gradients are zero anyway.
	count := s.Tensor(aclnn.Float32, 1)
	Count(s, labels, ignore, count)
	aclnn.Launch(s, aclnn.ClampMin, aclnn.ClampMinParams{Self: count, ClipValueMin: aclnn.Float(1), Out: count})
	aclnn.Launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: dLogits, Other: count})
	times(dLogits, dLoss)
}
