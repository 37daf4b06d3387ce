package ccl

import "github.com/goascend/cann/internal/emu/rt"

// group is what a thread has called since HcclGroupStart.
type group struct {
	depth   int
	pending []*batch
}

// batch is the messages of a group on one communicator, which go on the stream of the first.
type batch struct {
	c      *comm
	stream uint64
	phase  phase
}

// groupStart begins a group on the calling thread, or goes one level deeper.
func (l *Library) groupStart(t *rt.Thread, _ []uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[t]
	if g == nil {
		g = new(group)
		l.groups[t] = g
	}
	g.depth++
	return 0
}

// groupEnd launches what the group holds when it is the outermost that ends. Other than
// CANN's, it tells what failed.
func (l *Library) groupEnd(t *rt.Thread, _ []uint64) uint64 {
	l.mu.Lock()
	g := l.groups[t]
	if g == nil {
		l.mu.Unlock()
		return answer(t, refuse(badParameter, "EI0003: HcclGroupEnd: no group was started on this thread"))
	}
	g.depth--
	if g.depth > 0 {
		l.mu.Unlock()
		return 0
	}
	delete(l.groups, t)
	l.mu.Unlock()
	for _, b := range g.pending {
		if err := b.c.launch(t, b.stream, plan{pointCall, header{}, []phase{b.phase}}); err != nil {
			return answer(t, err)
		}
	}
	return 0
}

// grouped takes a message of a group; without a group it reports false.
func (l *Library) grouped(t *rt.Thread, c *comm, stream uint64, p phase) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[t]
	if g == nil {
		return false
	}
	var b *batch
	for _, have := range g.pending {
		if have.c == c {
			b = have
		}
	}
	if b == nil {
		b = &batch{c: c, stream: stream, phase: phase{pairs: true}}
		g.pending = append(g.pending, b)
	}
	b.phase.sends = append(b.phase.sends, p.sends...)
	b.phase.receives = append(b.phase.receives, p.receives...)
	return true
}
