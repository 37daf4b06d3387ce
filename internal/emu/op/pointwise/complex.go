package pointwise

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
)

// complexes are the functions of complex numbers, computed in complex128. x are the operands, p the
// parameters.
var complexes = map[elementwise.Op]func(x, p []complex128) complex128{
	elementwise.Abs:        func(x, _ []complex128) complex128 { return complex(cmplx.Abs(x[0]), 0) },
	elementwise.Neg:        func(x, _ []complex128) complex128 { return -x[0] },
	elementwise.Square:     func(x, _ []complex128) complex128 { return x[0] * x[0] },
	elementwise.Sqrt:       func(x, _ []complex128) complex128 { return cmplx.Sqrt(x[0]) },
	elementwise.Rsqrt:      func(x, _ []complex128) complex128 { return 1 / cmplx.Sqrt(x[0]) },
	elementwise.Reciprocal: func(x, _ []complex128) complex128 { return 1 / x[0] },
	elementwise.Exp:        func(x, _ []complex128) complex128 { return cmplx.Exp(x[0]) },
	elementwise.Log:        func(x, _ []complex128) complex128 { return cmplx.Log(x[0]) },
	elementwise.Sin:        func(x, _ []complex128) complex128 { return cmplx.Sin(x[0]) },
	elementwise.Cos:        func(x, _ []complex128) complex128 { return cmplx.Cos(x[0]) },
	elementwise.Sinh:       func(x, _ []complex128) complex128 { return cmplx.Sinh(x[0]) },
	elementwise.Cosh:       func(x, _ []complex128) complex128 { return cmplx.Cosh(x[0]) },
	elementwise.Tan:        func(x, _ []complex128) complex128 { return cmplx.Tan(x[0]) },
	elementwise.Asinh:      func(x, _ []complex128) complex128 { return cmplx.Asinh(x[0]) },
	elementwise.Acosh:      func(x, _ []complex128) complex128 { return cmplx.Acosh(x[0]) },
	elementwise.Atanh:      func(x, _ []complex128) complex128 { return cmplx.Atanh(x[0]) },
	elementwise.Sigmoid:    func(x, _ []complex128) complex128 { return 1 / (1 + cmplx.Exp(-x[0])) },
	elementwise.Add:        func(x, p []complex128) complex128 { return x[0] + p[0]*x[1] },
	elementwise.ReverseSub: func(x, p []complex128) complex128 { return x[1] - p[0]*x[0] },
	elementwise.Mul:        func(x, _ []complex128) complex128 { return x[0] * x[1] },
	elementwise.Div:        func(x, _ []complex128) complex128 { return x[0] / x[1] },
	elementwise.Log2:       func(x, _ []complex128) complex128 { return cmplx.Log(x[0]) / math.Ln2 },
	elementwise.Log10:      func(x, _ []complex128) complex128 { return cmplx.Log10(x[0]) },
	elementwise.Equal:      func(x, _ []complex128) complex128 { return truth(x[0] == x[1]) },
	elementwise.NotEqual:   func(x, _ []complex128) complex128 { return truth(x[0] != x[1]) },
	elementwise.LogicalAnd: func(x, _ []complex128) complex128 { return truth(x[0] != 0 && x[1] != 0) },
	elementwise.LogicalNot: func(x, _ []complex128) complex128 { return truth(x[0] == 0) },
	elementwise.LogicalOr:  func(x, _ []complex128) complex128 { return truth(x[0] != 0 || x[1] != 0) },
	elementwise.LogicalXor: func(x, _ []complex128) complex128 { return truth((x[0] != 0) != (x[1] != 0)) },
	elementwise.Where: func(x, _ []complex128) complex128 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	},
	elementwise.Pow:         func(x, _ []complex128) complex128 { return cmplx.Pow(x[0], x[1]) },
	elementwise.SigmoidGrad: func(x, _ []complex128) complex128 { return x[0] * cmplx.Conj(x[1]*(1-x[1])) },
}

func truth(b bool) complex128 {
	if b {
		return 1
	}
	return 0
}

// ofComplex checks operands of which one is complex and returns the computation.
func (e Form) ofComplex(c *op.Call, compute dtype.Type, out *op.Tensor, operands []Operand) (op.Run, error) {
	result := compute
	switch {
	case e.Op == elementwise.Abs:
		result = op.PartTypes[compute]
	case e.Types == Comparing:
		result = dtype.Bool
	}
	fn := complexes[e.Op]
	if fn == nil || compute == dtype.Complex32 || slices.ContainsFunc(operands, func(o Operand) bool { return !number(o.dtype()) }) {
		c.Invalid("operands %v cannot be computed in %v; cast them first", operandsText(operands), compute)
		return nil, c.Err()
	}
	if !e.stores(c, result, out.DType) || !out.DType.IsComplex() && !kernel.Computes(out.DType) {
		c.Invalid("the result has dtype %v, which cannot be stored in %v; use an output of that dtype or above", result, out)
	}
	c.Plain(out)
	for _, o := range operands {
		if o.Tensor != nil {
			c.Plain(o.Tensor)
		}
	}
	Broadcasts(c, out, operands)
	var params []complex128
	for _, n := range e.Params { // the parameters of these functions are scalars
		p := c.Scalar(n).Complex()
		if e.Scale != (elementwise.Number{}) {
			p *= complex(e.Scale.F, 0)
		}
		params = append(params, p)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.HandlesOverlap()
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		x := make([][]complex128, len(operands))
		for i, o := range operands {
			var err error
			if x[i], err = o.numbers(out.Shape); err != nil {
				return err
			}
		}
		values := make([]complex128, out.Len())
		thread.Parallel(out.Len(), 1<<12, func(lo, hi int64) {
			args := make([]complex128, len(x))
			for i := lo; i < hi; i++ {
				for k := range x {
					args[k] = x[k][i]
				}
				values[i] = fn(args, params)
			}
		})
		return out.SetNumbers(values)
	}, nil
}

// number reports whether elements of a type are numbers, complex or not.
func number(d dtype.Type) bool { return d.IsComplex() || kernel.Computes(d) }

// dtype returns the element type of the operand.
func (o Operand) dtype() dtype.Type {
	if o.Tensor != nil {
		return o.Tensor.DType
	}
	return o.Scalar.DType
}

// numbers returns the operand broadcast to a shape.
func (o Operand) numbers(shape []int64) ([]complex128, error) {
	if o.Tensor != nil {
		return o.Tensor.Numbers(shape)
	}
	return slices.Repeat([]complex128{o.Scalar.Complex()}, int(op.Count(shape))), nil
}
