package hccl

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/aclnn"
)

// Blocks are the parts of a tensor that belong to the ranks, in elements: block r has
// Counts[r] elements from Offsets[r] on. Without Offsets the blocks lie behind each other.
type Blocks struct {
	Counts  []int64
	Offsets []int64
}

// Packed are blocks behind each other, one per rank.
func Packed(counts ...int64) Blocks { return Blocks{Counts: counts} }

// Total is the number of elements of all blocks.
func (b Blocks) Total() (n int64) {
	for _, c := range b.Counts {
		n += c
	}
	return n
}

// words are the counts and the offsets as HCCL reads them.
func (b Blocks) words() (counts, offsets []uint64) {
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

// fit refuses blocks that are not one per rank or leave the tensor; those that are written
// must not overlap either.
func (b Blocks) fit(name string, t *aclnn.Tensor, ranks int, written bool) error {
	if len(b.Counts) != ranks || b.Offsets != nil && len(b.Offsets) != ranks {
		return fmt.Errorf("%s has %d counts and %d offsets for %d ranks; give one of each per rank, or no offsets", name, len(b.Counts), len(b.Offsets), ranks)
	}
	for r, n := range b.Counts {
		if n < 0 {
			return fmt.Errorf("%s of rank %d has %d elements", name, r, n)
		}
	}
	counts, offsets := b.words()
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

// pinned gives the address of host memory that C reads during a call, for an argument word.
func pinned[T any](p *runtime.Pinner, v []T) uint64 {
	if len(v) == 0 {
		return 0
	}
	p.Pin(&v[0])
	return uint64(uintptr(unsafe.Pointer(&v[0])))
}
