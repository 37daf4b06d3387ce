package pool

// Block is a piece of a segment that was given out.
type Block struct {
	addr, size uint64
	owner      *lists // the stream's, or the unowned ones
	segment    *segment
	prev, next *Block // neighbours in the segment, by address
	left       *Block // neighbours in the free list
	right      *Block
	free       bool   // in a free list of its owner
	unmapped   bool   // addresses of a range without memory
	requested  uint64 // bytes asked for
	label      string // what it is for
}

// Address is the device address of the block's first byte, 512-byte aligned within its
// segment.
func (b *Block) Address() uint64 { return b.addr }

// Size is the number of bytes that may be used, at least those asked for.
func (b *Block) Size() uint64 { return b.size - tail }

// segment is one piece of memory from the Source.
type segment struct {
	addr, size uint64
	small      bool
	ranged     bool // a range of addresses, parts of which may have no memory
	first      *Block
}

// split cuts a taken block to size; the rest becomes a block of its own.
func (b *Block) split(size uint64) *Block {
	rest := &Block{addr: b.addr + size, size: b.size - size, owner: b.owner, segment: b.segment, prev: b, next: b.next}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// absorb joins the next block to b.
func (b *Block) absorb() {
	gone := b.next
	b.size += gone.size
	b.next = gone.next
	if b.next != nil {
		b.next.prev = b
	}
}

// whole reports whether the block is all of its segment.
func (b *Block) whole() bool { return b.prev == nil && b.next == nil }
