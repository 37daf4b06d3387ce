package autograd

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// derivation is how a variable was derived from a parameter.
type derivation struct {
	parameter *Var
	read      func(s *aclnn.Scope, value *aclnn.Tensor) *aclnn.Tensor
	grad      func(*aclnn.Tensor) *aclnn.Tensor
}

// parameter returns the parameter that v is or was derived from, or nil.
func (v *Var) parameter() *Var {
	switch {
	case v == nil:
		return nil
	case v.from != nil:
		return v.from.parameter
	case v.tape == nil:
		return v
	}
	return nil
}

// Derive makes a variable of what operators read of a parameter: a view of it, such as a transpose, a copy in another format, or a
// function of it whose gradient is the parameter's own, such as the weight plus one. read computes it from the value, with memory of s, and is
// called once more for the backward pass of each operator that reads the variable, so it is not kept in between. grad views the parameter's
// gradient as that of the variable, so that kernels write or add there directly; of a part of the parameter, the gradient of the
// rest is zero.
func (t *Tape) Derive(parameter *Var, read func(s *aclnn.Scope, value *aclnn.Tensor) *aclnn.Tensor, grad func(*aclnn.Tensor) *aclnn.Tensor) *Var {
	if !t.usable("derive", "the parameter", parameter) {
		return t.failed()
	}
	if parameter.tape != nil {
		t.Fail(fmt.Errorf("derive: %w: %v was computed on the tape; only parameters can be derived from", acl.ErrInvalidArgument, parameter))
		return t.failed()
	}
	s := &aclnn.Scope{Stream: t.st}
	x := read(s, parameter.Value)
	if t.Fail(s.Err()); t.err == nil {
		t.Fail(x.Err())
	}
	v := t.own(x, &memory{closer: s})
	v.from, v.needs, v.wide = &derivation{parameter, read, grad}, parameter.needs, parameter.wide
	return v
}

// derivedValue is the memory of a derived variable during the backward pass of a node.
type derivedValue struct {
	v *Var
	s *aclnn.Scope
}

// derive computes what the node reads of parameters again.
func (g *Gradients) derive() {
	for _, v := range g.n.inputs {
		if v == nil || v.from == nil || g.t.err != nil {
			continue
		}
		d := derivedValue{v, &aclnn.Scope{Stream: g.t.st}}
		if v.from.parameter.Value == nil {
			g.t.Fail(fmt.Errorf("gradient of %s: %w: a parameter has no Value now; set it before the backward pass of what reads it", g.n.name, acl.ErrInvalidArgument))
			return
		}
		v.Value = v.from.read(d.s, v.from.parameter.Value)
		g.t.Fail(d.s.Err())
		g.derived = append(g.derived, d)
	}
}

func (g *Gradients) underive() {
	for _, d := range g.derived {
		d.v.Value = nil
		g.t.Fail(d.s.Close())
	}
}

// now returns what an operator reads of an input in its backward pass: a parameter may have another value by then; kept is that of the
// forward pass.
func (v *Var) now(kept *aclnn.Tensor) *aclnn.Tensor {
	if v.parameter() != nil {
		return v.Value
	}
	return kept
}
