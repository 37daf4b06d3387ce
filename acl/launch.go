package acl

import (
	"context"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/bridge"
)

// What Stream and Buffer embed for packages aclnn and hccl: see package bridge.
type (
	bridgedStream = bridge.Stream
	bridgedBuffer = bridge.Buffer
)

// launcher is a Stream as package aclnn reaches it. It implements bridge.Queue.
type launcher Stream

// reached is a region as package aclnn reaches it. It implements bridge.Memory.
type reached region

// LastUser implements bridge.Memory.
func (r *reached) LastUser() *bridge.LastUser { return &r.mem.last }

// User implements bridge.Queue.
func (l *launcher) User() *bridge.User { return l.q.asUser() }

// Usable implements bridge.Queue.
func (l *launcher) Usable() error { return (*Stream)(l).usable("acl.Stream") }

// Use implements bridge.Queue.
func (l *launcher) Use(m bridge.Memory) error {
	s := (*Stream)(l)
	if err := s.usable("Stream.Use"); err != nil {
		return err
	}
	r, _ := m.(*reached)
	return l.q.accept("Stream.Use", (*region)(r), 0)
}

// Hold implements bridge.Queue.
func (l *launcher) Hold(graphs *atomic.Int64) {
	if r := l.q.recording(); r != nil {
		r.count(graphs)
	}
}

// HoldGroup implements bridge.Queue.
func (l *launcher) HoldGroup(name string) {
	r := l.q.recording()
	if r == nil {
		return
	}
	if graphs := bridge.Groups.Graphs(l.q.scope.chip.id, name); graphs != nil {
		r.count(graphs)
	}
}

// Launch implements bridge.Queue.
func (l *launcher) Launch(launch *cshim.Launch) error {
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

// Prepare implements bridge.Queue.
func (l *launcher) Prepare(launch *cshim.Launch) (*cshim.Prepared, error) {
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

// Run implements bridge.Queue; the workspace is that of the stream.
func (l *launcher) Run(p *cshim.Prepared) error {
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
	if q.member.Load() != nil {
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
	if process.blocking.Load() && s.q.member.Load() == nil {
		return s.Synchronize(context.Background())
	}
	return nil
}
