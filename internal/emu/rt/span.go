package rt

import (
	"sort"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// span is a live range of addresses.
type span struct {
	start, end uint64 // end is exclusive
	reserved   uint64 // bytes that the range takes from its arena, at least end-start
	counted    uint64 // bytes of a device's memory that the range counts as
	serial     uint64 // serial number among the allocations of the process
}

func (x *span) allocation() sanitize.Allocation {
	return sanitize.Allocation{Start: x.start, End: x.end, Serial: x.serial}
}

// spans are disjoint ranges sorted by address.
type spans []span

// find returns the index of the span that holds addr, or -1.
func (s spans) find(addr uint64) int {
	i := sort.Search(len(s), func(i int) bool { return s[i].end > addr })
	if i < len(s) && s[i].start <= addr {
		return i
	}
	return -1
}

// at returns the index of the span that starts at addr, or -1.
func (s spans) at(addr uint64) int {
	i := sort.Search(len(s), func(i int) bool { return s[i].start >= addr })
	if i < len(s) && s[i].start == addr {
		return i
	}
	return -1
}

// insert adds a span at its sorted position.
func (s *spans) insert(x span) {
	i := sort.Search(len(*s), func(i int) bool { return (*s)[i].start > x.start })
	*s = append(*s, span{})
	copy((*s)[i+1:], (*s)[i:])
	(*s)[i] = x
}

// remove deletes the span at index i and returns it.
func (s *spans) remove(i int) span {
	x := (*s)[i]
	*s = append((*s)[:i], (*s)[i+1:]...)
	return x
}
