package matmul

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// outer is alpha·column·row + beta·add for vectors that a matrix product does not take: of complex
// numbers, of bools, or of types that must be promoted. add may be nil.
type outer struct {
	out, column, row, add *op.Tensor
	alpha, beta           float64
}

// common is the element type of the computation.
func (o outer) common() dtype.Type {
	d := op.Promote(o.row.DType, o.column.DType)
	if o.add != nil {
		d = op.Promote(o.add.DType, d)
	}
	return d
}

// mixed reports whether a matrix product does not take the vectors.
func (o outer) mixed() bool {
	d := o.common()
	same := o.row.DType == d && o.column.DType == d && (o.add == nil || o.add.DType == d)
	return d == dtype.Bool || d.IsComplex() || !same && (d.IsFloat() || o.out.DType.IsFloat())
}

func (o outer) prepare(c *op.Call) (op.Run, error) {
	tensors := []*op.Tensor{o.column, o.row, o.out}
	if o.add != nil {
		tensors = append(tensors, o.add)
		if s, ok := op.BroadcastShape(o.add.Shape, o.out.Shape); !ok || !op.SameShape(s, o.out.Shape) {
			c.Invalid("%v does not broadcast to %v", o.add, o.out)
		}
	}
	c.Plain(tensors...)
	c.Shape(o.out, []int64{o.column.Len(), o.row.Len()}, "the outer product")
	for _, t := range tensors {
		if !kernel.Computes(t.DType) && t.DType != dtype.Complex64 && t.DType != dtype.Complex128 {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	if d := o.common(); !op.Castable(d, o.out.DType) {
		c.Invalid("%v cannot hold %v elements", o.out, d)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return o.run() }, nil
}

func (o outer) run() error {
	column, err := o.column.Numbers(o.column.Shape)
	if err != nil {
		return err
	}
	row, err := o.row.Numbers(o.row.Shape)
	if err != nil {
		return err
	}
	values := make([]complex128, len(column)*len(row))
	if o.add != nil && o.beta != 0 { // with beta 0 a NaN of add must not reach the result
		if values, err = o.add.Numbers(o.out.Shape); err != nil {
			return err
		}
	}
	alpha, beta, bools := complex(o.alpha, 0), complex(o.beta, 0), o.common() == dtype.Bool
	for i, x := range column {
		for j, y := range row {
			at := &values[i*len(row)+j]
			*at = beta**at + alpha*x*y
			if bools && *at != 0 {
				*at = 1
			}
		}
	}
	return o.out.SetNumbers(values)
}
