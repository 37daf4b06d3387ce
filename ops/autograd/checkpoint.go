package autograd

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
)

// watch notes what the body of a checkpoint reads from outside.
type watch struct {
	from int // the first variable of the body
	vars []*Var
}

// watch notes a variable that an operator reads.
func (t *Tape) watch(v *Var) {
	if p := v.parameter(); p != nil {
		v = p
	}
	for _, w := range t.watching {
		outside := v.tape == nil && v.needs || v.tape != nil && v.number < w.from
		if outside && !slices.Contains(w.vars, v) {
			w.vars = append(w.vars, v)
		}
	}
}

// Checkpoint runs a part of the forward pass like Block, but keeps nothing of it except for what it reads from outside: the backward
// pass runs body once more. So body must compute the same each time: the tape's dropout draws the same numbers
// again, while a program's own state must not change between the calls.
func (t *Tape) Checkpoint(name string, body func() *Var) *Var {
	return one(t.Checkpoints(name, func() []*Var { return []*Var{body()} }))
}

// Checkpoints is Checkpoint for a part with several results.
func (t *Tape) Checkpoints(name string, body func() []*Var) []*Var {
	if !t.Records() || t.err != nil {
		return t.Blocks(name, body)
	}
	w, drawn := &watch{from: t.made}, t.drawn
	t.watching = append(t.watching, w)
	t.paused++
	results := t.Blocks(name, body)
	t.paused--
	t.watching = t.watching[:len(t.watching)-1]
	if t.err != nil {
		return results
	}
	n := &node{name: name, block: t.block, inputs: w.vars, checkpoint: true}
	needs := false
	for i, v := range results {
		if v == nil {
			t.Fail(fmt.Errorf("checkpoint %s: %w: result %d is nil", name, acl.ErrInvalidArgument, i))
			return results
		}
		if v.tape == nil || v.number < w.from { // body returned something from outside: the node needs a variable of its own
			outside := v
			v = t.own(outside.Value, outside.mem)
			v.needs = outside.needs
			results[i] = v
		}
		needs = needs || v.needs
	}
	if !needs {
		return results
	}
	n.outputs = results
	for _, v := range w.vars {
		if v.mem != nil {
			v.mem.refs++
			n.kept = append(n.kept, v.mem)
		}
	}
	n.backward = func(g *Gradients) { t.again(n, drawn, body) }
	t.record(n)
	for _, v := range w.vars {
		t.save(v)
	}
	return results
}

// again runs the body of a checkpoint with recording, and its backward pass.
func (t *Tape) again(n *node, drawn int64, body func() []*Var) {
	t.restore(n)
	drawn, t.drawn = t.drawn, drawn
	b := &block{name: n.name, outer: n.block}
	t.block = b
	first := len(t.nodes)
	results := body()
	if t.err == nil && len(results) != len(n.outputs) {
		t.Fail(fmt.Errorf("%w: the checkpoint's body returned %d results and now %d", acl.ErrInvalidArgument, len(n.outputs), len(results)))
	}
	for i, v := range n.outputs {
		if t.err != nil {
			break
		}
		r := results[i]
		switch {
		case !r.NeedsGrad() || !v.grad.present():
		case v.grad.factor != 0 && !r.grad.present() && r.parameter() == nil:
			r.grad.factor = v.grad.factor
		default:
			t.materialize(v)
			v.grad.mem.refs++
			t.contribute(r, v.grad)
		}
	}
	// Its gradients are the results' now, so that the first operator can free them.
	for _, v := range n.outputs {
		t.drop(v.grad.mem)
		v.grad = gradient{}
	}
	t.leave(b, nil)
	t.run(first)
	t.block, t.drawn = n.block, drawn
}
