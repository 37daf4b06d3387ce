package acl

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// Kind is a kind of object that must be closed.
type Kind uint8

// Kinds of objects.
const (
	KindRuntime Kind = iota
	KindDevice
	KindContext
	KindStream
	KindEvent
	KindBuffer
	KindHostBuffer
	KindArena
	KindGraph
	KindAddressRange
	KindPhysical
	kinds
)

// String is the kind in words.
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return [...]string{"runtime", "device", "context", "stream", "event", "buffer", "host buffer", "arena", "graph", "address range", "physical memory"}[k]
}

var live [kinds]atomic.Int64

// Live counts the objects of the process that were made and not closed, by kind; kinds without any
// are left out, so that tests can assert that it is empty. It is no method of Runtime, because what
// is left open often outlives its Runtime, and runtimes are counted too.
func Live() map[Kind]int {
	counts := make(map[Kind]int)
	for k := range live {
		if n := live[k].Load(); n != 0 {
			counts[Kind(k)] = int(n)
		}
	}
	return counts
}

// owned is the part of every object that must be closed.
type owned struct {
	kind    Kind
	state   atomic.Uint32
	watched bool
	cleanup runtime.Cleanup
}

// States of an owned object. An object that no function of the package has made has state 0.
const (
	stateOpen = 1 + iota
	stateClosed
)

// open counts the object and watches whether it is collected without Close; l describes the leak that is
// then reported and released.
func (o *owned) open(k Kind, l leak) {
	o.kind = k
	o.state.Store(stateOpen)
	live[k].Add(1)
	if watching() {
		l.kind = k
		o.watched = true
		o.cleanup = runtime.AddCleanup(o, leak.found, l.made())
	}
}

// unwatch ends the watch of open: the object belongs to another one, whose leak is reported.
func (o *owned) unwatch() {
	if o.watched {
		o.cleanup.Stop()
		o.watched = false
	}
}

// isOpen reports whether the object was made and not closed.
func (o *owned) isOpen() bool { return o.state.Load() == stateOpen }

// close reports whether this is the first Close of an object that was made.
func (o *owned) close() bool {
	if !o.state.CompareAndSwap(stateOpen, stateClosed) {
		return false
	}
	live[o.kind].Add(-1)
	o.unwatch()
	return true
}

// neverMade is the error of a call on an object that is nil or a zero value.
func neverMade(op string, k Kind) *Error {
	return refuse(op, ErrInvalidArgument, "the %v is nil, or was not made by this package", k)
}
