package acl

import (
	"context"

	"github.com/goascend/cann/cshim"
)

// Launch queues an operator. Package aclnn calls it; the workspace comes from the stream's
// own memory. With ASCEND_LAUNCH_BLOCKING=1 it waits for the operator and returns what
// failed in it.
func (s *Stream) Launch(l *cshim.Launch) error {
	if err := s.usable("Stream.Launch"); err != nil {
		return err
	}
	q := s.q
	w := q.arena.acquire()
	for {
		var addr, size uint64
		if w != nil {
			addr, size = w.addr, w.size
		}
		need, err := l.Run(q.scope.handle, q.handle, addr, size)
		q.releaseScratch(w)
		if err != nil {
			l.Abandon()
			return q.fault(err)
		}
		if need == 0 {
			break
		}
		if w, err = q.arena.grow(q, need); err != nil {
			l.Abandon()
			return err
		}
	}
	return s.launched(l.Operator())
}

// Prepare runs phase one of an operator and keeps its executor. Package aclnn calls it.
func (s *Stream) Prepare(l *cshim.Launch) (*cshim.Prepared, error) {
	if err := s.usable("Stream.Prepare"); err != nil {
		return nil, err
	}
	p, err := cshim.Prepare(l, s.q.scope.handle)
	if err != nil {
		return nil, s.q.fail(err)
	}
	return p, nil
}

// Run queues a prepared operator, with workspace of the stream it is queued on. It must be
// a stream of the context that Prepare was called with.
func (s *Stream) Run(p *cshim.Prepared) error {
	if err := s.usable("Stream.Run"); err != nil {
		return err
	}
	q := s.q
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
	err := p.Run(q.handle, addr, size)
	q.releaseScratch(w)
	if err != nil {
		return q.fault(err)
	}
	return s.launched(p.Operator())
}

// launched notes a launch, and waits for it in the blocking mode.
func (s *Stream) launched(op *cshim.Operator) error {
	s.q.ring.add(op)
	if process.blocking.Load() {
		return s.Synchronize(context.Background())
	}
	return nil
}
