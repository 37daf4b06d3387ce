package queue

import (
	"slices"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Limits and defaults of queues.
const (
	queueNameSize = 128 // bytes of a name with its NUL
	smallestQueue = 2
	defaultDepth  = 8
	unknownQueue  = int32(abi.ACL_ERROR_INVALID_QUEUE_ID)
	queueFull     = int32(abi.ACL_ERROR_RT_QUEUE_FULL)
	queueEmpty    = int32(abi.ACL_ERROR_RT_QUEUE_EMPTY)
	unsupported   = int32(abi.ACL_ERROR_FEATURE_UNSUPPORTED)
)

// queue is a first-in, first-out queue of messages within one process.
type queue struct {
	id       uint32
	device   int
	name     string // "" for a queue without a name
	depth    int
	messages []message
	gone     bool
}

// message is data with the user data of its sender; both are copies.
type message struct {
	data, user []byte
	items      []dataItem // of a message of a channel, instead of data
}

// queues holds all queues of the process and the routes between them. One lock guards them all,
// because a message that enters one queue may move on to others.
type queues struct {
	mu     sync.Mutex
	last   uint32
	byID   map[uint32]*queue
	routes []route
	change chan struct{} // closed when a message enters or leaves; nil while there is no waiter
}

// route forwards the messages of one queue to another.
type route struct{ src, dst uint32 }

// add creates a queue. It returns nil when the device already has a queue of that name.
func (q *queues) add(device int, name string, depth int) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range q.byID {
		if name != "" && x.name == name && x.device == device {
			return nil
		}
	}
	if q.byID == nil {
		q.byID = make(map[uint32]*queue)
	}
	x := &queue{id: q.last, device: device, name: name, depth: depth}
	q.last++
	q.byID[x.id] = x
	return x
}

// of returns a queue of a device. The caller holds q.mu.
func (q *queues) of(device int, id uint32) *queue {
	if x := q.byID[id]; x != nil && x.device == device {
		return x
	}
	return nil
}

// find is of for callers that do not hold q.mu.
func (q *queues) find(device int, id uint32) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(device, id)
}

// remove destroys a queue. It returns false while a route uses the queue.
func (q *queues) remove(x *queue) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.routes, func(w route) bool { return w.src == x.id || w.dst == x.id }) {
		return false
	}
	x.gone = true
	delete(q.byID, x.id)
	q.changed()
	return true
}

// close destroys every queue when the process releases its devices.
func (q *queues) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range q.byID {
		x.gone = true
	}
	q.byID, q.routes = nil, nil
	q.changed()
}

// changed wakes all waiters. The caller holds q.mu.
func (q *queues) changed() {
	if q.change != nil {
		close(q.change)
		q.change = nil
	}
}

// forward moves messages along the routes while every target of a queue has room. The caller holds
// q.mu.
func (q *queues) forward() {
	for progress := true; progress; {
		progress = false
		for _, x := range q.byID {
			for len(x.messages) > 0 && q.pass(x) {
				progress = true
			}
		}
	}
	q.changed()
}

// pass moves the first message of a queue to all its targets, or to none of them.
func (q *queues) pass(x *queue) bool {
	var targets []*queue
	for _, w := range q.routes {
		if w.src != x.id {
			continue
		}
		dst := q.byID[w.dst]
		if len(dst.messages) == dst.depth {
			return false
		}
		targets = append(targets, dst)
	}
	for _, dst := range targets {
		dst.messages = append(dst.messages, x.messages[0])
	}
	if len(targets) > 0 {
		x.messages = slices.Delete(x.messages, 0, 1)
	}
	return len(targets) > 0
}

// attempt calls try under the lock until it succeeds or w expires; with a nil w it calls try once.
// It gives up when the queue is destroyed.
func (q *queues) attempt(x *queue, w *rt.Wait, try func() bool) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if x.gone {
			return false
		}
		if try() {
			q.forward()
			return true
		}
		if w == nil {
			return false
		}
		if q.change == nil {
			q.change = make(chan struct{})
		}
		change := q.change
		q.mu.Unlock()
		ok := w.On(change)
		q.mu.Lock()
		if !ok {
			return false
		}
	}
}

func (q *queues) put(x *queue, m message, w *rt.Wait) bool {
	return q.attempt(x, w, func() bool {
		if len(x.messages) == x.depth {
			return false
		}
		x.messages = append(x.messages, m)
		return true
	})
}

// take passes the first message to accept, which returns false to leave it in the queue.
func (q *queues) take(x *queue, accept func(message) bool, w *rt.Wait) bool {
	return q.attempt(x, w, func() bool {
		if len(x.messages) == 0 {
			return false
		}
		if accept(x.messages[0]) {
			x.messages = slices.Delete(x.messages, 0, 1)
		}
		return true
	})
}

// empty removes all messages of a queue.
func (q *queues) empty(x *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x.messages = nil
	q.changed()
}

func (q *queues) size(x *queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(x.messages)
}

// queueWait converts a timeout in milliseconds. -1 means no limit; 0 gives nil, which does not
// wait.
func queueWait(milliseconds int32) (w *rt.Wait, ok bool) {
	if milliseconds == 0 {
		return nil, true
	}
	bounded, ok := rt.NewWait(milliseconds)
	return &bounded, ok
}
