package rowwise

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Chain computes an operator as a sequence of maps and reductions over fp32 temporaries. It
// keeps the first error, and end frees the temporaries.
type Chain struct {
	Compute dtype.Type // class of the arithmetic: Float32, or Float64 for float64 operands
	Err     error
	memory  []unsafe.Pointer // of the temporaries
	few     [8]unsafe.Pointer
	sizes   []int64 // unused room for shapes and strides
	room    [64]int64
}

// NewChain starts a chain in float64 if an operand is float64, else in float32.
func NewChain(operands ...kernel.View) *Chain {
	c := &Chain{Compute: dtype.Float32}
	c.memory, c.sizes = c.few[:0], c.room[:]
	for _, v := range operands {
		if v.DType == dtype.Float64 {
			c.Compute = dtype.Float64
		}
	}
	return c
}

// Temp allocates a temporary in the chain's precision, which end frees.
func (c *Chain) Temp(shape []int64) kernel.View { return c.TempOf(c.Compute, shape) }

// TempOf allocates a temporary of another type.
func (c *Chain) TempOf(d dtype.Type, shape []int64) kernel.View {
	v := kernel.Allocated(d, shape, kernel.SetContiguous(c.list(len(shape)), shape))
	c.memory = append(c.memory, v.Data)
	return v
}

// along allocates a temporary of the given shape but for axes, along which it has one element.
func (c *Chain) along(shape []int64, axes []int) kernel.View {
	one := c.list(len(shape))
	copy(one, shape)
	for _, axis := range axes {
		one[axis] = 1
	}
	return c.Temp(one)
}

// list returns n zeros.
func (c *Chain) list(n int) []int64 {
	if n > len(c.sizes) {
		return make([]int64, n)
	}
	list := c.sizes[:n:n]
	c.sizes = c.sizes[n:]
	return list
}

// Set is out = op(in…), broadcast.
func (c *Chain) Set(out kernel.View, op elementwise.Op, params []elementwise.Number, in ...elementwise.Input) {
	if c.Err == nil {
		c.Err = elementwise.Map(op, c.Compute, out, in, params...)
	}
}

// Mul is out = a · b.
func (c *Chain) Mul(out, a, b kernel.View) {
	c.Set(out, elementwise.Mul, nil, elementwise.Of(a), elementwise.Of(b))
}

// Whole returns a contiguous copy of v with the given shape, in the chain's precision.
func (c *Chain) Whole(v kernel.View, shape ...int64) kernel.View {
	t := c.Temp(v.Shape)
	c.Set(t, elementwise.Identity, nil, elementwise.Of(v))
	return t.Reshaped(shape...)
}

// lent is whole without a copy if v is contiguous and of the chain's type. The result is not to be changed.
func (c *Chain) lent(v kernel.View, shape ...int64) kernel.View {
	if v.DType == c.Compute && v.Contiguous() {
		return v.Reshaped(shape...)
	}
	return c.Whole(v, shape...)
}

// AddTimes is out = a + factor · b · d.
func (c *Chain) AddTimes(out, a kernel.View, factor float64, b, d kernel.View) {
	c.Set(out, elementwise.Addcmul, []elementwise.Number{elementwise.Real(factor)}, elementwise.Of(a), elementwise.Of(b), elementwise.Of(d))
}

// Sub is out = a - b.
func (c *Chain) Sub(out, a, b kernel.View) {
	c.Set(out, elementwise.Add, []elementwise.Number{elementwise.Real(-1)}, elementwise.Of(a), elementwise.Of(b))
}

// Reduce is out = r(in) over axes; out has the shape of the other dimensions.
func (c *Chain) Reduce(r Reduction, out, in kernel.View, axes []int, parameter float64) {
	if c.Err == nil {
		c.Err = Reduce(r, out, in, axes, parameter)
	}
}

// End frees the temporaries and returns the first error.
func (c *Chain) End() error {
	for _, p := range c.memory {
		kernel.Free(p)
	}
	return c.Err
}

// Like allocates a temporary with the shape of v.
func (c *Chain) Like(v kernel.View) kernel.View { return c.Temp(slices.Clone(v.Shape)) }

// Zeros returns a temporary filled with zeros.
func (c *Chain) Zeros(shape ...int64) kernel.View {
	v := c.Temp(shape)
	if c.Err == nil {
		c.Err = elementwise.Zero(v)
	}
	return v
}

// Copy sets out to in, converted to the type of out.
func (c *Chain) Copy(out, in kernel.View) { c.Set(out, elementwise.Identity, nil, elementwise.Of(in)) }
