package acl

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl/internal/pool"
)

// workspace is a stream's scratch memory for operators: one block that grows. Operators of
// one stream run in order, so all of them share it.
type workspace struct {
	current atomic.Pointer[scratch]
	growing sync.Mutex
}

// scratch is one block, held by the workspace and by the launches that are passing it to
// CANN right now. It never comes back to life: from 0 refs stays 0.
type scratch struct {
	block *pool.Block
	addr  uint64
	size  uint64
	refs  atomic.Int32
}

// workspaceGranule is the least number of bytes by which a workspace grows; a large one doubles.
const workspaceGranule = 2 << 20

// acquire holds the current block for one launch; nil when there is none.
func (w *workspace) acquire() *scratch {
	for {
		s := w.current.Load()
		if s == nil {
			return nil
		}
		if n := s.refs.Load(); n > 0 && s.refs.CompareAndSwap(n, n+1) {
			return s
		}
	}
}

// release lets go of a block. The last to do so frees it: work that uses it was queued
// before, and the memory goes to the same stream.
func (q *queue) releaseScratch(s *scratch) {
	if s != nil && s.refs.Add(-1) == 0 {
		// A block that no other stream used needs no fence, which alone could fail.
		_ = q.scope.chip.pool.Free(s.block, nil)
	}
}

// grow replaces the block by one of at least need bytes, held for one launch.
func (w *workspace) grow(q *queue, need uint64) (*scratch, error) {
	w.growing.Lock()
	defer w.growing.Unlock()
	old := w.current.Load()
	if old != nil && old.size >= need { // another launch was first
		return w.acquire(), nil
	}
	size := need
	if old != nil {
		size = max(size, 2*old.size)
	}
	size = (size + workspaceGranule - 1) / workspaceGranule * workspaceGranule
	b, err := q.scope.chip.pool.Malloc(q, size)
	if err != nil && size > need {
		b, err = q.scope.chip.pool.Malloc(q, need)
	}
	if err != nil {
		return nil, q.scope.outOfMemory("operator workspace", need, err)
	}
	s := &scratch{block: b, addr: b.Address(), size: b.Size()}
	s.refs.Store(2) // the workspace's and the caller's
	w.current.Store(s)
	q.releaseScratch(old)
	return s, nil
}

// close gives the memory back when the stream ends.
func (w *workspace) close(q *queue) {
	w.growing.Lock()
	defer w.growing.Unlock()
	q.releaseScratch(w.current.Swap(nil))
}
