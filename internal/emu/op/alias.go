package op

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Exchanges notes that operators of the table, the named ones or all, exchange data with other ranks
// while they write their outputs. An input that shares the memory of an output would change under the
// ranks that still read it, so such a call is refused. Other operators compute what they would compute
// if the output had memory of its own: CANN copies their result to the output after the kernel ran
// (ViewCopy).
func (t Table) Exchanges(names ...string) Table { return t.note(exchanges, names) }

// Exchanges reports whether the operator of the call exchanges data while it writes its outputs. It is
// known from phase one on.
func (c *Call) Exchanges() bool { return c.accesses&exchanges != 0 }

// HandlesOverlap notes that the computation of the call itself is right for outputs that overlap
// inputs, as kernel.Map and kernel.Copy are, so that no input needs to be copied before.
func (c *Call) HandlesOverlap() { c.handlesOverlap = true }

// HandlesOverlapOfMembers is HandlesOverlap for a computation that takes the members of lists one after
// the other. It is right if no member shares memory with another, or with a tensor outside the lists.
func (c *Call) HandlesOverlapOfMembers(lists ...[]*Tensor) {
	c.place = map[*Tensor]int{}
	for _, list := range lists {
		for i, t := range list {
			c.place[t] = 1 + i
		}
	}
}

// Region returns the first and the one-past-last address of the tensor's elements. They are equal
// for a tensor that is empty or has no memory.
func (t *Tensor) Region() (lo, hi uint64) {
	first, last, ok := t.span()
	if !ok || t.Addr == 0 {
		return t.Addr, t.Addr
	}
	bits := int64(t.DType.Bits())
	return t.Addr + uint64(first*bits/8), t.Addr + uint64((last*bits+7)/8)
}

// region is the memory between two addresses.
type region struct{ lo, hi uint64 }

// overlapped returns the inputs whose memory overlaps that of an output.
func (c *Call) overlapped() []*Tensor {
	var few [8]region
	written := few[:0]
	for _, t := range c.tensors {
		if t.use == Read {
			continue
		}
		if lo, hi := t.Region(); lo < hi {
			written = append(written, region{lo, hi})
		}
	}
	if len(written) > 1 {
		slices.SortFunc(written, func(a, b region) int { return cmp.Compare(a.lo, b.lo) })
		joined := written[:1]
		for _, r := range written[1:] {
			if last := &joined[len(joined)-1]; r.lo <= last.hi {
				last.hi = max(last.hi, r.hi)
			} else {
				joined = append(joined, r)
			}
		}
		written = joined
	}
	var found []*Tensor
	for _, t := range c.tensors {
		if t.use != Read {
			continue
		}
		lo, hi := t.Region()
		i, _ := slices.BinarySearchFunc(written, lo, func(w region, lo uint64) int {
			if w.hi <= lo {
				return -1
			}
			return 1
		})
		if i < len(written) && written[i].lo < hi && lo < hi {
			found = append(found, t)
		}
	}
	return found
}

// apart reports whether tensors of different places in lists share no memory.
func (c *Call) apart() bool {
	type part struct {
		region
		place int
	}
	var parts []part
	for _, t := range c.tensors {
		if lo, hi := t.Region(); lo < hi {
			parts = append(parts, part{region{lo, hi}, c.place[t]})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.lo, b.lo) })
	for i := 1; i < len(parts); i++ {
		last, next := parts[i-1], &parts[i]
		if next.lo < last.hi {
			if next.place != last.place {
				return false
			}
			next.hi = max(next.hi, last.hi)
		}
	}
	return true
}

// settleOverlap returns the inputs that Execute copies before the computation, because they overlap
// outputs. It refuses such inputs of operators that exchange data.
func (c *Call) settleOverlap() []*Tensor {
	if c.handlesOverlap || c.place != nil && c.apart() {
		return nil
	}
	found := c.overlapped()
	if len(found) > 0 && c.Exchanges() {
		c.Invalid("%v shares memory with an output; the ranks exchange data while they write their outputs, so give the output memory of its own", found[0])
	}
	return found
}

// setApart moves the tensor, whose memory is bound, to a copy of its memory. The caller frees the
// copy with the returned function.
func (t *Tensor) setApart() (release func(), err error) {
	lo, hi := t.Region()
	before := int64(t.Addr-lo) + t.Offset*int64(t.DType.Bits())/8 // bytes before the first element of the view
	n := []int64{int64(hi - lo)}
	memory := kernel.View{Data: unsafe.Add(t.Data, -before), DType: dtype.Uint8, Shape: n, Strides: []int64{1}}
	apart, release := kernel.TemporaryOf(dtype.Uint8, n...)
	t.Data = unsafe.Add(apart.Data, before)
	return release, elementwise.Copy(apart, memory)
}
