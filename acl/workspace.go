package acl

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl/internal/pool"
)

// workspace is a stream's scratch memory for operators: one block that grows. Operators of
// one stream run in order, so all of them share it.
type workspace struct {
	owner   pool.Stream // of the memory
	current atomic.Pointer[scratch]
	growing sync.Mutex
	rec     *recording // of a workspace of a graph; nil of a stream's own
	former  []*scratch // of a graph: smaller blocks that tasks use
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

// acquire holds the current block for one launch; nil when there is none. It is small enough to be
// inlined.
func (w *workspace) acquire() *scratch {
	if w.current.Load() == nil {
		return nil
	}
	return w.hold()
}

// hold is acquire when there was a block.
func (w *workspace) hold() *scratch {
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

// releaseScratch lets go of a block. The last to do so frees it: work that uses it was queued
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
	if w.rec != nil && !w.rec.active.Load() {
		return nil, q.refuse("operator workspace", ErrInvalidArgument, "the operator needs %d bytes of workspace, and the graph was captured with %d; capture it with the largest sizes and lengths that an update gives it", need, sizeOf(old))
	}
	b, err := q.scope.chip.pool.Malloc(w.owner, size)
	if err != nil && size > need {
		b, err = q.scope.chip.pool.Malloc(w.owner, need)
	}
	if err != nil {
		return nil, q.scope.outOfMemory("operator workspace", need, err)
	}
	q.scope.chip.pool.Label(b, "workspace")
	s := &scratch{block: b, addr: b.Address(), size: b.Size()}
	s.refs.Store(2) // the workspace's and the caller's
	w.current.Store(s)
	if w.rec != nil && old != nil {
		w.former = append(w.former, old)
		return s, nil
	}
	q.releaseScratch(old)
	return s, nil
}

func sizeOf(s *scratch) uint64 {
	if s == nil {
		return 0
	}
	return s.size
}

// bytes is the total size of the blocks.
func (w *workspace) bytes() uint64 {
	w.growing.Lock()
	defer w.growing.Unlock()
	n := sizeOf(w.current.Load())
	for _, s := range w.former {
		n += s.size
	}
	return n
}

// close gives the memory back when the stream or the graph ends.
func (w *workspace) close(q *queue) {
	w.growing.Lock()
	defer w.growing.Unlock()
	q.releaseScratch(w.current.Swap(nil))
	for _, s := range w.former {
		q.releaseScratch(s)
	}
	w.former = nil
}
