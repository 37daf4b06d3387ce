package acl

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// Condition is a 64-bit number on the device by which a captured graph decides what it runs: see
// Stream.If, Stream.While and Stream.Switch. It lives as long as its graph.
type Condition struct {
	rec    *recording
	handle aclmdlRICondHandle
	addr   uintptr
}

// NewCondition makes a condition of the graph that is captured on the stream, or of the body that is
// (aclmdlRICondHandleCreate, from CANN 9.0). With reset every replay of the graph, and every run of the
// body, starts with value; without it the number stays what it was, and is 0 at first.
func (s *Stream) NewCondition(value uint32, reset bool) (*Condition, error) {
	const op = "Stream.NewCondition"
	if err := s.usable(op); err != nil {
		return nil, err
	}
	q := s.q
	rec := q.recording()
	if rec == nil {
		return nil, q.refuse(op, ErrInvalidArgument, "no graph is captured on the stream")
	}
	_, graph, err := aclmdlRICaptureGetInfo(q.scope.handle, q.handle)
	if err != nil {
		return nil, q.fail(err)
	}
	flag := aclmdlRICondHandleFlag(0)
	if reset {
		flag = abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT
	}
	c := &Condition{rec: rec}
	if c.handle, err = aclmdlRICondHandleCreate(q.scope.handle, graph, value, flag); err != nil {
		return nil, q.fail(err)
	}
	if c.addr, err = aclmdlRICondHandleGetCondPtr(q.scope.handle, c.handle); err != nil {
		return nil, q.fail(err)
	}
	runtime.KeepAlive(s)
	return c, nil
}

// conditionBytes is the size of a condition's number.
const conditionBytes = 8

// Set queues a copy of the first 8 bytes of a buffer, such as an int64 tensor, to the condition: in the
// captured function or a body, to decide there, or before a replay.
func (c *Condition) Set(s *Stream, from *Buffer) error {
	const op = "Condition.Set"
	if err := s.usable(op); err != nil {
		return err
	}
	q := s.q
	if c == nil || c.rec == nil {
		return q.refuse(op, ErrInvalidArgument, "the condition is nil, or was not made by this package")
	}
	if c.rec.ended() {
		return q.refuse(op, ErrClosed, "the graph of the condition is closed")
	}
	if err := q.accept(op, from.where(), conditionBytes); err != nil {
		return err
	}
	err := aclrtMemcpyAsync(q.scope.handle, c.addr, conditionBytes, uintptr(from.addr), conditionBytes, abi.ACL_MEMCPY_DEVICE_TO_DEVICE, q.handle)
	if err != nil {
		return q.fault(err)
	}
	q.feed()
	runtime.KeepAlive(from)
	runtime.KeepAlive(s)
	return nil
}

// If captures two bodies. A replay runs the first if the condition is not 0 when the stream gets there, and
// else the second, which may be nil. The bodies queue their work on the stream that they are given, as the
// function of Capture does on its stream.
func (s *Stream) If(c *Condition, then, otherwise func(*Stream) error) error {
	bodies := []func(*Stream) error{then}
	if otherwise != nil {
		bodies = append(bodies, otherwise)
	}
	return s.conditional("Stream.If", abi.ACL_MODEL_RI_COND_TYPE_IF, c, bodies)
}

// While captures a body that a replay runs as long as the condition is not 0. The body changes it with
// Condition.Set.
func (s *Stream) While(c *Condition, body func(*Stream) error) error {
	return s.conditional("Stream.While", abi.ACL_MODEL_RI_COND_TYPE_WHILE, c, []func(*Stream) error{body})
}

// Switch captures bodies of which a replay runs the one whose number the condition is; without such a
// body it runs none.
func (s *Stream) Switch(c *Condition, bodies ...func(*Stream) error) error {
	return s.conditional("Stream.Switch", abi.ACL_MODEL_RI_COND_TYPE_SWITCH, c, bodies)
}

func (s *Stream) conditional(op string, kind aclmdlRICondTaskType, c *Condition, bodies []func(*Stream) error) error {
	if err := s.usable(op); err != nil {
		return err
	}
	q := s.q
	rec := q.recording()
	switch {
	case rec == nil:
		return q.refuse(op, ErrInvalidArgument, "no graph is captured on the stream; conditions are of graphs")
	case c == nil || c.rec != rec:
		return q.refuse(op, ErrInvalidArgument, "the condition is nil, or of another graph")
	case len(bodies) == 0:
		return q.refuse(op, ErrInvalidArgument, "there are no bodies")
	}
	for _, body := range bodies {
		if body == nil {
			return q.refuse(op, ErrInvalidArgument, "a body is nil")
		}
	}
	graphs := make([]aclmdlRI, len(bodies))
	if err := addConditional(q, kind, c.handle, graphs); err != nil {
		return q.fail(err)
	}
	for i, body := range bodies {
		if err := s.body(rec, graphs[i], body); err != nil {
			return err
		}
	}
	runtime.KeepAlive(s)
	return nil
}

// body captures one body on a stream of its own. The capture's thread is that of the graph.
func (s *Stream) body(rec *recording, graph aclmdlRI, f func(*Stream) error) (err error) {
	sc := s.q.scope
	on, err := s.sibling()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	err = on.q.begin(rec.admit(on.q), func() error {
		return aclmdlRICaptureToModelRIBegin(sc.handle, on.q.handle, graph, rec.mode)
	})
	if err != nil {
		return on.q.fail(err)
	}
	defer func() { // also when f panics
		e := on.q.end(func() error {
			_, err := aclmdlRICaptureEnd(sc.handle, on.q.handle)
			return err
		})
		if e != nil {
			err = errors.Join(err, on.q.fail(e))
		}
	}()
	return f(on)
}

// sibling makes a stream in the same context.
func (s *Stream) sibling() (*Stream, error) {
	sc := s.q.scope
	handle, err := aclrtCreateStreamWithConfig(sc.handle, 0, 0)
	if err != nil {
		return nil, sc.fail(err)
	}
	q, err := sc.newQueue(handle)
	if err != nil {
		return nil, errors.Join(err, sc.wrap(aclrtDestroyStream(sc.handle, handle)))
	}
	sc.retain()
	on := newStream(q, s.dev)
	on.open(KindStream, leak{remains: heir(&lostStream{q: q})})
	return on, nil
}

// addConditional adds a task that runs the bodies in graphs (aclmdlRIAddCondTask).
func addConditional(q *queue, kind aclmdlRICondTaskType, handle aclmdlRICondHandle, graphs []aclmdlRI) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&graphs[0])
	params := aclmdlRICondTaskParams{handle: handle, typeArg: kind, size: uint32(len(graphs)), modelRIArray: uint64(uintptr(unsafe.Pointer(&graphs[0])))}
	return aclmdlRIAddCondTask(q.scope.handle, &params, q.handle, 0)
}
