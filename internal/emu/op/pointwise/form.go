package pointwise

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// Typing is the rule by which the element type of a computation follows from its operands.
type Typing int

const (
	Arithmetic Typing = iota // the promoted type
	Floating                 // the promoted type; float32 for integers and bool
	Comparing                // the promoted type; the result is a bool
	Truth                    // as Floating; the result is a bool
	Selecting                // the first operand is a condition, the others follow Arithmetic
	Assigning                // as Selecting, but computed in the type of the output
)

// Form defines an operator that is computed element by element. The tables of the families have
// entries of this kind.
//
// Without Operands, the operands are the tensors and scalars of the C declaration in order, except
// Params and the output. Without Out, the output is the last tensor, or the first one for Inplace
// operators. Operands are broadcast and promoted, and the result is cast to the type of the output.
type Form struct {
	Op       elementwise.Op
	Types    Typing
	Whole    bool               // the operator copies integers unchanged
	Complex  bool               // a complex output gets a real result
	Cut      bool               // with Floating: an integer output gets the integer part of the result, a bool whether it is not 0
	Bools    elementwise.Op     // the kernel for bool, if it is not Op
	Operands []string           // parameter names, in the kernel's order
	Params   []string           // names of scalars that are parameters of the kernel
	Fixed    []float64          // values of further parameters
	Scale    elementwise.Number // multiplies the first parameter, if not zero: -1 turns Add into Sub
	Out      string
	Computes func(acceptance.Chip) []dtype.Type // the types in which a chip computes; nil: all that the kernel has
	Narrows  func(acceptance.Chip) bool         // chips on which an output of a lower category gets the result cast to it
}

// stores reports whether a result may be stored in an output.
func (e Form) stores(c *op.Call, result, out dtype.Type) bool {
	return op.Castable(result, out) || e.Narrows != nil && e.Narrows(c.Chip())
}

// names returns the parameter names of the operands and the output of a call.
func (e Form) names(c *op.Call) (operands []string, out string) {
	operands, out = e.Operands, e.Out
	inPlace := strings.HasPrefix(c.Op.Name, "Inplace")
	var found []string
	for _, p := range c.Op.Params {
		if p.Class == op.TensorClass && (out == "" || !inPlace && e.Out == "") {
			out = p.Name
			if inPlace {
				found = append(found, p.Name)
				continue
			}
		}
		if (p.Class == op.TensorClass || p.Class == op.ScalarClass) && !slices.Contains(e.Params, p.Name) {
			found = append(found, p.Name)
		}
	}
	if operands == nil {
		operands = found
		if !inPlace {
			operands = slices.DeleteFunc(found, func(s string) bool { return s == out })
		}
	}
	return operands, out
}

// Operand is either a tensor or a scalar.
type Operand struct {
	Tensor *op.Tensor
	Scalar *op.Scalar
}

// Input returns the operand in the form that the kernel takes. It is valid inside Run only.
func (o Operand) Input() elementwise.Input {
	if o.Tensor != nil {
		return elementwise.Of(o.Tensor.Stored())
	}
	return elementwise.Const(o.Scalar.Number())
}

// Argument reads a required tensor or scalar argument.
func Argument(c *op.Call, name string) Operand {
	if c.Class(name) == op.ScalarClass {
		return Operand{Scalar: c.Scalar(name)}
	}
	return Operand{Tensor: c.Tensor(name)}
}

// Prepare is phase one of an operator of this form.
func (e Form) Prepare(c *op.Call) (op.Run, error) {
	names, outName := e.names(c)
	out := c.Tensor(outName)
	operands := make([]Operand, len(names))
	for i, n := range names {
		operands[i] = Argument(c, n)
	}
	params := e.numbers(c)
	return e.Run(c, out, operands, func() []elementwise.Number { return params })
}

// numbers returns the parameters of the kernel. A null scalar counts as 0.
func (e Form) numbers(c *op.Call) []elementwise.Number {
	var params []elementwise.Number
	for _, n := range e.Params {
		switch c.Class(n) {
		case op.ScalarClass:
			params = append(params, c.Scalar(n).Number())
		case op.BoolClass:
			v := 0.0
			if c.Bool(n) {
				v = 1
			}
			params = append(params, elementwise.Real(v))
		case op.IntClass:
			params = append(params, elementwise.Whole(c.Int(n)))
		default:
			params = append(params, elementwise.Real(c.Float(n)))
		}
	}
	for _, f := range e.Fixed {
		params = append(params, elementwise.Real(f))
	}
	if e.Scale != (elementwise.Number{}) {
		params[0].F *= e.Scale.F
		params[0].I *= e.Scale.I
	}
	return params
}

// Run checks the operands and returns the computation. It calls params when the computation runs.
func (e Form) Run(c *op.Call, out *op.Tensor, operands []Operand, params func() []elementwise.Number) (op.Run, error) {
	values := operands
	if e.Types == Selecting || e.Types == Assigning {
		values = operands[1:]
	}
	compute := promoted(values)
	switch {
	case e.Types == Assigning:
		compute = out.DType
	case (e.Types == Floating || e.Types == Truth) && op.Category(compute) < 2:
		compute = dtype.Float32
	}
	if compute.IsComplex() && (e.Types <= Comparing || e.Types == Selecting) {
		return e.ofComplex(c, compute, out, operands)
	}
	if e.Computes != nil {
		if types := e.Computes(c.Chip()); !slices.Contains(types, compute) {
			c.Invalid("%v would be computed in %v; use operands that are computed in one of %v", operands[0], compute, types)
		}
	}
	fn := e.Op
	switch {
	case compute == dtype.Bool && e.Bools != 0:
		fn = e.Bools
	case op.Category(compute) < 2 && e.Whole:
		fn = elementwise.Identity
	}
	result := compute
	if e.Types == Comparing || e.Types == Truth {
		result = dtype.Bool
	}
	stored := out
	if e.Complex && out.DType.IsComplex() && out.DType != dtype.Complex32 {
		c.Plain(out)
		stored = nil
	}
	Computes(c, fn, compute, stored, operands)
	if !e.stores(c, result, out.DType) && !(e.Cut && op.Category(out.DType) <= 1) {
		c.Invalid("the result has dtype %v, which cannot be stored in %v; use an output of that dtype or above", result, out)
	}
	for _, n := range e.Params {
		if n != "alpha" {
			continue
		}
		// Integers may multiply bools.
		if d := c.Scalar(n).DType; !op.Castable(d, compute) && (compute != dtype.Bool || op.Category(d) > 1) {
			c.Invalid("alpha has dtype %v but the operands have %v; use an alpha of that kind", c.Scalar(n).DType, compute)
		}
	}
	Broadcasts(c, out, operands)
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.HandlesOverlap()
	return func(*op.Exec) error {
		var few [3]elementwise.Input
		in := few[:0]
		for _, o := range operands {
			in = append(in, o.Input())
		}
		if !out.DType.IsComplex() {
			return elementwise.Map(fn, compute, out.Stored(), in, params()...)
		}
		re, im := out.Parts() // a real result has no imaginary part
		if err := elementwise.Map(fn, compute, re, in, params()...); err != nil {
			return err
		}
		return elementwise.Fill(im, elementwise.Whole(0))
	}, nil
}

// promoted returns the common element type of the operands. Tensors are promoted first, then
// scalars.
func promoted(operands []Operand) dtype.Type {
	d := dtype.Undefined
	for _, o := range operands {
		switch {
		case o.Tensor == nil:
		case d == dtype.Undefined:
			d = o.Tensor.DType
		default:
			d = op.Promote(d, o.Tensor.DType)
		}
	}
	for _, o := range operands {
		switch {
		case o.Scalar == nil:
		case d == dtype.Undefined:
			d = op.PromoteScalar(dtype.Bool, o.Scalar.DType)
		default:
			d = op.PromoteScalar(d, o.Scalar.DType)
		}
	}
	return d
}

// Computes refuses element types that the kernel does not support.
func Computes(c *op.Call, fn elementwise.Op, compute dtype.Type, out *op.Tensor, operands []Operand) {
	if !elementwise.Defined(fn, compute) {
		c.Invalid("operands %v cannot be computed in %v; cast them first", operandsText(operands), compute)
	}
	supported := func(t *op.Tensor) {
		if t != nil && !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	supported(out)
	for _, o := range operands {
		supported(o.Tensor)
	}
}

func operandsText(operands []Operand) []string {
	var s []string
	for _, o := range operands {
		if o.Tensor != nil {
			s = append(s, o.Tensor.String())
		} else {
			s = append(s, o.Scalar.DType.String()+" scalar")
		}
	}
	return s
}

// Broadcasts refuses operands whose shapes do not broadcast to exactly the shape of out. It also
// refuses private storage formats that differ: such tensors are computed in the order of their
// storage.
func Broadcasts(c *op.Call, out *op.Tensor, operands []Operand) {
	shape := []int64{}
	private := c.Permutes(out)
	for _, o := range operands {
		if o.Tensor == nil {
			continue
		}
		private = private || c.Permutes(o.Tensor)
		if slices.Equal(shape, o.Tensor.Shape) {
			continue
		}
		if len(shape) == 0 {
			shape = o.Tensor.Shape
			continue
		}
		joined, ok := op.BroadcastShape(shape, o.Tensor.Shape)
		if !ok {
			c.NoCommonShape("shapes do not broadcast: %v", operandsText(operands))
			return
		}
		shape = joined
	}
	if !slices.Equal(out.Shape, shape) { // the text takes longer than the check
		c.Shape(out, shape, "the broadcast shape of "+strings.Join(operandsText(operands), ", "))
	}
	c.Depth(out)
	if !private {
		return
	}
	for _, o := range operands {
		if o.Tensor != nil && (o.Tensor.Format != out.Format || !slices.Equal(o.Tensor.Storage, out.Storage)) {
			c.Invalid("formats differ: %v and %v; cast one with aclnnNpuFormatCast", o.Tensor, out)
		}
	}
}

// Table returns the table entries of operators that share one definition.
func (e Form) Table(names ...string) op.Table {
	t := make(op.Table)
	for _, n := range names {
		t[n] = e.Prepare
	}
	return t
}

var (
	Unit     = []float64{1}
	MinusOne = elementwise.Number{F: -1, I: -1}
)
