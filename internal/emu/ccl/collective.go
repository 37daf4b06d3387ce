package ccl

import (
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// collectives are the functions that queue work, by C name.
func (l *Library) collectives() map[string]rt.Func {
	all := map[string]rt.Func{
		"HcclReduceScatterV": calls(l.reduceScatterV),
		"HcclAllGatherV":     calls(l.allGatherV),
		"HcclAlltoAll":       calls(l.allToAll),
		"HcclAlltoAllV":      calls(l.allToAllV),
		"HcclAlltoAllVC":     calls(l.allToAllVC),
		"HcclSend":           calls(l.send),
		"HcclRecv":           calls(l.receive),
		"HcclBatchSendRecv":  calls(l.batchSendRecv),
		"HcclBarrier":        calls(l.barrier),
	}
	for _, u := range uniforms {
		all[u.call] = calls(func(t *rt.Thread, a []uint64) error { return l.uniform(t, u, a) })
	}
	return all
}

func calls(f func(t *rt.Thread, a []uint64) error) rt.Func {
	return func(t *rt.Thread, a []uint64) uint64 { return answer(t, f(t, a)) }
}

// notNull refuses the first null among names and words, in that order.
func notNull(function string, names []string, words ...uint64) error {
	for i, w := range words {
		if w == 0 {
			return null(function, names[i])
		}
	}
	return nil
}

// usable is the communicator of a handle, if it can take work.
func (l *Library) usable(function string, handle uint64) (*comm, error) {
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

// checked is the communicator and the element type for a call with count elements, combined
// with op where the function reduces.
func (l *Library) checked(function string, handle, count uint64, dtype, op int32) (*comm, element, error) {
	c, err := l.usable(function, handle)
	if err != nil {
		return nil, element{}, err
	}
	if err := checkCount(function, count); err != nil {
		return nil, element{}, err
	}
	e, err := checkElements(function, dtype, op)
	return c, e, err
}

// uniform is a collective in which all ranks give the same count and one element type.
// Numbers are places of arguments; none stands for an argument it lacks.
type uniform struct {
	call       string
	send, recv int // recv is the only buffer of a call that has one
	count      int // and the type behind it
	op, root   int
	comm       int // and the stream behind it
	// rootSends says that ranks that are not root may give a null send buffer.
	rootSends bool
	phases    func(c *comm, e element, send, recv, count uint64, root int) []phase
}

const none = -1

var uniforms = []uniform{
	{call: "HcclAllReduce", send: 0, recv: 1, count: 2, op: 4, root: none, comm: 5, phases: (*comm).allReduce},
	{call: "HcclReduce", send: 0, recv: 1, count: 2, op: 4, root: 5, comm: 6, phases: (*comm).reduce},
	{call: "HcclReduceScatter", send: 0, recv: 1, count: 2, op: 4, root: none, comm: 5, phases: (*comm).reduceScatter},
	{call: "HcclBroadcast", send: none, recv: 0, count: 1, op: none, root: 3, comm: 4, phases: (*comm).broadcast},
	{call: "HcclScatter", send: 0, recv: 1, count: 2, op: none, root: 4, comm: 5, rootSends: true, phases: (*comm).scatter},
	{call: "HcclAllGather", send: 0, recv: 1, count: 2, op: none, root: none, comm: 4, phases: (*comm).allGather},
}

func (l *Library) uniform(t *rt.Thread, u uniform, a []uint64) error {
	argument := func(at int) uint64 {
		if at == none {
			return 0
		}
		return a[at]
	}
	send, recv, count, dtype, op, root := argument(u.send), a[u.recv], a[u.count], int32(a[u.count+1]), int32(argument(u.op)), uint32(argument(u.root))
	if count == 0 {
		return nil
	}
	if a[u.comm] == 0 {
		return null(u.call, "comm")
	}
	switch {
	case u.send != none && !u.rootSends && send == 0:
		return null(u.call, "sendBuf")
	case recv == 0 && u.send == none:
		return null(u.call, "buf")
	case recv == 0:
		return null(u.call, "recvBuf")
	}
	c, e, err := l.checked(u.call, a[u.comm], count, dtype, op)
	if err == nil {
		err = c.checkRank(u.call, "root", root)
	}
	if err == nil && u.rootSends && int(root) == c.rank && send == 0 {
		err = null(u.call, "sendBuf")
	}
	if err != nil {
		return err
	}
	s, err := c.stream(t, u.call, a[u.comm+1])
	if err != nil {
		return err
	}
	r := repetition{call: u.call, send: send, recv: recv, count: count, dtype: dtype, op: op, root: root}
	return c.submit(t, s, c.repeated(r, s, func() plan {
		return plan{u.call, header{Type: dtype, Op: op, Root: root, Count: count}, u.phases(c, e, send, recv, count, int(root))}
	}))
}

func (l *Library) barrier(t *rt.Thread, a []uint64) error {
	const call = "HcclBarrier"
	c, err := l.usable(call, a[0])
	if err != nil {
		return err
	}
	nothing := func(int) part { return part{} }
	return c.launch(t, a[1], plan{call, header{Type: abi.HCCL_DATA_TYPE_FP32}, []phase{c.exchange(nothing, nothing)}})
}

// twice reports whether a number occurs more than once.
func twice[T ~int32 | ~uint32](v []T) bool {
	s := slices.Sorted(slices.Values(v))
	return len(slices.Compact(s)) < len(v)
}
