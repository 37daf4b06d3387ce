package op

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

// OptionalView returns the view of a tensor, or an empty view if the tensor is nil or has no
// elements.
func OptionalView(t *Tensor) kernel.View {
	if t == nil || t.Len() == 0 {
		return kernel.View{}
	}
	return t.View()
}

// AsVector is like View, but a tensor without dimensions becomes a vector of one element.
func (t *Tensor) AsVector() kernel.View {
	if t.Rank() == 0 {
		return t.As([]int64{1}, []int64{1})
	}
	return t.View()
}

// Along views a vector as a tensor of the given rank that has the vector along axis and size 1 in
// the other dimensions.
func (t *Tensor) Along(axis, rank int) kernel.View {
	v := t.AsVector()
	shape, strides := make([]int64, max(rank, 1)), make([]int64, max(rank, 1))
	for i := range shape {
		shape[i] = 1
	}
	shape[axis], strides[axis] = v.Shape[0], v.Strides[0]
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

// VectorShape returns the shape, or [1] for a tensor without dimensions.
func (t *Tensor) VectorShape() []int64 {
	if t.Rank() == 0 {
		return []int64{1}
	}
	return t.Shape
}

// Divided splits one dimension of a view in two; the outer one has size n.
func Divided(v kernel.View, axis int, n int64) kernel.View {
	inner := v.Shape[axis] / max(n, 1)
	v.Shape = slices.Insert(slices.Clone(v.Shape), axis, n)
	v.Strides = slices.Insert(slices.Clone(v.Strides), axis, v.Strides[axis]*inner)
	v.Shape[axis+1] = inner
	return v
}

// Permuted returns a view with its dimensions in another order.
func Permuted(v kernel.View, order []int64) kernel.View {
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	for i, k := range order {
		shape[i], strides[i] = v.Shape[k], v.Strides[k]
	}
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: strides}
}

// Column views a vector as a matrix of one column.
func Column(v kernel.View) kernel.View {
	v.Shape, v.Strides = []int64{v.Shape[0], 1}, []int64{v.Strides[0], 0}
	return v
}

// Stored is like View, but for a private format that permutes the elements it views the storage.
func (t *Tensor) Stored() kernel.View {
	if t.Permuted() {
		return t.As(t.Storage, ContiguousStrides(t.Storage))
	}
	return t.View()
}

// Halved returns the shape of one half of x along an axis. It refuses an odd size.
func Halved(c *Call, x *Tensor, axis int) []int64 {
	shape := slices.Clone(x.Shape)
	if x.Rank() == 0 || x.Shape[axis]%2 != 0 {
		c.Invalid("dimension %d of %v cannot be halved", axis, x)
		return shape
	}
	shape[axis] /= 2
	return shape
}

// InOrder returns the numbers 0 to n-1.
func InOrder(n int) []int64 {
	p := make([]int64, n)
	for i := range p {
		p[i] = int64(i)
	}
	return p
}

// Axes returns the dimensions 0 to n-1.
func Axes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Shared checks a tensor whose values, one for each of the H columns, apply to all S rows of x
// [..., S, H]. Its shape is [..., H] or [..., 1, H]; the returned view has the latter and is valid
// inside Run only.
func (c *Call) Shared(t, x *Tensor) func() kernel.View {
	c.SameDType(x, t)
	n := x.Rank()
	want := slices.Concat(x.Shape[:max(n-2, 0)], []int64{1}, x.Shape[max(n-1, 0):])
	strides := t.Strides
	if t.Rank() == n-1 && n > 1 {
		c.Shape(t, slices.Concat(x.Shape[:n-2], x.Shape[n-1:]), "x without its rows")
		strides = slices.Concat(t.Strides[:n-2], []int64{0}, t.Strides[n-2:])
	} else {
		c.Shape(t, want, "x with one row")
	}
	return func() kernel.View { return t.As(want, strides) }
}

// PerAxis checks the parameters of an operation on x: a single value, a vector with one value for
// each index of axis, or a tensor that broadcasts to x. Call the returned view in Run.
func (c *Call) PerAxis(t, x *Tensor, axis int) func() kernel.View {
	c.Plain(t)
	c.DType(t, FloatTypes...)
	if t.Rank() == 1 && (t.Len() == 1 || x.Rank() > axis && t.Len() == x.Shape[axis]) {
		return func() kernel.View { return t.Along(axis, x.Rank()) }
	}
	if shape, ok := BroadcastShape(t.Shape, x.Shape); !ok || !slices.Equal(shape, x.Shape) {
		c.Invalid("%v must have one element, one for each place of dimension %d of %v, or broadcast to it", t, axis, x)
	}
	return t.View
}

// Transposed returns the matrix with its last two dimensions swapped if swap is set.
func (c *Call) Transposed(t *Tensor, swap bool) *Tensor {
	if !swap || t.Rank() < 2 {
		return t
	}
	v, n := *t, t.Rank()
	v.Shape, v.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	v.Shape[n-1], v.Shape[n-2] = v.Shape[n-2], v.Shape[n-1]
	v.Strides[n-1], v.Strides[n-2] = v.Strides[n-2], v.Strides[n-1]
	return c.Alias(v, t)
}

// OffDiagonal returns the k-th diagonal of a matrix: k > 0 is above the main diagonal, k < 0 below
// it.
func OffDiagonal(v kernel.View, k int64) kernel.View {
	axis := 1
	if k < 0 {
		axis, k = 0, -k
	}
	n := max(v.Shape[axis]-k, 0)
	if n == 0 {
		return kernel.View{DType: v.DType, Shape: []int64{0}, Strides: []int64{1}}
	}
	return v.Narrow(axis, k, n).Diagonal()
}
