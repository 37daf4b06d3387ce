package nn

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// foreach applies an element-wise operator to the members of tensor lists: an entry of the
// tables. Operands are the lists x, x1, x2, x3 and weight in order and, where other says
// so, the scalar; the rest is parameters.
type foreach struct {
	elementwise
	scalar role
}

// role is what the scalar of a foreach operator is to the kernel.
type role int

const (
	noScalar  role = iota
	operandIs      // the last operand
	firstIs        // the first operand
	paramIs        // a parameter
)

// foreachTable are the operators on tensor lists.
var foreachTable = func() table {
	t := table{"ForeachNorm": foreachNorm, "ForeachZeroInplace": foreachZero, "ForeachCopy": foreachCopy, "ForeachRoundOffNumber": foreachRound, "ForeachRoundOffNumberV2": foreachRound}
	add := func(f foreach, names ...string) {
		for _, n := range names {
			t["Foreach"+n] = f.prepare
		}
	}
	for name, op := range map[string]kernel.Op{
		"Abs": kernel.Abs, "Neg": kernel.Neg, "Sign": kernel.Sign, "Acos": kernel.Acos, "Asin": kernel.Asin, "Atan": kernel.Atan,
		"Cos": kernel.Cos, "Cosh": kernel.Cosh, "Erf": kernel.Erf, "Erfc": kernel.Erfc, "Exp": kernel.Exp, "Expm1": kernel.Expm1,
		"Log": kernel.Log, "Log10": kernel.Log10, "Log1p": kernel.Log1p, "Log2": kernel.Log2, "Reciprocal": kernel.Reciprocal,
		"Sigmoid": kernel.Sigmoid, "Sin": kernel.Sin, "Sinh": kernel.Sinh, "Sqrt": kernel.Sqrt, "Tan": kernel.Tan, "Tanh": kernel.Tanh,
	} {
		add(foreach{elementwise: elementwise{op: op}}, name)
	}
	plus, minus := elementwise{op: kernel.Add}, elementwise{op: kernel.Add, scale: minusOne}
	add(foreach{plus, paramIs}, "AddList", "AddListV2")
	add(foreach{minus, paramIs}, "SubList", "SubListV2")
	plus.fixed, minus.fixed = unit, unit
	for name, e := range map[string]elementwise{
		"Add": plus, "Sub": minus, "Mul": {op: kernel.Mul}, "Div": {op: kernel.Div}, "Maximum": {op: kernel.Max},
		"Minimum": {op: kernel.Min}, "Pow": {op: kernel.Pow},
	} {
		add(foreach{e, operandIs}, name+"Scalar", name+"ScalarV2", name+"ScalarList")
	}
	for name, op := range map[string]kernel.Op{
		"Mul": kernel.Mul, "Div": kernel.Div, "Maximum": kernel.Max, "Minimum": kernel.Min, "Pow": kernel.Pow, "Lerp": kernel.Lerp,
	} {
		add(foreach{elementwise: elementwise{op: op}}, name+"List")
	}
	add(foreach{elementwise{op: kernel.Lerp}, operandIs}, "LerpScalar")
	add(foreach{elementwise{op: kernel.Pow}, firstIs}, "PowScalarAndTensor")
	for name, op := range map[string]kernel.Op{"Addcmul": kernel.Addcmul, "Addcdiv": kernel.Addcdiv} {
		add(foreach{elementwise{op: op}, paramIs}, name+"List", name+"Scalar", name+"ScalarList", name+"ScalarV2")
	}
	return t
}()

// lists reads the tensor lists of the call: the inputs, and the outputs, which without a
// list named out are the first input. All must be equally long and not empty.
func (c *Call) lists() (in [][]*Tensor, out []*Tensor) {
	for _, p := range c.op.params {
		if p.class != tensorListClass || p.name == "scalars" {
			continue
		}
		list := c.Tensors(p.name)
		if p.name == "out" {
			out = list
		} else {
			in = append(in, list)
		}
		if len(list) == 0 {
			c.Fail(nullPointer, "%s is null or empty", p.name)
		} else if len(list) != len(in[0]) {
			c.Invalid("%s has %d tensors, the first list has %d", p.name, len(list), len(in[0]))
		}
	}
	if out == nil && len(in) > 0 {
		out = in[0]
	}
	return in, out
}

// member is the scalar of the i-th member of the lists: an aclScalar shared by all, one of
// a scalar list, or an element of device memory, which is read when the operator runs.
func (c *Call) member(i, n int) (o operand, element int64) {
	for _, name := range []string{"scalar", "scalars", "alpha", "weight", "roundMode"} {
		for _, p := range c.op.params {
			if p.name != name {
				continue
			}
			switch p.class {
			case scalarClass:
				return operand{scalar: c.Scalar(name)}, 0
			case scalarListClass:
				if list := c.Scalars(name); len(list) == n {
					return operand{scalar: list[i]}, 0
				}
				c.Invalid("%s has %d entries for %d tensors", name, len(c.Scalars(name)), n)
			case tensorListClass:
				if list := c.Tensors(name); name == "scalars" && len(list) == n {
					return operand{tensor: list[i]}, 0
				}
			case tensorClass:
				t := c.Tensor(name)
				if t.Len() == int64(n) && t.Rank() > 0 && t.Contiguous() {
					return operand{tensor: t}, int64(i)
				}
				if t.Len() != 1 {
					c.Invalid("%v must have one element, or one for each of the %d tensors", t, n)
				}
				return operand{tensor: t}, 0
			}
		}
	}
	return operand{scalar: &Scalar{}}, 0
}

// value reads element i of a small tensor, or the scalar.
func (o operand) value(i int64) kernel.Number {
	if o.scalar != nil {
		return o.scalar.number()
	}
	t := o.tensor
	s := Scalar{DType: t.DType}
	stride := int64(0)
	if t.Rank() > 0 {
		stride = t.Strides[0]
	}
	size := int64(t.DType.Size())
	copy(s.Bits[:size], unsafe.Slice((*byte)(unsafe.Add(t.host, i*stride*size)), size))
	return s.number()
}

func (f foreach) prepare(c *Call) (Run, error) {
	in, out := c.lists()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []Run
	for i := range out {
		var operands []operand
		for _, list := range in {
			operands = append(operands, operand{tensor: list[i]})
		}
		first := operands[0].tensor
		for _, o := range operands[1:] {
			c.Same(first, o.tensor)
		}
		c.Same(first, out[i])
		run, err := f.member(c, out[i], operands, i, len(out))
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return sequence(runs), nil
}

// sequence runs computations one after the other.
func sequence(runs []Run) Run {
	return func(x *Exec) error {
		for _, run := range runs {
			if err := run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// member is the computation of the i-th of n members. A scalar never changes the type of a
// tensor, so it is read as a number when the computation runs.
func (f foreach) member(c *Call, out *Tensor, tensors []operand, i, n int) (Run, error) {
	compute := out.DType
	c.computes(f.op, compute, out, tensors)
	c.broadcasts(out, tensors)
	var scalar operand
	var element int64
	if f.scalar != noScalar {
		scalar, element = c.member(i, n)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		var in []kernel.Input
		for _, t := range tensors {
			in = append(in, t.input())
		}
		var params []kernel.Number
		if f.scalar == paramIs {
			params = append(params, scalar.value(element))
		}
		for _, p := range f.fixed {
			params = append(params, kernel.Real(p))
		}
		if f.scale != (kernel.Number{}) {
			params[0].F *= f.scale.F
			params[0].I *= f.scale.I
		}
		switch f.scalar {
		case operandIs:
			in = append(in, kernel.Const(scalar.value(element)))
		case firstIs:
			in = append([]kernel.Input{kernel.Const(scalar.value(element))}, in...)
		}
		return kernel.Map(f.op, compute, out.stored(), in, params...)
	}, nil
}

// foreachNorm computes the p-norm of every tensor; every output has one element.
func foreachNorm(c *Call) (Run, error) {
	in, out := c.lists()
	p := c.Scalar("scalar").Float64()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []Run
	for i, x := range in[0] {
		y := out[i]
		c.plain(x, y)
		if !x.DType.IsFloat() || !y.DType.IsFloat() || !kernel.Computes(x.DType) || !kernel.Computes(y.DType) {
			c.Invalid("%v and %v must have floating-point dtypes", x, y)
		}
		if y.Len() != 1 {
			c.Invalid("%v must have one element", y)
		}
		axes := make([]int, x.Rank())
		for k := range axes {
			axes[k] = k
		}
		runs = append(runs, func(*Exec) error {
			return kernel.Reduce(kernel.ReduceNorm, y.As([]int64{}, []int64{}), x.View(), axes, p)
		})
	}
	return sequence(runs), c.Err()
}

// foreachRound rounds in a way that a number tells, which may lie in device memory.
func foreachRound(c *Call) (Run, error) {
	in, out := c.lists()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []Run
	for i, x := range in[0] {
		y := out[i]
		c.plain(x, y)
		c.DType(x, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int16)
		c.SameDType(in[0][0], x)
		c.Same(x, y)
		mode, element := c.member(0, 1)
		runs = append(runs, func(*Exec) error { return kernel.RoundOff(y.View(), x.View(), mode.value(element).I) })
	}
	return sequence(runs), c.Err()
}

func foreachZero(c *Call) (Run, error) {
	in, _ := c.lists()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []Run
	for _, x := range in[0] {
		runs = append(runs, func(*Exec) error { return kernel.Zero(x.stored()) })
	}
	return sequence(runs), nil
}

func foreachCopy(c *Call) (Run, error) {
	in, out := c.lists()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []Run
	for i, x := range in[0] {
		y := out[i]
		c.SameShape(x, y)
		c.copies(y, x)
		c.sameStorage(y, x)
		runs = append(runs, func(*Exec) error { return kernel.Copy(y.stored(), x.stored()) })
	}
	return sequence(runs), c.Err()
}
