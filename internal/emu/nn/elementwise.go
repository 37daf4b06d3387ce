package nn

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// typing says how the type of an element-wise computation follows from its operands.
type typing int

const (
	arithmetic typing = iota // the promoted type
	floating                 // the promoted type; float32 for integers and bool
	comparing                // the promoted type; the result is a bool
	truth                    // as floating; the result is a bool
	selecting                // the first operand is a condition, the others as arithmetic
	assigning                // as selecting, computed in the type of the output
)

// elementwise is an operator computed element by element: an entry of the tables.
//
// Unless named, the operands are the tensors and scalars of the C declaration in order,
// without parameters and output; the output is the last tensor, or the first for the
// Inplace forms. Operands are broadcast and promoted, the result is cast to the output.
type elementwise struct {
	op       kernel.Op
	types    typing
	whole    bool          // integers are unchanged
	bools    kernel.Op     // for bool, if not op
	operands []string      // names, in the kernel's order
	params   []string      // scalars that are parameters of the kernel
	fixed    []float64     // parameters after those
	scale    kernel.Number // multiplies the first parameter, if not zero: -1 turns Add into Sub
	out      string
}

// names finds the operands and the output of a call.
func (e elementwise) names(c *Call) (operands []string, out string) {
	operands, out = e.operands, e.out
	inPlace := strings.HasPrefix(c.op.name, "Inplace")
	var found []string
	for _, p := range c.op.params {
		if p.class == tensorClass && (out == "" || !inPlace && e.out == "") {
			out = p.name
			if inPlace {
				found = append(found, p.name)
				continue
			}
		}
		if (p.class == tensorClass || p.class == scalarClass) && !slices.Contains(e.params, p.name) {
			found = append(found, p.name)
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

// operand is a tensor or a scalar.
type operand struct {
	tensor *Tensor
	scalar *Scalar
}

func (o operand) input() kernel.Input {
	if o.tensor != nil {
		return kernel.Of(o.tensor.stored())
	}
	return kernel.Const(o.scalar.number())
}

// number is the scalar in both forms a kernel takes.
func (s *Scalar) number() kernel.Number { return kernel.Number{F: s.Float64(), I: s.Int64()} }

// operand reads a required tensor or scalar argument.
func (c *Call) operand(name string) operand {
	i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == name })
	if i >= 0 && c.op.params[i].class == scalarClass {
		return operand{scalar: c.Scalar(name)}
	}
	return operand{tensor: c.Tensor(name)}
}

func (e elementwise) prepare(c *Call) (Run, error) {
	names, outName := e.names(c)
	out := c.Tensor(outName)
	operands := make([]operand, len(names))
	for i, n := range names {
		operands[i] = c.operand(n)
	}
	params := e.numbers(c)
	return e.run(c, out, operands, func() []kernel.Number { return params })
}

// numbers are the parameters of the kernel. A null scalar is 0.
func (e elementwise) numbers(c *Call) []kernel.Number {
	var params []kernel.Number
	for _, n := range e.params {
		i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == n })
		switch c.op.params[i].class {
		case scalarClass:
			params = append(params, c.Scalar(n).number())
		case boolClass:
			v := 0.0
			if c.Bool(n) {
				v = 1
			}
			params = append(params, kernel.Real(v))
		case intClass:
			params = append(params, kernel.Whole(c.Int(n)))
		default:
			params = append(params, kernel.Real(c.Float(n)))
		}
	}
	for _, f := range e.fixed {
		params = append(params, kernel.Real(f))
	}
	if e.scale != (kernel.Number{}) {
		params[0].F *= e.scale.F
		params[0].I *= e.scale.I
	}
	return params
}

// run checks the operands and returns the computation; params is asked when it runs.
func (e elementwise) run(c *Call, out *Tensor, operands []operand, params func() []kernel.Number) (Run, error) {
	values := operands
	if e.types == selecting || e.types == assigning {
		values = operands[1:]
	}
	compute := promoted(values)
	switch {
	case e.types == assigning:
		compute = out.DType
	case (e.types == floating || e.types == truth) && category(compute) < 2:
		compute = dtype.Float32
	}
	op := e.op
	switch {
	case compute == dtype.Bool && e.bools != 0:
		op = e.bools
	case category(compute) < 2 && e.whole:
		op = kernel.Identity
	}
	result := compute
	if e.types == comparing || e.types == truth {
		result = dtype.Bool
	}
	c.computes(op, compute, out, operands)
	if !castable(result, out.DType) {
		c.Invalid("the result has dtype %v, which cannot be stored in %v; use an output of that dtype or above", result, out)
	}
	for _, n := range e.params {
		if n == "alpha" && !castable(c.Scalar(n).DType, compute) {
			c.Invalid("alpha has dtype %v but the operands have %v; use an alpha of that kind", c.Scalar(n).DType, compute)
		}
	}
	c.broadcasts(out, operands)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		in := make([]kernel.Input, len(operands))
		for i, o := range operands {
			in[i] = o.input()
		}
		return kernel.Map(op, compute, out.stored(), in, params()...)
	}, nil
}

// promoted is the common type of the operands: of the tensors, then of the scalars.
func promoted(operands []operand) dtype.Type {
	d := dtype.Undefined
	for _, o := range operands {
		switch {
		case o.tensor == nil:
		case d == dtype.Undefined:
			d = o.tensor.DType
		default:
			d = promote(d, o.tensor.DType)
		}
	}
	for _, o := range operands {
		switch {
		case o.scalar == nil:
		case d == dtype.Undefined:
			d = promoteScalar(dtype.Bool, o.scalar.DType)
		default:
			d = promoteScalar(d, o.scalar.DType)
		}
	}
	return d
}

// computes refuses element types the kernel cannot work with.
func (c *Call) computes(op kernel.Op, compute dtype.Type, out *Tensor, operands []operand) {
	if !kernel.Defined(op, compute) {
		c.Invalid("operands %v cannot be computed in %v; cast them first", operandsText(operands), compute)
	}
	for _, o := range append([]operand{{tensor: out}}, operands...) {
		if o.tensor != nil && !kernel.Computes(o.tensor.DType) {
			c.Invalid("%v has a dtype that is not supported", o.tensor)
		}
	}
}

func operandsText(operands []operand) []string {
	var s []string
	for _, o := range operands {
		if o.tensor != nil {
			s = append(s, o.tensor.String())
		} else {
			s = append(s, o.scalar.DType.String()+" scalar")
		}
	}
	return s
}

// broadcasts refuses operands whose shapes do not broadcast to exactly that of out, and
// private storage formats that differ: those are computed element by element of storage.
func (c *Call) broadcasts(out *Tensor, operands []operand) {
	shape := []int64{}
	private := isPrivate(out.Format)
	for _, o := range operands {
		if o.tensor == nil {
			continue
		}
		private = private || isPrivate(o.tensor.Format)
		joined, ok := broadcastShape(shape, o.tensor.Shape)
		if !ok {
			c.Invalid("shapes do not broadcast: %v", operandsText(operands))
			return
		}
		shape = joined
	}
	c.Shape(out, shape, "the broadcast shape of "+strings.Join(operandsText(operands), ", "))
	c.Rank(out, 0, kernel.MaxRank)
	if !private {
		return
	}
	for _, o := range operands {
		if o.tensor != nil && (o.tensor.Format != out.Format || !slices.Equal(o.tensor.Storage, out.Storage)) {
			c.Invalid("formats differ: %v and %v; cast one with aclnnNpuFormatCast", o.tensor, out)
		}
	}
}

// broadcastShape is the shape both a and b broadcast to.
func broadcastShape(a, b []int64) ([]int64, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	lead := len(a) - len(b)
	for i, d := range b {
		switch {
		case out[lead+i] == d || d == 1:
		case out[lead+i] == 1:
			out[lead+i] = d
		default:
			return nil, false
		}
	}
	return out, true
}

// stored is View, for a private format of the storage as it lies.
func (t *Tensor) stored() kernel.View {
	if isPrivate(t.Format) {
		return t.As(t.Storage, ContiguousStrides(t.Storage))
	}
	return t.View()
}

// forms makes the table entries of operators that share one definition.
func (e elementwise) forms(names ...string) table {
	t := make(table)
	for _, n := range names {
		t[n] = e.prepare
	}
	return t
}

// merge joins tables of one family.
func merge(tables ...table) table { return table(collect(tables...)) }

var (
	unit     = []float64{1}
	minusOne = kernel.Number{F: -1, I: -1}
)
