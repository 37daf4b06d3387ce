package autograd

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// node is an operator that was recorded.
type node struct {
	name       string
	block      *block
	inputs     []*Var
	outputs    []*Var
	kept       []*memory // until its backward pass has run
	backward   func(g *Gradients)
	params     []*Var // whose gradients it writes
	checkpoint bool
	apart      bool   // backward computes the gradients of parameters, and those of other inputs, also in two calls without more work
	sends      bool   // backward begins an exchange beside which other kernels can run
	hook       func() // of Around, in place of everything else
}

// Call is an operator while it is recorded.
type Call struct {
	t *Tape
	n *node
	// needs says whether some input needs a gradient and the operator is recorded.
	needs bool
}

// Record runs an operator of the program's own and records its gradient. forward makes the outputs with Output, queues the
// computation, and gives Backward a function that computes the gradients of the inputs:
//
//	y := t.Record("square", []*autograd.Var{x}, func(c *autograd.Call) {
//		y := c.Output(x.Value.DType(), x.Shape()...)
//		c.Do(func() error { return square(t.Stream(), x.Value, y) }) // y = x²
//		c.Keep(x)
//		c.Backward(func(g *autograd.Gradients) {
//			g.Do(func() error { return squareGrad(t.Stream(), g.Output(0), x.Value, g.Input(0)) })
//		})
//	})[0]
//
// It returns the outputs in the order in which they were made. After an error forward does not run, and the outputs are
// variables without a value; there is one at least.
func (t *Tape) Record(name string, inputs []*Var, forward func(c *Call)) []*Var {
	c := t.begin(name, inputs...)
	if c == nil {
		return []*Var{{tape: t}}
	}
	forward(c)
	return slices.Clone(c.end())
}

// begin starts an operator of which all inputs must be given. It returns nil if the tape has failed.
func (t *Tape) begin(name string, inputs ...*Var) *Call {
	return t.beginOptional(name, len(inputs), inputs...)
}

// beginOptional is begin for an operator whose inputs from number required on may be nil.
func (t *Tape) beginOptional(name string, required int, inputs ...*Var) *Call {
	if !t.ready() {
		return nil
	}
	c := &Call{t: t, n: &node{name: name, block: t.block, inputs: inputs}}
	for i, v := range inputs {
		if v == nil && i >= required {
			continue
		}
		if good := v != nil && v.Value != nil && (v.tape == nil || v.tape == t); !good && !t.usable(name, fmt.Sprintf("input %d", i), v) {
			return nil
		}
		c.needs = c.needs || v.needs
		if v.tape == nil {
			v.like = v.Value
		}
		t.watch(v)
	}
	c.needs = c.needs && !t.opts.NoGrad
	return c
}

// Needs reports whether the backward pass of the operator will run: some input has a gradient, and the tape records.
// Without it the operator need not compute what only its gradient reads.
func (c *Call) Needs() bool { return c.needs && c.t.Records() }

// Input returns input i.
func (c *Call) Input(i int) *Var { return c.n.inputs[i] }

// Output makes an output with memory of its own. It returns nil after an error.
func (c *Call) Output(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	x, mem := c.t.allocate(dt, shape...)
	if x == nil {
		return nil
	}
	return c.output(x, mem)
}

// constant makes an output that gets no gradient, such as indices.
func (c *Call) constant(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	x := c.Output(dt, shape...)
	if x != nil {
		c.n.outputs[len(c.n.outputs)-1].needs = false
	}
	return x
}

// View makes an output of a view of the value of an input.
func (c *Call) View(of *Var, view *aclnn.Tensor) *aclnn.Tensor {
	c.t.Fail(view.Err())
	return c.output(view, of.mem)
}

func (c *Call) output(x *aclnn.Tensor, mem *memory) *aclnn.Tensor {
	v := c.t.own(x, mem)
	v.needs = c.needs
	c.n.outputs = append(c.n.outputs, v)
	return x
}

// Scratch makes a tensor that the forward pass writes and only the backward pass of the operator reads. It returns nil
// if there will be none.
func (c *Call) Scratch(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	if !c.Needs() {
		return nil
	}
	x, mem := c.t.allocate(dt, shape...)
	c.keep(mem)
	return x
}

// Keep keeps the values of inputs, or of outputs, until the backward pass of the operator has run. Other values may be
// freed before.
func (c *Call) Keep(vars ...*Var) {
	for _, v := range vars {
		if v != nil {
			c.keep(v.mem)
		}
	}
}

// KeepOutputs keeps the values of all outputs, as Keep does.
func (c *Call) KeepOutputs() { c.Keep(c.n.outputs...) }

func (c *Call) keep(m *memory) {
	if m != nil && c.Needs() {
		m.refs++
		c.n.kept = append(c.n.kept, m)
	}
}

// Do runs f, a launch, unless the tape has failed. f's error becomes the tape's.
func (c *Call) Do(f func() error) {
	if c.t.err == nil {
		if err := f(); err != nil {
			c.t.Fail(fmt.Errorf("%s: %w", c.n.name, err))
		}
	}
}

// Backward gives the function that computes the gradients. It is called at most once, and not at all if no gradient
// of an output exists. It reads values that were kept only.
func (c *Call) Backward(f func(g *Gradients)) { c.n.backward = f }

// end records the operator and returns its outputs.
func (c *Call) end() []*Var {
	t, n := c.t, c.n
	if t.err == nil && len(n.outputs) == 0 {
		t.Fail(fmt.Errorf("%s: %w: the operator has no output", n.name, acl.ErrInvalidArgument))
	}
	if t.err != nil {
		for _, m := range n.kept {
			t.drop(m)
		}
		if len(n.outputs) == 0 {
			return []*Var{{tape: t}}
		}
		return n.outputs
	}
	switch {
	case !c.needs:
	case n.backward == nil:
		t.Fail(fmt.Errorf("%s: %w: an input needs a gradient, and the operator has no Backward; give it Detach of the input", n.name, acl.ErrInvalidArgument))
	case c.Needs():
		t.record(n)
	}
	return n.outputs
}

// record appends a node to the tape.
func (t *Tape) record(n *node) {
	for _, v := range n.outputs {
		v.node = n
	}
	for _, v := range n.inputs {
		if p := v.parameter(); p != nil && p.needs {
			n.params = append(n.params, p)
			t.use(p)
		}
	}
	t.nodes = append(t.nodes, n)
}

// use holds the state of a parameter on a tape.
type use struct {
	left  int  // nodes whose backward pass has not run
	wrote bool // whether the backward pass has written to Grad
}

// use counts a node that will write the gradient of a parameter.
func (t *Tape) use(p *Var) {
	u := t.parameters[p]
	if u == nil {
		u = &use{}
		t.parameters[p] = u
	}
	u.left++
}

// finish frees what a node has kept, and the gradients of its outputs.
func (t *Tape) finish(n *node) {
	for _, m := range n.kept {
		t.drop(m)
	}
	n.kept = nil
	for _, v := range n.outputs {
		t.drop(v.grad.mem)
		v.grad = gradient{}
	}
}
