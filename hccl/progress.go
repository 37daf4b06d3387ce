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
// after each collective. dev is the communicator's device. Tracking ends with Close. Collectives of
// a graph are not observed.
func (c *Comm) Track(dev *acl.Device) error {
	if dev == nil {
		return failed("hccl.Comm.Track", c.Rank(), c.Size(), invalid("the device is nil"))
	}
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

// Progress returns the progress of this rank for a world.Watchdog, the zero Progress without Track.
// If more than 32 collectives are in flight, the oldest are reported as ending together.
func (c *Comm) Progress() world.Progress {
	if c == nil {
		return world.Progress{}
	}
	if t := c.tracker.Load(); t != nil {
		return t.progress()
	}
	return world.Progress{}
}

// tracker numbers collectives and finds out which have ended.
type tracker struct {
	name string

	mu        sync.Mutex
	ring      [32]tracked
	seq, done uint64
	moved     time.Time // last change of done, or of seq while nothing was in flight
}

// tracked is a collective in flight.
type tracked struct {
	after *acl.Event
	call  *cshim.Func
	dtype string
	agreement
}

// agreement holds what all ranks must agree on besides the function and the dtype. Each field has a
// flag because a collective may not use it.
type agreement struct {
	counted, reduces, rooted bool

	count int64 // elements
	op    ReduceOp
	root  int
}

// queued records a collective that was just queued.
func (t *tracker) queued(p pass, agreed agreement) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == t.seq {
		t.moved = time.Now()
	}
	t.seq++
	slot := &t.ring[t.seq%uint64(len(t.ring))]
	slot.call, slot.dtype, slot.agreement = p.f, p.a.DType().String(), agreed
	return slot.after.Record(p.st)
}

func (t *tracker) progress() world.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := uint64(len(t.ring))
	for k := max(t.done, t.seq-min(t.seq, n)) + 1; k <= t.seq; k++ {
		// A query fails only on a device in trouble, which AsyncError reports.
		if ended, err := t.ring[k%n].after.Query(); err != nil || !ended {
			break
		}
		t.done, t.moved = k, time.Now()
	}
	p := world.Progress{Comm: t.name, Seq: t.seq, Done: t.done}
	if t.seq > 0 {
		p.Op = t.ring[t.seq%n].String()
	}
	if t.done < t.seq {
		p.Since = time.Since(t.moved)
	}
	return p
}

// String describes what all ranks must agree on.
func (c *tracked) String() string {
	s := fmt.Sprintf("%s %s", c.call.Name(), c.dtype)
	if c.counted {
		s += fmt.Sprintf("[%d]", c.count)
	}
	if c.reduces {
		s += " " + c.op.String()
	}
	if c.rooted {
		s += fmt.Sprintf(" root %d", c.root)
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
