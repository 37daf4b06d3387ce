package hccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

// Track lets a Watchdog see how far this rank is: an event is recorded after each collective
// from now on. dev is the communicator's device. Tracking ends with Close.
func (c *Comm) Track(dev *acl.Device) error {
	name, err := c.Name()
	if err != nil {
		return err
	}
	t := &tracker{name: name}
	for i := range t.ring {
		if t.ring[i].after, err = dev.NewEvent(); err != nil {
			return errors.Join(err, t.close())
		}
	}
	if !c.tracker.CompareAndSwap(nil, t) {
		return t.close()
	}
	return nil
}

// Progress is how far this rank is, for a Watchdog; the zero Progress without Track. Of more
// than 32 collectives in flight the oldest are seen to end together.
func (c *Comm) Progress() Progress {
	if t := c.tracker.Load(); t != nil {
		return t.progress()
	}
	return Progress{}
}

// tracker numbers collectives and knows which have ended.
type tracker struct {
	name string

	mu        sync.Mutex
	ring      [32]tracked
	seq, done uint64
	moved     time.Time // when done last moved, or something was queued while nothing was
}

// tracked is a collective in flight.
type tracked struct {
	after *acl.Event
	call  *cshim.Func
	count int64
	dtype string
	args  [cshim.Args]uint64
}

// agreement says which arguments of a collective all ranks must agree on: the places of its
// reduction and its root among those of the C function, 0 for none, and whether the number of
// elements is the same on all.
type agreement struct {
	op, root int
	count    bool
}

var agreements = map[*cshim.Func]agreement{
	allReduce: {op: 4, count: true}, reduceScatter: {op: 4, count: true}, reduceTo: {op: 4, root: 5, count: true},
	broadcast: {root: 3, count: true}, scatter: {root: 4, count: true}, allGather: {count: true}, allToAll: {count: true},
	allGatherV: {}, reduceScatterV: {op: 6}, allToAllV: {}, allToAllVC: {},
}

// queued notes a collective that was just queued. Sends and receives are not: ranks do not
// make the same.
func (t *tracker) queued(p pass, args []uint64) error {
	if _, ok := agreements[p.f]; !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == t.seq {
		t.moved = time.Now()
	}
	t.seq++
	slot := &t.ring[t.seq%uint64(len(t.ring))]
	slot.call, slot.count, slot.dtype = p.f, p.a.Len(), p.a.DType().String()
	copy(slot.args[:], args)
	return slot.after.Record(p.st)
}

func (t *tracker) progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := uint64(len(t.ring))
	for k := max(t.done, t.seq-min(t.seq, n)) + 1; k <= t.seq; k++ {
		// An event that cannot be asked is of a device in trouble: AsyncError tells of that.
		if ended, err := t.ring[k%n].after.Query(); err != nil || !ended {
			break
		}
		t.done, t.moved = k, time.Now()
	}
	p := Progress{Comm: t.name, Seq: t.seq, Done: t.done}
	if t.seq > 0 {
		p.Op = t.ring[t.seq%n].String()
	}
	if t.done < t.seq {
		p.Since = time.Since(t.moved)
	}
	return p
}

// String is what all ranks must agree on.
func (c *tracked) String() string {
	a := agreements[c.call]
	s := fmt.Sprintf("%s %s", c.call.Name(), c.dtype)
	if a.count {
		s += fmt.Sprintf("[%d]", c.count)
	}
	if a.op > 0 {
		s += " " + ReduceOp(int32(c.args[a.op])).String()
	}
	if a.root > 0 {
		s += fmt.Sprintf(" root %d", int32(c.args[a.root]))
	}
	return s
}

func (t *tracker) close() error {
	var errs []error
	for i := range t.ring {
		if e := t.ring[i].after; e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}
