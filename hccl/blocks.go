package hccl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goascend/cann/aclnn"
)

// Blocks assigns parts of a tensor to ranks, in elements: block r has Counts[r] elements, starting
// at Offsets[r]. Without Offsets the blocks are contiguous.
type Blocks struct {
	Counts  []int64
	Offsets []int64
}

// Packed returns contiguous blocks, one per rank.
func Packed(counts ...int64) Blocks { return Blocks{Counts: counts} }

// Total returns the number of elements of all blocks.
func (b Blocks) Total() (n int64) {
	for _, c := range b.Counts {
		n += c
	}
	return n
}

// arrays converts the counts and offsets to the form that HCCL reads.
func (b Blocks) arrays() (counts, offsets []uint64) {
	at := int64(0)
	for r, n := range b.Counts {
		if b.Offsets != nil {
			at = b.Offsets[r]
		}
		counts, offsets = append(counts, uint64(n)), append(offsets, uint64(at))
		at += n
	}
	return counts, offsets
}

// fit refuses blocks that are not one per rank or exceed the tensor. Blocks that are written must
// not overlap either.
func (b Blocks) fit(name string, t *aclnn.Tensor, ranks int, written bool) error {
	if len(b.Counts) != ranks || b.Offsets != nil && len(b.Offsets) != ranks {
		return fmt.Errorf("%s has %d counts and %d offsets for %d ranks; give one of each per rank, or no offsets", name, len(b.Counts), len(b.Offsets), ranks)
	}
	for r, n := range b.Counts {
		if n < 0 {
			return fmt.Errorf("%s of rank %d has %d elements", name, r, n)
		}
	}
	counts, offsets := b.arrays()
	length := uint64(t.Len())
	var filled []int
	for r, n := range counts {
		if offsets[r] > length || n > length-offsets[r] {
			return fmt.Errorf("%s of rank %d, %d elements from %d on, leaves the tensor of %d", name, r, n, int64(offsets[r]), length)
		}
		if n > 0 {
			filled = append(filled, r)
		}
	}
	if !written {
		return nil
	}
	slices.SortFunc(filled, func(x, y int) int { return cmp.Compare(offsets[x], offsets[y]) })
	for i := 1; i < len(filled); i++ {
		if x, y := filled[i-1], filled[i]; offsets[x]+counts[x] > offsets[y] {
			return fmt.Errorf("%s of ranks %d and %d overlap", name, x, y)
		}
	}
	return nil
}
