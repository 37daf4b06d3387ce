package acl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl/internal/pool"
	"github.com/goascend/cann/internal/bridge"
)

// recording is the inner part of a Graph: its tasks in CANN, and the memory that they use.
type recording struct {
	scope  *scope
	handle aclmdlRI    // 0 until the capture has ended
	active atomic.Bool // tasks are being recorded
	mode   aclmdlRICaptureMode

	mu       sync.Mutex
	members  []*member
	memories map[*memory]struct{}
	queues   []*queue        // streams of the replays and updates
	last     *queue          // stream of the latest of them
	updating bool            // an update is under way; no replay may begin
	lost     uint64          // bytes of memory that was closed after the capture, 0 while there is none
	counts   []*atomic.Int64 // the graph is one in each of them
}

// count adds the graph to a number of graphs, until it ends.
func (r *recording) count(in *atomic.Int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.counts, in) {
		in.Add(1)
		r.counts = append(r.counts, in)
	}
}

// member is a stream in a capture: the owner of its scratch tensors, and the workspace of its
// operators. Another graph, or work outside the graph, gets none of this memory
// while the graph exists.
type member struct {
	rec      *recording
	q        *queue
	user     bridge.User
	arena    *workspace
	updating bool // it is the place of a stream in an update of a graph
}

// Fence implements pool.Stream. A member uses only blocks of its own.
func (s *member) Fence() (pool.Fence, error) { return nil, nil }

// Idle implements pool.Stream: a replay may use the memory at any time.
func (s *member) Idle() (bool, error) { return false, nil }

// admit makes a stream a member of the recording until the capture ends; nil if it has ended.
func (r *recording) admit(q *queue) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.active.Load() {
		return nil
	}
	s := &member{rec: r, q: q}
	s.arena = &workspace{owner: s, rec: r}
	r.scope.chip.pool.Keep(s)
	r.members = append(r.members, s)
	return s
}

// begin makes a call that begins a capture or an update, and makes the stream its member. No goroutine
// marks the end of earlier work or queries it meanwhile: both would become part of the graph.
func (q *queue) begin(s *member, call func() error) error {
	q.joining.Lock()
	defer q.joining.Unlock()
	err := call()
	if err == nil {
		q.member.Store(s)
	}
	return err
}

// end makes the call that ends it.
func (q *queue) end(call func() error) error {
	q.joining.Lock()
	defer q.joining.Unlock()
	defer q.member.Store(nil)
	return call()
}

// join makes a call by which a stream waits for an event of the capture, and makes the stream a member. As in
// begin, no goroutine marks the end of earlier work or queries it meanwhile.
func (r *recording) join(q *queue, call func() error) error {
	if q.member.Load() != nil {
		return call()
	}
	s := r.admit(q) // before joining is locked: the locks of the recording and the pool come before it
	if s == nil {
		return call()
	}
	q.joining.Lock()
	defer q.joining.Unlock()
	if err := call(); err != nil {
		return err
	}
	if q.member.CompareAndSwap(nil, s) && !r.active.Load() { // finish may have looked for the member before it was stored
		q.member.CompareAndSwap(s, nil)
	}
	return nil
}

// recording is the capture under way on a stream, or nil.
func (q *queue) recording() *recording {
	if s := q.member.Load(); s != nil {
		return s.rec
	}
	return nil
}

// finish ends the capture for its streams.
func (r *recording) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active.Store(false)
	for _, s := range r.members {
		s.q.member.CompareAndSwap(s, nil)
	}
}

// hold notes that tasks of the stream's graph use the memory. The caller holds m.mu.
func (m *memory) hold(s *member) {
	if m.member != s {
		m.shared = true
	}
	if slices.Contains(m.graphs, s.rec) {
		return
	}
	m.graphs = append(m.graphs, s.rec)
	s.rec.mu.Lock()
	s.rec.memories[m] = struct{}{}
	s.rec.mu.Unlock()
	if m.under != nil {
		m.under.mu.Lock()
		defer m.under.mu.Unlock()
		m.under.hold(s)
	}
}

// temporary reports whether memory that is closed now was allocated in a capture under way, and
// used by the stream alone that allocated it: its next tasks can have it. The caller holds m.mu.
func (m *memory) temporary() bool {
	return m.member != nil && m.member.rec.active.Load() && !m.shared && len(m.users) == 0
}

// recorded reports whether a capture under way uses the memory.
func (m *memory) recorded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.graphs, func(r *recording) bool { return r.active.Load() })
}

// lose informs the graphs that use the memory that it is closed. What a capture closes is scratch
// memory of the graph; a graph whose memory is closed later may not be replayed. The caller holds
// m.mu.
func (m *memory) lose() {
	for _, r := range m.graphs {
		if r.active.Load() {
			continue
		}
		r.mu.Lock()
		r.lost += max(m.size, 1)
		r.mu.Unlock()
	}
}

// drop ends the graph's use of the memory. Memory that was closed before goes back with its last
// graph.
func (m *memory) drop(r *recording) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.graphs = slices.DeleteFunc(m.graphs, func(other *recording) bool { return other == r })
	if len(m.graphs) > 0 || !m.kept {
		return nil
	}
	m.kept = false
	return errors.Join(m.home.takeBack(m, m.addr), m.scope.release())
}

// forget ends the use of memory that later tasks will use again.
func (r *recording) forget(m *memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, m)
}

// usable refuses a graph that has outlived its memory. The caller holds r.mu.
func (r *recording) usable(op string) error {
	if r.lost > 0 {
		return r.scope.refuse(op, ErrClosed, "buffers of %d bytes that the graph uses were closed; close them after the graph, or in the captured function if they are scratch memory", r.lost)
	}
	return nil
}

// ended reports whether the graph was closed.
func (r *recording) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memories == nil
}

// use notes that the graph runs, or is changed, on the stream, after what it did on others.
func (r *recording) use(q *queue) error {
	if r.last != nil && r.last != q {
		if err := q.follow(r.last); err != nil {
			return err
		}
	}
	r.last = q
	if !slices.Contains(r.queues, q) {
		r.queues = append(r.queues, q)
	}
	return nil
}

// end destroys the graph, whose replays have ended, and lets go of its memory.
func (r *recording) end() error {
	var errs []error
	if r.handle != 0 {
		errs = append(errs, r.scope.wrap(aclmdlRIDestroy(r.scope.handle, r.handle)))
	}
	r.mu.Lock()
	members, memories, counts := r.members, r.memories, r.counts
	r.members, r.memories, r.queues, r.last, r.counts = nil, nil, nil, nil, nil
	r.mu.Unlock()
	for _, n := range counts {
		n.Add(-1)
	}
	for _, s := range members {
		s.arena.close(s.q)
	}
	for m := range memories {
		errs = append(errs, m.drop(r))
	}
	for _, s := range members {
		r.scope.chip.pool.Forget(s)
	}
	return errors.Join(append(errs, r.scope.release())...)
}

// lostGraph holds the handles of a Graph that was collected without Close.
type lostGraph struct{ rec *recording }

// idle implements remains. A stream that cannot be queried is queried again later.
func (l lostGraph) idle() bool {
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	for _, q := range l.rec.queues {
		if q.gone.Load() {
			continue
		}
		if done, err := q.Idle(); !done && err == nil {
			return false
		}
	}
	return true
}

// end implements remains.
func (l lostGraph) end() error { return l.rec.end() }

// GraphMemory counts the bytes that a graph keeps for its replays.
type GraphMemory struct {
	Buffers   int // open and closed buffers that its tasks use, on the device and on the host
	Scratch   int // scratch memory that the captured function allocated and closed
	Workspace int // workspaces of its operators
}

// String is the three figures in words.
func (m GraphMemory) String() string {
	return fmt.Sprintf("%d bytes of buffers, %d of scratch memory, %d of workspaces", m.Buffers, m.Scratch, m.Workspace)
}

func (r *recording) memory() (sum GraphMemory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.memories {
		if m.under == nil {
			sum.Buffers += int(m.size)
		}
	}
	for _, s := range r.members {
		sum.Workspace += int(s.arena.bytes())
		sum.Scratch += int(r.scope.chip.pool.FreeOf(s))
	}
	return sum
}
