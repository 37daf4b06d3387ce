package queue

import (
	"runtime"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// queueAttr is the object behind a handle of aclrtCreateQueueAttr.
type queueAttr struct {
	handle rt.Handle
	name   []byte // with its NUL; pinned, because the program holds the address
	pin    runtime.Pinner
	depth  uint32
}

func (a *queueAttr) setName(name string) {
	a.pin.Unpin()
	a.name = append([]byte(name), 0)
	a.pin.Pin(&a.name[0])
}

// tdtObject returns the object of a handle. The error text for a wrong handle names the expected
// kind of object.
func tdtObject[T any](r *Runtime, t *rt.Thread, function, what string, h rt.Handle) (obj T, code rt.Code) {
	if h == 0 {
		return obj, t.Null(function, what)
	}
	obj, ok := rt.Lookup[T](&r.Handles, h)
	if !ok {
		return obj, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no live %s; was it destroyed?", function, h, what)
	}
	return obj, 0
}

func (r *Runtime) acltdtCreateQueueAttr() rt.Handle {
	a := &queueAttr{depth: defaultDepth}
	a.setName("")
	a.handle = r.Handles.New(rt.QueueAttrKind, a)
	return a.handle
}

//npugen:decode acltdtQueueAttr
func (r *Runtime) queueAttr(t *rt.Thread, function, parameter string, h rt.Handle) (*queueAttr, rt.Code) {
	return tdtObject[*queueAttr](r, t, function, parameter, h)
}

func (r *Runtime) acltdtDestroyQueueAttr(attr *queueAttr) rt.Code {
	r.Handles.Delete(attr.handle)
	attr.pin.Unpin()
	return 0
}

func (r *Runtime) acltdtSetQueueAttr(t *rt.Thread, attr *queueAttr, kind int32, size uint64, param rt.Address) rt.Code {
	const function = "acltdtSetQueueAttr"
	switch kind {
	case int32(abi.ACL_TDT_QUEUE_NAME_PTR):
		if size != 8 {
			return t.Fail(rt.Failure, "EH0001: %s: len is %d; a name takes a pointer of 8 bytes", function, size)
		}
		at := rt.In[uint64](param).Get()
		if at == 0 {
			return t.Null(function, "name")
		}
		name := rt.CString(at)
		if len(name) >= queueNameSize {
			return t.Fail(rt.InvalidParam, "EH0001: %s: the name has %d bytes, %d are possible", function, len(name), queueNameSize-1)
		}
		attr.setName(name)
	case int32(abi.ACL_TDT_QUEUE_DEPTH_UINT32):
		if size != 4 {
			return t.Fail(rt.Failure, "EH0001: %s: len is %d; a depth has 4 bytes", function, size)
		}
		attr.depth = rt.In[uint32](param).Get()
	default:
		return t.Fail(rt.InvalidParam, "EH0001: %s: attribute %d is unknown", function, kind)
	}
	return 0
}

// answer is the memory of a program for a value of some size.
type answer struct {
	room uint64
	size rt.Out[uint64]
	at   rt.Address
}

// give writes a value if there is enough room for it.
func give[T any](t *rt.Thread, function string, a answer, value T) rt.Code {
	n := uint64(unsafe.Sizeof(value))
	if a.room < n {
		return t.Fail(rt.Failure, "EH0001: %s: len is %d, the value has %d bytes", function, a.room, n)
	}
	rt.Out[T](a.at).Set(value)
	a.size.Set(n)
	return 0
}

func (r *Runtime) acltdtGetQueueAttr(t *rt.Thread, attr *queueAttr, kind int32, room uint64, paramRetSize rt.Out[uint64], param rt.Address) rt.Code {
	const function = "acltdtGetQueueAttr"
	a := answer{room, paramRetSize, param}
	switch kind {
	case int32(abi.ACL_TDT_QUEUE_NAME_PTR):
		return give(t, function, a, rt.Address(uintptr(unsafe.Pointer(&attr.name[0]))))
	case int32(abi.ACL_TDT_QUEUE_DEPTH_UINT32):
		return give(t, function, a, attr.depth)
	default:
		return t.Fail(rt.InvalidParam, "EH0001: %s: attribute %d is unknown", function, kind)
	}
}
