package matmul

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// Factor is an operand of a product seen as a batch of matrices, [batch…, rows, cols].
type Factor struct {
	t              *op.Tensor
	shape, strides []int64
	vector         bool // t has no outer dimension, and neither has the result
}

// Left is the first factor: a vector is a row.
func Left(t *op.Tensor) Factor {
	f := Factor{t: t, shape: t.Shape, strides: t.Strides}
	if t.Rank() == 1 {
		f = rowOf(t)
		f.vector = true
	}
	return f
}

// Right is the second factor: a vector is a column.
func Right(t *op.Tensor) Factor {
	f := Factor{t: t, shape: t.Shape, strides: t.Strides}
	if t.Rank() == 1 {
		f = columnOf(t)
		f.vector = true
	}
	return f
}

func rowOf(t *op.Tensor) Factor {
	return Factor{t: t, shape: []int64{1, t.Shape[0]}, strides: []int64{0, t.Strides[0]}}
}

func columnOf(t *op.Tensor) Factor {
	return Factor{t: t, shape: []int64{t.Shape[0], 1}, strides: []int64{t.Strides[0], 0}}
}

func (f *Factor) transpose() {
	n := len(f.shape)
	f.shape, f.strides = slices.Clone(f.shape), slices.Clone(f.strides)
	f.shape[n-1], f.shape[n-2] = f.shape[n-2], f.shape[n-1]
	f.strides[n-1], f.strides[n-2] = f.strides[n-2], f.strides[n-1]
}

func (f Factor) batch() []int64 { return f.shape[:len(f.shape)-2] }
func (f Factor) rows() int64    { return f.shape[len(f.shape)-2] }
func (f Factor) cols() int64    { return f.shape[len(f.shape)-1] }

// view returns the factor with its batch broadcast. Valid inside Run only.
func (f Factor) view(batch []int64) (kernel.View, error) {
	v := f.t.As(f.shape, f.strides)
	if v.DType == dtype.Bool {
		v.DType = dtype.Uint8 // a bool is stored as the byte 0 or 1
	}
	return v.Broadcast(slices.Concat(batch, []int64{f.rows(), f.cols()}))
}

// viewed is view, rounded. The function ends the use of the view.
func (f Factor) viewed(batch []int64, r op.Rounding) (kernel.View, func(), error) {
	v, err := f.view(batch)
	if err != nil || op.IsPrivate(f.t.Format) {
		return v, func() {}, err
	}
	return r.Round(v)
}

// Product is out = alpha·a·b + beta·add.
type Product struct {
	Out         *op.Tensor
	A, B        Factor
	Add         *op.Tensor // may be nil
	Alpha, Beta float64
	sum         bool // sum the products over the batch
	Mixed       bool // bfloat16 is allowed with float16 and float32
	Types       []dtype.Type
}

// Multiply checks p and returns the function that computes it.
func Multiply(c *op.Call, p Product) (op.Run, error) {
	productTypes(c, p)
	batch, ok := op.BroadcastShape(p.A.batch(), p.B.batch())
	if !ok {
		c.Invalid("the batch dimensions of %v and %v do not broadcast", p.A.t, p.B.t)
	}
	if p.A.cols() != p.B.rows() {
		c.Invalid("%v and %v cannot be multiplied: the inner dimensions are %d and %d", p.A.t, p.B.t, p.A.cols(), p.B.rows())
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	shape := slices.Clone(batch)
	if p.sum {
		shape = nil
	}
	if !p.A.vector {
		shape = append(shape, p.A.rows())
	}
	if !p.B.vector {
		shape = append(shape, p.B.cols())
	}
	scalar := len(shape) == 0 && p.Out.Len() == 1 // written as [] or [1]
	if !scalar && !slices.Equal(p.Out.Shape, shape) {
		c.Invalid("%v must have shape %s, that of the product of %v and %v", p.Out, op.Dims(shape), p.A.t, p.B.t)
	}
	if p.Add != nil {
		if s, ok := op.BroadcastShape(p.Add.Shape, shape); !ok || !slices.Equal(s, shape) {
			c.Invalid("%v does not broadcast to %s, the shape of the product of %v and %v", p.Add, op.Dims(shape), p.A.t, p.B.t)
		}
	}
	for _, t := range []*op.Tensor{p.Out, p.A.t, p.Add} {
		if t != nil && op.IsPrivate(t.Format) {
			c.Invalid("%v must be in ND format; only the second factor may be FRACTAL_NZ", t)
		}
	}
	c.CheckNZ(p.B.t)
	if c.Err() != nil {
		return nil, c.Err()
	}
	rounding := c.Rounding()
	if p.A.t.DType == dtype.BFloat16 && p.B.t.DType == dtype.BFloat16 {
		rounding = op.Unrounded // without effect, as CANN warns
	}
	// A sum with another tensor is not rounded: the product is added to it in float32.
	roundsResult := rounding != op.Unrounded && c.RoundsResults() && p.Add == nil && p.Out.DType == dtype.Float32
	return func(*op.Exec) error {
		a, releaseA, err := p.A.viewed(batch, rounding)
		if err != nil {
			return err
		}
		defer releaseA()
		b, releaseB, err := p.B.viewed(batch, rounding)
		if err != nil {
			return err
		}
		defer releaseB()
		k := gemmkernel.Product{
			A: a, B: b, Out: p.matrix(p.Out.View(), shape),
			Alpha: p.Alpha, Beta: p.Beta, NZ: p.B.t.NZColumns(), Sum: p.sum,
		}
		// With beta 0 a NaN of add must not reach the result.
		if p.Add != nil && p.Beta != 0 {
			add, err := p.Add.View().Broadcast(shape)
			if err != nil {
				return err
			}
			if add.DType == dtype.Bool {
				add.DType = dtype.Uint8 // as in Factor.view
			}
			add = p.matrix(add, shape)
			k.Add = &add
		}
		if err := gemmkernel.Gemm(k); err != nil || !roundsResult {
			return err
		}
		rounded, release, err := rounding.Round(p.Out.View())
		if err != nil {
			return err
		}
		defer release()
		return elementwise.Copy(p.Out.View(), rounded)
	}, nil
}

// matrix adds the dimensions that vectors lack to a view with the shape of the result.
func (p Product) matrix(v kernel.View, shape []int64) kernel.View {
	if len(shape) == 0 {
		v.Shape, v.Strides = nil, nil
	}
	insert := func(at int) {
		v.Shape, v.Strides = slices.Insert(slices.Clone(v.Shape), at, 1), slices.Insert(slices.Clone(v.Strides), at, 0)
	}
	if p.B.vector {
		insert(len(v.Shape))
	}
	if p.A.vector {
		insert(len(v.Shape) - 1)
	}
	return v
}

// productTypes checks the element types of p. float16 and float32 have the common type float32;
// bfloat16 has one with them only if p.Mixed is set.
func productTypes(c *op.Call, p Product) {
	a, b := p.A.t, p.B.t
	for _, t := range []*op.Tensor{a, b, p.Out, p.Add} {
		if t != nil {
			c.DType(t, p.Types...)
		}
	}
	class := func(t *op.Tensor) dtype.Type {
		switch {
		case t.DType == dtype.Float64:
			return dtype.Float64
		case t.DType.IsFloat():
			return dtype.Float32
		}
		return dtype.Int64
	}
	if class(a) != class(b) || !p.Mixed && a.DType != b.DType && (a.DType == dtype.BFloat16 || b.DType == dtype.BFloat16) {
		c.Invalid("no common element type of %v and %v; cast one of them", a, b)
	}
	if class(p.Out) != class(a) || p.Out.DType == dtype.Bool {
		c.Invalid("%v cannot hold the product of %v and %v", p.Out, a, b)
	}
	if p.Add != nil && class(p.Add) != class(p.Out) {
		c.Invalid("%v cannot be added to the product of %v and %v; cast it to %v", p.Add, a, b, p.Out.DType)
	}
	if class(p.Out) == dtype.Int64 && (p.Alpha != math.Trunc(p.Alpha) || p.Beta != math.Trunc(p.Beta)) {
		c.Invalid("alpha %g and beta %g must be integers for tensors of integers", p.Alpha, p.Beta)
	}
}
