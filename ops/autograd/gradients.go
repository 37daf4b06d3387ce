package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Gradients is what the backward pass of an operator reads and writes.
type Gradients struct {
	t       *Tape
	n       *node
	of      inputs
	targets []gradient // by input, that Input has made
	scratch []gradient
	derived []derivedValue
}

// inputs says of which inputs of an operator a call of its backward function computes the gradients.
type inputs int

const (
	ofAll     inputs = iota
	ofInputs         // that are no parameters
	ofWeights        // the parameters
)

// wants reports whether the gradient of v is one of those.
func (g *Gradients) wants(v *Var) bool {
	return v.NeedsGrad() && (g.of == ofAll || v.weight() == (g.of == ofWeights))
}

// Output returns the gradient of output i. If nothing depends on that output, it is nil, which stands for zero; at least
// one output has a gradient. It must not be written to.
func (g *Gradients) Output(i int) *aclnn.Tensor {
	v := g.n.outputs[i]
	g.t.materialize(v)
	return v.grad.tensor
}

// OutputOrZero returns the gradient of output i, or zeros like it.
func (g *Gradients) OutputOrZero(i int) *aclnn.Tensor {
	if x := g.Output(i); x != nil {
		return x
	}
	like := g.n.outputs[i].like
	x := g.Scratch(like.DType(), like.Shape()...)
	launch(g.t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: x})
	return x
}

// factor returns the gradient of output i if it is a number that the host knows, and has no tensor; else 0.
func (g *Gradients) factor(i int) float64 { return g.n.outputs[i].grad.factor }

// Needs reports whether the gradient of input i is wanted.
func (g *Gradients) Needs(i int) bool { return g.wants(g.n.inputs[i]) }

// Input returns a tensor like input i in which to write its gradient, or nil if none is wanted.
func (g *Gradients) Input(i int) *aclnn.Tensor {
	v := g.n.inputs[i]
	if !g.wants(v) {
		return nil
	}
	if g.targets == nil {
		g.targets = make([]gradient, len(g.n.inputs))
	}
	if g.targets[i].tensor == nil {
		x, mem := g.t.place(v)
		if x == nil {
			return nil
		}
		mem.refs++
		g.targets[i] = gradient{tensor: x, mem: mem}
	}
	return g.targets[i].tensor
}

// place makes the tensor for a gradient of v. That of a view lies where the gradient of the viewed variable will be, so
// that it need not be copied there.
func (t *Tape) place(v *Var) (*aclnn.Tensor, *memory) {
	if v.view != nil && !v.grad.present() {
		if base, mem := v.view.base(); base != nil {
			if x := v.view.of(base); x.Err() == nil {
				v.view.placed = placed{base, x}
				return x, mem
			}
			if mem.refs == 0 { // the strides of the base do not allow this view
				mem.refs = 1
				t.drop(mem)
			}
		}
	}
	dt := v.like.DType()
	if v.wide && v.parameter() == nil {
		dt = aclnn.Float32
	}
	return t.allocate(dt, v.like.Shape()...)
}

// viewed says how a variable views another one: of makes the same view of a gradient, for which base makes the memory.
type viewed struct {
	of     func(*aclnn.Tensor) *aclnn.Tensor
	base   func() (*aclnn.Tensor, *memory)
	placed placed
}

// placed is a gradient of a viewed variable, and the view of it that was handed out.
type placed struct{ base, view *aclnn.Tensor }

// Weight is Input for operators that can add to the gradient of a weight. For a parameter it returns the Grad of the parameter,
// and whether to add to what it holds or to overwrite it. The operator must write all of it.
func (g *Gradients) Weight(i int) (grad *aclnn.Tensor, accumulate bool) {
	v := g.n.inputs[i]
	if !g.wants(v) || v.parameter() == nil {
		return g.Input(i), false
	}
	return g.t.target(v)
}

// Pass makes the gradient of output j the gradient of input i, without a copy. With a view, which may be nil, it
// passes on that view of it.
func (g *Gradients) Pass(i, j int, view func(*aclnn.Tensor) *aclnn.Tensor) {
	v, from := g.n.inputs[i], g.n.outputs[j]
	switch {
	case !g.wants(v) || !from.grad.present() || g.t.err != nil:
		return
	case from.grad.factor != 0 && view == nil && v.parameter() == nil && !v.grad.present():
		v.grad.factor = from.grad.factor
		return
	}
	x := g.Output(j)
	if view != nil {
		x = view(x)
		g.t.Fail(x.Err())
	}
	m := from.grad.mem
	m.refs++
	g.t.contribute(v, gradient{tensor: x, mem: m})
}

// Scratch makes a tensor that is freed when the backward pass of the operator ends.
func (g *Gradients) Scratch(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	x, mem := g.t.allocate(dt, shape...)
	if mem != nil {
		mem.refs++
		g.scratch = append(g.scratch, gradient{tensor: x, mem: mem})
	}
	return x
}

// orScratch returns Input(i), or a scratch tensor like the input for a kernel that computes the gradient in any case.
func (g *Gradients) orScratch(i int) *aclnn.Tensor {
	if x := g.Input(i); x != nil || g.n.inputs[i] == nil {
		return x
	}
	like := g.n.inputs[i].like
	return g.Scratch(like.DType(), like.Shape()...)
}

// addToOutput adds x, a scratch tensor, to the gradient of output j, before it is passed on to inputs.
func (g *Gradients) addToOutput(j int, x *aclnn.Tensor) {
	for _, s := range g.scratch {
		if s.tensor == x && g.t.err == nil {
			s.mem.refs++
			g.t.contribute(g.n.outputs[j], s)
		}
	}
}

// Do runs f, a launch, unless the tape has failed. f's error becomes the tape's.
func (g *Gradients) Do(f func() error) {
	if g.t.err == nil {
		if err := f(); err != nil {
			g.t.Fail(fmt.Errorf("gradient of %s: %w", g.n.name, err))
		}
	}
}

// end hands the gradients over to the inputs.
func (g *Gradients) end() {
	for i, x := range g.targets {
		if x.tensor != nil {
			g.t.contribute(g.n.inputs[i], x)
		}
	}
	for _, s := range g.scratch {
		g.t.drop(s.mem)
	}
	g.underive()
}

// weights is Weight for two inputs of an operator with one switch for accumulation. With both, the kernel computes both gradients in any
// case, so that of a frozen weight goes to scratch memory.
func (g *Gradients) weights(i, j int, both bool) (first, second *aclnn.Tensor, accumulate bool) {
	first, accumulate = g.Weight(i)
	second, adds := g.Weight(j)
	switch {
	case second == nil:
	case first == nil:
		accumulate = adds
	case adds != accumulate:
		g.t.Fail(fmt.Errorf("gradient of %s: %w: inputs %d and %d share one switch for accumulation; use both parameters for the first time in the same operator", g.n.name, acl.ErrInvalidArgument, i, j))
	}
	if both {
		first, second = g.orZeros(i, first), g.orZeros(j, second)
	}
	return first, second, accumulate
}

// orZeros returns x, or zeros like input i.
func (g *Gradients) orZeros(i int, x *aclnn.Tensor) *aclnn.Tensor {
	if x == nil && g.n.inputs[i] != nil {
		x = g.Scratch(aclnn.Float32, g.n.inputs[i].like.Shape()...)
		launch(g.t, aclnn.InplaceZero, aclnn.InplaceZeroParams{Self: x})
	}
	return x
}
