package op

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Aliasing is an operator's policy for an output whose memory overlaps the memory of an input.
type Aliasing uint8

const (
	// AsIfApart operators compute what they would compute if the output had memory of its own: CANN
	// copies their result to the output after the kernel ran (ViewCopy).
	AsIfApart Aliasing = iota
	// Apart operators exchange data with other ranks while they write their outputs, so an input that
	// shares the memory would change under the ranks that still read it. Such a call is refused.
	Apart
)

// exchanging lists words in the names of the operators whose policy is Apart.
var exchanging = []string{"AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AllToAll", "MoeDistribute"}

// Aliasing returns the operator's policy.
func (op *Operator) Aliasing() Aliasing {
	if slices.ContainsFunc(exchanging, func(word string) bool { return strings.Contains(op.Name, word) }) {
		return Apart
	}
	return AsIfApart
}

// HandlesOverlap tells that the computation of the call itself is right for outputs that overlap
// inputs, as kernel.Map and kernel.Copy are, so that no input needs to be copied before.
func (c *Call) HandlesOverlap() { c.handlesOverlap = true }

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

// settleOverlap applies the policy of the operator to a call that its Prepare accepted, and returns
// the inputs that Execute copies before the computation.
func (c *Call) settleOverlap() []*Tensor {
	if c.handlesOverlap {
		return nil
	}
	found := c.overlapped()
	if len(found) > 0 && c.Op.Aliasing() == Apart {
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
	return release, kernel.Copy(apart, memory)
}
