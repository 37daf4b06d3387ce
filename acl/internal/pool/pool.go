package pool

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Segments: small blocks come from segments of smallSegment bytes, those up to largeLimit
// from segments of largeSegment bytes, larger ones from segments of their own.
const (
	smallLimit   = 1 << 20
	smallSegment = 2 << 20
	largeLimit   = 10 << 20
	largeSegment = 20 << 20
	granule      = 2 << 20
	// A block of a large segment is cut from a free one of at most cutting times its own size, while the device has memory:
	// a small tensor that lives long would else keep a segment of a large one from the next large one.
	cutting = 4
	maxSize = 1 << 46
)

// ErrExhausted is the error when the Source has no more memory and the pool none to give back.
var ErrExhausted = errors.New("pool: out of memory")

// Source is the device that memory comes from. The pool calls Malloc and Free one at a
// time.
type Source interface {
	// Malloc gives n bytes, or an error matching ErrExhausted.
	Malloc(n uint64) (addr uint64, err error)
	// Free takes back what Malloc gave. The pool makes sure that no stream uses it.
	Free(addr uint64) error
	// Synchronize waits for all work on the device.
	Synchronize() error
}

// Stream is a queue of work on the device. Streams are compared with ==.
type Stream interface {
	// Fence marks the end of the work queued so far; nil when the stream was destroyed.
	Fence() (Fence, error)
	// Idle reports whether all work queued so far has ended.
	Idle() (bool, error)
}

// Fence is a point in a stream.
type Fence interface {
	Passed() (bool, error)
	// Release ends the use of the fence.
	Release()
}

// Stats counts bytes and calls since the pool was made.
type Stats struct {
	Allocated     uint64 // bytes of the blocks given out, as asked for
	InUse         uint64 // bytes of the blocks given out, with their rounding
	Waiting       uint64 // bytes of freed blocks that wait for other streams
	Kept          uint64 // bytes of freed blocks of the streams of Keep
	Reserved      uint64 // bytes held from the device
	PeakInUse     uint64
	PeakReserved  uint64
	Segments      int
	Mallocs       uint64 // calls that succeeded
	Frees         uint64
	DeviceMallocs uint64 // calls passed on to the device
	DeviceFrees   uint64
	Retries       uint64 // times the cache was given back because the device was full
}

// Cached is the number of reserved bytes that Malloc may give out.
func (s Stats) Cached() uint64 { return s.Reserved - s.InUse - s.Waiting - s.Kept }

// lists are the free blocks of one stream.
type lists struct {
	stream       Stream // nil: unowned
	small, large bins
	gone         bool // the stream was destroyed
	kept         bool // no wait makes the blocks unowned
}

func (l *lists) bins(s *segment) *bins {
	if s.small {
		return &l.small
	}
	return &l.large
}

// bytes is the total size of the free blocks.
func (l *lists) bytes() uint64 { return l.small.bytes() + l.large.bytes() }

// pending is a freed block that other streams may still be using. Without fences it waits
// for a Trim that synchronises.
type pending struct {
	block  *Block
	fences []Fence
}

// Pool is a caching allocator, safe for concurrent use.
type Pool struct {
	source Source

	mu      sync.Mutex
	unowned lists
	streams map[Stream]*lists
	pending []pending
	stats   Stats
	taken   uint64 // see TakePeak

	settling int       // number of waits that have blocks set aside
	back     sync.Cond // one of them has put its blocks back

	segments map[*segment]struct{}

	expander  Expander // nil if all segments come from the source
	rangeSize uint64
}

// New makes an empty pool.
func New(s Source) *Pool {
	p := &Pool{source: s, streams: make(map[Stream]*lists), segments: make(map[*segment]struct{})}
	p.back.L = &p.mu
	return p
}

// round is the size of a block for n bytes, and whether it is a small one.
func round(n uint64) (size uint64, small bool) {
	size = (n + tail + unit - 1) / unit * unit
	return size, size <= smallLimit
}

func segmentSize(size uint64, small bool) uint64 {
	switch {
	case small:
		return smallSegment
	case size < largeLimit:
		return largeSegment
	}
	return (size + granule - 1) / granule * granule
}

// Malloc gives a block of at least n bytes to a stream, in the order of the stream: work
// queued on it earlier may still be using the memory. With a nil stream no work is.
//
// If the device is full the pool gives back what it has cached, in the end by waiting for
// all work on the device, and tries again. The error matches ErrExhausted, or is that of
// the wait.
func (p *Pool) Malloc(s Stream, n uint64) (*Block, error) {
	if n == 0 || n > maxSize {
		return nil, fmt.Errorf("pool: a block of %d bytes is not possible", n)
	}
	size, small := round(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	owner := p.listsOf(s)
	limit := uint64(maxSize)
	if !small && p.expander == nil {
		limit = max(cutting*size, largeSegment)
	}
	b := p.cached(owner, size, limit)
	if b == nil && p.collect() {
		b = p.cached(owner, size, limit)
	}
	if b == nil {
		var err error
		if b, err = p.extend(owner, size, small); err != nil {
			return nil, err
		}
	}
	p.give(b, owner, size, n)
	return b, nil
}

func (p *Pool) listsOf(s Stream) *lists {
	if s == nil {
		return &p.unowned
	}
	l := p.streams[s]
	if l == nil {
		l = &lists{stream: s}
		p.streams[s] = l
	}
	return l
}

// cached takes a free block of the owner or an unowned one, of at most so many bytes.
func (p *Pool) cached(owner *lists, size, limit uint64) *Block {
	for _, l := range []*lists{owner, &p.unowned} {
		from := &l.large
		if size <= smallLimit {
			from = &l.small
		}
		if b := from.take(size, limit); b != nil {
			return b
		}
		if owner == &p.unowned {
			break
		}
	}
	return nil
}

// give makes a free block the owner's, cut to the size.
func (p *Pool) give(b *Block, owner *lists, size, requested uint64) {
	// A large block keeps a small rest, which no large block could be made of.
	if rest := b.size - size; rest >= unit && (b.segment.small || rest > smallLimit) {
		former := b.owner
		r := b.split(size)
		former.bins(r.segment).add(r)
	}
	b.owner, b.requested, b.label = owner, requested, ""
	p.stats.Mallocs++
	p.stats.Allocated += requested
	p.stats.InUse += b.size
	p.stats.PeakInUse = max(p.stats.PeakInUse, p.stats.InUse)
	p.taken = max(p.taken, p.stats.InUse)
}

// extend gets a segment from the source, if need be after giving back what is cached.
func (p *Pool) extend(owner *lists, size uint64, small bool) (*Block, error) {
	b, err := p.newSegment(owner, size, small)
	if err == nil || !errors.Is(err, ErrExhausted) {
		return b, err
	}
	// What idle streams have freed is anyone's, without waiting.
	if err := p.adopt(); err != nil {
		return nil, err
	}
	for settled := false; ; {
		if b := p.cached(owner, size, maxSize); b != nil {
			return b, nil
		}
		p.stats.Retries++
		if err := p.shrink(); err != nil {
			return nil, err
		}
		if b, err = p.newSegment(owner, size, small); err == nil || !errors.Is(err, ErrExhausted) || settled && p.settling == 0 {
			return b, err
		}
		if settled {
			p.back.Wait() // for the blocks that others have set aside
			settled = false
			continue
		}
		if err := p.settle(p.source.Synchronize); err != nil {
			return nil, err
		}
		settled = true
	}
}

func (p *Pool) newSegment(owner *lists, size uint64, small bool) (*Block, error) {
	if p.expander != nil && !small {
		return p.grow(owner, size)
	}
	n := segmentSize(size, small)
	addr, err := p.source.Malloc(n)
	if err != nil && errors.Is(err, ErrExhausted) && !small && n > granule {
		// The last of the memory may still hold the block itself.
		if exact := (size + granule - 1) / granule * granule; exact < n {
			n = exact
			addr, err = p.source.Malloc(n)
		}
	}
	if err != nil {
		return nil, err
	}
	s := &segment{addr: addr, size: n, small: small}
	s.first = &Block{addr: addr, size: n, owner: owner, segment: s}
	p.segments[s] = struct{}{}
	p.stats.DeviceMallocs++
	p.stats.Segments++
	p.stats.Reserved += n
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
	return s.first, nil
}

// Free takes a block back. users are the streams that used it besides its own; the block is
// not given out before they have passed this point. If a stream cannot be fenced the block
// waits for the next Trim, and the error has the reason.
func (p *Pool) Free(b *Block, users []Stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Frees++
	p.stats.Allocated -= b.requested
	p.stats.InUse -= b.size
	b.requested = 0
	if b.owner.gone {
		b.owner = &p.unowned
	}
	var fences []Fence
	for _, s := range users {
		if s == b.owner.stream {
			continue
		}
		f, err := s.Fence()
		if err != nil {
			for _, f := range fences {
				f.Release()
			}
			p.wait(b, nil)
			return err
		}
		if f != nil {
			fences = append(fences, f)
		}
	}
	if len(fences) > 0 {
		p.wait(b, fences)
		return nil
	}
	p.insert(b)
	return nil
}

func (p *Pool) wait(b *Block, fences []Fence) {
	p.stats.Waiting += b.size
	p.pending = append(p.pending, pending{b, fences})
}

// insert puts a freed block into its owner's list, joined with its free neighbours.
func (p *Pool) insert(b *Block) {
	if n := b.next; n != nil && n.free && n.owner == b.owner {
		b.owner.bins(n.segment).remove(n)
		b.absorb()
	}
	if v := b.prev; v != nil && v.free && v.owner == b.owner {
		b.owner.bins(v.segment).remove(v)
		v.absorb()
		b = v
	}
	b.owner.bins(b.segment).add(b)
}

// collect frees the pending blocks whose fences have passed. A fence that cannot be asked
// stays: if the memory is needed, a synchronise brings the error out.
func (p *Pool) collect() (freed bool) {
	p.pending = slices.DeleteFunc(p.pending, func(w pending) bool {
		if w.fences == nil {
			return false
		}
		for _, f := range w.fences {
			if passed, err := f.Passed(); err != nil || !passed {
				return false
			}
		}
		p.end(w)
		p.insert(w.block)
		freed = true
		return true
	})
	return freed
}

// end releases the fences of a block that no longer waits.
func (p *Pool) end(w pending) {
	for _, f := range w.fences {
		f.Release()
	}
	p.stats.Waiting -= w.block.size
	if w.block.owner.gone {
		w.block.owner = &p.unowned
	}
}
