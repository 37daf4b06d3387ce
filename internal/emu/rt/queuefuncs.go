package rt

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// queueAttr is what aclrtCreateQueueAttr hands out.
type queueAttr struct {
	name  []byte // with its NUL; the program holds the address, so pin keeps it in place
	pin   runtime.Pinner
	depth uint32
}

func (a *queueAttr) setName(name string) {
	a.pin.Unpin()
	a.name = append([]byte(name), 0)
	a.pin.Pin(&a.name[0])
}

// queueFunctions are queues between the host and a device, or parts of the host: data goes in
// and comes out by copies. What passes buffers by reference, or queues between processes, needs a
// program that runs on the device itself, as on the chips of the 310 series.
func (r *Runtime) queueFunctions() table {
	all := table{
		"acltdtCreateQueueAttr":  r.createQueueAttr,
		"acltdtDestroyQueueAttr": r.destroyQueueAttr,
		"acltdtSetQueueAttr":     r.setQueueAttr,
		"acltdtGetQueueAttr":     r.getQueueAttr,
		"acltdtCreateQueue":      r.createQueue,
		"acltdtDestroyQueue":     r.destroyQueue,
		"acltdtEnqueueData":      r.enqueueData,
		"acltdtDequeueData":      r.dequeueData,
	}
	for _, name := range []string{
		"acltdtEnqueue", "acltdtDequeue", "acltdtGrantQueue", "acltdtAttachQueue",
		"acltdtAllocBuf", "acltdtFreeBuf", "acltdtGetBufData", "acltdtSetBufDataLen", "acltdtGetBufDataLen",
		"acltdtAppendBufChain", "acltdtGetBufChainNum", "acltdtGetBufFromChain",
		"acltdtGetBufUserData", "acltdtSetBufUserData", "acltdtCopyBufRef",
	} {
		all[name] = func(t *Thread, _ []uint64) uint64 {
			return t.Fail(queueUnsupported, "EH0005: %s: this chip has it not; use acltdtEnqueueData and acltdtDequeueData", name)
		}
	}
	return all
}

// tdtObject finds the object of a handle, or says what it should have been.
func tdtObject[T any](r *Runtime, t *Thread, function, what string, h uint64) (obj T, code uint64) {
	if h == 0 {
		return obj, t.null(function, what)
	}
	obj, ok := Lookup[T](&r.Handles, h)
	if !ok {
		return obj, t.Fail(invalidParam, "EH0001: %s: %#x is no live %s; was it destroyed?", function, h, what)
	}
	return obj, 0
}

// destroyed forgets a handle of a T.
func destroyed[T any](r *Runtime, t *Thread, function, what string, h uint64) uint64 {
	_, code := tdtObject[T](r, t, function, what, h)
	if code == 0 {
		r.Handles.Delete(h)
	}
	return code
}

func (r *Runtime) createQueueAttr(*Thread, []uint64) uint64 {
	a := &queueAttr{depth: defaultDepth}
	a.setName("")
	return r.Handles.New(QueueAttrKind, a)
}

func (r *Runtime) destroyQueueAttr(t *Thread, a []uint64) uint64 {
	attr, code := tdtObject[*queueAttr](r, t, "acltdtDestroyQueueAttr", "attr", a[0])
	if code != 0 {
		return code
	}
	r.Handles.Delete(a[0])
	attr.pin.Unpin()
	return 0
}

func (r *Runtime) setQueueAttr(t *Thread, a []uint64) uint64 {
	const function = "acltdtSetQueueAttr"
	attr, code := tdtObject[*queueAttr](r, t, function, "attr", a[0])
	if code != 0 {
		return code
	}
	if a[3] == 0 {
		return t.null(function, "param")
	}
	switch kind := int32(a[1]); kind {
	case int32(abi.ACL_TDT_QUEUE_NAME_PTR):
		if a[2] != 8 {
			return t.Fail(failure, "EH0001: %s: len is %d; a name takes a pointer of 8 bytes", function, a[2])
		}
		at := Read[uint64](a[3], 1)[0]
		if at == 0 {
			return t.null(function, "name")
		}
		name := CString(at)
		if len(name) >= queueNameSize {
			return t.Fail(invalidParam, "EH0001: %s: the name has %d bytes, %d are possible", function, len(name), queueNameSize-1)
		}
		attr.setName(name)
	case int32(abi.ACL_TDT_QUEUE_DEPTH_UINT32):
		if a[2] != 4 {
			return t.Fail(failure, "EH0001: %s: len is %d; a depth has 4 bytes", function, a[2])
		}
		attr.depth = Read[uint32](a[3], 1)[0]
	default:
		return t.Fail(invalidParam, "EH0001: %s: attribute %d is unknown", function, kind)
	}
	return 0
}

// answer writes a value of a fixed size into a buffer of a program.
func answer[T any](t *Thread, function string, size, ret, at uint64, value T) uint64 {
	n := uint64(unsafe.Sizeof(value))
	if ret == 0 || at == 0 {
		return t.null(function, "paramRetSize or param")
	}
	if size < n {
		return t.Fail(failure, "EH0001: %s: len is %d, the value has %d bytes", function, size, n)
	}
	Write(at, value)
	Write(ret, n)
	return 0
}

func (r *Runtime) getQueueAttr(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetQueueAttr"
	attr, code := tdtObject[*queueAttr](r, t, function, "attr", a[0])
	if code != 0 {
		return code
	}
	switch kind := int32(a[1]); kind {
	case int32(abi.ACL_TDT_QUEUE_NAME_PTR):
		return answer(t, function, a[2], a[3], a[4], uint64(uintptr(unsafe.Pointer(&attr.name[0]))))
	case int32(abi.ACL_TDT_QUEUE_DEPTH_UINT32):
		return answer(t, function, a[2], a[3], a[4], attr.depth)
	default:
		return t.Fail(invalidParam, "EH0001: %s: attribute %d is unknown", function, kind)
	}
}

// createQueue: without attributes the queue has no name and the default depth.
func (r *Runtime) createQueue(t *Thread, a []uint64) uint64 {
	const function = "acltdtCreateQueue"
	if a[1] == 0 {
		return t.null(function, "qid")
	}
	name, depth := "", uint32(defaultDepth)
	if a[0] != 0 {
		attr, code := tdtObject[*queueAttr](r, t, function, "attr", a[0])
		if code != 0 {
			return code
		}
		name, depth = string(attr.name[:len(attr.name)-1]), attr.depth
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	q := r.newQueue(t, function, c.device.id, name, depth)
	if q == nil {
		return uint64(uint32(t.LastError))
	}
	Write(a[1], q.id)
	return 0
}

// newQueue leaves an error on the thread when it gives nil.
func (r *Runtime) newQueue(t *Thread, function string, device int, name string, depth uint32) *queue {
	if depth < smallestQueue || depth > 1<<16 {
		t.Fail(invalidParam, "EH0001: %s: the depth is %d; use %d to %d", function, depth, smallestQueue, 1<<16)
		return nil
	}
	q := r.queues.add(device, name, int(depth))
	if q == nil {
		t.Fail(invalidParam, "EH0001: %s: device %d has a queue named %q already; destroy it or use another name", function, device, name)
	}
	return q
}

// queue finds a queue of the current device.
func (r *Runtime) queue(t *Thread, function string, id uint32) (*queue, *Context, uint64) {
	c, code := r.current(t)
	if c == nil {
		return nil, nil, code
	}
	q := r.queues.find(c.device.id, id)
	if q == nil {
		return nil, nil, t.Fail(queueUnknown, "EH0001: %s: device %d has no queue %d; was it destroyed?", function, c.device.id, id)
	}
	return q, c, 0
}

func (r *Runtime) destroyQueue(t *Thread, a []uint64) uint64 {
	const function = "acltdtDestroyQueue"
	q, _, code := r.queue(t, function, uint32(a[0]))
	if q == nil {
		return code
	}
	if !r.queues.remove(q) {
		return t.Fail(failure, "EH0001: %s: queue %d has routes; call acltdtUnbindQueueRoutes first", function, q.id)
	}
	return 0
}

// throughQueue is what both directions need of the arguments (queue, data, dataSize, …). buffer
// finds the data.
func (r *Runtime) throughQueue(t *Thread, function string, a []uint64, timeout int32) (q *queue, buffer func() ([]byte, error), w *wait, code uint64) {
	w, valid := queueWait(timeout)
	if a[2] == 0 || !valid {
		return nil, nil, nil, t.Fail(invalidParam, "EH0001: %s: dataSize %d, timeout %d ms; use a size above 0 and a timeout of -1, 0 or more", function, a[2], timeout)
	}
	q, c, code := r.queue(t, function, uint32(a[0]))
	if q == nil {
		return nil, nil, nil, code
	}
	return q, func() ([]byte, error) {
		m := c.device.opened()
		if m == nil {
			return nil, fmt.Errorf("device %d was reset", c.device.id)
		}
		return r.bytes(m, a[1], a[2], r.placeOf(a[1], a[2]))
	}, w, 0
}

// enqueueData copies data and userData before it returns.
func (r *Runtime) enqueueData(t *Thread, a []uint64) uint64 {
	const function = "acltdtEnqueueData"
	if a[1] == 0 || a[3] == 0 && a[4] != 0 {
		return t.null(function, "data or userData")
	}
	q, buffer, w, code := r.throughQueue(t, function, a, int32(a[5]))
	if q == nil {
		return code
	}
	data, err := buffer()
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	m := message{data: slices.Clone(data), user: Read[byte](a[3], a[4])}
	if !r.queues.put(q, m, w) {
		return t.Fail(queueFull, "EE1002: %s: queue %d stayed full for %d ms, or was destroyed", function, q.id, int32(a[5]))
	}
	return 0
}

// dequeueData: a message that is larger than the buffers stays in the queue, and its size is told.
func (r *Runtime) dequeueData(t *Thread, a []uint64) uint64 {
	const function = "acltdtDequeueData"
	if a[1] == 0 || a[3] == 0 || a[4] == 0 && a[5] != 0 {
		return t.null(function, "data, retDataSize or userData")
	}
	q, buffer, w, code := r.throughQueue(t, function, a, int32(a[6]))
	if q == nil {
		return code
	}
	if _, err := buffer(); err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	fits := func(m message) bool {
		data, err := buffer() // it may have been freed while nothing came
		if err != nil {
			code = t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
			return false
		}
		Write(a[3], uint64(len(m.data)))
		if len(m.data) > len(data) || uint64(len(m.user)) > a[5] {
			code = t.Fail(paramInvalid, "EE1003: %s: the message has %d bytes and %d of the user; there is room for %d and %d", function, len(m.data), len(m.user), len(data), a[5])
			return false
		}
		copy(data, m.data)
		for i, b := range m.user {
			Write(a[4]+uint64(i), b)
		}
		return true
	}
	if !r.queues.take(q, fits, w) {
		return t.Fail(queueEmpty, "EE1002: %s: queue %d stayed empty for %d ms, or was destroyed", function, q.id, int32(a[6]))
	}
	return code
}
