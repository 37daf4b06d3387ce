package ccl

import "github.com/goascend/cann/internal/emu/rt"

// group collects the point-to-point calls of a thread since HcclGroupStart.
type group struct {
	depth   int
	pending []*batch
}

// batch holds the messages of a group on one communicator. They are all launched on the stream
// of the first call.
type batch struct {
	c      *comm
	stream rt.Handle
	phase  phase
}

// HcclGroupStart begins a group on the calling thread, or nests one level deeper in the
// current group.
func (l *Library) HcclGroupStart(t *rt.Thread) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[t]
	if g == nil {
		g = new(group)
		l.groups[t] = g
	}
	g.depth++
	return nil
}

// HcclGroupEnd launches the calls of the group when the outermost level ends. Unlike CANN's
// function, it returns the error of a call that fails.
func (l *Library) HcclGroupEnd(t *rt.Thread) error {
	l.mu.Lock()
	g := l.groups[t]
	if g == nil {
		l.mu.Unlock()
		return refuse(badParameter, "EI0003: HcclGroupEnd: no group was started on this thread")
	}
	g.depth--
	if g.depth > 0 {
		l.mu.Unlock()
		return nil
	}
	delete(l.groups, t)
	l.mu.Unlock()
	for _, b := range g.pending {
		if err := b.c.launch(t, b.stream, plan{pointCall, header{}, []phase{b.phase}}); err != nil {
			return err
		}
	}
	return nil
}

// grouped adds a message to the thread's group. It reports false if no group is open.
func (l *Library) grouped(t *rt.Thread, c *comm, stream rt.Handle, p phase) bool {
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
