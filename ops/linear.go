package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// LinearArgs is a projection: Out = X·Weightᵀ + Bias. All tensors have one dtype, float32,
// float16 or bfloat16.
type LinearArgs struct {
	X      *aclnn.Tensor // [..., in]
	Weight *aclnn.Tensor // [out, in], as PyTorch keeps it
	Bias   *aclnn.Tensor // [out] or nil
	Out    *aclnn.Tensor // [..., out]
}

func (a *LinearArgs) validate() error {
	var c check
	c.linear(a.X, a.Weight)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.X.DType())
	if c.ok() {
		c.rows("Out", a.Out, "X", a.X)
		if a.Out.Dim(-1) != a.Weight.Dim(0) {
			c.fail("Out is %v; its last dimension must be the %d rows of Weight %v", a.Out, a.Weight.Dim(0), a.Weight)
		}
	}
	if c.optional("Bias", a.Bias, a.X.DType()) {
		c.shape("Bias", a.Bias, a.Weight.Dim(0))
	}
	return c.err
}

// linear checks the input and the weight of a projection.
func (c *check) linear(x, weight *aclnn.Tensor) {
	c.tensor("X", x, floats...)
	c.tensor("Weight", weight, floats...)
	if !c.ok() {
		return
	}
	c.sameDType("Weight", weight, "X", x)
	switch {
	case weight.Rank() != 2:
		c.fail("Weight is %v; it must be [out, in]", weight)
	case x.Rank() < 1 || x.Rank() > 6:
		c.fail("X is %v; it must have 1 to 6 dimensions", x)
	case x.Dim(-1) != weight.Dim(1):
		c.fail("X is %v; its last dimension must be the %d columns of Weight %v", x, weight.Dim(1), weight)
	}
}

// matrix views a tensor as [rows, last dimension].
func matrix(t *aclnn.Tensor) *aclnn.Tensor {
	if t.Rank() == 2 {
		return t
	}
	rows := int64(1)
	for i := range t.Rank() - 1 {
		rows *= t.Dim(i)
	}
	return t.Reshape(rows, t.Dim(-1))
}

// flat reports whether matrix can view a tensor.
func flat(t *aclnn.Tensor) bool { return t.Rank() == 2 || t.Contiguous() }

// newLinear prefers the product that adds the bias by itself.
func newLinear(reg *Registry) *Op[LinearArgs] {
	return op(reg, "linear", (*LinearArgs).validate,
		func(a *LinearArgs) Signature {
			s := dtypeSignature(a.X, a.Bias)
			if flat(a.X) && flat(a.Out) {
				s[3] = 1
			}
			return s
		},
		Kernel[LinearArgs]{
			Name: "Addmm",
			Supports: func(_ *Env, a *LinearArgs) error {
				switch {
				case a.Bias == nil:
					return errors.New("there is no bias to add")
				case !flat(a.X) || !flat(a.Out):
					return errors.New("a tensor has gaps and cannot be viewed as a matrix")
				}
				return available(&aclnn.AddmmParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *LinearArgs) error {
				return aclnn.Addmm(st, aclnn.AddmmParams{
					Self: a.Bias, Mat1: matrix(a.X), Mat2: a.Weight.Transpose(0, 1), Beta: aclnn.Float(1), Alpha: aclnn.Float(1),
					Out: matrix(a.Out), CubeMathType: keepDType,
				})
			},
		},
		Kernel[LinearArgs]{
			Name: "Matmul", Supports: has[LinearArgs](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *LinearArgs) error {
				x, out := a.X, a.Out
				if flat(x) && flat(out) {
					x, out = matrix(x), matrix(out)
				}
				err := aclnn.Matmul(st, aclnn.MatmulParams{Self: x, Mat2: a.Weight.Transpose(0, 1), Out: out, CubeMathType: keepDType})
				if err != nil || a.Bias == nil {
					return err
				}
				return aclnn.InplaceAdd(st, aclnn.InplaceAddParams{SelfRef: a.Out, Other: a.Bias, Alpha: aclnn.Float(1)})
			},
		})
}

// LinearGradArgs are the gradients of Linear: DX = DOut·Weight, DWeight = DOutᵀ·X,
// DBias = the sum of DOut over its rows. Those that are nil are not computed.
type LinearGradArgs struct {
	DOut   *aclnn.Tensor // [..., out], dtype of X
	X      *aclnn.Tensor // [..., in]
	Weight *aclnn.Tensor // [out, in]; nil if DX is nil
	DX     *aclnn.Tensor // [..., in], dtype of X
	// DWeight is [out, in], contiguous, and DBias [out]: of the dtype of X, or float32, which
	// keeps the gradients of 16-bit products unrounded (main gradients).
	DWeight, DBias *aclnn.Tensor
	// Accumulate adds to what DWeight and DBias have instead of overwriting it.
	Accumulate bool
}

func (a *LinearGradArgs) validate() error {
	var c check
	c.tensor("X", a.X, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("DOut", a.DOut, a.X.DType())
	if !c.ok() {
		return c.err
	}
	if a.X.Rank() < 1 || a.X.Rank() > 6 {
		c.fail("X is %v; it must have 1 to 6 dimensions", a.X)
	}
	c.rows("DOut", a.DOut, "X", a.X)
	in, out := a.X.Dim(-1), a.DOut.Dim(-1)
	if a.DX != nil {
		c.linear(a.X, a.Weight)
	}
	if c.optional("Weight", a.Weight, a.X.DType()) {
		c.shape("Weight", a.Weight, out, in)
	}
	if c.optional("DX", a.DX, a.X.DType()) {
		c.like("DX", a.DX, "X", a.X)
	}
	if c.optional("DWeight", a.DWeight, a.X.DType(), aclnn.Float32) {
		c.shape("DWeight", a.DWeight, out, in)
		c.contiguous("DWeight", a.DWeight)
	}
	if c.optional("DBias", a.DBias, a.X.DType(), aclnn.Float32) {
		c.shape("DBias", a.DBias, out)
	}
	return c.err
}

// widened reports whether 16-bit factors make a float32 gradient.
func (a *LinearGradArgs) widened() bool {
	return a.DWeight != nil && a.DWeight.DType() != a.X.DType()
}

// innerLimit is what GroupedMatmulAdd takes in a row.
const innerLimit = 1 << 16

// newLinearGrad prefers the product that accumulates into float32 where the gradient is
// float32 and its factors are not.
func newLinearGrad(reg *Registry) *Op[LinearGradArgs] {
	return op(reg, "linear_grad", (*LinearGradArgs).validate,
		func(a *LinearGradArgs) Signature {
			s := dtypeSignature(a.X, a.DWeight)
			if a.X.Dim(-1) < innerLimit && a.DOut.Dim(-1) < innerLimit {
				s[3] = 1
			}
			return s
		},
		Kernel[LinearGradArgs]{
			Name: "GroupedMatmulAdd",
			Supports: func(env *Env, a *LinearGradArgs) error {
				switch {
				case !a.widened():
					return errors.New("DWeight is not a float32 gradient of 16-bit factors")
				case a.X.Dim(-1) >= innerLimit || a.DOut.Dim(-1) >= innerLimit:
					return fmt.Errorf("a dimension is not below %d", innerLimit)
				}
				return errors.Join(trainingChip(env, "GroupedMatmulAdd"), available(&aclnn.GroupedMatmulAddParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *LinearGradArgs) error {
				return compose(st, func(s *steps) {
					a.inputAndBias(s)
					if !a.Accumulate {
						s.zero(a.DWeight)
					}
					// One group of all rows: DWeight += DOutᵀ·X.
					x, dOut := s.dense(matrix(s.flat(a.X))), s.dense(matrix(s.flat(a.DOut)))
					rows := s.tensor(aclnn.Int64, 1)
					s.fill(rows, aclnn.Int(x.Dim(0)))
					launch(s, aclnn.GroupedMatmulAdd, aclnn.GroupedMatmulAddParams{
						X: dOut, Weight: x, GroupList: rows, YRef: a.DWeight.Unsqueeze(0), TransposeX: true, GroupType: 2,
					})
				})
			},
		},
		Kernel[LinearGradArgs]{
			Name: "Matmul", Supports: has[LinearGradArgs](&aclnn.MatmulParams{}, &aclnn.InplaceAddmmParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *LinearGradArgs) error {
				return compose(st, func(s *steps) {
					a.inputAndBias(s)
					if a.DWeight == nil {
						return
					}
					// Casting the factors, not the product, keeps the sum unrounded.
					x, dOut := s.cast(matrix(s.flat(a.X)), a.DWeight.DType()), s.cast(matrix(s.flat(a.DOut)), a.DWeight.DType())
					if !a.Accumulate {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: dOut.Transpose(0, 1), Mat2: x, Out: a.DWeight, CubeMathType: keepDType})
						return
					}
					launch(s, aclnn.InplaceAddmm, aclnn.InplaceAddmmParams{
						SelfRef: a.DWeight, Mat1: dOut.Transpose(0, 1), Mat2: x, Beta: aclnn.Float(1), Alpha: aclnn.Float(1), CubeMathType: keepDType,
					})
				})
			},
		})
}

// flat is t such that matrix can view it.
func (s *steps) flat(t *aclnn.Tensor) *aclnn.Tensor {
	if flat(t) {
		return t
	}
	return s.dense(t)
}

// inputAndBias queues the gradients that all kernels compute alike.
func (a *LinearGradArgs) inputAndBias(s *steps) {
	if a.DX != nil {
		dOut, dx := a.DOut, a.DX
		if flat(dOut) && flat(dx) {
			dOut, dx = matrix(dOut), matrix(dx)
		}
		launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: dOut, Mat2: a.Weight, Out: dx, CubeMathType: keepDType})
	}
	if a.DBias != nil {
		rows := matrix(s.flat(a.DOut))
		sum := s.tensor(aclnn.Float32, rows.Dim(1))
		launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: rows, Dims: []int64{0}, Dtype: aclnn.Float32, Out: sum})
		s.deliver(a.DBias, sum, a.Accumulate)
	}
}
