package hccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl/world"
)

// Track lets a world.Watchdog observe the progress of this rank: from now on an event is recorded
// after each collective, and each send and receive. dev is the communicator's device. Tracking ends
// with Close. Collectives of a graph are not observed.
func (c *Comm) Track(dev *acl.Device) error {
	if dev == nil {
		return failed("hccl.Comm.Track", c.Rank(), c.Size(), invalid("the device is nil"))
	}
	name, err := c.Name()
	if err != nil {
		return err
	}
	t := &tracker{name: name, rank: c.rank, collectives: track{device: dev}, exchanges: track{device: dev}}
	if err = errors.Join(t.collectives.grow(), t.exchanges.grow()); err != nil {
		return errors.Join(err, t.close())
	}
	if !c.tracker.CompareAndSwap(nil, t) {
		return t.close()
	}
	flight.mu.Lock()
	c.name = name
	flight.mu.Unlock()
	return nil
}

// Progress returns the progress of this rank for a world.Watchdog, the zero Progress without Track.
func (c *Comm) Progress() world.Progress {
	if c == nil {
		return world.Progress{}
	}
	if t := c.tracker.Load(); t != nil {
		return t.progress()
	}
	return world.Progress{}
}

// tracker numbers the calls of a communicator and finds out which have ended. Exchanges are counted
// apart, because ranks need not make the same ones.
type tracker struct {
	name                   string
	rank                   int
	collectives, exchanges track
}

// track is the calls of one kind, which end in order. Its ring grows to the largest number of calls in flight: a call whose event had
// to give way to a later call's would not be seen to end, and a rank whose host is far ahead of the device would seem to be stuck.
type track struct {
	device    *acl.Device
	mu        sync.Mutex
	ring      []tracked
	seq, done uint64
	changed   time.Time // last change of done, or of seq while nothing was in flight
}

// tracked is a call in flight.
type tracked struct {
	after *acl.Event
	call  *cshim.Func
	dtype string // "" when the call has none
	agreement
	peers []int // of an exchange
}

// agreement holds what all ranks must agree on besides the function and the dtype. Each field has a
// flag because a collective may not use it.
type agreement struct {
	counted, reduces, rooted bool

	count int64 // elements
	op    ReduceOp
	root  int
}

// queued records a call that was just queued, except into a graph.
func (t *track) queued(st *acl.Stream, c tracked) error {
	if st.Capturing() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == t.seq {
		t.changed = time.Now()
	}
	if t.seq-t.done == uint64(len(t.ring)) {
		if t.look(); t.seq-t.done == uint64(len(t.ring)) {
			if err := t.grow(); err != nil {
				return err
			}
		}
	}
	t.seq++
	slot := t.at(t.seq)
	c.after = slot.after
	*slot = c
	return slot.after.Record(st)
}

func (t *track) at(seq uint64) *tracked { return &t.ring[seq%uint64(len(t.ring))] }

// grow makes room for twice as many calls in flight. The caller holds t.mu, or is the only one with t.
func (t *track) grow() (err error) {
	old := t.ring
	t.ring = make([]tracked, max(32, 2*len(old)))
	for k := range uint64(len(old)) { // of the last calls
		*t.at(t.seq - k) = old[(t.seq-k)%uint64(len(old))]
	}
	for i := range t.ring {
		if t.ring[i].after == nil && err == nil {
			t.ring[i].after, err = t.device.NewEvent()
		}
	}
	return err
}

// look finds out which calls have ended, and how long the oldest of the others has been. The caller
// holds t.mu.
func (t *track) look() (since time.Duration) {
	for k := t.done + 1; k <= t.seq; k++ {
		// A query fails only on a device in trouble, which AsyncError reports.
		if ended, err := t.at(k).after.Query(); err != nil || !ended {
			break
		}
		t.done, t.changed = k, time.Now()
	}
	if t.done == t.seq {
		return 0
	}
	return time.Since(t.changed)
}

func (t *tracker) progress() world.Progress {
	p := world.Progress{Comm: t.name, Rank: t.rank}
	c, e := &t.collectives, &t.exchanges
	c.mu.Lock()
	p.Since = c.look()
	if p.Seq, p.Done = c.seq, c.done; c.seq > 0 {
		p.Op = c.at(c.seq).String()
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Since = max(p.Since, e.look())
	if p.Exchanges, p.Exchanged = e.seq, e.done; e.done < e.seq {
		oldest := e.at(e.done + 1)
		p.Exchange, p.Peers = oldest.String(), oldest.peers
	}
	return p
}

// String describes what all ranks must agree on, and the peers of an exchange.
func (c *tracked) String() string {
	s := c.call.Name()
	if c.dtype != "" {
		s += " " + c.dtype
	}
	if c.counted {
		s += fmt.Sprintf("[%d]", c.count)
	}
	if c.reduces {
		s += " " + c.op.String()
	}
	if c.rooted {
		s += fmt.Sprintf(" root %d", c.root)
	}
	if c.peers != nil {
		s += fmt.Sprintf(" with ranks %v", c.peers)
	}
	return s
}

func (t *tracker) close() error {
	var errs []error
	for _, ring := range [][]tracked{t.collectives.ring, t.exchanges.ring} {
		for i := range ring {
			errs = append(errs, ring[i].after.Close())
		}
	}
	return errors.Join(errs...)
}
