package acl

import (
	"context"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/bridge"
)

// lent is a Stream as package aclnn gets it: see package bridge.
type lent Stream

func init() {
	bridge.StreamOf = func(stream any) (bridge.Stream, *bridge.User, error) {
		s, _ := stream.(*Stream)
		if s == nil || s.q == nil {
			return nil, nil, neverMade("acl.Stream", KindStream)
		}
		return (*lent)(s), s.q.who(), nil
	}
	bridge.MemoryOf = func(buffer any) *bridge.Memory {
		if r := buffer.(*Buffer).where(); r != nil {
			return &r.mem.last
		}
		return nil
	}
}

// Usable implements bridge.Stream.
func (l *lent) Usable() error { return (*Stream)(l).usable("acl.Stream") }

// Use implements bridge.Stream.
func (l *lent) Use(buffer any) error {
	b, _ := buffer.(*Buffer)
	return (*Stream)(l).use("Stream.Use", b)
}

// Hold implements bridge.Stream.
func (l *lent) Hold(users *atomic.Int64) {
	if r := l.q.recording(); r != nil {
		r.count(users)
	}
}

// Mention implements bridge.Stream.
func (l *lent) Mention(name string) {
	r := l.q.recording()
	if r == nil || bridge.UsersOf == nil {
		return
	}
	if users := bridge.UsersOf(l.q.scope.chip.id, name); users != nil {
		r.count(users)
	}
}

// Launch implements bridge.Stream.
func (l *lent) Launch(launch *cshim.Launch) error {
	s := (*Stream)(l)
	if observed() {
		return s.watch(CallLaunch, launch.Operator().Symbol, 0, func() error { return s.launch(launch) })
	}
	return s.launch(launch)
}

func (s *Stream) launch(launch *cshim.Launch) error {
	if !s.ready() {
		return s.usable("Stream.Launch")
	}
	q := s.q
	ws := q.workspace()
	w := ws.acquire()
	for {
		var addr, size uint64
		if w != nil {
			addr, size = w.addr, w.size
		}
		need, err := launch.Run(uint64(q.scope.handle), uint64(q.handle), addr, size)
		if w != nil {
			q.releaseScratch(w)
		}
		if err != nil {
			return q.fault(err)
		}
		if need == 0 {
			break
		}
		if w, err = ws.grow(q, need); err != nil {
			return err
		}
	}
	return s.launched(launch.Operator())
}

// Prepare implements bridge.Stream.
func (l *lent) Prepare(launch *cshim.Launch) (*cshim.Prepared, error) {
	s := (*Stream)(l)
	if err := s.usable("Stream.Prepare"); err != nil {
		return nil, err
	}
	p, err := cshim.Prepare(launch, uint64(s.q.scope.handle))
	if err != nil {
		return nil, s.q.fail(err)
	}
	return p, nil
}

// Run implements bridge.Stream; the workspace is that of the stream.
func (l *lent) Run(p *cshim.Prepared) error {
	s := (*Stream)(l)
	if observed() {
		return s.watch(CallLaunch, p.Operator().Symbol, 0, func() error { return s.run(p) })
	}
	return s.run(p)
}

func (s *Stream) run(p *cshim.Prepared) error {
	if err := s.usable("Stream.Run"); err != nil {
		return err
	}
	q := s.q
	if q.seat.Load() != nil {
		return q.refuse("Executor.Run", ErrCapture, "a graph would use the executor's memory after its Close; launch the operator itself")
	}
	w := q.arena.acquire()
	if need := p.Workspace(); need > 0 && (w == nil || w.size < need) {
		q.releaseScratch(w)
		var err error
		if w, err = q.arena.grow(q, need); err != nil {
			return err
		}
	}
	var addr, size uint64
	if w != nil {
		addr, size = w.addr, w.size
	}
	err := p.Run(uint64(q.handle), addr, size)
	q.releaseScratch(w)
	if err != nil {
		return q.fault(err)
	}
	return s.launched(p.Operator())
}

// launched notes a launch, and waits for it in the blocking mode.
func (s *Stream) launched(op *cshim.Operator) error {
	s.q.ring.add(op)
	if process.blocking.Load() && s.q.seat.Load() == nil {
		return s.Synchronize(context.Background())
	}
	return nil
}
