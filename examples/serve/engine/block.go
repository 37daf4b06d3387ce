package engine

import (
	"container/list"
	"slices"
)

// block is a block of the cache of keys and values. Blocks form a tree: a path from the root holds the
// tokens of a sequence from its start. A block keeps its tokens when the last sequence lets it go, until
// it is needed for others.
type block struct {
	id       int32
	refs     int     // sequences that read it
	tokens   []int32 // whose keys and values it holds
	parent   *block  // nil outside the tree
	children []*block
	idle     *list.Element // among the blocks that no sequence reads
}

// blocks assigns blocks to sequences.
type blocks struct {
	size  int // tokens of a block
	reach int // tokens that a token sees, itself included; 0 for all
	share bool
	all   []block
	roots roots
	free  []*block   // without tokens
	idle  *list.List // with tokens; the least recently used first
}

func newBlocks(n, size, reach int, share bool) *blocks {
	c := &blocks{size: size, reach: reach, share: share, all: make([]block, n)}
	for i := range c.all {
		c.all[i].id = int32(i)
	}
	c.reset()
	return c
}

// reset forgets all tokens, also those that were read with adapters, after the sequences have let their blocks
// go.
func (c *blocks) reset(adapters ...*adapter) {
	for _, a := range adapters {
		a.roots = roots{}
	}
	c.roots, c.idle, c.free = roots{}, list.New(), nil
	for i := range slices.Backward(c.all) {
		c.all[i] = block{id: c.all[i].id}
		c.free = append(c.free, &c.all[i])
	}
}

// available returns how many blocks can be taken, and used how many sequences read.
func (c *blocks) available() int { return len(c.free) + c.idle.Len() }
func (c *blocks) used() int      { return len(c.all) - c.available() }

// count returns the number of blocks of so many tokens.
func (c *blocks) count(tokens int) int { return (tokens + c.size - 1) / c.size }

// take returns an empty block, or nil. It forgets the tokens that were not used for longest. Where tokens see all before them, those are
// never the start of others: who reads a block reads its parents, and lets them go later.
func (c *blocks) take() *block {
	var b *block
	if n := len(c.free); n > 0 {
		b, c.free = c.free[n-1], c.free[:n-1]
	} else if first := c.idle.Front(); first != nil {
		b = first.Value.(*block)
		c.idle.Remove(first)
		c.detach(b)
	} else {
		return nil
	}
	*b = block{id: b.id, refs: 1, tokens: b.tokens[:0]}
	return b
}

func (c *blocks) detach(b *block) {
	if b.parent != nil {
		b.parent.children = slices.DeleteFunc(b.parent.children, func(x *block) bool { return x == b })
		b.parent = nil
	}
	c.orphan(b)
}

// orphan takes the blocks after b out of the tree, as their starts are lost: sequences that read them go on.
func (c *blocks) orphan(b *block) {
	for _, x := range b.children {
		if x.parent = nil; x.idle != nil {
			c.idle.Remove(x.idle)
			x.idle = nil
			c.free = append(c.free, x)
		}
		c.orphan(x)
	}
	b.children = nil
}

func (c *blocks) retain(b *block) {
	if b.refs++; b.idle != nil {
		c.idle.Remove(b.idle)
		b.idle = nil
	}
}

func (c *blocks) release(b *block) {
	if b.refs--; b.refs > 0 {
		return
	}
	if b.parent != nil {
		b.idle = c.idle.PushBack(b)
	} else {
		c.free = append(c.free, b)
	}
}

// roots are those of the trees of blocks: of texts whose keys have the usual rotation, and that of long ones.
type roots struct{ usual, long block }

// rootOf returns the root of the texts that a sequence can share: those that were read with its adapter and its rotation.
func (c *blocks) rootOf(s *sequence) *block {
	all := &c.roots
	if s.adapter != nil {
		all = &s.adapter.roots
	}
	if s.long {
		return &all.long
	}
	return &all.usual
}

// match finds the blocks that hold the first tokens of a sequence, and a block that holds the next common ones.
// It leaves at least one token to be read, for its logits.
func (c *blocks) match(s *sequence) (full []*block, partial *block, common int) {
	tokens := s.tokens[:len(s.tokens)-1]
	for at := c.rootOf(s); len(tokens) > 0; tokens = tokens[c.size:] {
		partial, common = nil, 0
		for _, b := range at.children {
			if n := prefix(b.tokens, tokens); n > common {
				partial, common = b, n
			}
		}
		if common < c.size {
			return full, partial, common
		}
		full, at = append(full, partial), partial
		partial, common = nil, 0
	}
	return full, nil, 0
}

// prefix returns the length of the common start.
func prefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
