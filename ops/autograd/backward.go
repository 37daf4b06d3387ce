package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Backward computes the gradients of a loss, a variable with one element, with respect to all parameters that it depends on. It
// queues the work, frees what the operators kept, and ends the tape: nothing can be recorded after it.
func (t *Tape) Backward(loss *Var) error {
	if t.startBackward(loss) {
		if loss.Value.Len() != 1 {
			t.Fail(fmt.Errorf("backward: %w: the loss is %v; it must have one element, or give its gradient to BackwardFrom", acl.ErrInvalidArgument, loss))
			return t.err
		}
		loss.grad = gradient{one: true}
		t.run(0)
		t.done = true
	}
	return t.err
}

// BackwardFrom computes the gradients of Σ outputs·gradients, as a pipeline stage does that receives the gradients of its outputs.
// Gradients are like the outputs; a nil one is zero.
func (t *Tape) BackwardFrom(outputs []*Var, gradients []*aclnn.Tensor) error {
	if t.err == nil && len(outputs) != len(gradients) {
		t.Fail(fmt.Errorf("backward: %w: there are %d outputs and %d gradients", acl.ErrInvalidArgument, len(outputs), len(gradients)))
	}
	for i, v := range outputs {
		if !t.startBackward(v) {
			return t.err
		}
		if g := gradients[i]; g != nil {
			// The caller's memory: the extra need keeps the tape from writing to it or freeing it.
			t.contribute(v, gradient{tensor: g, mem: &memory{refs: 2}})
		}
	}
	if t.err == nil {
		t.run(0)
		t.done = true
	}
	return t.err
}

func (t *Tape) startBackward(v *Var) bool {
	if !t.usable("backward", "the output", v) {
		return false
	}
	switch {
	case t.opts.NoGrad:
		t.Fail(fmt.Errorf("backward: %w: the tape was made with NoGrad and has recorded nothing", acl.ErrInvalidArgument))
	case v.tape == nil:
		t.Fail(fmt.Errorf("backward: %w: %v is a parameter or an input; no operator of this tape has computed it", acl.ErrInvalidArgument, v))
	case !v.needs || v.node == nil:
		t.Fail(fmt.Errorf("backward: %w: %v depends on no parameter with a gradient", acl.ErrInvalidArgument, v))
	}
	return t.err == nil
}

// run runs the backward pass of the nodes from number first on, last first, and removes them.
func (t *Tape) run(first int) {
	t.backward = true
	for i := len(t.nodes) - 1; i >= first; i-- {
		n := t.nodes[i]
		t.nodes = t.nodes[:i]
		if t.err == nil && n.reached() {
			outer := t.block
			t.block = n.block
			g := &Gradients{t: t, n: n}
			n.backward(g)
			g.end()
			t.block = outer
		}
		t.finish(n)
		t.complete(n)
	}
}

// reached reports whether a gradient of an output exists.
func (n *node) reached() bool {
	for _, v := range n.outputs {
		if v.grad.present() {
			return true
		}
	}
	return false
}

// complete announces the parameters of which a node was the last one to write the gradient. That of a parameter on which
// no result depends is zero.
func (t *Tape) complete(n *node) {
	for _, p := range n.params {
		if p.uses--; p.uses > 0 {
			continue
		}
		if !p.wrote && !t.opts.Accumulate {
			launch(t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: p.Grad})
		}
		p.wrote = true
		if t.opts.Complete != nil {
			t.do(func() error { return t.opts.Complete(p) })
		}
	}
}

// contribute adds a gradient to that of a variable. The need of g's memory becomes the variable's.
func (t *Tape) contribute(v *Var, g gradient) {
	switch {
	case t.err != nil:
		t.drop(g.mem)
	case v.tape == nil:
		t.write(v, g.tensor)
		t.drop(g.mem)
	case v.grad.tensor == nil && !v.grad.one:
		v.grad = g
	default:
		t.materialize(v)
		a := v.grad
		switch {
		case a.mem.refs == 1: // nobody else needs it
			launch(t, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: a.tensor, Other: g.tensor, Alpha: aclnn.Float(1)})
			t.drop(g.mem)
		case g.mem.refs == 1:
			launch(t, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: g.tensor, Other: a.tensor, Alpha: aclnn.Float(1)})
			v.grad = g
			t.drop(a.mem)
		default:
			sum, mem := t.allocate(a.tensor.DType(), a.tensor.Shape()...)
			launch(t, aclnn.Add, aclnn.AddParams{Self: a.tensor, Other: g.tensor, Alpha: aclnn.Float(1), Out: sum})
			t.drop(a.mem)
			t.drop(g.mem)
			if mem != nil {
				mem.refs++
			}
			v.grad = gradient{tensor: sum, mem: mem}
		}
	}
}

// write writes a gradient to that of a parameter, or adds it.
func (t *Tape) write(p *Var, g *aclnn.Tensor) {
	if p.wrote || t.opts.Accumulate {
		launch(t, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: p.Grad, Other: g, Alpha: aclnn.Float(1)})
	} else {
		t.do(func() error { return aclnn.Copy(t.st, p.Grad, g) })
	}
	p.wrote = true
}

// materialize gives a gradient of one its tensor.
func (t *Tape) materialize(v *Var) {
	if !v.grad.one {
		return
	}
	x, mem := t.allocate(v.like.DType(), v.like.Shape()...)
	if x == nil {
		return
	}
	mem.refs++
	v.grad = gradient{tensor: x, mem: mem}
	launch(t, aclnn.InplaceFillScalar, aclnn.InplaceFillScalarParams{Self: x, Value: aclnn.Float(1)})
}
