package op

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// Either returns the first of the names that the C declaration has. If it has none of them, Either
// returns the first name.
func (c *Call) Either(names ...string) string {
	for _, n := range names {
		if c.Has(n) {
			return n
		}
	}
	return names[0]
}

// OptionalOf returns the optional tensor under the first of the names that the declaration has. It
// returns nil if the declaration has none of them or the tensor is null.
func (c *Call) OptionalOf(names ...string) *Tensor {
	if name := c.Either(names...); c.Has(name) {
		return c.Optional(name)
	}
	return nil
}

// IntOr returns an integer argument, or otherwise if the declaration has no parameter of that name.
func (c *Call) IntOr(name string, otherwise int64) int64 {
	if c.Has(name) {
		return c.Int(name)
	}
	return otherwise
}

// Flag returns the first of the named bool arguments that the declaration has, or false if it has
// none.
func (c *Call) Flag(names ...string) bool {
	name := c.Either(names...)
	return c.Has(name) && c.Bool(name)
}

// Target returns the tensor to update and the tensor that receives the result. They are the same
// tensor for operators that work in place.
func (c *Call) Target() (self, out *Tensor) {
	if c.Has("selfRef") {
		self = c.Tensor("selfRef")
		if c.Has("outRef") {
			return self, c.Tensor("outRef")
		}
		return self, self
	}
	return c.Tensor("self"), c.Tensor("out")
}

// Absent is the tensor that accessors return in place of a missing required one, after they record
// the error.
var Absent = Tensor{DType: dtype.Float32, Format: dtype.ND}

// Named is an argument with a name. Checks of several arguments go through a list of them, so that the first refusal does not
// change from call to call, as it would with a map.
type Named[T any] struct {
	Name  string
	Value T
}

// arg returns the decoded argument. It panics on a name or type that the C declaration does not
// have, since that is a mistake in the operator's code and not in the call.
func arg[T any](c *Call, name string) (v T) {
	if a := c.args[c.index(name)]; a != nil {
		return a.(T)
	}
	return v
}

// number returns the place of a parameter among those of the C declaration.
func (c *Call) number(name string) int {
	i := slices.IndexFunc(c.Op.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("%s has no parameter %q", c.Name(), name))
	}
	return i
}

// index returns the place of a parameter, and notes that the operator looked at it.
func (c *Call) index(name string) int {
	i := c.number(name)
	c.seen |= 1 << i
	return i
}

// Unseen returns the parameters at which neither the operator nor a rule of CANN looked.
func (c *Call) Unseen() (names []string) {
	for i, p := range c.Op.Params {
		if c.seen&(1<<i) == 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// Class returns the class of the named parameter. It panics if the declaration has no such
// parameter.
func (c *Call) Class(name string) Class { return c.Op.Params[c.number(name)].Class }

// Has reports whether the C declaration has a parameter of that name. The operators of one family
// may differ in their parameters.
func (c *Call) Has(name string) bool {
	return slices.ContainsFunc(c.Op.Params, func(p Param) bool { return p.Name == name })
}

// Tensor returns a required tensor. If it is null, the call fails with 161001 and the result is
// Absent.
func (c *Call) Tensor(name string) *Tensor {
	t := arg[*Tensor](c, name)
	if t == nil {
		c.Fail(NullPointer, "%s is null", name)
		return &Absent
	}
	return t
}

// Optional returns a tensor that may be null.
func (c *Call) Optional(name string) *Tensor { return arg[*Tensor](c, name) }

// Tensors returns a tensor list, which is empty if the argument is null. Members are never nil.
func (c *Call) Tensors(name string) []*Tensor { return arg[[]*Tensor](c, name) }

// Scalar returns a required scalar. If it is null, the call fails with 161001 and the result is
// zero.
func (c *Call) Scalar(name string) *Scalar {
	s := arg[*Scalar](c, name)
	if s == nil {
		c.Fail(NullPointer, "%s is null", name)
		return &Scalar{}
	}
	return s
}

// OptionalScalar returns a scalar that may be null.
func (c *Call) OptionalScalar(name string) *Scalar { return arg[*Scalar](c, name) }

// Scalars returns a scalar list, which is empty if the argument is null.
func (c *Call) Scalars(name string) []*Scalar { return arg[[]*Scalar](c, name) }

// Ints returns an aclIntArray, or nil if the argument is null.
func (c *Call) Ints(name string) []int64 { return arg[[]int64](c, name) }

// RequiredInts returns an aclIntArray. If it is null, the call fails with 161001.
func (c *Call) RequiredInts(name string) []int64 {
	if c.args[c.index(name)] == nil {
		c.Fail(NullPointer, "%s is null", name)
	}
	return c.Ints(name)
}

// Floats returns an aclFloatArray, or nil if the argument is null.
func (c *Call) Floats(name string) []float32 { return arg[[]float32](c, name) }

// Bools returns an aclBoolArray, or nil if the argument is null.
func (c *Call) Bools(name string) []bool { return arg[[]bool](c, name) }

// Int returns an integer or enum argument.
func (c *Call) Int(name string) int64 { return arg[int64](c, name) }

// Float returns a double or float argument.
func (c *Call) Float(name string) float64 { return arg[float64](c, name) }

// Bool returns a bool argument.
func (c *Call) Bool(name string) bool { return arg[bool](c, name) }

// Text returns a C string argument, or "" if it is null.
func (c *Call) Text(name string) string { return arg[string](c, name) }

// Needs refuses the first null argument among the parameters that the operator has. An operator of a group calls it
// before it looks for the communicator, since CANN checks all pointers first.
func (c *Call) Needs(params ...string) {
	for _, name := range params {
		if c.Has(name) && c.args[c.number(name)] == nil {
			c.Fail(NullPointer, "%s is null", name)
		}
	}
}

// RequiredText returns a C string argument. If it is null, the call fails with 161001.
func (c *Call) RequiredText(name string) string {
	if c.args[c.index(name)] == nil {
		c.Fail(NullPointer, "%s is null", name)
	}
	return c.Text(name)
}
