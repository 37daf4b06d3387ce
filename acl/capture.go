package acl

import (
	"context"
	"errors"
	"runtime"

	"github.com/goascend/cann/internal/abi"
)

// CaptureMode selects whose calls CANN refuses during a capture because the graph could not contain
// them: Context.Copy, Copy2D and Memset, and the same of other libraries.
type CaptureMode int32

// Modes, with the values of aclmdlRICaptureMode.
const (
	CaptureGlobal      CaptureMode = abi.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL       // those of the whole process
	CaptureThreadLocal CaptureMode = abi.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL // those of the captured function
	CaptureRelaxed     CaptureMode = abi.ACL_MODEL_RI_CAPTURE_MODE_RELAXED      // none
)

// Capture records the work that f queues on the stream, without running it, and makes a Graph of
// it (aclmdlRICaptureBegin, aclmdlRICaptureEnd). CaptureThreadLocal is the mode for a program
// whose other goroutines go on using the device. Run the same work once before: a capture cannot
// wait for what operators and communicators prepare at their first use.
//
// Other streams join the capture when they wait for an event that was recorded in it; the stream
// must wait for an event on each of them before f returns. What must wait, or runs on the host,
// cannot be recorded and matches ErrCapture: Synchronize, Query, Close, copies between the device
// and Go slices, host functions, prepared executors, and arenas. Copies to and from a HostBuffer
// are recorded, and use what it holds at the replay.
//
// The graph keeps the memory that its tasks use. Scratch memory that f allocates with
// Stream.Malloc and closes is used again by later tasks of the graph, and by no other work until
// the graph is closed. Buffers that stay open after f must stay open as long as the graph is
// replayed.
//
// Capture first waits, at most until ctx ends, for the stream's work, whose cached memory the
// graph can then have. If f fails, or queues something that cannot be recorded, there is no graph.
// The stream must be of NewStream, and nothing else may use it during the call.
func (s *Stream) Capture(ctx context.Context, mode CaptureMode, f func() error) (*Graph, error) {
	const op = "Stream.Capture"
	if err := s.usable(op); err != nil {
		return nil, err
	}
	q := s.q
	switch {
	case ctx == nil:
		return nil, noContext(op)
	case f == nil:
		return nil, q.refuse(op, ErrInvalidArgument, "the function is nil")
	case q.handle == 0:
		return nil, q.refuse(op, ErrInvalidArgument, "a context's default stream cannot be captured; use one of NewStream")
	case q.member.Load() != nil:
		return nil, q.refuse(op, ErrCapture, "the stream is capturing already")
	}
	cut, err := q.wait(ctx)
	if cut {
		return nil, q.interrupted(op, ctx)
	}
	if err == nil {
		err = q.scope.chip.pool.Share(q)
	}
	if err != nil {
		return nil, q.faulty(err)
	}
	rec, err := q.record(mode, f)
	if err != nil {
		return nil, err
	}
	g := &Graph{rec: rec, dev: s.dev}
	g.open(KindGraph, leak{remains: heir(lostGraph{rec})})
	runtime.KeepAlive(s)
	return g, nil
}

// record runs f in a capture. Begin and end of a capture must be on one thread.
func (q *queue) record(mode CaptureMode, f func() error) (_ *recording, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rec := &recording{scope: q.scope, mode: aclmdlRICaptureMode(mode), memories: make(map[*memory]struct{})}
	q.scope.retain()
	rec.active.Store(true)
	q.scope.chip.captures.Add(1)
	err = q.begin(rec.admit(q), func() error { return aclmdlRICaptureBegin(q.scope.handle, q.handle, rec.mode) })
	if err != nil {
		rec.finish()
		q.scope.chip.captures.Add(-1)
		return nil, errors.Join(q.fail(err), rec.end())
	}
	kept := false
	defer func() { // also when f panics
		e := q.end(func() (err error) {
			rec.handle, err = aclmdlRICaptureEnd(q.scope.handle, q.handle)
			return err
		})
		rec.finish()
		q.scope.chip.captures.Add(-1)
		if e != nil {
			err = errors.Join(err, q.fail(e))
		}
		if !kept || err != nil {
			err = errors.Join(err, rec.end())
		}
	}()
	err = f()
	kept = err == nil
	return rec, err
}

// Capturing reports whether what is queued on the stream becomes part of a graph.
func (s *Stream) Capturing() bool { return s != nil && s.q != nil && s.q.member.Load() != nil }
