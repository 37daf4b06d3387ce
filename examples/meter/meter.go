package meter

import (
	"context"
	"errors"
	"time"

	"github.com/goascend/cann/acl"
)

// Call is a kind of calls that take the same time when no rank waits for another.
type Call struct {
	Name  string
	Bytes int  // on this rank; of calls whose sizes change with every step, rounded up to a power of two
	Ranks int  // of the communicator
	Aside bool // on another stream than that of the step
}

// joining is the name of what Join measures.
const joining = "join"

// Tally adds up the time of the calls of one kind in a step on a rank.
type Tally struct {
	Call         Call
	Count        int
	Total, Least time.Duration // of all, and of the shortest
}

// Step holds the times that a rank has measured in a step. world.Gather can carry it.
type Step struct {
	Took   time.Duration // the step, by the clock of the host
	Device time.Duration // from the first to the last work of the step, by the clock of the device
	Calls  []Tally
}

// Meter measures the steps of one rank. It is not safe for concurrent use. A nil Meter measures
// nothing.
type Meter struct {
	main         *acl.Stream
	begun, ended *acl.Event
	free         []*acl.Event
	open         []span // whose events may not have happened, the oldest first
	calls        []Tally
	place        map[Call]int // in calls
}

// span is a call between two events.
type span struct {
	call     Call
	from, to *acl.Event
}

// New makes a meter of the steps that are queued on a stream.
func New(main *acl.Stream) (*Meter, error) {
	m := &Meter{main: main, place: map[Call]int{}}
	for _, e := range []**acl.Event{&m.begun, &m.ended} {
		var err error
		if *e, err = m.event(); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// Begin begins a step, when the host has what it needs for it.
func (m *Meter) Begin() error {
	if m == nil {
		return nil
	}
	for _, s := range m.open { // of what was queued between two steps
		m.free = append(m.free, s.from, s.to)
	}
	m.open, m.calls = m.open[:0], m.calls[:0]
	clear(m.place)
	return m.begun.Record(m.main)
}

// End waits for the stream and returns what was measured since Begin. The step itself began at began,
// with what the host did before Begin.
func (m *Meter) End(ctx context.Context, began time.Time) (Step, error) {
	if m == nil {
		return Step{Took: time.Since(began)}, nil
	}
	if err := m.ended.Record(m.main); err != nil {
		return Step{}, err
	}
	if err := m.ended.Synchronize(ctx); err != nil {
		return Step{}, err
	}
	for len(m.open) > 0 {
		if err := m.open[0].to.Synchronize(ctx); err != nil { // it may be on another stream
			return Step{}, err
		}
		if err := m.take(); err != nil {
			return Step{}, err
		}
	}
	device, err := m.ended.Elapsed(m.begun)
	return Step{Took: time.Since(began), Device: device, Calls: append([]Tally(nil), m.calls...)}, err
}

// Join measures how long the stream of the step waits for what f makes it wait for.
func (m *Meter) Join(f func() error) error {
	if m == nil {
		return f()
	}
	return m.around(m.main, Call{Name: joining}, f)
}

// around records events before and after what f queues, but not into a graph.
func (m *Meter) around(st *acl.Stream, c Call, f func() error) error {
	if st == nil || st.Capturing() {
		return f()
	}
	c.Aside = st != m.main
	from, err := m.mark(st)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		m.free = append(m.free, from)
		return err
	}
	to, err := m.mark(st)
	if err != nil {
		m.free = append(m.free, from)
		return err
	}
	m.open = append(m.open, span{c, from, to})
	return nil
}

// mark records an event on a stream.
func (m *Meter) mark(st *acl.Stream) (*acl.Event, error) {
	e, err := m.event()
	if err != nil {
		return nil, err
	}
	if err := e.Record(st); err != nil {
		m.free = append(m.free, e)
		return nil, err
	}
	return e, nil
}

// event returns an event that nobody uses. It takes the times of calls that have ended before it makes
// another one, so that there are no more than calls under way.
func (m *Meter) event() (*acl.Event, error) {
	if len(m.free) == 0 && len(m.open) > 0 {
		done, err := m.open[0].to.Query()
		if err == nil && done {
			err = m.take()
		}
		if err != nil {
			return nil, err
		}
	}
	if n := len(m.free); n > 0 {
		e := m.free[n-1]
		m.free = m.free[:n-1]
		return e, nil
	}
	return m.main.Device().NewEvent(acl.EventTiming())
}

// take counts the oldest call, which has ended.
func (m *Meter) take() error {
	s := m.open[0]
	m.open = m.open[1:]
	m.free = append(m.free, s.from, s.to)
	took, err := s.to.Elapsed(s.from)
	if err != nil {
		return err
	}
	at, known := m.place[s.call]
	if !known {
		at = len(m.calls)
		m.place[s.call], m.calls = at, append(m.calls, Tally{Call: s.call, Least: took})
	}
	t := &m.calls[at]
	t.Count, t.Total, t.Least = t.Count+1, t.Total+took, min(t.Least, took)
	return nil
}

// Close frees the events.
func (m *Meter) Close() error {
	if m == nil {
		return nil
	}
	for _, s := range m.open {
		m.free = append(m.free, s.from, s.to)
	}
	errs := []error{m.begun.Close(), m.ended.Close()}
	for _, e := range m.free {
		errs = append(errs, e.Close())
	}
	m.free, m.open = nil, nil
	return errors.Join(errs...)
}
