package ccl

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// work is a plan as a stream task. It may run several times: when a graph is replayed, or when
// a program repeats the same call.
type work struct {
	c        *comm
	plan     plan
	memory   *rt.Memory
	captured bool // into a graph: nothing is pending before it runs
	task     rt.Task
	terms    func() (ranks []int, within time.Duration) // of a barrier; see BarrierOf
}

func (c *comm) work(p plan, s *rt.Stream) *work {
	p.header.Call = functionOf(p.call)
	w := &work{c: c, plan: p, memory: s.Memory(), captured: s.Capturing()}
	w.task = rt.Task{Name: p.call, Repeatable: true, Wait: w.run, Drop: w.drop, Releases: c.order, Acquires: c.order, Turn: c.streams}
	if c.library.rt.Sanitizes() {
		w.task.Accesses = p.accesses
	}
	if c.library.rt.Schedule != nil {
		w.task.Planned, w.task.Wait, w.task.Run = w.planned(), nil, w.assume
	}
	return w
}

// launch queues a plan on a stream.
func (c *comm) launch(t *rt.Thread, stream rt.Handle, p plan) error {
	s, err := c.stream(t, p.call, stream)
	if err != nil {
		return err
	}
	return c.submit(t, s, c.work(p, s))
}

// stream looks up a stream handle. It fails if this rank cannot queue a call on the stream.
func (c *comm) stream(t *rt.Thread, call string, handle rt.Handle) (*rt.Stream, error) {
	if handle == 0 { // HCCL has no default stream
		return nil, null(call, "stream")
	}
	s, code := c.library.rt.Stream(t, handle)
	if code != 0 {
		return nil, refuse(runtimeError, "EI0003: %s: the stream cannot be used (%d)", call, int32(code))
	}
	if s.Device() != c.device {
		return nil, refuse(badParameter, "EI0003: %s: the stream is of device %d, the communicator of device %d", call, s.Device(), c.device)
	}
	if err := c.linked(); err != nil {
		return nil, refuse(timedOut, "%s: %v", call, err)
	}
	return s, nil
}

func (c *comm) submit(t *rt.Thread, s *rt.Stream, w *work) error {
	if !w.captured {
		c.pending.Add(1)
	}
	if code := c.library.rt.Submit(t, s, w.task); code != 0 {
		w.drop()
		return refuse(runtimeError, "EI0003: %s: the stream refuses work (%d)", w.plan.call, int32(code))
	}
	return nil
}

// repetition is the key by which a call of a uniform collective equals an earlier one.
type repetition struct {
	call              string
	send, recv, count uint64
	dtype, op         int32
	root              uint32
	memory            *rt.Memory
}

// maxRepetitions bounds how many calls a communicator remembers for repetition.
const maxRepetitions = 256

// repeated returns the work of an equal earlier call, or makes it from a new plan.
func (c *comm) repeated(r repetition, s *rt.Stream, p func() plan) *work {
	if s.Capturing() {
		return c.work(p(), s)
	}
	r.memory = s.Memory()
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.repeats[r]
	if w == nil {
		w = c.work(p(), s)
		if c.repeats == nil || len(c.repeats) == maxRepetitions {
			c.repeats = make(map[repetition]*work)
		}
		c.repeats[r] = w
	}
	return w
}

func (w *work) drop() {
	if !w.captured {
		w.c.pending.Add(-1)
	}
}

// run executes the phases in order. A failure ends the communicator on all ranks, because
// they cannot know which data has arrived.
func (w *work) run(cancel <-chan struct{}) error {
	c := w.c
	if w.captured {
		c.pending.Add(1)
	}
	defer c.pending.Add(-1)
	select {
	case <-c.turn:
	default:
		l := &limit{c: c, header: w.plan.header, cancel: cancel}
		err := l.wait(c.turn)
		l.stop()
		if err != nil {
			return err
		}
	}
	defer func() { c.turn <- struct{}{} }()
	// Peers that have not learned of a failure yet would take the message of a later call for one of
	// the call they are in.
	if err := c.reason(); err != nil {
		return err
	}
	x := &c.current
	x.limit = limit{c: c, header: w.plan.header, cancel: cancel}
	l := &x.limit
	defer l.stop()
	phases := w.plan.phases
	if w.terms != nil {
		ranks, within := w.terms()
		if l.within = within; ranks != nil {
			phases = []phase{c.among(ranks)}
		}
	}
	for i := range phases {
		l.header.Phase = int32(i)
		x.begin(c, &phases[i], w.memory)
		err := x.run()
		x.unstage()
		if err == nil {
			continue
		}
		var f *rt.Fault
		if !errors.As(err, &f) {
			f = fault(faultMismatch, "%v: %v", l, err)
		}
		c.fail(f)
		for _, peer := range c.links {
			if peer != nil {
				peer.abort(f.Text)
			}
		}
		x.withdraw()
		return f
	}
	return nil
}

// exchange is the running phase. A communicator has one and reuses its memory for every
// phase, because most phases last only microseconds.
type exchange struct {
	c      *comm
	limit  limit
	phase  *phase
	memory *rt.Memory

	done    chan struct{}
	sent    int
	sends   [][]byte
	own     []byte
	dst     []byte   // target of a reduction
	fold    fold     // kept from the last phase, which usually has the same reduction
	in      [][]byte // destination of each receive
	arrived []incoming
	stage   []stage
}

// begin prepares the exchange for a phase. The previous phase must have finished.
func (x *exchange) begin(c *comm, p *phase, m *rt.Memory) {
	x.c, x.phase, x.memory = c, p, m
	x.sends, x.in, x.arrived, x.stage = x.sends[:0], x.in[:0], x.arrived[:0], x.stage[:0]
	x.own, x.dst = nil, nil
	if cap(x.done) < len(p.sends) {
		x.done = make(chan struct{}, len(p.sends)) // so that peers never block on it
	}
}

// stage is a copy that is deferred until the sends are done, because they read its target.
type stage struct{ to, from []byte }

func (x *exchange) bytes(p part) ([]byte, error) {
	if p.size == 0 {
		return nil, nil
	}
	host, err := x.memory.Resolve(p.addr, int64(p.size))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(host), p.size), nil
}

func (x *exchange) run() error {
	if err := x.resolve(); err != nil {
		return err
	}
	for i, b := range x.sends {
		h := x.limit.header
		if x.phase.pairs {
			h.Count = x.phase.sends[i].part.size
		}
		if x.c.links[x.phase.sends[i].peer].send(message{header: h, bytes: b, memory: x.memory, done: x.done}) {
			x.sent++
		}
	}
	x.limit.backlogged = x.limit.backlogged[:0]
	for _, s := range x.phase.sends {
		if n, ok := x.c.links[s.peer].(*sharedLink); ok && len(n.backlog) > 0 && !slices.Contains(x.limit.backlogged, n) {
			x.limit.backlogged = append(x.limit.backlogged, n)
		}
	}
	err := x.receive()
	if err == nil && x.phase.reduce {
		err = x.combine()
	}
	if e := x.finish(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	for _, s := range x.phase.sends {
		if err := x.c.links[s.peer].settle(&x.limit); err != nil {
			return err
		}
	}
	for ; x.sent > 0; x.sent-- {
		if err := x.await(); err != nil {
			return err
		}
	}
	for _, s := range x.stage {
		copy(s.to, s.from)
	}
	return nil
}

func (x *exchange) unstage() {
	for _, s := range x.stage {
		release(s.from)
	}
}

// await waits for one send to be done.
func (x *exchange) await() error {
	spin(func() bool { return len(x.done) > 0 })
	return x.limit.wait(x.done)
}

// withdraw recalls the sends of a failed phase. Afterwards no peer reads this rank's memory.
func (x *exchange) withdraw() {
	for _, peer := range x.c.links {
		if peer != nil {
			peer.recall()
		}
	}
	for ; x.sent > 0; x.sent-- {
		<-x.done
	}
}

// resolve finds the memory of the phase. It stages a target that a peer still has to read,
// so that it is not overwritten too early.
func (x *exchange) resolve() error {
	p := x.phase
	for _, s := range p.sends {
		b, err := x.bytes(s.part)
		if err != nil {
			return err
		}
		x.sends = append(x.sends, b)
	}
	for _, m := range p.local {
		from, err := x.bytes(m.from)
		if err != nil {
			return err
		}
		to, err := x.target(m.to)
		if err != nil {
			return err
		}
		copy(to, from)
	}
	if p.reduce {
		var err error
		if x.own, err = x.bytes(p.own); err != nil {
			return err
		}
		x.dst, err = x.target(p.target, x.own)
		return err
	}
	for _, r := range p.receives {
		b, err := x.target(r.part)
		if err != nil {
			return err
		}
		x.in = append(x.in, b)
	}
	return nil
}

// target returns the memory to which a part is written. It returns a staged scratch buffer
// instead if the part overlaps a send, or overlaps one of sources without starting with it.
func (x *exchange) target(p part, sources ...[]byte) ([]byte, error) {
	to, err := x.bytes(p)
	if err != nil {
		return nil, err
	}
	read := slices.ContainsFunc(x.sends, func(b []byte) bool { return overlap(to, b) }) ||
		slices.ContainsFunc(sources, func(b []byte) bool { return overlap(to, b) && unsafe.SliceData(to) != unsafe.SliceData(b) })
	if !read {
		return to, nil
	}
	from, err := scratch(len(to))
	if err != nil {
		return nil, err
	}
	x.stage = append(x.stage, stage{to: to, from: from})
	return from, nil
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// receive takes one message per receive and checks that the peers run the same collective.
// Messages that are not reduced are copied to their target at once, which makes room for more.
func (x *exchange) receive() error {
	for i, r := range x.phase.receives {
		m, err := x.c.links[r.peer].receive(&x.limit)
		if err != nil {
			return err
		}
		x.arrived = append(x.arrived, m)
		want := x.limit.header
		if x.phase.pairs {
			want.Count = r.part.size
		}
		if m.header != want || m.size != r.part.size {
			return fault(faultMismatch, "EI0005: rank %d of %q does %v (%d bytes) while rank %d does %v (%d bytes); all ranks must make the same calls in the same order with the same arguments",
				x.c.rank, x.c.name, want, x.phase.bytes(want, r.part.size), r.peer, m.header, x.phase.bytes(m.header, m.size))
		}
		if x.phase.reduce {
			continue
		}
		if err := x.arrived[0].take(x.in[i]); err != nil {
			return err
		}
		if err := x.finish(); err != nil {
			return err
		}
	}
	return nil
}

// bytes is the size of the data that a header counts; a message of a collective may have a part of it only.
func (p *phase) bytes(h header, message uint64) uint64 {
	if e, ok := elementOf(h.Type); ok && h.Count > 0 && !p.pairs {
		return h.Count * e.size
	}
	return message
}

// finish reports to the sender of the received messages that they have been read.
func (x *exchange) finish() (err error) {
	for i := range x.arrived {
		m := &x.arrived[i]
		if e := m.link.finish(m); err == nil {
			err = e
		}
	}
	x.arrived = x.arrived[:0]
	return err
}

// piece is the number of bytes that are copied or combined at once, so that they stay in cache.
const piece = 64 << 10

// combine reduces the ranks' elements in rank order. Intermediate results of half-precision
// reductions over more than two ranks are kept in float32.
func (x *exchange) combine() error {
	f := &x.fold
	if of := (reduction{x.limit.header.Type, x.limit.header.Op}); f.ranks == 0 || f.of != of {
		var err error
		if *f, err = newFold(of, x.c.size, x.c.keep); err != nil {
			return err
		}
	}
	f.at = 0
	for lo := 0; lo < len(x.dst); lo += piece {
		n := min(piece, len(x.dst)-lo)
		dst, own := x.dst[lo:lo+n], x.own[lo:lo+n]
		next := 0
		for r := range x.c.size {
			b := own
			if r != x.c.rank {
				var err error
				if b, err = x.arrived[next].next(n); err != nil {
					return err
				}
				next++
			}
			f.add(dst, b)
		}
	}
	return nil
}
