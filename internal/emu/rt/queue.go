package rt

import (
	"slices"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Limits and defaults of queues.
const (
	queueNameSize    = 128 // bytes of a name with its NUL
	smallestQueue    = 2
	defaultDepth     = 8
	queueUnknown     = int32(abi.ACL_ERROR_INVALID_QUEUE_ID)
	queueFull        = int32(abi.ACL_ERROR_RT_QUEUE_FULL)
	queueEmpty       = int32(abi.ACL_ERROR_RT_QUEUE_EMPTY)
	queueUnsupported = int32(abi.ACL_ERROR_FEATURE_UNSUPPORTED)
)

// queue hands messages on in their order, within one process.
type queue struct {
	id       uint32
	device   int
	name     string // "" for none
	depth    int
	messages []message
	gone     bool
}

// message is data with what the sender says of it, both copied.
type message struct {
	data, user []byte
	items      []dataItem // of a channel, instead
}

// queues are all queues of the process and the routes between them. One lock serves them: a
// message that enters one may move on to others.
type queues struct {
	mu     sync.Mutex
	last   uint32
	byID   map[uint32]*queue
	routes []route
	change chan struct{} // closed when something came or went; nil when nobody waits
}

// route moves what arrives in one queue on to another.
type route struct{ src, dst uint32 }

// add makes a queue; nil when the device has one of that name.
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

// of finds a queue of a device. q.mu is held.
func (q *queues) of(device int, id uint32) *queue {
	if x := q.byID[id]; x != nil && x.device == device {
		return x
	}
	return nil
}

// find is of for who does not hold the lock.
func (q *queues) find(device int, id uint32) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(device, id)
}

// remove ends a queue; false while a route uses it.
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

// close ends every queue, when the process gives its devices up.
func (q *queues) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range q.byID {
		x.gone = true
	}
	q.byID, q.routes = nil, nil
	q.changed()
}

// changed wakes who waits. q.mu is held.
func (q *queues) changed() {
	if q.change != nil {
		close(q.change)
		q.change = nil
	}
}

// forward moves messages along the routes as long as every target of one has room. q.mu is held.
func (q *queues) forward() {
	for moved := true; moved; {
		moved = false
		for _, x := range q.byID {
			for len(x.messages) > 0 && q.pass(x) {
				moved = true
			}
		}
	}
	q.changed()
}

// pass hands the first message of a queue to all its targets, or to none.
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

// attempt calls try under the lock until it succeeds, for so long as w says; without w, once.
// It gives up when the queue is destroyed.
func (q *queues) attempt(x *queue, w *wait, try func() bool) (ok bool) {
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
		ok := w.on(change)
		q.mu.Lock()
		if !ok {
			return false
		}
	}
}

func (q *queues) put(x *queue, m message, w *wait) bool {
	return q.attempt(x, w, func() bool {
		if len(x.messages) == x.depth {
			return false
		}
		x.messages = append(x.messages, m)
		return true
	})
}

// take gives the first message to accept, which may leave it in the queue.
func (q *queues) take(x *queue, accept func(message) bool, w *wait) bool {
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

// empty drops what is in a queue.
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

// queueWait reads a timeout in milliseconds: -1 waits for ever and 0 not at all (nil).
func queueWait(milliseconds int32) (w *wait, ok bool) {
	if milliseconds == 0 {
		return nil, true
	}
	bounded, ok := newWait(milliseconds)
	return &bounded, ok
}
