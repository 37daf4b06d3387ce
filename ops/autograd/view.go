package autograd

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Reshape views x, which is contiguous, with another shape; one dimension may be −1. Its memory is that of x.
func (t *Tape) Reshape(x *Var, shape ...int64) *Var {
	return t.view("reshape", x, func(v *aclnn.Tensor) *aclnn.Tensor { return v.Reshape(shape...) },
		func(d *aclnn.Tensor) *aclnn.Tensor { return d.Reshape(x.like.Shape()...) }, true)
}

// Transpose views x with two dimensions exchanged.
func (t *Tape) Transpose(x *Var, i, j int) *Var {
	swap := func(v *aclnn.Tensor) *aclnn.Tensor { return v.Transpose(i, j) }
	return t.view("transpose", x, swap, swap, false)
}

// Unflatten views a dimension of x as several ones.
func (t *Tape) Unflatten(x *Var, axis int, sizes ...int64) *Var {
	return t.view("unflatten", x, func(v *aclnn.Tensor) *aclnn.Tensor { return v.Unflatten(axis, sizes...) },
		func(d *aclnn.Tensor) *aclnn.Tensor { return d.Reshape(x.like.Shape()...) }, true)
}

// Join copies the features of parts one after another: the first lead dimensions are the same in all of them, and the others of each are
// flattened. The result has lead+1 dimensions.
func (t *Tape) Join(lead int, parts ...*Var) *Var {
	c := t.begin("join", parts...)
	if c == nil {
		return t.failed()
	}
	if len(parts) == 0 {
		t.Fail(fmt.Errorf("join: %w: there are no parts", acl.ErrInvalidArgument))
		return t.failed()
	}
	first := parts[0].Shape()
	views, total, wide := make([]func(*aclnn.Tensor) *aclnn.Tensor, len(parts)), int64(0), false
	for i, p := range parts {
		shape := p.Shape()
		if len(shape) <= lead || len(first) <= lead || !slices.Equal(shape[:lead], first[:lead]) || p.Value.DType() != parts[0].Value.DType() {
			t.Fail(fmt.Errorf("join: %w: part %d is %v and part 0 %v; they must have one dtype, the same first %d dimensions, and more", acl.ErrInvalidArgument, i, p, parts[0], lead))
			return t.failed()
		}
		width, at := int64(1), total
		for _, d := range shape[lead:] {
			width *= d
		}
		views[i] = func(whole *aclnn.Tensor) *aclnn.Tensor {
			if v := whole.Narrow(lead, at, width); len(shape) > lead+1 {
				return v.Unflatten(lead, shape[lead:]...)
			} else {
				return v
			}
		}
		total += width
		wide = wide || p.needs && p.wide
	}
	out := c.Output(parts[0].Value.DType(), append(first[:lead:lead], total)...)
	for i, p := range parts {
		c.Do(func() error { return aclnn.Copy(t.st, views[i](out), p.Value) })
	}
	c.Backward(func(g *Gradients) {
		for i := range parts {
			g.Pass(i, 0, views[i])
		}
	})
	v := c.end()[0]
	v.wide = wide
	return v
}

// Repeat repeats each element of a dimension so many times, one after another, as keys and values are for the ranks that share a head. The gradient is
// summed over the copies (aclnnReduceSum).
func (t *Tape) Repeat(x *Var, axis int, times int64) *Var {
	c := t.begin("repeat", x)
	if c == nil {
		return t.failed()
	}
	if axis < 0 || axis >= x.Value.Rank() || times < 1 {
		t.Fail(fmt.Errorf("repeat: %w: axis %d of %v, %d times; the axis must be one of its dimensions, and the number positive", acl.ErrInvalidArgument, axis, x, times))
		return t.failed()
	}
	if times == 1 {
		return x
	}
	n, shape := x.Dim(axis), x.Shape()
	shape[axis] *= times
	out := c.Output(x.Value.DType(), shape...)
	c.Do(func() error { return aclnn.Copy(t.st, out.Unflatten(axis, n, times), x.Value.Unsqueeze(axis+1)) })
	c.Backward(func(g *Gradients) {
		d, dx := g.Output(0), g.Input(0)
		launch(t, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: d.Unflatten(axis, n, times), Dims: []int64{int64(axis + 1)}, Dtype: dx.DType(), Out: dx})
	})
	return c.end()[0]
}

// view records a view of x, whose gradient is the inverse view of that of the result.
func (t *Tape) view(name string, x *Var, forward, back func(*aclnn.Tensor) *aclnn.Tensor, contiguous bool) *Var {
	c := t.begin(name, x)
	if c == nil {
		return t.failed()
	}
	c.View(x, forward(x.Value))
	out := c.n.outputs[0]
	out.wide = x.wide
	out.view = &viewed{of: forward, base: func() (*aclnn.Tensor, *memory) { return t.place(x) }}
	c.Backward(func(g *Gradients) {
		if at := out.view.placed; at.view != nil && at.view == out.grad.tensor { // it lies in the gradient of x
			out.grad.mem.refs++
			t.contribute(x, gradient{tensor: at.base, mem: out.grad.mem})
			return
		}
		if d := g.Output(0); contiguous && !d.Contiguous() {
			launch(t, aclnn.InplaceCopy, aclnn.InplaceCopyParams{Self: forward(g.Input(0)), Src: d})
			return
		}
		g.Pass(0, 0, back)
	})
	return c.end()[0]
}

// Split views parts of x along an axis, one after another, whose sizes sum up to that dimension. The gradient of a part on which
// nothing depends is zero.
func (t *Tape) Split(x *Var, axis int, sizes ...int64) []*Var {
	c := t.begin("split", x)
	if c == nil {
		failed := make([]*Var, len(sizes))
		for i := range failed {
			failed[i] = t.failed()
		}
		return failed
	}
	at := int64(0)
	var whole gradient // of x, in which the gradients of the parts lie if their operators can write them there
	base := func() (*aclnn.Tensor, *memory) {
		if whole.tensor == nil {
			whole.tensor, whole.mem = t.place(x)
			if whole.tensor == nil {
				return nil, nil
			}
			whole.mem.refs++
			c.n.kept = append(c.n.kept, whole.mem)
		}
		return whole.tensor, whole.mem
	}
	for _, n := range sizes {
		from := at
		part := func(v *aclnn.Tensor) *aclnn.Tensor { return v.Narrow(axis, from, n) }
		c.View(x, part(x.Value))
		c.n.outputs[len(c.n.outputs)-1].view = &viewed{of: part, base: base}
		at += n
	}
	if at != x.Dim(axis) {
		t.Fail(fmt.Errorf("split: %w: the parts %v sum up to %d, and dimension %d of %v has %d", acl.ErrInvalidArgument, sizes, at, axis, x, x.Dim(axis)))
	}
	c.Backward(func(g *Gradients) {
		if base(); whole.tensor == nil {
			return
		}
		for i, v := range c.n.outputs {
			part := v.view.of(whole.tensor)
			switch d := g.Output(i); {
			case d == nil:
				launch(t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: part})
			case d.Address() != part.Address() || v.grad.mem != whole.mem:
				g.Do(func() error { return aclnn.Copy(t.st, part, d) })
			}
		}
		whole.mem.refs++
		t.contribute(x, whole)
	})
	return slices.Clone(c.end()) // the node's own list is not the caller's
}

// Narrow views a part of x along an axis. The gradient of the rest is zero.
func (t *Tape) Narrow(x *Var, axis int, from, length int64) *Var {
	parts, at := []int64{}, 0
	if from > 0 {
		parts, at = append(parts, from), 1
	}
	parts = append(parts, length)
	if rest := x.Dim(axis) - from - length; rest > 0 {
		parts = append(parts, rest)
	}
	return t.Split(x, axis, parts...)[at]
}

// Contiguous copies x if it has gaps, so that it can be reshaped; else it returns x itself.
func (t *Tape) Contiguous(x *Var) *Var {
	c := t.begin("contiguous", x)
	if c == nil {
		return t.failed()
	}
	if x.Value.Contiguous() {
		return x
	}
	out := c.Output(x.Value.DType(), x.Shape()...)
	c.Do(func() error { return aclnn.Copy(t.st, out, x.Value) })
	c.Backward(func(g *Gradients) { g.Pass(0, 0, nil) })
	v := c.end()[0]
	v.wide = x.wide
	return v
}
