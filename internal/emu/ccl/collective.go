package ccl

import (
	"slices"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// argument is an address or a handle that must not be null.
type argument struct {
	name  string
	value uint64
}

// notNull returns an error for the first null argument.
func notNull(function string, arguments ...argument) error {
	for _, a := range arguments {
		if a.value == 0 {
			return null(function, a.name)
		}
	}
	return nil
}

// usable returns the communicator of a handle. It fails if the communicator cannot take work.
func (l *Library) usable(function string, handle rt.Handle) (*comm, error) {
	c, err := l.find(function, handle)
	switch {
	case err != nil:
		return nil, err
	case c.asleep.Load():
		return nil, refuse(suspending, "%s: %v is suspended; call HcclCommResume", function, c)
	}
	if why := c.reason(); why != nil {
		return nil, refuse(remoteError, "%s: %v failed before; destroy it and make a new one: %v", function, c, why)
	}
	return c, nil
}

// checked checks the arguments of a call with count elements, reduced with op where the
// function reduces, and returns the communicator and the element type.
func (l *Library) checked(function string, handle rt.Handle, count uint64, dtype, op int32) (*comm, element, error) {
	c, err := l.usable(function, handle)
	if err != nil {
		return nil, element{}, err
	}
	if err := checkCount(function, count); err != nil {
		return nil, element{}, err
	}
	e, err := l.checkElements(function, dtype, op)
	return c, e, err
}

// collective is a function in which all ranks give the same count and one element type.
type collective struct {
	call      string
	sole      bool // recv is the only buffer
	rootSends bool // ranks that are not root may give a null send buffer
	phases    func(c *comm, e element, send, recv, count uint64, root int) []phase
}

var (
	allReduce     = collective{call: "HcclAllReduce", phases: (*comm).allReduce}
	reduce        = collective{call: "HcclReduce", phases: (*comm).reduce}
	reduceScatter = collective{call: "HcclReduceScatter", phases: (*comm).reduceScatter}
	broadcast     = collective{call: "HcclBroadcast", sole: true, phases: (*comm).broadcast}
	scatter       = collective{call: "HcclScatter", rootSends: true, phases: (*comm).scatter}
	allGather     = collective{call: "HcclAllGather", phases: (*comm).allGather}
)

// uniform holds the arguments of a collective. op and root are 0 for functions without them.
type uniform struct {
	send, recv   uintptr
	count        uint64
	dtype, op    int32
	root         uint32
	comm, stream rt.Handle
}

func (l *Library) HcclAllReduce(t *rt.Thread, sendBuf, recvBuf uintptr, count uint64, dataType, op int32, comm, stream rt.Handle) error {
	return l.uniform(t, allReduce, uniform{send: sendBuf, recv: recvBuf, count: count, dtype: dataType, op: op, comm: comm, stream: stream})
}

func (l *Library) HcclReduce(t *rt.Thread, sendBuf, recvBuf uintptr, count uint64, dataType, op int32, root uint32, comm, stream rt.Handle) error {
	return l.uniform(t, reduce, uniform{send: sendBuf, recv: recvBuf, count: count, dtype: dataType, op: op, root: root, comm: comm, stream: stream})
}

func (l *Library) HcclReduceScatter(t *rt.Thread, sendBuf, recvBuf uintptr, recvCount uint64, dataType, op int32, comm, stream rt.Handle) error {
	return l.uniform(t, reduceScatter, uniform{send: sendBuf, recv: recvBuf, count: recvCount, dtype: dataType, op: op, comm: comm, stream: stream})
}

func (l *Library) HcclBroadcast(t *rt.Thread, buf uintptr, count uint64, dataType int32, root uint32, comm, stream rt.Handle) error {
	return l.uniform(t, broadcast, uniform{recv: buf, count: count, dtype: dataType, root: root, comm: comm, stream: stream})
}

func (l *Library) HcclScatter(t *rt.Thread, sendBuf, recvBuf uintptr, recvCount uint64, dataType int32, root uint32, comm, stream rt.Handle) error {
	return l.uniform(t, scatter, uniform{send: sendBuf, recv: recvBuf, count: recvCount, dtype: dataType, root: root, comm: comm, stream: stream})
}

func (l *Library) HcclAllGather(t *rt.Thread, sendBuf, recvBuf uintptr, sendCount uint64, dataType int32, comm, stream rt.Handle) error {
	return l.uniform(t, allGather, uniform{send: sendBuf, recv: recvBuf, count: sendCount, dtype: dataType, comm: comm, stream: stream})
}

func (l *Library) uniform(t *rt.Thread, f collective, a uniform) error {
	if a.count == 0 {
		return nil
	}
	switch {
	case a.comm == 0:
		return null(f.call, "comm")
	case !f.sole && !f.rootSends && a.send == 0:
		return null(f.call, "sendBuf")
	case a.recv == 0 && f.sole:
		return null(f.call, "buf")
	case a.recv == 0:
		return null(f.call, "recvBuf")
	case a.stream == 0:
		return null(f.call, "stream")
	}
	c, e, err := l.checked(f.call, a.comm, a.count, a.dtype, a.op)
	if err == nil {
		err = c.checkRank(f.call, "root", a.root)
	}
	if err == nil && f.rootSends && int(a.root) == c.rank && a.send == 0 {
		err = null(f.call, "sendBuf")
	}
	if err != nil {
		return err
	}
	s, err := c.stream(t, f.call, a.stream)
	if err != nil {
		return err
	}
	send, recv := uint64(a.send), uint64(a.recv)
	r := repetition{call: f.call, send: send, recv: recv, count: a.count, dtype: a.dtype, op: a.op, root: a.root}
	return c.submit(t, s, c.repeated(r, s, func() plan {
		return plan{f.call, header{Type: a.dtype, Op: a.op, Root: a.root, Count: a.count}, f.phases(c, e, send, recv, a.count, int(a.root))}
	}))
}

func (l *Library) HcclBarrier(t *rt.Thread, comm, stream rt.Handle) error {
	return l.BarrierOf(t, comm, stream, nil)
}

// BarrierOf is HcclBarrier with terms that the device reads when the barrier starts: which ranks take part, nil for
// all, and how long they wait, 0 for the limit of every collective. terms may be nil.
func (l *Library) BarrierOf(t *rt.Thread, comm, stream rt.Handle, terms func() ([]int, time.Duration)) error {
	const call = "HcclBarrier"
	c, err := l.usable(call, comm)
	if err != nil {
		return err
	}
	nothing := func(int) part { return part{} }
	s, err := c.stream(t, call, stream)
	if err != nil {
		return err
	}
	w := c.work(plan{call, header{Type: abi.HCCL_DATA_TYPE_FP32}, []phase{c.exchange(nothing, nothing)}}, s)
	w.terms = terms
	return c.submit(t, s, w)
}

// among returns the phase in which ranks wait for each other.
func (c *comm) among(ranks []int) phase {
	p := phase{pairs: true}
	for _, r := range ranks {
		if r != c.rank {
			p.sends, p.receives = append(p.sends, transfer{peer: r}), append(p.receives, transfer{peer: r})
		}
	}
	return p
}

// twice reports whether a number occurs more than once.
func twice[T ~int32 | ~uint32](v []T) bool {
	s := slices.Sorted(slices.Values(v))
	return len(slices.Compact(s)) < len(v)
}
