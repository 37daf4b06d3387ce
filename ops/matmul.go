package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// keepDType is CANN's cubeMathType KEEP_DTYPE: float32 products stay float32. Linear and MatMul
// follow Env.HF32; the products inside other operators are always exact.
const keepDType = aclnn.CubeKeepDType

// cube returns the cubeMathType of Linear and MatMul.
func (e *Env) cube() aclnn.CubeMathType {
	if e.HF32 {
		return aclnn.CubeUseHF32
	}
	return keepDType
}

// MatMulArgs describes a matrix product Out = A·B, as torch.matmul computes it. All tensors have
// one dtype, float32, float16 or bfloat16.
type MatMulArgs struct {
	A   *aclnn.Tensor // [..., m, k], may be a view
	B   *aclnn.Tensor // [..., k, n]; batch dimensions broadcast with those of A
	Out *aclnn.Tensor // [..., m, n]
}

func (a *MatMulArgs) validate() error {
	var c args
	c.Tensor("A", a.A, floats...)
	c.Tensor("B", a.B, floats...)
	c.Tensor("Out", a.Out, floats...)
	if !c.OK() {
		return c.Err
	}
	c.product(a.A, a.B)
	c.sameDType("A", a.A, "B", a.B)
	c.sameDType("A", a.A, "Out", a.Out)
	var batch [aclnn.MaxRank]int64
	if c.OK() {
		rank := max(a.A.Rank(), a.B.Rank())
		for i := 3; i <= rank; i++ {
			batch[rank-i] = c.broadcast(a.A, a.B, i)
		}
		batch[rank-2], batch[rank-1] = a.A.Dim(-2), a.B.Dim(-1)
		c.Shape("Out", a.Out, batch[:rank]...)
	}
	return c.Err
}

// product checks that a·b exists.
func (c *args) product(a, b *aclnn.Tensor) {
	switch {
	case c.Err != nil:
	case a.Rank() < 2 || b.Rank() < 2 || a.Rank() > 6 || b.Rank() > 6:
		c.Fail("A is %v and B %v; matrices have 2 to 6 dimensions", a, b)
	case a.Dim(-1) != b.Dim(-2):
		c.Fail("A is %v and B %v; the columns of A must be the rows of B", a, b)
	}
}

// broadcast returns the i-th dimension from the end of two broadcast batches.
func (c *args) broadcast(a, b *aclnn.Tensor, i int) int64 {
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
	c.Fail("A is %v and B %v; their batch dimensions do not broadcast", a, b)
	return 0
}

func (c *args) sameDType(name string, t *aclnn.Tensor, other string, o *aclnn.Tensor) {
	if c.Err == nil && t.DType() != o.DType() {
		c.Fail("%s is %v and %s %v; their dtypes must be equal", name, t, other, o)
	}
}

func (a *MatMulArgs) key() key.MatMul {
	m := a.Out.Dim(-2)
	return key.MatMul{
		DType: a.A.DType(), Batch: key.ExtentOf(rowCount(a.Out) / max(m, 1)), M: key.ExtentOf(m), N: key.ExtentOf(a.Out.Dim(-1)), K: key.ExtentOf(a.A.Dim(-1)),
		AByColumns: swapped(a.A), BByColumns: swapped(a.B), Contiguous: contiguous(a.A, a.B, a.Out),
	}
}

// newMatMul has one kernel, aclnnMatmul.
func newMatMul(reg *Registry) *Op[MatMulArgs, key.MatMul] {
	cube := reg.env.cube()
	return op(reg, "matmul", (*MatMulArgs).validate, (*MatMulArgs).key,
		Kernel[MatMulArgs, key.MatMul]{
			Name: "Matmul", Supports: has[key.MatMul](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MatMulArgs) error {
				return aclnn.Matmul(st, aclnn.MatmulParams{Self: a.A, Mat2: a.B, Out: a.Out, CubeMathType: cube})
			},
		})
}

// MatMulGradArgs describes the gradients of MatMul for operands with equal batch dimensions: DA =
// DOut·Bᵀ, DB = Aᵀ·DOut. A nil DA or DB is not computed.
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
	var c args
	if a.A.Rank() != a.B.Rank() {
		c.Fail("A is %v and B %v; gradients need equal batch dimensions", a.A, a.B)
	}
	for i := range a.A.Rank() - 2 {
		if a.A.Dim(i) != a.B.Dim(i) {
			c.Fail("A is %v and B %v; gradients need equal batch dimensions", a.A, a.B)
		}
	}
	if c.Optional("DA", a.DA, a.A.DType()) {
		c.Like("DA", a.DA, "A", a.A)
	}
	if c.Optional("DB", a.DB, a.B.DType()) {
		c.Like("DB", a.DB, "B", a.B)
	}
	return c.Err
}

func (a *MatMulGradArgs) key() key.MatMulGrad {
	forward := MatMulArgs{A: a.A, B: a.B, Out: a.DOut}
	k := key.MatMulGrad{MatMul: forward.key(), DA: a.DA != nil, DB: a.DB != nil}
	k.Contiguous = k.Contiguous && contiguous(a.DA, a.DB)
	return k
}

func newMatMulGrad(reg *Registry) *Op[MatMulGradArgs, key.MatMulGrad] {
	cube := reg.env.cube()
	return op(reg, "matmul_grad", (*MatMulGradArgs).validate, (*MatMulGradArgs).key,
		Kernel[MatMulGradArgs, key.MatMulGrad]{
			Name: "Matmul", Supports: has[key.MatMulGrad](&aclnn.MatmulParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MatMulGradArgs) error {
				return compose(st, func(s *steps) {
					if a.DA != nil {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a.DOut, Mat2: a.B.Transpose(-2, -1), Out: a.DA, CubeMathType: cube})
					}
					if a.DB != nil {
						launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: a.A.Transpose(-2, -1), Mat2: a.DOut, Out: a.DB, CubeMathType: cube})
					}
				})
			},
		})
}
