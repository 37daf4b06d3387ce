package pool

import "errors"

// Trim waits for the work on the device, by calling wait, and gives every segment without a
// taken block back to the device. The pool can be used while it waits.
func (p *Pool) Trim(wait func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.settle(wait); err != nil {
		return err
	}
	return p.shrink()
}

// Forget drops a stream that has no work any more and gets none; its free blocks are
// anyone's. Call it before the stream is destroyed, when its Fence already gives nil.
func (p *Pool) Forget(s Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.streams[s]; l != nil {
		l.gone = true
		delete(p.streams, s)
		p.disown(l)
	}
}

// Keep makes the free blocks of a stream stay its own until Forget, whatever the device has
// ended: they belong to a graph, whose replays use them again.
func (p *Pool) Keep(s Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listsOf(s).kept = true
}

// Share makes the free blocks of a stream unowned, if it is idle.
func (p *Pool) Share(s Stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.streams[s]
	if l == nil || l.kept {
		return nil
	}
	idle, err := s.Idle()
	if idle && err == nil {
		p.disown(l)
	}
	return err
}

// FreeOf is the number of bytes in the free blocks of a stream.
func (p *Pool) FreeOf(s Stream) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.streams[s]; l != nil {
		return l.bytes()
	}
	return 0
}

// Stats is a snapshot of the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for _, l := range p.streams {
		if l.kept {
			s.Kept += l.bytes()
		}
	}
	return s
}

// ResetPeaks makes the present figures the peaks.
func (p *Pool) ResetPeaks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.PeakInUse, p.stats.PeakReserved = p.stats.InUse, p.stats.Reserved
}

// disown makes the free blocks of a stream unowned.
func (p *Pool) disown(l *lists) {
	var blocks []*Block
	for _, f := range []*bins{&l.small, &l.large} {
		f.drain(func(b *Block) {
			b.owner = &p.unowned
			blocks = append(blocks, b)
		})
	}
	for _, b := range blocks {
		p.insert(b)
	}
}

// adopt makes the free blocks of idle streams unowned.
func (p *Pool) adopt() error {
	for s, l := range p.streams {
		if l.kept {
			continue
		}
		idle, err := s.Idle()
		if err != nil {
			return err
		}
		if idle {
			p.disown(l)
		}
	}
	return nil
}

// settle makes every freed block unowned after a wait for all work on the device. The
// blocks are set aside first, so that those freed during the wait are not taken for safe.
func (p *Pool) settle(wait func() error) error {
	var aside []*Block
	for _, l := range p.streams {
		if l.kept {
			continue
		}
		for _, f := range []*bins{&l.small, &l.large} {
			f.drain(func(b *Block) { aside = append(aside, b) })
		}
	}
	fenced := p.pending
	p.pending = nil
	p.settling++
	p.mu.Unlock()
	err := wait()
	p.mu.Lock()
	p.settling--
	defer p.back.Broadcast()
	if err != nil {
		// Nothing is known of the work: everything goes back to where it was.
		for _, b := range aside {
			if b.owner.gone {
				b.owner = &p.unowned
			}
			p.insert(b)
		}
		p.pending = append(p.pending, fenced...)
		return err
	}
	for _, w := range fenced {
		p.end(w)
		aside = append(aside, w.block)
	}
	for _, b := range aside {
		b.owner = &p.unowned
		p.insert(b)
	}
	return nil
}

// shrink gives unowned whole segments back to the device, and whole pages of ranges.
func (p *Pool) shrink() error {
	var errs []error
	for _, f := range []*bins{&p.unowned.small, &p.unowned.large} {
		var kept, ranged []*Block
		f.drain(func(b *Block) {
			if b.segment.ranged {
				ranged = append(ranged, b)
				return
			}
			if !b.whole() {
				kept = append(kept, b)
				return
			}
			if err := p.source.Free(b.addr); err != nil {
				errs = append(errs, err)
				kept = append(kept, b)
				return
			}
			delete(p.segments, b.segment)
			p.stats.DeviceFrees++
			p.stats.Segments--
			p.stats.Reserved -= b.size
		})
		for _, b := range kept {
			f.add(b)
		}
		for _, b := range ranged {
			errs = append(errs, p.contract(b))
		}
	}
	return errors.Join(errs...)
}
