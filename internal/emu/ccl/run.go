package ccl

import (
	"errors"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// launch queues a plan on a stream.
func (c *comm) launch(t *rt.Thread, stream uint64, p plan) error {
	s, code := c.library.rt.Stream(t, stream)
	if code != 0 {
		return refuse(runtimeError, "EI0003: %s: the stream cannot be used (%d)", p.header.Call, code)
	}
	if s.Device() != c.device {
		return refuse(badParameter, "EI0003: %s: the stream is of device %d, the communicator of device %d", p.header.Call, s.Device(), c.device)
	}
	if err := c.linked(); err != nil {
		return refuse(timedOut, "%s: %v", p.header.Call, err)
	}
	c.pending.Add(1)
	order := c.library.rt.Order(c.name) // ranks of one process wait for each other
	task := rt.Task{
		Name: p.header.Call, Repeatable: true, Drop: func() { c.pending.Add(-1) }, Accesses: p.accesses, Releases: order, Acquires: order,
		Wait: func(cancel <-chan struct{}) error {
			defer c.pending.Add(-1)
			return c.run(p, s.Memory(), cancel)
		},
	}
	if code := c.library.rt.Submit(t, s, task); code != 0 {
		c.pending.Add(-1)
		return refuse(runtimeError, "EI0003: %s: the stream refuses work (%d)", p.header.Call, int32(code))
	}
	return nil
}

// run does the phases one after the other. A failure ends the communicator on all ranks:
// they cannot know what of the data has arrived.
func (c *comm) run(p plan, m *rt.Memory, cancel <-chan struct{}) error {
	l := newLimit(c, p.header, cancel)
	defer l.stop()
	if err := l.wait(c.turn); err != nil {
		return err
	}
	defer func() { c.turn <- struct{}{} }()
	for i := range p.phases {
		p.header.Phase = int32(i)
		x := exchange{c: c, limit: l, header: p.header, phase: &p.phases[i], memory: m}
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

// exchange is a phase under way.
type exchange struct {
	c      *comm
	limit  *limit
	header header
	phase  *phase
	memory *rt.Memory

	done  chan error
	sent  int
	own   []byte
	dst   []byte   // target of a reduction
	in    [][]byte // where each receive goes
	stage []stage
}

// stage is a copy that has to wait until the sends are done, which read its target.
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
	sends, err := x.resolve()
	if err != nil {
		return err
	}
	x.done = make(chan error, len(sends)+1)
	for i, b := range sends {
		h := x.header
		if x.phase.pairs {
			h.Count = x.phase.sends[i].part.size
		}
		x.c.links[x.phase.sends[i].peer].send(message{header: h, bytes: b, done: x.done})
		x.sent++
	}
	arrived, err := x.receive()
	if err == nil {
		err = x.consume(arrived)
	}
	for _, m := range arrived {
		m.end()
	}
	if err != nil {
		return err
	}
	for _, s := range x.phase.sends {
		if err := x.c.links[s.peer].settle(x.limit); err != nil {
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
	l := x.limit
	linger(func() bool { return len(x.done) > 0 })
	select {
	case err := <-x.done:
		return err
	case <-l.cancel:
		return l.aborted()
	case <-x.c.broken:
		return x.c.reason()
	case <-l.expiry:
		return l.expired()
	}
}

// withdraw ends the sends of a failed phase: afterwards no peer reads this rank's memory.
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

// resolve finds the memory of the phase, and stages what would overwrite bytes that a peer
// has yet to read.
func (x *exchange) resolve() (sends [][]byte, err error) {
	p := x.phase
	for _, s := range p.sends {
		b, err := x.bytes(s.part)
		if err != nil {
			return nil, err
		}
		sends = append(sends, b)
	}
	staged := func(target []byte, others ...[]byte) []byte {
		for _, b := range others {
			if overlap(target, b) {
				from, e := scratch(len(target))
				if e != nil {
					err = e
					return target
				}
				x.stage = append(x.stage, stage{to: target, from: from})
				return from
			}
		}
		return target
	}
	for _, m := range p.local {
		from, err := x.bytes(m.from)
		if err != nil {
			return nil, err
		}
		to, err := x.bytes(m.to)
		if err != nil {
			return nil, err
		}
		copy(staged(to, sends...), from)
		if err != nil {
			return nil, err
		}
	}
	if p.reduce {
		if x.own, err = x.bytes(p.own); err != nil {
			return nil, err
		}
		if x.dst, err = x.bytes(p.target); err != nil {
			return nil, err
		}
		others := sends
		if len(x.dst) > 0 && unsafe.SliceData(x.dst) != unsafe.SliceData(x.own) {
			others = append(others[:len(others):len(others)], x.own)
		}
		x.dst = staged(x.dst, others...)
		return sends, err
	}
	for _, r := range p.receives {
		b, err := x.bytes(r.part)
		if err != nil {
			return nil, err
		}
		x.in = append(x.in, staged(b, sends...))
	}
	return sends, err
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// receive takes one message per receive and checks that the peers do the same.
func (x *exchange) receive() (arrived []incoming, err error) {
	for _, r := range x.phase.receives {
		m, err := x.c.links[r.peer].receive(x.limit)
		if err != nil {
			return arrived, err
		}
		arrived = append(arrived, m)
		want := x.header
		if x.phase.pairs {
			want.Count = r.part.size
		}
		if m.header != want || m.size != r.part.size {
			return arrived, fault(faultMismatch, "EI0005: rank %d of %q does %v (%d bytes) while rank %d does %v (%d bytes); all ranks must make the same calls in the same order with the same arguments",
				x.c.rank, x.c.name, want, r.part.size, r.peer, m.header, m.size)
		}
	}
	return arrived, nil
}

// piece is the number of bytes that are moved or combined at once: they stay in the cache.
const piece = 64 << 10

func (x *exchange) consume(arrived []incoming) error {
	if x.phase.reduce {
		return x.combine(arrived)
	}
	for i, m := range arrived {
		if err := m.take(x.in[i]); err != nil {
			return err
		}
	}
	return nil
}

// combine folds the ranks' elements in rank order. Half-precision sums of more than two
// ranks are kept in float32 between.
func (x *exchange) combine(arrived []incoming) error {
	e := elements[x.header.Type]
	f := fold{op: opKernels[x.header.Op], dtype: e.dtype, ranks: len(arrived) + 1, keep: x.c.keep}
	for lo := 0; lo < len(x.dst); lo += piece {
		n := min(piece, len(x.dst)-lo)
		dst, own := x.dst[lo:lo+n], x.own[lo:lo+n]
		next := 0
		for r := range len(arrived) + 1 {
			b := own
			if r != x.c.rank {
				var err error
				if b, err = arrived[next].next(n); err != nil {
					return err
				}
				next++
			}
			if err := f.add(dst, b); err != nil {
				return err
			}
		}
	}
	return nil
}
