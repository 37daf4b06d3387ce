package pool

import (
	"cmp"
	"slices"
)

// Segment describes memory of the Source and the blocks that it is divided into, by address.
type Segment struct {
	Address, Size uint64
	Blocks        []BlockInfo
}

// BlockInfo describes a block.
type BlockInfo struct {
	Address, Size uint64
	Requested     uint64 // bytes asked for, of a block that was given out
	Stream        Stream // in whose order it is given out, nil for none
	State         State
	Label         string // of Pool.Label
}

// State is whether a block can be given out.
type State uint8

// States of a block.
const (
	Used    State = iota // given out
	Waiting              // freed, and other streams may still use it
	Kept                 // free, of a stream of Keep
	Free
	Unmapped // addresses without memory
)

// Label notes what a block that was given out is for.
func (p *Pool) Label(b *Block, label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.label = label
}

// Layout describes all memory of the pool, by address.
func (p *Pool) Layout() []Segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Segment, 0, len(p.segments))
	for s := range p.segments {
		segment := Segment{Address: s.addr, Size: s.size}
		for b := s.first; b != nil; b = b.next {
			segment.Blocks = append(segment.Blocks, b.info())
		}
		all = append(all, segment)
	}
	slices.SortFunc(all, func(x, y Segment) int { return cmp.Compare(x.Address, y.Address) })
	return all
}

func (b *Block) info() BlockInfo {
	i := BlockInfo{Address: b.addr, Size: b.size, Stream: b.owner.stream}
	switch {
	case b.unmapped:
		i.State = Unmapped
	case b.free && b.owner.kept:
		i.State = Kept
	case b.free:
		i.State = Free
	case b.requested == 0:
		i.State = Waiting
	default:
		i.Requested, i.Label = b.requested, b.label
	}
	return i
}

// TakePeak returns the largest Stats.InUse since the last call, or since the pool was made. It does not change Stats.
func (p *Pool) TakePeak() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	peak := p.taken
	p.taken = p.stats.InUse
	return peak
}
