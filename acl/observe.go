package acl

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// CallKind is the kind of an observed call.
type CallKind int

// Kinds of calls.
const (
	CallLaunch CallKind = iota // queues an operator or a graph
	CallCopy                   // copies, or queues a copy
	CallWait                   // waits for the device
)

// Call is a call of this module that has returned.
type Call struct {
	Kind   CallKind
	Name   string // of the operator, such as aclnnAdd, or of the function, such as Stream.Copy
	Device int    // -1 if the call has none
	Stream int    // as Stream.ID has it; -1 if the call is not for a stream
	Bytes  int    // that a copy was asked for; rows have those of their values
	Began  time.Time
	Took   time.Duration // on the host; what was queued may not have run
	Err    error
}

type observer struct{ f func(Call) }

var observing struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*observer] // nil if there are none
}

// Observe calls f after each launch of an operator or a graph, each copy, and each wait for a stream,
// an event or a device in this process, also if it has failed, until stop is called: all runtimes of a
// process are one CANN. f runs on the goroutine of the call, before the call returns, and so on several
// goroutines at a time. It must be short and launch nothing. Calls that are under way when stop returns
// may still reach f. Without observers a call costs one load more; with them also two readings of the
// clock.
func (rt *Runtime) Observe(f func(Call)) (stop func(), err error) {
	const op = "Runtime.Observe"
	if err := rt.usable(op); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, refuse(op, ErrInvalidArgument, "the function is nil")
	}
	o := &observer{f}
	o.change(func(all []*observer) []*observer { return append(all, o) })
	return func() {
		o.change(func(all []*observer) []*observer {
			return slices.DeleteFunc(all, func(x *observer) bool { return x == o })
		})
	}, nil
}

// change replaces the list of observers, which those that read it keep.
func (o *observer) change(edit func(all []*observer) []*observer) {
	observing.mu.Lock()
	defer observing.mu.Unlock()
	var all []*observer
	if old := observing.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = edit(all); len(all) == 0 {
		observing.all.Store(nil)
		return
	}
	observing.all.Store(&all)
}

// observed reports whether there are observers. It is small enough to be inlined.
func observed() bool { return observing.all.Load() != nil }

// watch makes a call on a stream, and calls the observers.
func (s *Stream) watch(kind CallKind, name string, bytes int, call func() error) error {
	return watch(Call{Kind: kind, Name: name, Device: s.Device().ID(), Stream: s.ID(), Bytes: bytes}, call)
}

// watch makes a call for a context without a stream, and calls the observers.
func (x *Context) watch(kind CallKind, name string, bytes int, call func() error) error {
	return watch(Call{Kind: kind, Name: name, Device: x.Device().ID(), Stream: -1, Bytes: bytes}, call)
}

// watch is that of the stream whose record the event had last.
func (e *Event) watch(call func() error) error {
	c := Call{Kind: CallWait, Name: "Event.Synchronize", Device: -1, Stream: -1}
	if e != nil && e.scope != nil {
		c.Device = e.scope.chip.id
		if q := e.last.Load(); q != nil {
			c.Stream = q.id
		}
	}
	return watch(c, call)
}

func watch(c Call, call func() error) error {
	c.Began = time.Now()
	c.Err = call()
	c.Took = time.Since(c.Began)
	if all := observing.all.Load(); all != nil {
		for _, o := range *all {
			o.f(c)
		}
	}
	return c.Err
}
