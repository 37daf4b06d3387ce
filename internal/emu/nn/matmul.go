package nn

import "github.com/goascend/cann/internal/dtype"

var matmulTable = table{
	"Matmul":         matmul(1, 6),
	"MatmulWeightNz": matmulWeightNz(2), "BatchMatMulWeightNz": matmulWeightNz(3),
	"Mm":             matmul(2, 2),
	"BatchMatMul":    matmul(3, 3),
	"Addmm":          addmm,
	"InplaceAddmm":   addmm,
	"AddmmWeightNz":  addmm,
	"Baddbmm":        baddbmm,
	"InplaceBaddbmm": baddbmm,
	"Addbmm":         addbmm,
	"InplaceAddbmm":  addbmm,
	"Gemm":           gemm,
	"Mv":             mv,
	"Addmv":          addmv,
	"Dot":            dot,
	"Ger":            ger,
	"Addr":           addr,
	"AddrV2":         addr,
	"InplaceAddr":    addr,
	"InplaceAddrV2":  addr,
}

// Element types of products: those of the cube unit, and the wider set that the vector
// forms take.
var (
	cubeTypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}
	allTypes  = []dtype.Type{
		dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64,
		dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Bool,
	}
)

// matmul multiplies tensors of lo to hi dimensions by the rules of torch.matmul: a vector
// becomes a row on the left and a column on the right, batch dimensions broadcast.
func matmul(lo, hi int) Prepare {
	return func(c *Call) (Run, error) {
		self, mat2, out := c.Tensor("self"), c.Tensor("mat2"), c.Tensor("out")
		c.cubeMathType()
		for _, t := range []*Tensor{self, mat2} {
			c.Rank(t, lo, hi)
		}
		if c.err != nil {
			return nil, c.err
		}
		return c.product(product{out: out, a: left(self), b: right(mat2), alpha: 1, types: cubeTypes})
	}
}

// matmulWeightNz multiplies by a weight in FRACTAL_NZ storage.
func matmulWeightNz(rank int) Prepare {
	return func(c *Call) (Run, error) {
		c.weightNz("mat2")
		return matmul(rank, rank)(c)
	}
}

// addmm is beta·self + alpha·mat1·mat2; the in-place forms take selfRef for self and out.
func addmm(c *Call) (Run, error) {
	if c.op.name == "AddmmWeightNz" {
		c.weightNz("mat2")
	}
	self, out := c.selfAndOut()
	mat1, mat2 := c.Tensor("mat1"), c.Tensor("mat2")
	beta, alpha := c.Scalar("beta"), c.Scalar("alpha")
	c.cubeMathType()
	c.Rank(mat1, 2, 2)
	c.Rank(mat2, 2, 2)
	c.Rank(self, 1, 2)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: left(mat1), b: right(mat2), add: self, alpha: alpha.Float64(), beta: beta.Float64(), types: cubeTypes})
}

// baddbmm is addmm for a batch of matrices.
func baddbmm(c *Call) (Run, error) {
	self, out := c.selfAndOut()
	batch1, batch2 := c.Tensor("batch1"), c.Tensor("batch2")
	beta, alpha := c.Scalar("beta"), c.Scalar("alpha")
	c.cubeMathType()
	c.Rank(batch1, 3, 3)
	c.Rank(batch2, 3, 3)
	c.Rank(self, 1, 3)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: left(batch1), b: right(batch2), add: self, alpha: alpha.Float64(), beta: beta.Float64(), types: cubeTypes})
}

// addbmm is addmm with the sum over a batch of products.
func addbmm(c *Call) (Run, error) {
	self, out := c.selfAndOut()
	batch1, batch2 := c.Tensor("batch1"), c.Tensor("batch2")
	beta, alpha := c.Scalar("beta"), c.Scalar("alpha")
	c.cubeMathType()
	c.Rank(batch1, 3, 3)
	c.Rank(batch2, 3, 3)
	c.Rank(self, 1, 2)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{
		out: out, a: left(batch1), b: right(batch2), add: self, sum: true,
		alpha: alpha.Float64(), beta: beta.Float64(), types: cubeTypes,
	})
}

// gemm is alpha·A·B + beta·C; transA and transB say that the argument holds the transpose.
func gemm(c *Call) (Run, error) {
	a, b, add, out := c.Tensor("A"), c.Tensor("B"), c.Tensor("C"), c.Tensor("out")
	c.cubeMathType()
	c.Rank(a, 2, 2)
	c.Rank(b, 2, 2)
	c.Rank(add, 1, 2)
	if c.err != nil {
		return nil, c.err
	}
	p := product{out: out, a: left(a), b: right(b), add: add, alpha: c.Float("alpha"), beta: c.Float("beta"), types: cubeTypes}
	if c.Int("transA") != 0 {
		p.a.transpose()
	}
	if c.Int("transB") != 0 {
		p.b.transpose()
	}
	return c.product(p)
}

// mv multiplies a matrix by a vector.
func mv(c *Call) (Run, error) {
	self, vec, out := c.Tensor("self"), c.Tensor("vec"), c.Tensor("out")
	c.cubeMathType()
	c.Rank(self, 2, 2)
	c.Rank(vec, 1, 1)
	c.SameDType(self, vec, out)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: left(self), b: right(vec), alpha: 1, types: cubeTypes})
}

// addmv is beta·self + alpha·mat·vec.
func addmv(c *Call) (Run, error) {
	self, mat, vec, out := c.Tensor("self"), c.Tensor("mat"), c.Tensor("vec"), c.Tensor("out")
	alpha, beta := c.Scalar("alpha"), c.Scalar("beta")
	c.cubeMathType()
	c.Rank(mat, 2, 2)
	c.Rank(vec, 1, 1)
	c.Rank(self, 0, 1)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: left(mat), b: right(vec), add: self, alpha: alpha.Float64(), beta: beta.Float64(), types: allTypes})
}

// dot is the inner product of two vectors.
func dot(c *Call) (Run, error) {
	self, tensor, out := c.Tensor("self"), c.Tensor("tensor"), c.Tensor("out")
	c.Rank(self, 1, 1)
	c.Rank(tensor, 1, 1)
	c.SameDType(self, tensor, out)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: left(self), b: right(tensor), alpha: 1, types: allTypes})
}

// ger is the outer product of two vectors.
func ger(c *Call) (Run, error) {
	self, vec2, out := c.Tensor("self"), c.Tensor("vec2"), c.Tensor("out")
	c.Rank(self, 1, 1)
	c.Rank(vec2, 1, 1)
	if c.err != nil {
		return nil, c.err
	}
	return c.product(product{out: out, a: columnOf(self), b: rowOf(vec2), alpha: 1, types: allTypes})
}

// addr is beta·self + alpha·vec1·vec2ᵀ; absent coefficients are 1.
func addr(c *Call) (Run, error) {
	self, out := c.selfAndOut()
	vec1, vec2 := c.Tensor("vec1"), c.Tensor("vec2")
	c.Rank(vec1, 1, 1)
	c.Rank(vec2, 1, 1)
	c.Rank(self, 0, 2)
	if c.err != nil {
		return nil, c.err
	}
	coefficient := func(name string) float64 {
		if s := c.OptionalScalar(name); s != nil {
			return s.Float64()
		}
		return 1
	}
	return c.product(product{
		out: out, a: columnOf(vec1), b: rowOf(vec2), add: self, types: allTypes,
		alpha: coefficient("alphaOptional"), beta: coefficient("betaOptional"),
	})
}

// selfAndOut are self and out, or selfRef twice for an in-place form.
func (c *Call) selfAndOut() (self, out *Tensor) {
	if c.Has("selfRef") {
		self = c.Tensor("selfRef")
		return self, self
	}
	return c.Tensor("self"), c.Tensor("out")
}

// cubeMathType refuses values that do not exist. The emulator multiplies in the types it is
// given, which is at least as accurate as every mode (1 and 3 let the device cut float32 to
// HF32, 2 to float16, 4 asks for finer accumulation).
func (c *Call) cubeMathType() {
	if v := c.Int("cubeMathType"); v < 0 || v > 4 {
		c.Invalid("cubeMathType %d does not exist; use 0 (KEEP_DTYPE), 1 (ALLOW_FP32_DOWN_PRECISION), 2 (USE_FP16), 3 (USE_HF32) or 4 (USE_FP32_ADD)", v)
	}
}
