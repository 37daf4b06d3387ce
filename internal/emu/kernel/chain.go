package kernel

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// chain computes an operator as a sequence of maps and reductions over fp32 temporaries. It
// keeps the first error, and end frees the temporaries.
type chain struct {
	compute dtype.Type // class of the arithmetic: Float32, or Float64 for float64 operands
	err     error
	memory  []unsafe.Pointer // of the temporaries
	few     [8]unsafe.Pointer
	sizes   []int64 // unused room for shapes and strides
	room    [64]int64
}

// newChain starts a chain in float64 if an operand is float64, else in float32.
func newChain(operands ...View) *chain {
	c := &chain{compute: dtype.Float32}
	c.memory, c.sizes = c.few[:0], c.room[:]
	for _, v := range operands {
		if v.DType == dtype.Float64 {
			c.compute = dtype.Float64
		}
	}
	return c
}

// temp allocates a temporary in the chain's precision, which end frees.
func (c *chain) temp(shape []int64) View { return c.tempOf(c.compute, shape) }

// tempOf allocates a temporary of another type.
func (c *chain) tempOf(d dtype.Type, shape []int64) View {
	v := allocated(d, shape, setContiguous(c.list(len(shape)), shape))
	c.memory = append(c.memory, v.Data)
	return v
}

// along allocates a temporary of the given shape but for axes, along which it has one element.
func (c *chain) along(shape []int64, axes []int) View {
	one := c.list(len(shape))
	copy(one, shape)
	for _, axis := range axes {
		one[axis] = 1
	}
	return c.temp(one)
}

// list returns n zeros.
func (c *chain) list(n int) []int64 {
	if n > len(c.sizes) {
		return make([]int64, n)
	}
	list := c.sizes[:n:n]
	c.sizes = c.sizes[n:]
	return list
}

// set is out = op(in…), broadcast.
func (c *chain) set(out View, op Op, params []Number, in ...Input) {
	if c.err == nil {
		c.err = Map(op, c.compute, out, in, params...)
	}
}

// mul is out = a · b.
func (c *chain) mul(out, a, b View) { c.set(out, Mul, nil, Of(a), Of(b)) }

// whole returns a contiguous copy of v with the given shape, in the chain's precision.
func (c *chain) whole(v View, shape ...int64) View {
	t := c.temp(v.Shape)
	c.set(t, Identity, nil, Of(v))
	return t.reshaped(shape...)
}

// lent is whole without a copy if v is contiguous and of the chain's type. The result is not to be changed.
func (c *chain) lent(v View, shape ...int64) View {
	if v.DType == c.compute && v.Contiguous() {
		return v.reshaped(shape...)
	}
	return c.whole(v, shape...)
}

// addTimes is out = a + factor · b · d.
func (c *chain) addTimes(out, a View, factor float64, b, d View) {
	c.set(out, Addcmul, []Number{Real(factor)}, Of(a), Of(b), Of(d))
}

// sub is out = a - b.
func (c *chain) sub(out, a, b View) { c.set(out, Add, []Number{Real(-1)}, Of(a), Of(b)) }

// reduce is out = r(in) over axes; out has the shape of the other dimensions.
func (c *chain) reduce(r Reduction, out, in View, axes []int, parameter float64) {
	if c.err == nil {
		c.err = Reduce(r, out, in, axes, parameter)
	}
}

// end frees the temporaries and returns the first error.
func (c *chain) end() error {
	for _, p := range c.memory {
		free(p)
	}
	return c.err
}

// axesFrom lists the dimensions from lo up to hi.
func axesFrom(lo, hi int) []int { return appendAxes(nil, lo, hi) }

func appendAxes(axes []int, lo, hi int) []int {
	for i := lo; i < hi; i++ {
		axes = append(axes, i)
	}
	return axes
}

// kept inserts dimensions of size 1 at axes into v, the result of reducing a tensor of the
// given rank over axes, so that v broadcasts against the tensor.
func kept(v View, rank int, axes []int) View {
	both := make([]int64, 2*rank)
	k := View{Data: v.Data, DType: v.DType, Shape: both[:rank:rank], Strides: both[rank:]}
	next := 0
	for i := range rank {
		k.Shape[i] = 1
		if !slices.Contains(axes, i) {
			k.Shape[i], k.Strides[i] = v.Shape[next], v.Strides[next]
			next++
		}
	}
	return k
}

// others returns shape without the dimensions axes.
func others(shape []int64, axes []int) []int64 {
	out := make([]int64, 0, len(shape))
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			out = append(out, d)
		}
	}
	return out
}
