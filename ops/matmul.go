package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// keepDType is CANN's cubeMathType KEEP_DTYPE: float32 products stay float32.
const keepDType = 0

// MatMulArgs multiplies matrices: Out = A·B, as torch.matmul does. All are float32,
// float16 or bfloat16, the same for the three.
type MatMulArgs struct {
	A   *aclnn.Tensor // [..., m, k], views welcome
	B   *aclnn.Tensor // [..., k, n]; batch dimensions broadcast against those of A
	Out *aclnn.Tensor // [..., m, n]
}

func (a *MatMulArgs) validate() error {
	var c check
	c.tensor("A", a.A, floats...)
	c.tensor("B", a.B, floats...)
	c.tensor("Out", a.Out, floats...)
	if !c.ok() {
		return c.err
	}
	c.product(a.A, a.B)
	c.sameDType("A", a.A, "B", a.B)
	c.sameDType("A", a.A, "Out", a.Out)
	var batch [aclnn.MaxRank]int64
	if c.ok() {
		rank := max(a.A.Rank(), a.B.Rank())
		for i := 3; i <= rank; i++ {
			batch[rank-i] = c.broadcast(a.A, a.B, i)
		}
		batch[rank-2], batch[rank-1] = a.A.Dim(-2), a.B.Dim(-1)
		c.shape("Out", a.Out, batch[:rank]...)
	}
	return c.err
}

// product checks that a·b exists.
func (c *check) product(a, b *aclnn.Tensor) {
	switch {
	case c.err != nil:
	case a.Rank() < 2 || b.Rank() < 2 || a.Rank() > 6 || b.Rank() > 6:
		c.fail("A is %v and B %v; matrices have 2 to 6 dimensions", a, b)
	case a.Dim(-1) != b.Dim(-2):
		c.fail("A is %v and B %v; the columns of A must be the rows of B", a, b)
	}
}

// broadcast is the size of the i-th dimension from the end of two batches.
func (c *check) broadcast(a, b *aclnn.Tensor, i int) int64 {
	da, db := int64(1), int64(1)
	if i <= a.Rank() {
		da = a.Dim(-i)
	}
	if i <= b.Rank() {
		db = b.Dim(-i)
	}
	switch {
	case da == db || db == 1:
		return da
	case da == 1:
		return db
	}
	c.fail("A is %v and B %v; their batch dimensions do not broadcast", a, b)
	return 0
}

func (c *check) sameDType(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	if c.err == nil && t.DType() != o.DType() {
		c.fail("%s is %v and %s %v; their dtypes must be equal", name, t, other, o)
	}
}

// newMatMul has one kernel, aclnnMatmul.
func newMatMul(reg *Registry) *Op[MatMulArgs] {
	return op(reg, "matmul", (*MatMulArgs).validate,
		func(a *MatMulArgs) Signature { return dtypeSignature(a.A) },
		Kernel[MatMulArgs]{
			Name: "Matmul", Supports: has[MatMulArgs](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MatMulArgs) error {
				return aclnn.Matmul(st, aclnn.MatmulParams{Self: a.A, Mat2: a.B, Out: a.Out, CubeMathType: keepDType})
			},
		})
}

// MatMulGradArgs are the gradients of MatMul for operands of equal batch dimensions:
// DA = DOut·Bᵀ, DB = Aᵀ·DOut. A nil DA or DB is not computed.
type MatMulGradArgs struct {
	DOut *aclnn.Tensor // [..., m, n]
	A    *aclnn.Tensor // [..., m, k]
	B    *aclnn.Tensor // [..., k, n]
	DA   *aclnn.Tensor // [..., m, k] or nil
	DB   *aclnn.Tensor // [..., k, n] or nil
}

func (a *MatMulGradArgs) validate() error {
	forward := MatMulArgs{A: a.A, B: a.B, Out: a.DOut}
	if err := forward.validate(); err != nil {
		return err
	}
	var c check
	if a.A.Rank() != a.B.Rank() {
		c.fail("A is %v and B %v; gradients need equal batch dimensions", a.A, a.B)
	}
	for i := range a.A.Rank() - 2 {
		if a.A.Dim(i) != a.B.Dim(i) {
			c.fail("A is %v and B %v; gradients need equal batch dimensions", a.A, a.B)
		}
	}
	if c.optional("DA", a.DA, a.A.DType()) {
		c.like("DA", a.DA, "A", a.A)
	}
	if c.optional("DB", a.DB, a.B.DType()) {
		c.like("DB", a.DB, "B", a.B)
	}
	return c.err
}

func newMatMulGrad(reg *Registry) *Op[MatMulGradArgs] {
	return op(reg, "matmul_grad", (*MatMulGradArgs).validate,
		func(a *MatMulGradArgs) Signature { return dtypeSignature(a.A) },
		Kernel[MatMulGradArgs]{
			Name: "Matmul", Supports: has[MatMulGradArgs](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MatMulGradArgs) error {
				return compose(st, func(s *steps) {
					if a.DA != nil {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a.DOut, Mat2: a.B.Transpose(-2, -1), Out: a.DA, CubeMathType: keepDType})
					}
					if a.DB != nil {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a.A.Transpose(-2, -1), Mat2: a.DOut, Out: a.DB, CubeMathType: keepDType})
					}
				})
			},
		})
}
