package autograd

import (
	"fmt"
	"slices"

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
		loss.grad = gradient{factor: 1}
		t.run(0)
		t.done = true
	}
	return t.err
}

// Output is a result of a forward pass and the gradient of it with which a backward pass starts.
type Output struct {
	Var *Var
	// Grad is like the variable. It remains the caller's and is not changed.
	Grad *aclnn.Tensor
	// Factor is the gradient of each element if Grad is nil, such as the weight of a loss in a sum of several.
	Factor float64
}

// BackwardFrom computes the gradients of Σ outputs·gradients, as a pipeline stage does that receives the gradients of its outputs.
func (t *Tape) BackwardFrom(outputs ...Output) error {
	for _, o := range outputs {
		if !t.startBackward(o.Var) {
			return t.err
		}
		if o.Grad != nil {
			// The caller's memory: the extra need keeps the tape from writing to it or freeing it.
			t.contribute(o.Var, gradient{tensor: o.Grad, mem: &memory{refs: 2}})
			continue
		}
		if o.Var.grad.present() {
			t.Fail(fmt.Errorf("backward: %w: output %v is there twice; add up the factors", acl.ErrInvalidArgument, o.Var))
			return t.err
		}
		o.Var.grad.factor = o.Factor
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
		switch later := t.opts.DeferWeights && n.apart && slices.ContainsFunc(n.inputs, (*Var).weight); {
		case n.hook != nil:
			t.within(n.block, n.hook)
			continue
		case t.err != nil || !n.reached():
		case later:
			t.gradients(n, ofInputs)
			t.deferred = append(t.deferred, n)
			continue
		case !t.opts.DeferWeights && t.sendsNext(n, first):
			t.gradients(n, ofInputs)
			t.late = n
			continue
		default:
			t.gradients(n, ofAll)
		}
		t.finish(n)
		t.complete(n)
		if n.sends {
			t.weightsBesideExchange()
		}
	}
}

// sendsNext reports whether n computes gradients of weights and what follows it in the backward pass, up to the next such node, sends gradients to other ranks: then these are sent
// first, and the gradients of the weights computed meanwhile.
func (t *Tape) sendsNext(n *node, first int) bool {
	if !n.apart || !slices.ContainsFunc(n.inputs, (*Var).weight) {
		return false
	}
	for i := len(t.nodes) - 1; i >= first; i-- {
		switch m := t.nodes[i]; {
		case m.sends:
			return true
		case m.hook != nil || m.checkpoint || m.apart:
			return false
		}
	}
	return false
}

// weightsBesideExchange computes the gradients of weights for which the exchange did not wait.
func (t *Tape) weightsBesideExchange() {
	n := t.late
	if n == nil {
		return
	}
	t.late = nil
	if t.err == nil {
		t.gradients(n, ofWeights)
	}
	t.finish(n)
	t.complete(n)
}

// within runs f with the block that errors name.
func (t *Tape) within(b *block, f func()) {
	outer := t.block
	t.block = b
	f()
	t.block = outer
}

// gradients runs the backward function of a node for some of its inputs.
func (t *Tape) gradients(n *node, of inputs) {
	t.within(n.block, func() {
		g := &Gradients{t: t, n: n, of: of}
		if of == ofAll || slices.ContainsFunc(n.inputs, g.wants) {
			g.derive()
			if t.err == nil {
				n.backward(g)
			}
		}
		g.end()
	})
}

// BackwardWeights computes the gradients of weights that a backward pass has left with Options.DeferWeights, in its order.
func (t *Tape) BackwardWeights() error {
	switch {
	case t.err != nil:
	case t.closed:
		t.Fail(fmt.Errorf("%w: the tape is closed", acl.ErrClosed))
	case !t.opts.DeferWeights || !t.done:
		t.Fail(fmt.Errorf("backward of weights: %w: it follows Backward on a tape with DeferWeights", acl.ErrInvalidArgument))
	}
	for _, n := range t.deferred {
		if n.hook != nil {
			t.within(n.block, n.hook)
			continue
		}
		if t.err == nil {
			t.gradients(n, ofWeights)
		}
		t.finish(n)
		t.complete(n)
	}
	t.deferred = nil
	return t.err
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
		u := t.parameters[p]
		if u.left--; u.left > 0 {
			continue
		}
		if !u.wrote && !t.accumulates(p) {
			launch(t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: p.Grad})
		}
		u.wrote = true
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
	case v.parameter() != nil:
		t.write(v, g.tensor)
		t.drop(g.mem)
	case !v.grad.present():
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

// write writes a gradient to that of a parameter, or adds it. v is the parameter, or derived from it.
func (t *Tape) write(v *Var, g *aclnn.Tensor) {
	to, accumulate := t.target(v)
	if accumulate {
		launch(t, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: to, Other: g, Alpha: aclnn.Float(1)})
		return
	}
	t.do(func() error { return aclnn.Copy(t.st, to, g) })
}

// target returns where the gradient of a parameter, or of a variable derived from it, is written, and whether it is added to what is
// there.
func (t *Tape) target(v *Var) (to *aclnn.Tensor, accumulate bool) {
	p := v.parameter()
	u := t.parameters[p]
	to = p.Grad
	if to == nil {
		t.Fail(fmt.Errorf("%w: the parameter %v has no Grad now; set it before the backward pass of what reads it", acl.ErrInvalidArgument, p.like))
		return nil, false
	}
	if v.from != nil {
		to = v.from.grad(to)
		t.Fail(to.Err())
		if to.Len() != p.Grad.Len() && !u.wrote && !t.accumulates(p) {
			launch(t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: p.Grad})
			u.wrote = true
		}
	}
	accumulate = u.wrote || t.accumulates(p)
	u.wrote = true
	return to, accumulate
}

// accumulates reports whether the gradient of a parameter starts with what earlier tapes have written.
func (t *Tape) accumulates(p *Var) bool { return t.opts.Accumulate && !p.received }

// materialize gives a gradient of one number its tensor.
func (t *Tape) materialize(v *Var) {
	factor := v.grad.factor
	if factor == 0 {
		return
	}
	x, mem := t.allocate(v.like.DType(), v.like.Shape()...)
	if x == nil {
		return
	}
	mem.refs++
	v.grad = gradient{tensor: x, mem: mem}
	launch(t, aclnn.InplaceFillScalar, aclnn.InplaceFillScalarParams{Self: x, Value: aclnn.Float(factor)})
}
