package acl

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"go.uber.org/zap"
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
	kinds
)

// String is the kind in words.
func (k Kind) String() string {
	return [...]string{"runtime", "device", "context", "stream", "event", "buffer", "host buffer", "arena"}[k]
}

var live [kinds]atomic.Int64

// Live counts the objects that were made and not closed, by kind; kinds without any are
// left out, so that tests can assert that it is empty.
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
	watched bool
	closed  atomic.Bool
	cleanup runtime.Cleanup
}

// leak is what is said of an object that was collected without Close. It must not lead to
// the object, which would then never be collected.
type leak struct {
	kind  Kind
	log   *zap.Logger
	stack []byte
}

// open counts the object, and watches it when there is a logger to tell of a leak.
func (o *owned) open(k Kind) {
	o.kind = k
	live[k].Add(1)
	log := process.log.Load()
	if log == nil {
		return
	}
	l := leak{kind: k, log: log}
	if process.stacks.Load() {
		l.stack = debug.Stack()
	}
	o.watched = true
	o.cleanup = runtime.AddCleanup(o, leak.report, l)
}

// report tells of a leak. The memory or handle itself stays: the device may be using it.
func (l leak) report() {
	fields := []zap.Field{zap.Stringer("kind", l.kind)}
	if l.stack != nil {
		fields = append(fields, zap.ByteString("made", l.stack))
	}
	l.log.Warn("an object was collected without Close", fields...)
}

// close says whether this is the first Close.
func (o *owned) close() bool {
	if o.closed.Swap(true) {
		return false
	}
	live[o.kind].Add(-1)
	if o.watched {
		o.cleanup.Stop()
	}
	return true
}
