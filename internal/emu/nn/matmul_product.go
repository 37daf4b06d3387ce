package nn

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// factor is an operand of a product seen as a batch of matrices, [batch…, rows, cols].
type factor struct {
	t              *Tensor
	shape, strides []int64
	vector         bool // t lacks the outer dimension, and so does the result
}

// left is the first factor: a vector is a row.
func left(t *Tensor) factor {
	f := factor{t: t, shape: t.Shape, strides: t.Strides}
	if t.Rank() == 1 {
		f = rowOf(t)
		f.vector = true
	}
	return f
}

// right is the second factor: a vector is a column.
func right(t *Tensor) factor {
	f := factor{t: t, shape: t.Shape, strides: t.Strides}
	if t.Rank() == 1 {
		f = columnOf(t)
		f.vector = true
	}
	return f
}

func rowOf(t *Tensor) factor {
	return factor{t: t, shape: []int64{1, t.Shape[0]}, strides: []int64{0, t.Strides[0]}}
}

func columnOf(t *Tensor) factor {
	return factor{t: t, shape: []int64{t.Shape[0], 1}, strides: []int64{t.Strides[0], 0}}
}

func (f *factor) transpose() {
	n := len(f.shape)
	f.shape, f.strides = slices.Clone(f.shape), slices.Clone(f.strides)
	f.shape[n-1], f.shape[n-2] = f.shape[n-2], f.shape[n-1]
	f.strides[n-1], f.strides[n-2] = f.strides[n-2], f.strides[n-1]
}

func (f factor) batch() []int64 { return f.shape[:len(f.shape)-2] }
func (f factor) rows() int64    { return f.shape[len(f.shape)-2] }
func (f factor) cols() int64    { return f.shape[len(f.shape)-1] }

// view is the factor with its batch broadcast. Valid inside Run only.
func (f factor) view(batch []int64) (kernel.View, error) {
	v := f.t.As(f.shape, f.strides)
	if v.DType == dtype.Bool {
		v.DType = dtype.Uint8 // a bool is the byte 0 or 1
	}
	return v.Broadcast(slices.Concat(batch, []int64{f.rows(), f.cols()}))
}

// product is out = alpha·a·b + beta·add.
type product struct {
	out         *Tensor
	a, b        factor
	add         *Tensor // may be nil
	alpha, beta float64
	sum         bool // the products of the batch are added up
	types       []dtype.Type
}

// product checks p and returns what computes it.
func (c *Call) product(p product) (Run, error) {
	c.productTypes(p)
	batch, ok := broadcastShape(p.a.batch(), p.b.batch())
	if !ok {
		c.Invalid("the batch dimensions of %v and %v do not broadcast", p.a.t, p.b.t)
	}
	if p.a.cols() != p.b.rows() {
		c.Invalid("%v and %v cannot be multiplied: the inner dimensions are %d and %d", p.a.t, p.b.t, p.a.cols(), p.b.rows())
	}
	if c.err != nil {
		return nil, c.err
	}
	shape := slices.Clone(batch)
	if p.sum {
		shape = nil
	}
	if !p.a.vector {
		shape = append(shape, p.a.rows())
	}
	if !p.b.vector {
		shape = append(shape, p.b.cols())
	}
	scalar := len(shape) == 0 && p.out.Len() == 1 // written as [] or [1]
	if !scalar && !slices.Equal(p.out.Shape, shape) {
		c.Invalid("%v must have shape %s, that of the product of %v and %v", p.out, dims(shape), p.a.t, p.b.t)
	}
	if p.add != nil {
		if s, ok := broadcastShape(p.add.Shape, shape); !ok || !slices.Equal(s, shape) {
			c.Invalid("%v does not broadcast to %s, the shape of the product of %v and %v", p.add, dims(shape), p.a.t, p.b.t)
		}
	}
	for _, t := range []*Tensor{p.out, p.a.t, p.add} {
		if t != nil && isPrivate(t.Format) {
			c.Invalid("%v must be in ND format; only the second factor may be FRACTAL_NZ", t)
		}
	}
	c.checkNz(p.b.t)
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		a, err := p.a.view(batch)
		if err != nil {
			return err
		}
		b, err := p.b.view(batch)
		if err != nil {
			return err
		}
		k := kernel.Product{
			A: a, B: b, Out: p.matrix(p.out.View(), shape),
			Alpha: p.alpha, Beta: p.beta, NZ: p.b.t.nzColumns(), Sum: p.sum,
		}
		// With beta 0 not even a NaN of add reaches the result.
		if p.add != nil && p.beta != 0 {
			add, err := p.add.View().Broadcast(shape)
			if err != nil {
				return err
			}
			add = p.matrix(add, shape)
			k.Add = &add
		}
		return kernel.Gemm(k)
	}, nil
}

// matrix gives a view of the result's shape the dimensions that vectors lack.
func (p product) matrix(v kernel.View, shape []int64) kernel.View {
	if len(shape) == 0 {
		v.Shape, v.Strides = nil, nil
	}
	insert := func(at int) {
		v.Shape, v.Strides = slices.Insert(slices.Clone(v.Shape), at, 1), slices.Insert(slices.Clone(v.Strides), at, 0)
	}
	if p.b.vector {
		insert(len(v.Shape))
	}
	if p.a.vector {
		insert(len(v.Shape) - 1)
	}
	return v
}

// productTypes checks the element types of p: float16 widens to float32, nothing else is
// deduced.
func (c *Call) productTypes(p product) {
	a, b := p.a.t, p.b.t
	for _, t := range []*Tensor{a, b, p.out, p.add} {
		if t != nil {
			c.DType(t, p.types...)
		}
	}
	class := func(t *Tensor) dtype.Type {
		switch {
		case t.DType == dtype.Float64:
			return dtype.Float64
		case t.DType.IsFloat():
			return dtype.Float32
		}
		return dtype.Int64
	}
	if class(a) != class(b) || a.DType != b.DType && (a.DType == dtype.BFloat16 || b.DType == dtype.BFloat16) {
		c.Invalid("no common element type of %v and %v; cast one of them", a, b)
	}
	if class(p.out) != class(a) || p.out.DType == dtype.Bool {
		c.Invalid("%v cannot hold the product of %v and %v", p.out, a, b)
	}
	if p.add != nil && class(p.add) != class(p.out) {
		c.Invalid("%v cannot be added to the product of %v and %v; cast it to %v", p.add, a, b, p.out.DType)
	}
	if class(p.out) == dtype.Int64 && (p.alpha != math.Trunc(p.alpha) || p.beta != math.Trunc(p.beta)) {
		c.Invalid("alpha %g and beta %g must be integers for tensors of integers", p.alpha, p.beta)
	}
}
