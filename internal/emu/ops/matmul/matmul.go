package matmul

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

var matmulTable = op.Table{
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

// vectorTypes are the element types whose products run on the vector unit.
var vectorTypes = []dtype.Type{
	dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64,
	dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Bool,
}

// matmul multiplies tensors of lo to hi dimensions by the rules of torch.matmul: a vector
// becomes a row on the left and a column on the right, batch dimensions broadcast.
func matmul(lo, hi int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self, mat2, out := c.Tensor("self"), c.Tensor("mat2"), c.Tensor("out")
		c.CubeMathType(self, mat2)
		for _, t := range []*op.Tensor{self, mat2} {
			c.Rank(t, lo, hi)
		}
		if c.Err() != nil {
			return nil, c.Err()
		}
		return Multiply(c, Product{Out: out, A: Left(self), B: Right(mat2), Alpha: 1, Mixed: true, Types: op.FloatTypes})
	}
}

// matmulWeightNz multiplies by a weight in FRACTAL_NZ storage.
func matmulWeightNz(rank int) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		c.WeightNZ("mat2")
		return matmul(rank, rank)(c)
	}
}

// addmm is beta·self + alpha·mat1·mat2; the in-place forms take selfRef for self and out.
func addmm(c *op.Call) (op.Run, error) {
	if c.Op.Name == "AddmmWeightNz" {
		c.WeightNZ("mat2")
	}
	return addProduct(c, "mat1", "mat2", 2, 2, false)
}

// baddbmm is addmm for a batch of matrices.
func baddbmm(c *op.Call) (op.Run, error) { return addProduct(c, "batch1", "batch2", 3, 3, false) }

// addbmm is addmm with the sum over a batch of products.
func addbmm(c *op.Call) (op.Run, error) { return addProduct(c, "batch1", "batch2", 3, 2, true) }

// addProduct multiplies tensors of a rank and adds a tensor of at most another one.
func addProduct(c *op.Call, left, right string, rank, added int, sum bool) (op.Run, error) {
	self, out := selfAndOut(c)
	a, b := c.Tensor(left), c.Tensor(right)
	beta, alpha := c.Scalar("beta"), c.Scalar("alpha")
	c.CubeMathType(a, b)
	c.Rank(a, rank, rank)
	c.Rank(b, rank, rank)
	c.Rank(self, 1, added)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if rank == 2 && a.Shape[0]*b.Shape[1] == 0 && out.Len() == 0 { // CANN asks no more of the result than that it is empty, too
		c.DType(out, op.FloatTypes...)
		return func(*op.Exec) error { return nil }, c.Err()
	}
	return Multiply(c, Product{
		Out: out, A: Left(a), B: Right(b), Add: self, sum: sum,
		Alpha: alpha.Float64(), Beta: beta.Float64(), Mixed: true, Types: op.FloatTypes,
	})
}

// gemm is alpha·A·B + beta·C. transA and transB mean that an argument is stored transposed.
func gemm(c *op.Call) (op.Run, error) {
	a, b, add, out := c.Tensor("A"), c.Tensor("B"), c.Tensor("C"), c.Tensor("out")
	c.CubeMathType(a, b)
	c.Rank(a, 2, 2)
	c.Rank(b, 2, 2)
	c.Rank(add, 1, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	p := Product{Out: out, A: Left(a), B: Right(b), Add: add, Alpha: c.Float("alpha"), Beta: c.Float("beta"), Types: op.FloatTypes}
	rows, columns := a.Shape[0], b.Shape[1]
	if c.Int("transA") != 0 {
		p.A.transpose()
		rows = a.Shape[1]
	}
	if c.Int("transB") != 0 {
		p.B.transpose()
		columns = b.Shape[0]
	}
	if rows*columns == 0 && out.Len() == 0 { // CANN asks no more of the result than that it is empty, too
		c.DType(out, op.FloatTypes...)
		return func(*op.Exec) error { return nil }, c.Err()
	}
	return Multiply(c, p)
}

// mv multiplies a matrix by a vector.
func mv(c *op.Call) (op.Run, error) {
	self, vec, out := c.Tensor("self"), c.Tensor("vec"), c.Tensor("out")
	c.CubeMathType(self, vec)
	c.Rank(self, 2, 2)
	c.Rank(vec, 1, 1)
	c.SameDType(vec, out)
	if c.Err() == nil && self.Len() == 0 && self.DType != vec.DType {
		c.DType(out, op.FloatTypes...)
		c.Shape(out, self.Shape[:1], "a number for each row of self, which has no elements and any type")
		return func(*op.Exec) error { return op.ZeroAll(out) }, c.Err()
	}
	c.SameDType(self, vec)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return Multiply(c, Product{Out: out, A: Left(self), B: Right(vec), Alpha: 1, Types: op.FloatTypes})
}

// addmv is beta·self + alpha·mat·vec.
func addmv(c *op.Call) (op.Run, error) {
	self, mat, vec, out := c.Tensor("self"), c.Tensor("mat"), c.Tensor("vec"), c.Tensor("out")
	alpha, beta := c.Scalar("alpha"), c.Scalar("beta")
	c.CubeMathType(mat, vec)
	c.Rank(mat, 2, 2)
	c.Rank(vec, 1, 1)
	c.Rank(self, 0, 1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return Multiply(c, Product{Out: out, A: Left(mat), B: Right(vec), Add: self, Alpha: alpha.Float64(), Beta: beta.Float64(), Types: vectorTypes})
}

// dot is the inner product of two vectors.
func dot(c *op.Call) (op.Run, error) {
	self, tensor, out := c.Tensor("self"), c.Tensor("tensor"), c.Tensor("out")
	c.Rank(self, 1, 1)
	c.Rank(tensor, 1, 1)
	c.SameDType(self, tensor, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return Multiply(c, Product{Out: out, A: Left(self), B: Right(tensor), Alpha: 1, Types: vectorTypes})
}

// ger is the outer product of two vectors.
func ger(c *op.Call) (op.Run, error) {
	self, vec2, out := c.Tensor("self"), c.Tensor("vec2"), c.Tensor("out")
	c.Rank(self, 1, 1)
	c.Rank(vec2, 1, 1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if o := (outer{out: out, column: self, row: vec2, alpha: 1}); o.mixed() {
		return o.prepare(c)
	}
	return Multiply(c, Product{Out: out, A: columnOf(self), B: rowOf(vec2), Alpha: 1, Types: vectorTypes})
}

// addr is beta·self + alpha·vec1·vec2ᵀ. Missing coefficients are 1.
func addr(c *op.Call) (op.Run, error) {
	self, out := selfAndOut(c)
	vec1, vec2 := c.Tensor("vec1"), c.Tensor("vec2")
	c.Rank(vec1, 1, 1)
	c.Rank(vec2, 1, 1)
	c.Rank(self, 0, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if out.Len() != 0 && (vec1.Len() == 0 || vec2.Len() == 0) {
		c.Vacuous("%v or %v is empty, and out %v is not", vec1, vec2, out)
		return nil, c.Err()
	}
	coefficient := func(name string) float64 {
		if s := c.OptionalScalar(name); s != nil {
			return s.Float64()
		}
		return 1
	}
	alpha, beta := coefficient("alphaOptional"), coefficient("betaOptional")
	if o := (outer{out: out, column: vec1, row: vec2, add: self, alpha: alpha, beta: beta}); o.mixed() {
		return o.prepare(c)
	}
	return Multiply(c, Product{Out: out, A: columnOf(vec1), B: rowOf(vec2), Add: self, Types: vectorTypes, Alpha: alpha, Beta: beta})
}

// selfAndOut returns self and out, or selfRef for both in the in-place form.
func selfAndOut(c *op.Call) (self, out *op.Tensor) {
	if c.Has("selfRef") {
		self = c.Tensor("selfRef")
		return self, self
	}
	return c.Tensor("self"), c.Tensor("out")
}
