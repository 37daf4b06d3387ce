package acl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// queue is the inner part of a stream, which memory and errors refer to.
type queue struct {
	scope   *scope
	user    bridge.User // the stream as a user of memory
	handle  aclrtStream
	id      int
	gone    atomic.Bool   // all work has ended and no more comes
	ending  sync.RWMutex  // held for reading to query a stream that another goroutine may close
	waiting atomic.Int32  // waits that check whether other goroutines queue work
	fed     atomic.Uint64 // number of tasks queued meanwhile, operators aside, which the ring counts
	aside   aside
	unasked bool // its flags make CANN wait for none of its work, and queries never find it idle
	ring    ring
	arena   workspace
	member  atomic.Pointer[member] // of a capture or an update; nil at other times
	joining sync.RWMutex           // held while a capture or an update begins or ends, and for reading to query the stream outside of them
	hosted  hosted
	reports reporter
}

// newQueue is the inner part of a stream that CANN has made.
func (sc *scope) newQueue(handle aclrtStream) (*queue, error) {
	id, err := aclrtStreamGetId(sc.handle, handle)
	if err != nil {
		return nil, sc.fail(err)
	}
	q := &queue{scope: sc, handle: handle, id: int(id)}
	q.arena.owner = q
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.queues[q] = struct{}{}
	return q, nil
}

// asUser returns the stream as a user of memory. In a capture it is another user, so that the graph
// learns of all memory that its tasks use.
func (q *queue) asUser() *bridge.User {
	if s := q.member.Load(); s != nil {
		return &s.user
	}
	return &q.user
}

// workspace is the scratch memory of operators launched now.
func (q *queue) workspace() *workspace {
	if s := q.member.Load(); s != nil {
		return s.arena
	}
	return &q.arena
}

func (sc *scope) destroyQueue(q *queue, handle aclrtStream) error {
	sc.mu.Lock()
	delete(sc.queues, q)
	sc.mu.Unlock()
	return sc.wrap(aclrtDestroyStream(sc.handle, handle))
}

// lostStream holds the handle of a Stream that was collected without Close.
type lostStream struct {
	q      *queue
	failed error // what the queries found: CANN reports a fault once
}

func (l *lostStream) idle() bool {
	var done bool
	done, l.failed = l.q.query()
	return done || l.failed != nil
}

func (l *lostStream) end() error { return errors.Join(l.failed, l.q.synchronize(), l.q.destroy()) }

// synchronize waits for the work, without limit, and returns what failed in it.
func (q *queue) synchronize() error { return q.faulty(q.join()) }

// join waits for the work, and returns what failed in it, or nothing of a stream that is gone.
func (q *queue) join() error {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() {
		return nil
	}
	return q.joinLive()
}

// joinLive waits in CANN, which reads and clears the fault of a stream in this call alone: queries and
// waits for events do not report it. The caller holds ending, and the stream is not gone.
func (q *queue) joinLive() error {
	err := aclrtSynchronizeStreamWithTimeout(q.scope.handle, q.handle, forever)
	if left := q.aside.take(); err == nil {
		err = left
	}
	return err
}

// wait waits for the work that was queued before the call until ctx ends, and returns what failed
// in it. It queries whether the stream is idle. If other goroutines go on to queue work the
// stream may never be; then a call of CANN waits aside.
func (q *queue) wait(ctx context.Context) (interrupted bool, err error) {
	if ctx.Done() == nil || q.unasked {
		return false, q.join()
	}
	interrupted, fed := q.pass(ctx)
	switch {
	case interrupted:
		return true, nil
	case fed:
		return q.aside.wait(ctx, q.join)
	}
	return false, q.join()
}

// pass waits until the stream is idle or gone, or ctx ends, or fed reports that others queue work.
func (q *queue) pass(ctx context.Context) (interrupted, fed bool) {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() || q.unasked {
		return false, false
	}
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	before := q.queued()
	interrupted, _ = poll(ctx, func() (bool, error) {
		fed = q.queued() != before
		if fed {
			return true, nil
		}
		return q.queryLive() // join reports a failed query
	})
	return interrupted, fed
}

// feed notes that work was queued, for the waits.
func (q *queue) feed() {
	if q.waiting.Load() != 0 {
		q.fed.Add(1)
	}
}

// queued is a number that grows when work is queued during a wait.
func (q *queue) queued() uint64 { return q.fed.Load() + q.ring.launched.Load() }

// destroy ends a stream whose work has ended.
func (q *queue) destroy() error {
	q.release()
	return errors.Join(q.scope.destroyQueue(q, q.handle), q.scope.release())
}

// release gives back everything that a stream holds once its work has ended.
func (q *queue) release() {
	q.aside.finish()
	q.ending.Lock()
	q.gone.Store(true)
	q.ending.Unlock()
	q.hosted.cancel()
	q.reports.end(q)
	q.arena.close(q)
	q.scope.chip.pool.Forget(q)
}

func (q *queue) refuse(op string, group error, format string, args ...any) *Error {
	e := q.scope.refuse(op, group, format, args...)
	e.Stream = q.id
	return e
}

func (q *queue) fail(err error) *Error {
	e := q.scope.fail(err)
	e.Stream = q.id
	return e
}

// faulty is fault for an error that may be nil.
func (q *queue) faulty(err error) error {
	if err == nil {
		return nil
	}
	return q.fault(err)
}

// fault is fail for a call that may bring out what failed in earlier work.
func (q *queue) fault(err error) *Error {
	e := q.fail(err)
	if e.blamesOperator() {
		e.Suspects = rankSuspects(q.ring.recent(), e.Message)
		e.Exceptions = takeExceptions(q.scope.chip.id, q.id)
	}
	return e
}

func (q *queue) interrupted(op string, ctx context.Context) *Error {
	e := q.scope.interrupted(op, ctx)
	e.Stream = q.id
	return e
}

// query reports whether all work has ended, as that of a stream that is gone has.
func (q *queue) query() (bool, error) {
	q.ending.RLock()
	defer q.ending.RUnlock()
	if q.gone.Load() {
		return true, nil
	}
	return q.queryLive()
}

// queryLive asks CANN. The caller holds ending, and the stream is not gone.
func (q *queue) queryLive() (bool, error) {
	status, err := aclrtStreamQuery(q.scope.handle, q.handle)
	if err != nil {
		return false, q.fault(err)
	}
	return status == abi.ACL_STREAM_STATUS_COMPLETE, nil
}
