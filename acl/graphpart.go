package acl

import (
	"context"
	"errors"
	"runtime"
)

// GraphPart is a group of a graph's tasks whose arguments Graph.Update can change. It ends with
// its graph.
type GraphPart struct {
	rec    *recording
	member *member
	group  aclrtTaskGrp
}

// Part makes the work that f queues during a capture a part of the graph that Graph.Update can
// change (aclmdlRICaptureTaskGrpBegin, aclmdlRICaptureTaskGrpEnd). CANN takes operators only,
// without copies, records and waits; f must allocate nothing. The workspace of its operators
// cannot grow later: capture with the largest sizes and lengths.
func (s *Stream) Part(f func() error) (*GraphPart, error) {
	const op = "Stream.Part"
	if err := s.usable(op); err != nil {
		return nil, err
	}
	q := s.q
	member := q.member.Load()
	switch {
	case f == nil:
		return nil, q.refuse(op, ErrInvalidArgument, "the function is nil")
	case member == nil || member.updating:
		return nil, q.refuse(op, ErrInvalidArgument, "the stream is not capturing; call it in the function of Stream.Capture")
	}
	if err := aclmdlRICaptureTaskGrpBegin(q.scope.handle, q.handle); err != nil {
		return nil, q.fail(err)
	}
	err := f()
	group, e := aclmdlRICaptureTaskGrpEnd(q.scope.handle, q.handle)
	if e != nil {
		err = errors.Join(err, q.fail(e))
	}
	if err != nil {
		return nil, err
	}
	return &GraphPart{rec: member.rec, member: member, group: group}, nil
}

// Update replaces the tasks of a part by those that f queues on the stream: the same operators in
// the same number, with other addresses, scalars or lists of the host
// (aclmdlRICaptureTaskUpdateBegin, aclmdlRICaptureTaskUpdateEnd; driver 25.0.RC1). It waits, at
// most until ctx ends, for the replays under way, which would see the change. Later replays have
// the new arguments. Until Update returns, Replay and other updates of the graph are refused with
// ErrBusy, also in f. An operator that needs more workspace than the capture gave it is refused.
func (g *Graph) Update(ctx context.Context, s *Stream, p *GraphPart, f func() error) (err error) {
	const op = "Graph.Update"
	if err := g.usable(op); err != nil {
		return err
	}
	if err := s.usable(op); err != nil {
		return err
	}
	q, r := s.q, g.rec
	switch {
	case ctx == nil:
		return noContext(op)
	case f == nil || p == nil:
		return q.refuse(op, ErrInvalidArgument, "the function or the part is nil")
	case p.rec != r:
		return q.refuse(op, ErrInvalidArgument, "the part is of another graph")
	case q.scope.chip != r.scope.chip:
		return q.refuse(op, ErrWrongDevice, "the graph is of device %d", r.scope.chip.id)
	case q.member.Load() != nil:
		return q.refuse(op, ErrCapture, "the stream is capturing")
	}
	if !r.update() {
		return q.refuse(op, ErrBusy, "another update of the graph is under way")
	}
	defer r.updated()
	failed, err := r.settle(op, ctx)
	if err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	r.mu.Lock()
	err = errors.Join(r.usable(op), r.use(q))
	r.mu.Unlock()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = q.begin(&member{rec: r, q: q, arena: p.member.arena, updating: true}, func() error {
		return aclmdlRICaptureTaskUpdateBegin(q.scope.handle, q.handle, p.group)
	})
	if err != nil {
		return q.fail(err)
	}
	defer func() { // also when f panics
		if e := q.end(func() error { return aclmdlRICaptureTaskUpdateEnd(q.scope.handle, q.handle) }); e != nil {
			err = errors.Join(err, q.fail(e))
		}
	}()
	return f()
}

// update begins an update, unless another one is under way. No replay begins until updated is called: one
// that began after the wait for those under way would see a part of the change.
func (r *recording) update() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.updating {
		return false
	}
	r.updating = true
	return true
}

// updated ends an update.
func (r *recording) updated() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updating = false
}
