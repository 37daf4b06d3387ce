package queue

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// acltdtCreateQueue creates a queue. Without attributes it has no name and the default depth.
func (r *Runtime) acltdtCreateQueue(t *rt.Thread, attr rt.Handle, qid rt.Out[uint32]) rt.Code {
	const function = "acltdtCreateQueue"
	name, depth := "", uint32(defaultDepth)
	if attr != 0 {
		a, code := r.queueAttr(t, function, "attr", attr)
		if a == nil {
			return code
		}
		name, depth = string(a.name[:len(a.name)-1]), a.depth
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	q, code := r.newQueue(t, function, c.Device().ID(), name, depth)
	if q != nil {
		qid.Set(q.id)
	}
	return code
}

func (r *Runtime) newQueue(t *rt.Thread, function string, device int, name string, depth uint32) (*queue, rt.Code) {
	if depth < smallestQueue || depth > 1<<16 {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: the depth is %d; use %d to %d", function, depth, smallestQueue, 1<<16)
	}
	q := r.queues.add(device, name, int(depth))
	if q == nil {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: device %d has a queue named %q already; destroy it or use another name", function, device, name)
	}
	return q, 0
}

// queue returns a queue of the current device.
//
//npugen:decode qid
func (r *Runtime) queue(t *rt.Thread, function string, id uint32) (*queue, rt.Code) {
	c, code := r.Current(t)
	if c == nil {
		return nil, code
	}
	q := r.queues.find(c.Device().ID(), id)
	if q == nil {
		return nil, t.Fail(unknownQueue, "EH0001: %s: device %d has no queue %d; was it destroyed?", function, c.Device().ID(), id)
	}
	return q, 0
}

func (r *Runtime) acltdtDestroyQueue(t *rt.Thread, qid *queue) rt.Code {
	if !r.queues.remove(qid) {
		return t.Fail(rt.Failure, "EH0001: acltdtDestroyQueue: queue %d has routes; call acltdtUnbindQueueRoutes first", qid.id)
	}
	return 0
}

// parcel is a buffer of a program that is the source or destination of a message.
type parcel struct {
	queue      *queue
	device     *rt.Device // device whose addresses the buffer uses
	data, size uint64
	wait       *rt.Wait
}

// parcel checks the arguments that both directions share.
func (r *Runtime) parcel(t *rt.Thread, function string, qid uint32, data rt.Address, size uint64, timeout int32) (*parcel, rt.Code) {
	w, valid := queueWait(timeout)
	if size == 0 || !valid {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: dataSize %d, timeout %d ms; use a size above 0 and a timeout of -1, 0 or more", function, size, timeout)
	}
	q, code := r.queue(t, function, qid)
	if q == nil {
		return nil, code
	}
	c, code := r.Current(t)
	if c == nil {
		return nil, code
	}
	return &parcel{q, c.Device(), uint64(data), size, w}, 0
}

// bytes returns the memory of the buffer. It looks the memory up at each call, because the buffer
// may have been freed meanwhile.
func (p *parcel) bytes(r *Runtime) ([]byte, error) {
	m := p.device.Memory()
	if m == nil {
		return nil, fmt.Errorf("device %d was reset", p.device.ID())
	}
	return r.View(m, p.data, p.size)
}

// acltdtEnqueueData copies data and userData before it returns.
func (r *Runtime) acltdtEnqueueData(t *rt.Thread, qid uint32, data rt.Address, dataSize uint64, userData *byte, userDataSize uint64, timeout int32, _ uint32) rt.Code {
	const function = "acltdtEnqueueData"
	if userData == nil && userDataSize != 0 {
		return t.Null(function, "userData")
	}
	p, code := r.parcel(t, function, qid, data, dataSize, timeout)
	if p == nil {
		return code
	}
	b, err := p.bytes(r)
	if err != nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: %v", function, err)
	}
	m := message{data: slices.Clone(b), user: slices.Clone(unsafe.Slice(userData, userDataSize))}
	if !r.queues.put(p.queue, m, p.wait) {
		return t.Fail(queueFull, "EE1002: %s: queue %d stayed full for %d ms, or was destroyed", function, p.queue.id, timeout)
	}
	return 0
}

// acltdtDequeueData takes a message. A message that is larger than the buffers stays in the queue,
// and the call reports its size.
func (r *Runtime) acltdtDequeueData(t *rt.Thread, qid uint32, data rt.Address, dataSize uint64, retDataSize rt.Out[uint64], userData *byte, userDataSize uint64, timeout int32) (code rt.Code) {
	const function = "acltdtDequeueData"
	if userData == nil && userDataSize != 0 {
		return t.Null(function, "userData")
	}
	p, code := r.parcel(t, function, qid, data, dataSize, timeout)
	if p == nil {
		return code
	}
	if _, err := p.bytes(r); err != nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: %v", function, err)
	}
	fits := func(m message) bool {
		b, err := p.bytes(r)
		if err != nil {
			code = t.Fail(rt.ParamInvalid, "EE1003: %s: %v", function, err)
			return false
		}
		retDataSize.Set(uint64(len(m.data)))
		if len(m.data) > len(b) || uint64(len(m.user)) > userDataSize {
			code = t.Fail(rt.ParamInvalid, "EE1003: %s: the message has %d bytes and %d of the user; there is room for %d and %d", function, len(m.data), len(m.user), len(b), userDataSize)
			return false
		}
		copy(b, m.data)
		copy(unsafe.Slice(userData, userDataSize), m.user)
		return true
	}
	if !r.queues.take(p.queue, fits, p.wait) {
		return t.Fail(queueEmpty, "EE1002: %s: queue %d stayed empty for %d ms, or was destroyed", function, p.queue.id, timeout)
	}
	return code
}
