package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// LinearArgs describes a projection: Out = X·Weightᵀ + Bias. All tensors have one dtype, float32,
// float16 or bfloat16.
type LinearArgs struct {
	X      *aclnn.Tensor // [..., in]
	Weight *aclnn.Tensor // [out, in], as in PyTorch
	Bias   *aclnn.Tensor // [out] or nil
	Out    *aclnn.Tensor // [..., out]
}

func (a *LinearArgs) validate() error {
	var c args
	c.linear(a.X, a.Weight)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Out", a.Out, a.X.DType())
	if c.OK() {
		c.Rows("Out", a.Out, "X", a.X)
		if a.Out.Dim(-1) != a.Weight.Dim(0) {
			c.Fail("Out is %v; its last dimension must be the %d rows of Weight %v", a.Out, a.Weight.Dim(0), a.Weight)
		}
	}
	if c.Optional("Bias", a.Bias, a.X.DType()) {
		c.Shape("Bias", a.Bias, a.Weight.Dim(0))
	}
	return c.Err
}

// linear checks the input and the weight of a projection.
func (c *args) linear(x, weight *aclnn.Tensor) {
	c.Tensor("X", x, floats...)
	c.Tensor("Weight", weight, floats...)
	if !c.OK() {
		return
	}
	c.sameDType("Weight", weight, "X", x)
	switch {
	case weight.Rank() != 2:
		c.Fail("Weight is %v; it must be [out, in]", weight)
	case x.Rank() < 1 || x.Rank() > 6:
		c.Fail("X is %v; it must have 1 to 6 dimensions", x)
	case x.Dim(-1) != weight.Dim(1):
		c.Fail("X is %v; its last dimension must be the %d columns of Weight %v", x, weight.Dim(1), weight)
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

func (a *LinearArgs) key() key.Linear {
	return key.Linear{
		DType: a.X.DType(), In: a.Weight.Dim(1), Out: a.Weight.Dim(0), Rows: key.ExtentOf(rowCount(a.X)), Bias: a.Bias != nil,
		Flat: flat(a.X) && flat(a.Out), Contiguous: contiguous(a.X, a.Weight, a.Bias, a.Out),
	}
}

// newLinear prefers the operator that also adds the bias.
func newLinear(reg *Registry) *Op[LinearArgs, key.Linear] {
	cube := reg.env.cube()
	return op(reg, "linear", (*LinearArgs).validate, (*LinearArgs).key,
		Kernel[LinearArgs, key.Linear]{
			Name: "Addmm",
			Supports: func(_ *Env, k key.Linear) error {
				switch {
				case !k.Bias:
					return errors.New("there is no bias to add")
				case !k.Flat:
					return errors.New("a tensor has gaps and cannot be viewed as a matrix")
				}
				return available(&aclnn.AddmmParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *LinearArgs) error {
				return aclnn.Addmm(st, aclnn.AddmmParams{
					Self: a.Bias, Mat1: matrix(a.X), Mat2: a.Weight.Transpose(0, 1), Beta: aclnn.Float(1), Alpha: aclnn.Float(1),
					Out: matrix(a.Out), CubeMathType: cube,
				})
			},
		},
		Kernel[LinearArgs, key.Linear]{
			Name: "Matmul", Supports: has[key.Linear](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *LinearArgs) error {
				x, out := a.X, a.Out
				if flat(x) && flat(out) {
					x, out = matrix(x), matrix(out)
				}
				err := aclnn.Matmul(st, aclnn.MatmulParams{Self: x, Mat2: a.Weight.Transpose(0, 1), Out: out, CubeMathType: cube})
				if err != nil || a.Bias == nil {
					return err
				}
				return aclnn.InplaceAdd(st, aclnn.InplaceAddParams{Self: a.Out, Other: a.Bias, Alpha: aclnn.Float(1)})
			},
		})
}

// LinearGradArgs describes the gradients of Linear: DX = DOut·Weight, DWeight = DOutᵀ·X, and DBias
// is the sum of DOut over its rows. Nil gradients are not computed.
type LinearGradArgs struct {
	DOut   *aclnn.Tensor // [..., out], dtype of X
	X      *aclnn.Tensor // [..., in]
	Weight *aclnn.Tensor // [out, in]; nil if DX is nil
	DX     *aclnn.Tensor // [..., in], dtype of X
	// DWeight is [out, in], contiguous, and DBias [out]. Both have the dtype of X, or are float32,
	// which keeps the gradients of 16-bit products unrounded (main gradients).
	DWeight, DBias *aclnn.Tensor
	// Accumulate adds to DWeight and DBias instead of overwriting them.
	Accumulate bool
}

func (a *LinearGradArgs) validate() error {
	var c args
	c.Tensor("X", a.X, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("DOut", a.DOut, a.X.DType())
	if !c.OK() {
		return c.Err
	}
	if a.X.Rank() < 1 || a.X.Rank() > 6 {
		c.Fail("X is %v; it must have 1 to 6 dimensions", a.X)
	}
	c.Rows("DOut", a.DOut, "X", a.X)
	in, out := a.X.Dim(-1), a.DOut.Dim(-1)
	if a.DX != nil {
		c.linear(a.X, a.Weight)
	}
	if c.Optional("Weight", a.Weight, a.X.DType()) {
		c.Shape("Weight", a.Weight, out, in)
	}
	if c.Optional("DX", a.DX, a.X.DType()) {
		c.Like("DX", a.DX, "X", a.X)
	}
	if c.Optional("DWeight", a.DWeight, a.X.DType(), aclnn.Float32) {
		c.Shape("DWeight", a.DWeight, out, in)
		c.Contiguous("DWeight", a.DWeight)
	}
	if c.Optional("DBias", a.DBias, a.X.DType(), aclnn.Float32) {
		c.Shape("DBias", a.DBias, out)
	}
	return c.Err
}

// innerLimit is the longest row that GroupedMatmulAdd takes.
const innerLimit = 1 << 16

func (a *LinearGradArgs) key() key.LinearGrad {
	return key.LinearGrad{
		X: a.X.DType(), DWeight: dtypeOf(a.DWeight), DBias: dtypeOf(a.DBias), In: a.X.Dim(-1), Out: a.DOut.Dim(-1), Rows: key.ExtentOf(rowCount(a.X)),
		DX: a.DX != nil, Accumulate: a.Accumulate, Contiguous: contiguous(a.DOut, a.X, a.Weight, a.DX, a.DWeight, a.DBias),
	}
}

// newLinearGrad prefers the product that accumulates in float32 if the gradient is float32 and its
// factors have 16 bits.
func newLinearGrad(reg *Registry) *Op[LinearGradArgs, key.LinearGrad] {
	cube := reg.env.cube()
	return op(reg, "linear_grad", (*LinearGradArgs).validate, (*LinearGradArgs).key,
		Kernel[LinearGradArgs, key.LinearGrad]{
			Name: "GroupedMatmulAdd",
			Supports: func(env *Env, k key.LinearGrad) error {
				switch {
				case k.DWeight == aclnn.Undefined || k.DWeight == k.X:
					return errors.New("DWeight is not a float32 gradient of 16-bit factors")
				case k.In >= innerLimit || k.Out >= innerLimit:
					return fmt.Errorf("a dimension is not below %d", innerLimit)
				}
				return env.Has(&aclnn.GroupedMatmulAddParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *LinearGradArgs) error {
				return compose(st, func(s *steps) {
					a.inputAndBias(s, cube)
					if !a.Accumulate {
						s.Zero(a.DWeight)
					}
					// All rows form one group: DWeight += DOutᵀ·X.
					x, dOut := s.Contiguous(matrix(s.flat(a.X))), s.Contiguous(matrix(s.flat(a.DOut)))
					rows := s.Tensor(aclnn.Int64, 1)
					s.Fill(rows, aclnn.Int(x.Dim(0)))
					launch(s, aclnn.GroupedMatmulAdd, aclnn.GroupedMatmulAddParams{
						X: dOut, Weight: x, GroupList: rows, Y: a.DWeight.Unsqueeze(0), TransposeX: true, GroupType: aclnn.GroupK,
					})
				})
			},
		},
		Kernel[LinearGradArgs, key.LinearGrad]{
			Name: "Matmul", Supports: has[key.LinearGrad](&aclnn.MatmulParams{}, &aclnn.InplaceAddmmParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *LinearGradArgs) error {
				return compose(st, func(s *steps) {
					a.inputAndBias(s, cube)
					if a.DWeight == nil {
						return
					}
					// Casting the factors rather than the product keeps the sum unrounded.
					x, dOut := s.Cast(matrix(s.flat(a.X)), a.DWeight.DType()), s.Cast(matrix(s.flat(a.DOut)), a.DWeight.DType())
					if !a.Accumulate {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: dOut.Transpose(0, 1), Mat2: x, Out: a.DWeight, CubeMathType: cube})
						return
					}
					launch(s, aclnn.InplaceAddmm, aclnn.InplaceAddmmParams{
						Self: a.DWeight, Mat1: dOut.Transpose(0, 1), Mat2: x, Beta: aclnn.Float(1), Alpha: aclnn.Float(1), CubeMathType: cube,
					})
				})
			},
		})
}

// flat returns t, or a contiguous copy if matrix cannot view it.
func (s *steps) flat(t *aclnn.Tensor) *aclnn.Tensor {
	if flat(t) {
		return t
	}
	return s.Contiguous(t)
}

// inputAndBias queues the gradients that all kernels compute in the same way.
func (a *LinearGradArgs) inputAndBias(s *steps, cube aclnn.CubeMathType) {
	if a.DX != nil {
		dOut, dx := a.DOut, a.DX
		if flat(dOut) && flat(dx) {
			dOut, dx = matrix(dOut), matrix(dx)
		}
		launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: dOut, Mat2: a.Weight, Out: dx, CubeMathType: cube})
	}
	if a.DBias != nil {
		rows := matrix(s.flat(a.DOut))
		sum := s.Tensor(aclnn.Float32, rows.Dim(1))
		launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: rows, Dims: []int64{0}, Dtype: aclnn.Float32, Out: sum})
		s.deliver(a.DBias, sum, a.Accumulate)
	}
}
