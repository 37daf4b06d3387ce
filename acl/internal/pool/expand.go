package pool

import (
	"errors"
	"fmt"
)

// page is the number of bytes that are mapped and unmapped at a time.
const page = 20 << 20

// Expander is a device that gives addresses and memory apart. Medium and large blocks then come from
// one range of addresses: it grows where the last block is too small, and what is free in its middle
// goes back to the device page by page, so that blocks of changing sizes leave no segments behind that
// fit none of them.
type Expander interface {
	// Reserve gives n bytes of addresses without memory.
	Reserve(n uint64) (addr uint64, err error)
	// Map puts memory of n bytes at an address, or gives an error matching ErrExhausted.
	Map(addr, n uint64) error
	// Unmap takes back what Map gave at an address. The pool makes sure that no stream uses it.
	Unmap(addr uint64) error
	// Release takes back what Reserve gave; nothing is mapped there.
	Release(addr uint64) error
}

// Expandable makes the pool take medium and large blocks from ranges of addresses of at least the
// given size. Call it before the first Malloc.
func (p *Pool) Expandable(e Expander, size uint64) {
	p.expander, p.rangeSize = e, pages(max(size, page))
}

// pages rounds up to whole pages.
func pages(n uint64) uint64 { return (n + page - 1) / page * page }

// grow gives a block from a range, after mapping what it lacks.
func (p *Pool) grow(owner *lists, size uint64) (*Block, error) {
	u := p.unmappedFor(owner, size)
	if u == nil {
		n := max(p.rangeSize, pages(size))
		addr, err := p.expander.Reserve(n)
		if err != nil {
			return nil, err
		}
		s := &segment{addr: addr, size: n, ranged: true}
		u = &Block{addr: addr, size: n, owner: &p.unowned, segment: s, unmapped: true}
		s.first = u
		p.segments[s] = struct{}{}
		p.stats.Segments++
	}
	before, after := p.beside(u.prev, owner), p.beside(u.next, owner)
	need := size
	if before != nil {
		need -= before.size
	}
	mapped, err := p.mapPages(u, min(pages(need), u.size))
	if mapped == 0 {
		return nil, err
	}
	if rest := u.size - mapped; rest > 0 {
		u.split(mapped).unmapped = true
		u.next.owner = &p.unowned
		after = nil
	}
	u.unmapped, u.owner = false, &p.unowned
	if err != nil { // what was mapped is free memory all the same
		p.insert(u)
		return nil, err
	}
	if before != nil {
		before.owner.bins(before.segment).remove(before)
		before.absorb()
		u = before
	}
	if after != nil && u.size < size {
		after.owner.bins(after.segment).remove(after)
		u.absorb()
	}
	if u.size < size {
		p.insert(u)
		return nil, fmt.Errorf("pool: %d bytes were mapped for a block of %d", u.size, size)
	}
	u.owner = owner
	return u, nil
}

// beside returns a free neighbour of an unmapped block that the owner may have, or nil.
func (p *Pool) beside(b *Block, owner *lists) *Block {
	if b != nil && b.free && (b.owner == owner || b.owner == &p.unowned) {
		return b
	}
	return nil
}

// unmappedFor returns the unmapped block that, with its free neighbours, is large enough for a block and needs
// the least memory for it.
func (p *Pool) unmappedFor(owner *lists, size uint64) (best *Block) {
	least := ^uint64(0)
	for s := range p.segments {
		if !s.ranged {
			continue
		}
		for b := s.first; b != nil; b = b.next {
			if !b.unmapped {
				continue
			}
			space, need := b.size, size
			if v := p.beside(b.prev, owner); v != nil {
				space += v.size
				need -= min(v.size, need)
			}
			if w := p.beside(b.next, owner); w != nil {
				space += w.size
			}
			need = min(need, b.size)
			if space >= size && (need < least || need == least && b.addr < best.addr) {
				best, least = b, need
			}
		}
	}
	return best
}

// mapPages maps the first n bytes of an unmapped block and returns how many were mapped.
func (p *Pool) mapPages(b *Block, n uint64) (mapped uint64, err error) {
	for ; mapped < n; mapped += page {
		if err := p.expander.Map(b.addr+mapped, page); err != nil {
			return mapped, err
		}
		p.stats.DeviceMallocs++
		p.stats.Reserved += page
		p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
	}
	return mapped, nil
}

// contract gives the whole pages in a free block of a range back to the device; the block is in no
// list, and its rests go back into the unowned ones.
func (p *Pool) contract(b *Block) error {
	first := b.segment.addr + pages(b.addr-b.segment.addr)
	end := b.segment.addr + (b.addr+b.size-b.segment.addr)/page*page
	if first >= end {
		p.unowned.bins(b.segment).add(b)
		return nil
	}
	middle := b
	if first > b.addr {
		middle = b.split(first - b.addr)
		p.unowned.bins(b.segment).add(b)
	}
	if rest := middle.addr + middle.size - end; rest > 0 {
		p.unowned.bins(b.segment).add(middle.split(middle.size - rest))
	}
	var errs []error
	for middle.size > 0 {
		if err := p.expander.Unmap(middle.addr); err != nil {
			errs = append(errs, err)
			p.unowned.bins(b.segment).add(middle)
			return errors.Join(errs...)
		}
		p.stats.DeviceFrees++
		p.stats.Reserved -= page
		gone := middle
		if middle.size > page {
			middle = gone.split(page)
		}
		gone.unmapped = true
		gone = joinUnmapped(gone)
		if gone.addr+gone.size >= end {
			return p.giveBack(gone)
		}
	}
	return nil
}

// joinUnmapped joins an unmapped block with unmapped neighbours.
func joinUnmapped(b *Block) *Block {
	if n := b.next; n != nil && n.unmapped {
		b.absorb()
	}
	if v := b.prev; v != nil && v.unmapped {
		v.absorb()
		b = v
	}
	return b
}

// giveBack releases a range without memory.
func (p *Pool) giveBack(b *Block) error {
	if !b.whole() {
		return nil
	}
	if err := p.expander.Release(b.segment.addr); err != nil {
		return err
	}
	delete(p.segments, b.segment)
	p.stats.Segments--
	return nil
}
