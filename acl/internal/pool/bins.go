package pool

import "math/bits"

const (
	unit    = 512 // granularity of blocks
	tail    = 32  // kernels move whole 32-byte blocks and may touch so much behind a tensor
	subBits = 3   // each power of two has 8 size classes
	classes = 320 // enough for 2^48 bytes
	// probes bounds the search in the class of a size, where some blocks are too small.
	probes = 16
)

// bins are free lists by size class.
type bins struct {
	filled [classes / 64]uint64
	heads  [classes]*Block
}

// class is the size class of a block: sizes of one class differ by at most an eighth.
func class(size uint64) int {
	n := size / unit
	if n < 1<<subBits {
		return int(n)
	}
	shift := bits.Len64(n) - subBits - 1
	return (shift+1)<<subBits + int(n>>shift)&(1<<subBits-1)
}

func (f *bins) add(b *Block) {
	c := class(b.size)
	b.free, b.left, b.right = true, nil, f.heads[c]
	if b.right != nil {
		b.right.left = b
	}
	f.heads[c] = b
	f.filled[c/64] |= 1 << (c % 64)
}

func (f *bins) remove(b *Block) {
	c := class(b.size)
	if b.left == nil {
		if f.heads[c] = b.right; b.right == nil {
			f.filled[c/64] &^= 1 << (c % 64)
		}
	} else {
		b.left.right = b.right
	}
	if b.right != nil {
		b.right.left = b.left
	}
	b.free, b.left, b.right = false, nil, nil
}

// take removes and returns a block of at least size bytes and at most limit, or nil.
func (f *bins) take(size, limit uint64) *Block {
	c := class(size)
	for b, n := f.heads[c], 0; b != nil && n < probes; b, n = b.right, n+1 {
		if b.size >= size {
			f.remove(b)
			return b
		}
	}
	// Every block of a higher class is large enough.
	for c++; c < classes; c = (c/64 + 1) * 64 {
		if word := f.filled[c/64] >> (c % 64); word != 0 {
			b := f.heads[c+bits.TrailingZeros64(word)]
			if b.size > limit {
				return nil
			}
			f.remove(b)
			return b
		}
	}
	return nil
}

// drain removes every block.
func (f *bins) drain(each func(*Block)) {
	for c := range f.heads {
		for b := f.heads[c]; b != nil; {
			next := b.right
			b.free, b.left, b.right = false, nil, nil
			each(b)
			b = next
		}
		f.heads[c] = nil
	}
	clear(f.filled[:])
}

// bytes is the total size of the blocks.
func (f *bins) bytes() uint64 {
	sum := uint64(0)
	for _, head := range f.heads {
		for b := head; b != nil; b = b.right {
			sum += b.size
		}
	}
	return sum
}
