package autograd

import "slices"

// block is a part of the computation. It needs the values of the variables that were made in it until it ends.
type block struct {
	name  string
	outer *block
	vars  []*Var
}

// path returns the names of the blocks, outermost first, for errors.
func (b *block) path() string {
	if b == nil || b.name == "" && b.outer == nil {
		return ""
	}
	return b.outer.path() + b.name + ": "
}

// Block runs a part of the forward pass, such as a layer, and frees what was computed in it except for the result and
// what the backward pass needs. The name appears in errors.
func (t *Tape) Block(name string, body func() *Var) *Var {
	return one(t.Blocks(name, func() []*Var { return []*Var{body()} }))
}

// Blocks is Block for a part with several results.
func (t *Tape) Blocks(name string, body func() []*Var) []*Var {
	b := &block{name: name, outer: t.block}
	t.block = b
	results := body()
	t.block = b.outer
	t.leave(b, results)
	return results
}

// leave ends a block. Its results belong to the block outside.
func (t *Tape) leave(b *block, results []*Var) {
	for _, v := range b.vars {
		if slices.Contains(results, v) {
			b.outer.vars = append(b.outer.vars, v)
			continue
		}
		t.forget(v)
	}
	b.vars = nil
}

// Free gives up values before their block ends, so that the operators to come can use their memory. What the
// backward pass needs is kept. The variables must not be used any more.
func (t *Tape) Free(vars ...*Var) {
	for _, v := range vars {
		if v == nil || v.tape != t {
			continue
		}
		if i := slices.Index(t.block.vars, v); i >= 0 {
			t.block.vars = slices.Delete(t.block.vars, i, i+1)
			t.forget(v)
		}
	}
}

// forget ends the block's need of a variable. The value stays while a node needs it: a Checkpoint
// reads it again.
func (t *Tape) forget(v *Var) {
	if v.mem == nil {
		return
	}
	t.drop(v.mem)
	if v.mem.refs <= 0 {
		v.Value = nil
	}
}

// one returns the only result of a block.
func one(results []*Var) *Var {
	if len(results) == 0 {
		return nil
	}
	return results[0]
}
