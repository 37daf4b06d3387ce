package foreach

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rounding"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// foreach defines an element-wise operator on the members of tensor lists. Its operands are the
// lists x, x1, x2, x3 and weight in this order and, depending on the role, the scalar. The other
// lists and scalars are parameters.
type foreach struct {
	pointwise.Form
	scalar role
}

// role is how a foreach operator passes its scalar to the kernel.
type role int

const (
	noScalar  role = iota
	operandIs      // the last operand
	firstIs        // the first operand
	paramIs        // a parameter
)

// foreachTable are the operators on tensor lists.
var foreachTable = func() op.Table {
	t := op.Table{"ForeachNorm": foreachNorm, "ForeachZeroInplace": foreachZero, "ForeachCopy": foreachCopy, "ForeachRoundOffNumber": foreachRound, "ForeachRoundOffNumberV2": foreachRound}
	add := func(f foreach, names ...string) {
		for _, n := range names {
			t["Foreach"+n] = f.prepare
		}
	}
	for name, op := range map[string]elementwise.Op{
		"Abs": elementwise.Abs, "Neg": elementwise.Neg, "Sign": elementwise.Sign, "Acos": elementwise.Acos, "Asin": elementwise.Asin, "Atan": elementwise.Atan,
		"Cos": elementwise.Cos, "Cosh": elementwise.Cosh, "Erf": elementwise.Erf, "Erfc": elementwise.Erfc, "Exp": elementwise.Exp, "Expm1": elementwise.Expm1,
		"Log": elementwise.Log, "Log10": elementwise.Log10, "Log1p": elementwise.Log1p, "Log2": elementwise.Log2, "Reciprocal": elementwise.Reciprocal,
		"Sigmoid": elementwise.Sigmoid, "Sin": elementwise.Sin, "Sinh": elementwise.Sinh, "Sqrt": elementwise.Sqrt, "Tan": elementwise.Tan, "Tanh": elementwise.Tanh,
	} {
		add(foreach{Form: pointwise.Form{Op: op}}, name)
	}
	plus, minus := pointwise.Form{Op: elementwise.Add}, pointwise.Form{Op: elementwise.Add, Scale: pointwise.MinusOne}
	add(foreach{plus, paramIs}, "AddList", "AddListV2")
	add(foreach{minus, paramIs}, "SubList", "SubListV2")
	plus.Fixed, minus.Fixed = pointwise.Unit, pointwise.Unit
	for name, e := range map[string]pointwise.Form{
		"Add": plus, "Sub": minus, "Mul": {Op: elementwise.Mul}, "Div": {Op: elementwise.Div}, "Maximum": {Op: elementwise.Max},
		"Minimum": {Op: elementwise.Min}, "Pow": {Op: elementwise.Pow},
	} {
		add(foreach{e, operandIs}, name+"Scalar", name+"ScalarV2", name+"ScalarList")
	}
	for name, op := range map[string]elementwise.Op{
		"Mul": elementwise.Mul, "Div": elementwise.Div, "Maximum": elementwise.Max, "Minimum": elementwise.Min, "Pow": elementwise.Pow, "Lerp": elementwise.Lerp,
	} {
		add(foreach{Form: pointwise.Form{Op: op}}, name+"List")
	}
	add(foreach{pointwise.Form{Op: elementwise.Lerp}, operandIs}, "LerpScalar")
	add(foreach{pointwise.Form{Op: elementwise.Pow}, firstIs}, "PowScalarAndTensor")
	for name, op := range map[string]elementwise.Op{"Addcmul": elementwise.Addcmul, "Addcdiv": elementwise.Addcdiv} {
		add(foreach{pointwise.Form{Op: op}, paramIs}, name+"List", name+"Scalar", name+"ScalarList", name+"ScalarV2")
	}
	for name, f := range map[string]inplace{
		"ACosInplace": {foreach: foreach{Form: pointwise.Form{Op: elementwise.Acos}}}, "LogInplace": {foreach: foreach{Form: pointwise.Form{Op: elementwise.Log}}},
		"DivListInplace": {foreach: foreach{Form: pointwise.Form{Op: elementwise.Div}}}, "MulListInplace": {foreach: foreach{Form: pointwise.Form{Op: elementwise.Mul}}, whole: true},
		"AddListInplace": {foreach: foreach{pointwise.Form{Op: elementwise.Add}, paramIs}, whole: true}, "SubListInplace": {foreach: foreach{pointwise.Form{Op: elementwise.Add, Scale: pointwise.MinusOne}, paramIs}, whole: true},
		"MulScalarInplace": {foreach: foreach{pointwise.Form{Op: elementwise.Mul}, operandIs}, whole: true}, "SubScalarInplace": {foreach: foreach{minus, operandIs}, whole: true},
	} {
		t["Foreach"+name] = f.prepare
	}
	return t.Overwrites("ForeachZeroInplace")
}()

// inplace is an operator of the Ascend950 that writes into its first list. CANN's build generates its checks from the definition
// of the operator, which lists the types. whole says that int32 is one of them.
type inplace struct {
	foreach
	whole bool
}

func (f inplace) prepare(c *op.Call) (op.Run, error) {
	in, _ := lists(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	types := []dtype.Type{dtype.Float16, dtype.Float32, dtype.BFloat16}
	if f.whole {
		types = append(types, dtype.Int32)
	}
	for _, t := range slices.Concat(in...) {
		c.DType(t, types...)
	}
	for _, name := range []string{"alpha", "scalar"} {
		if !c.Has(name) {
			continue
		}
		of := []dtype.Type{in[0][0].DType}
		switch {
		case of[0] == dtype.BFloat16:
			of[0] = dtype.Float32
		case of[0] == dtype.Float16 && name == "scalar":
			of = append(of, dtype.Float32)
		}
		c.DType(c.Tensor(name), of...)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return f.foreach.prepare(c)
}

// lists reads the tensor lists of the call: the inputs and the outputs. Without a list named out,
// the first input is also the output. The lists must have the same length and must not be empty.
func lists(c *op.Call) (in [][]*op.Tensor, out []*op.Tensor) {
	for _, p := range c.Op.Params {
		if p.Class != op.TensorListClass || p.Name == "scalars" {
			continue
		}
		list := c.Tensors(p.Name)
		if p.Name == "out" {
			out = list
		} else {
			in = append(in, list)
		}
		if len(list) == 0 {
			c.Fail(op.NullPointer, "%s is null or empty", p.Name)
		} else if len(list) != len(in[0]) {
			c.Invalid("%s has %d tensors, the first list has %d", p.Name, len(list), len(in[0]))
		}
	}
	if out == nil && len(in) > 0 {
		out = in[0]
	}
	return in, out
}

// member returns the scalar for member i of the lists. It is an aclScalar for all members, an
// element of a scalar list, or an element of device memory, which is read when the operator runs.
func member(c *op.Call, i, n int) (o pointwise.Operand, element int64) {
	for _, name := range []string{"scalar", "scalars", "alpha", "weight", "roundMode"} {
		for _, p := range c.Op.Params {
			if p.Name != name {
				continue
			}
			switch p.Class {
			case op.ScalarClass:
				return pointwise.Operand{Scalar: c.Scalar(name)}, 0
			case op.ScalarListClass:
				if list := c.Scalars(name); len(list) == n {
					return pointwise.Operand{Scalar: list[i]}, 0
				}
				c.Invalid("%s has %d entries for %d tensors", name, len(c.Scalars(name)), n)
			case op.TensorListClass:
				if list := c.Tensors(name); name == "scalars" && len(list) == n {
					c.Countable(list[i])
					return pointwise.Operand{Tensor: list[i]}, 0
				}
			case op.TensorClass:
				t := c.Tensor(name)
				c.Countable(t)
				if t.Len() == int64(n) && t.Rank() > 0 && t.Contiguous() {
					return pointwise.Operand{Tensor: t}, int64(i)
				}
				if t.Len() != 1 {
					c.Invalid("%v must have one element, or one for each of the %d tensors", t, n)
				}
				return pointwise.Operand{Tensor: t}, 0
			}
		}
	}
	return pointwise.Operand{Scalar: &op.Scalar{}}, 0
}

// value returns the scalar, or element i of a small tensor.
func value(o pointwise.Operand, i int64) elementwise.Number {
	if o.Scalar != nil {
		return o.Scalar.Number()
	}
	t := o.Tensor
	s := op.Scalar{DType: t.DType}
	stride := int64(0)
	if t.Rank() > 0 {
		stride = t.Strides[0]
	}
	size := int64(t.DType.Size())
	copy(s.Bits[:size], unsafe.Slice((*byte)(unsafe.Add(t.Data, i*stride*size)), size))
	return s.Number()
}

func (f foreach) prepare(c *op.Call) (op.Run, error) {
	in, out := lists(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []op.Run
	for i := range out {
		var operands []pointwise.Operand
		for _, list := range in {
			operands = append(operands, pointwise.Operand{Tensor: list[i]})
		}
		first := operands[0].Tensor
		for _, o := range operands[1:] {
			c.Same(first, o.Tensor)
		}
		c.Same(first, out[i])
		run, err := f.member(c, out[i], operands, i, len(out))
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	c.HandlesOverlapOfMembers(append(in, out)...)
	return op.Sequence(runs), nil
}

// member returns the computation of member i of n. A scalar never changes the type of a tensor, so
// it is read as a number when the computation runs.
func (f foreach) member(c *op.Call, out *op.Tensor, tensors []pointwise.Operand, i, n int) (op.Run, error) {
	compute := out.DType
	bounds, whole := bounds[compute]
	if whole = whole && (f.Op == elementwise.Exp || f.Op == elementwise.Expm1); whole {
		compute = dtype.Float32
	}
	pointwise.Computes(c, f.Op, compute, out, tensors)
	pointwise.Broadcasts(c, out, tensors)
	var scalar pointwise.Operand
	var element int64
	if f.scalar != noScalar {
		scalar, element = member(c, i, n)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		var in []elementwise.Input
		for _, t := range tensors {
			in = append(in, t.Input())
		}
		var params []elementwise.Number
		if f.scalar == paramIs {
			params = append(params, value(scalar, element))
		}
		for _, p := range f.Fixed {
			params = append(params, elementwise.Real(p))
		}
		if f.Scale != (elementwise.Number{}) {
			params[0].F *= f.Scale.F
			params[0].I *= f.Scale.I
		}
		switch f.scalar {
		case operandIs:
			in = append(in, elementwise.Const(value(scalar, element)))
		case firstIs:
			in = append([]elementwise.Input{elementwise.Const(value(scalar, element))}, in...)
		}
		if whole {
			return rounded(f.Op, out.Stored(), in, bounds)
		}
		return elementwise.Map(f.Op, compute, out.Stored(), in, params...)
	}, nil
}

// bounds are the smallest and the largest of the integers whose exponentials the device has.
var bounds = map[dtype.Type][2]float64{dtype.Int8: {-128, 127}, dtype.Uint8: {0, 255}, dtype.Int16: {-32768, 32767}}

// rounded computes integers in float32 and stores the nearest ones within bounds.
func rounded(fn elementwise.Op, out kernel.View, in []elementwise.Input, bounds [2]float64) error {
	x, release := kernel.TemporaryOf(dtype.Float32, out.Shape...)
	defer release()
	if err := elementwise.Map(fn, dtype.Float32, x, in); err != nil {
		return err
	}
	if err := elementwise.Map(elementwise.Round, dtype.Float32, x, []elementwise.Input{elementwise.Of(x)}); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Clamp, dtype.Float32, out, []elementwise.Input{elementwise.Of(x), elementwise.Const(elementwise.Real(bounds[0])), elementwise.Const(elementwise.Real(bounds[1]))})
}

// foreachNorm computes the p-norm of every tensor. Each output has one element.
func foreachNorm(c *op.Call) (op.Run, error) {
	in, out := lists(c)
	p := c.Scalar("scalar").Float64()
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []op.Run
	for i, x := range in[0] {
		y := out[i]
		c.Plain(x, y)
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
		runs = append(runs, func(*op.Exec) error {
			return rowwise.Reduce(rowwise.ReduceNorm, y.As([]int64{}, []int64{}), x.View(), axes, p)
		})
	}
	return op.Sequence(runs), c.Err()
}

// foreachRound rounds in the mode that a number selects. The number may be in device memory.
func foreachRound(c *op.Call) (op.Run, error) {
	in, out := lists(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []op.Run
	for i, x := range in[0] {
		y := out[i]
		c.Plain(x, y)
		c.DType(x, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int16)
		c.SameDType(in[0][0], x)
		c.Same(x, y)
		mode, element := member(c, 0, 1)
		runs = append(runs, func(*op.Exec) error { return rounding.Off(y.View(), x.View(), value(mode, element).I) })
	}
	return op.Sequence(runs), c.Err()
}

func foreachZero(c *op.Call) (op.Run, error) {
	in, _ := lists(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []op.Run
	for _, x := range in[0] {
		if x.DType.Size() == 0 {
			c.Invalid("%v has a dtype that is not supported", x)
			return nil, c.Err()
		}
		runs = append(runs, func(*op.Exec) error { return elementwise.Zero(x.Stored()) })
	}
	return op.Sequence(runs), nil
}

func foreachCopy(c *op.Call) (op.Run, error) {
	in, out := lists(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	var runs []op.Run
	for i, x := range in[0] {
		y := out[i]
		c.SameShape(x, y)
		c.Copies(y, x)
		c.SameStorage(y, x)
		runs = append(runs, func(*op.Exec) error { return elementwise.Copy(y.Stored(), x.Stored()) })
	}
	return op.Sequence(runs), c.Err()
}
