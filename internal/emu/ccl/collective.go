package ccl

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// collectives are the functions that queue work, by C name.
func (l *Library) collectives() map[string]rt.Func {
	return map[string]rt.Func{
		"HcclAllReduce":      calls(l.allReduce),
		"HcclReduce":         calls(l.reduce),
		"HcclReduceScatter":  calls(l.reduceScatter),
		"HcclReduceScatterV": calls(l.reduceScatterV),
		"HcclBroadcast":      calls(l.broadcast),
		"HcclScatter":        calls(l.scatter),
		"HcclAllGather":      calls(l.allGather),
		"HcclAllGatherV":     calls(l.allGatherV),
		"HcclAlltoAll":       calls(l.allToAll),
		"HcclAlltoAllV":      calls(l.allToAllV),
		"HcclAlltoAllVC":     calls(l.allToAllVC),
		"HcclSend":           calls(l.send),
		"HcclRecv":           calls(l.receive),
		"HcclBatchSendRecv":  calls(l.batchSendRecv),
		"HcclBarrier":        calls(l.barrier),
	}
}

func calls(f func(t *rt.Thread, a []uint64) error) rt.Func {
	return func(t *rt.Thread, a []uint64) uint64 { return answer(t, f(t, a)) }
}

// notNull refuses the first null among names and words, in that order.
func notNull(function string, names []string, words ...uint64) error {
	for i, w := range words {
		if w == 0 && names[i] != "stream" { // a null stream is the default one
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

// checked is the communicator for a call with count elements of a type, combined with op
// when it is not negative.
func (l *Library) checked(function string, handle, count uint64, dtype, op int32) (*comm, element, error) {
	c, err := l.usable(function, handle)
	if err != nil {
		return nil, element{}, err
	}
	if err := checkCount(function, count); err != nil {
		return nil, element{}, err
	}
	e, err := checkType(function, dtype)
	if err == nil && reduces[function] {
		err = checkReduce(function, dtype, op)
	}
	return c, e, err
}

func (l *Library) allReduce(t *rt.Thread, a []uint64) error {
	const call = "HcclAllReduce"
	send, recv, count, dtype, op := a[0], a[1], a[2], int32(a[3]), int32(a[4])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "sendBuf", "recvBuf"}, a[5], send, recv); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[5], count, dtype, op)
	if err != nil {
		return err
	}
	return c.launch(t, a[6], plan{header{Call: call, Type: dtype, Op: op, Count: count}, c.allReduce(e, send, recv, count)})
}

func (l *Library) reduce(t *rt.Thread, a []uint64) error {
	const call = "HcclReduce"
	send, recv, count, dtype, op, root := a[0], a[1], a[2], int32(a[3]), int32(a[4]), uint32(a[5])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "sendBuf", "recvBuf"}, a[6], send, recv); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[6], count, dtype, op)
	if err == nil {
		err = c.checkRank(call, "root", root)
	}
	if err != nil {
		return err
	}
	return c.launch(t, a[7], plan{header{Call: call, Type: dtype, Op: op, Root: root, Count: count}, c.reduceTo(e, send, recv, count, int(root))})
}

func (l *Library) reduceScatter(t *rt.Thread, a []uint64) error {
	const call = "HcclReduceScatter"
	send, recv, count, dtype, op := a[0], a[1], a[2], int32(a[3]), int32(a[4])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "sendBuf", "recvBuf"}, a[5], send, recv); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[5], count, dtype, op)
	if err != nil {
		return err
	}
	p := c.combine(func(r int) part { return e.at(send, uint64(r)*count, count) }, e.at(recv, 0, count))
	return c.launch(t, a[6], plan{header{Call: call, Type: dtype, Op: op, Count: count}, []phase{p}})
}

// vector reads a host array of one number per rank, each within the limit.
func (c *comm) vector(call string, addr uint64, limited bool) ([]uint64, error) {
	v := rt.Read[uint64](addr, uint64(c.size))
	if limited {
		for _, n := range v {
			if err := checkCount(call, n); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// blocks reads counts and displacements.
func (c *comm) blocks(call string, counts, displacements uint64) (b blocks, err error) {
	if b.counts, err = c.vector(call, counts, true); err == nil {
		b.displacements, err = c.vector(call, displacements, false)
	}
	return b, err
}

func (l *Library) reduceScatterV(t *rt.Thread, a []uint64) error {
	const call = "HcclReduceScatterV"
	send, recv, count, dtype, op := a[0], a[3], a[4], int32(a[5]), int32(a[6])
	if err := notNull(call, []string{"sendCounts", "sendDispls", "comm"}, a[1], a[2], a[7]); err != nil {
		return err
	}
	if count > 0 && recv == 0 {
		return null(call, "recvBuf")
	}
	c, err := l.usable(call, a[7])
	if err != nil {
		return err
	}
	b, err := c.blocks(call, a[1], a[2])
	switch {
	case err != nil:
		return err
	case b.total() == 0:
		return nil
	case send == 0:
		return null(call, "sendBuf")
	case count != b.counts[c.rank]:
		return refuse(badParameter, "EI0003: %s: recvCount is %d, sendCounts[%d] is %d; they must be equal", call, count, c.rank, b.counts[c.rank])
	}
	e, err := checkType(call, dtype)
	if err == nil {
		err = checkReduce(call, dtype, op)
	}
	if err != nil {
		return err
	}
	p := c.combine(func(r int) part { return b.of(e, send, r) }, e.at(recv, 0, count))
	return c.launch(t, a[8], plan{header{Call: call, Type: dtype, Op: op, Count: b.total()}, []phase{p}})
}

func (l *Library) broadcast(t *rt.Thread, a []uint64) error {
	const call = "HcclBroadcast"
	buf, count, dtype, root := a[0], a[1], int32(a[2]), uint32(a[3])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "buf"}, a[4], buf); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[4], count, dtype, 0)
	if err == nil {
		err = c.checkRank(call, "root", root)
	}
	if err != nil {
		return err
	}
	return c.launch(t, a[5], plan{header{Call: call, Type: dtype, Root: root, Count: count}, c.broadcast(e, buf, count, int(root))})
}

func (l *Library) scatter(t *rt.Thread, a []uint64) error {
	const call = "HcclScatter"
	send, recv, count, dtype, root := a[0], a[1], a[2], int32(a[3]), uint32(a[4])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "recvBuf"}, a[5], recv); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[5], count, dtype, 0)
	if err == nil {
		err = c.checkRank(call, "root", root)
	}
	if err == nil && int(root) == c.rank && send == 0 {
		err = null(call, "sendBuf")
	}
	if err != nil {
		return err
	}
	return c.launch(t, a[6], plan{header{Call: call, Type: dtype, Root: root, Count: count}, c.scatter(e, send, recv, count, int(root))})
}

func (l *Library) allGather(t *rt.Thread, a []uint64) error {
	const call = "HcclAllGather"
	send, recv, count, dtype := a[0], a[1], a[2], int32(a[3])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", "sendBuf", "recvBuf"}, a[4], send, recv); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[4], count, dtype, 0)
	if err != nil {
		return err
	}
	all := c.gather(e, send, recv, func(int) uint64 { return count }, func(r int) uint64 { return uint64(r) * count })
	return c.launch(t, a[5], plan{header{Call: call, Type: dtype, Count: count}, all})
}

func (l *Library) allGatherV(t *rt.Thread, a []uint64) error {
	const call = "HcclAllGatherV"
	send, count, recv, dtype := a[0], a[1], a[2], int32(a[5])
	if err := notNull(call, []string{"recvCounts", "recvDispls", "comm"}, a[3], a[4], a[6]); err != nil {
		return err
	}
	if count > 0 && send == 0 {
		return null(call, "sendBuf")
	}
	c, err := l.usable(call, a[6])
	if err != nil {
		return err
	}
	b, err := c.blocks(call, a[3], a[4])
	switch {
	case err != nil:
		return err
	case b.total() == 0:
		return nil
	case recv == 0:
		return null(call, "recvBuf")
	case count != b.counts[c.rank]:
		return refuse(badParameter, "EI0003: %s: sendCount is %d, recvCounts[%d] is %d; they must be equal", call, count, c.rank, b.counts[c.rank])
	}
	e, err := checkType(call, dtype)
	if err != nil {
		return err
	}
	all := c.gather(e, send, recv, func(r int) uint64 { return b.counts[r] }, func(r int) uint64 { return b.displacements[r] })
	return c.launch(t, a[7], plan{header{Call: call, Type: dtype, Count: b.total()}, all})
}

func (l *Library) allToAll(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAll"
	send, count, dtype, recv, recvCount, recvType := a[0], a[1], int32(a[2]), a[3], a[4], int32(a[5])
	if count == 0 && recvCount == 0 {
		return nil
	}
	if err := notNull(call, []string{"sendBuf", "recvBuf"}, send, recv); err != nil {
		return err
	}
	switch {
	case count != recvCount:
		return refuse(badParameter, "EI0003: %s: sendCount %d and recvCount %d differ", call, count, recvCount)
	case dtype != recvType:
		return refuse(badParameter, "EI0003: %s: sendType %d and recvType %d differ", call, dtype, recvType)
	}
	c, e, err := l.checked(call, a[6], count, dtype, 0)
	if err != nil {
		return err
	}
	if send == recv {
		return refuse(badParameter, "EI0003: %s: sendBuf and recvBuf are the same", call)
	}
	b := even(count, c.size)
	return c.blocksExchange(t, a[7], header{Call: call, Type: dtype, Count: count}, e, send, recv, b, b)
}

func (c *comm) blocksExchange(t *rt.Thread, stream uint64, h header, e element, send, recv uint64, out, in blocks) error {
	p := c.exchange(
		func(r int) part { return out.of(e, send, r) },
		func(r int) part { return in.of(e, recv, r) })
	return c.launch(t, stream, plan{h, []phase{p}})
}

func (l *Library) allToAllV(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAllV"
	send, dtype, recv, recvType := a[0], int32(a[3]), a[4], int32(a[7])
	if err := notNull(call, []string{"sendCounts", "sdispls", "recvCounts", "rdispls"}, a[1], a[2], a[5], a[6]); err != nil {
		return err
	}
	c, err := l.usable(call, a[8])
	if err != nil {
		return err
	}
	out, err := c.blocks(call, a[1], a[2])
	if err != nil {
		return err
	}
	in, err := c.blocks(call, a[5], a[6])
	switch {
	case err != nil:
		return err
	case send == 0 && out.total() > 0:
		return null(call, "sendBuf")
	case recv == 0 && in.total() > 0:
		return null(call, "recvBuf")
	case dtype != recvType:
		return refuse(badParameter, "EI0003: %s: sendType %d and recvType %d differ", call, dtype, recvType)
	case send == recv && send != 0:
		return refuse(badParameter, "EI0003: %s: sendBuf and recvBuf are the same", call)
	case out.counts[c.rank] != in.counts[c.rank]:
		return refuse(badParameter, "EI0003: %s: rank %d sends itself %d elements and expects %d", call, c.rank, out.counts[c.rank], in.counts[c.rank])
	}
	e, err := checkType(call, dtype)
	if err != nil {
		return err
	}
	return c.blocksExchange(t, a[9], header{Call: call, Type: dtype}, e, send, recv, out, in)
}

// allToAllVC is allToAllV for blocks behind each other whose sizes all ranks know.
func (l *Library) allToAllVC(t *rt.Thread, a []uint64) error {
	const call = "HcclAlltoAllVC"
	send, dtype, recv, recvType := a[0], int32(a[2]), a[3], int32(a[4])
	if err := notNull(call, []string{"sendCountMatrix", "comm"}, a[1], a[5]); err != nil {
		return err
	}
	c, err := l.usable(call, a[5])
	if err != nil {
		return err
	}
	n := uint64(c.size)
	matrix := rt.Read[uint64](a[1], n*n)
	out, in := make([]uint64, n), make([]uint64, n)
	for r := range n {
		out[r], in[r] = matrix[uint64(c.rank)*n+r], matrix[r*n+uint64(c.rank)]
	}
	for _, count := range matrix {
		if err := checkCount(call, count); err != nil {
			return err
		}
	}
	from, to := packed(out), packed(in)
	switch {
	case send == 0 && from.total() > 0:
		return null(call, "sendBuf")
	case recv == 0 && to.total() > 0:
		return null(call, "recvBuf")
	case dtype != recvType:
		return refuse(badParameter, "EI0003: %s: sendType %d and recvType %d differ", call, dtype, recvType)
	case send == recv && send != 0:
		return refuse(badParameter, "EI0003: %s: sendBuf and recvBuf are the same", call)
	}
	e, err := checkType(call, dtype)
	if err != nil {
		return err
	}
	return c.blocksExchange(t, a[6], header{Call: call, Type: dtype}, e, send, recv, from, to)
}

func (l *Library) send(t *rt.Thread, a []uint64) error {
	return l.point(t, "HcclSend", "sendBuf", "destRank", a, func(x transfer) phase { return phase{sends: []transfer{x}, pairs: true} })
}

func (l *Library) receive(t *rt.Thread, a []uint64) error {
	return l.point(t, "HcclRecv", "recvBuf", "srcRank", a, func(x transfer) phase { return phase{receives: []transfer{x}, pairs: true} })
}

// pointCall is the name in the headers of all point-to-point messages: HcclSend pairs with
// HcclRecv, and both with the items of a batch.
const pointCall = "HcclSend/HcclRecv"

func (l *Library) point(t *rt.Thread, call, buffer, rank string, a []uint64, make func(transfer) phase) error {
	buf, count, dtype, peer := a[0], a[1], int32(a[2]), uint32(a[3])
	if count == 0 {
		return nil
	}
	if err := notNull(call, []string{"comm", buffer}, a[4], buf); err != nil {
		return err
	}
	c, e, err := l.checked(call, a[4], count, dtype, 0)
	if err == nil {
		err = c.checkRank(call, rank, peer)
	}
	if err != nil {
		return err
	}
	if int(peer) == c.rank {
		return refuse(notSupported, "EI0003: %s: rank %d cannot be its own peer; use HcclBatchSendRecv", call, c.rank)
	}
	p := make(transfer{int(peer), e.at(buf, 0, count)})
	if l.grouped(t, c, a[5], p) {
		return nil
	}
	return c.launch(t, a[5], plan{header{Call: pointCall}, []phase{p}})
}

func (l *Library) batchSendRecv(t *rt.Thread, a []uint64) error {
	const call = "HcclBatchSendRecv"
	if err := notNull(call, []string{"comm", "stream", "sendRecvInfo"}, a[2], a[3], a[0]); err != nil {
		return err
	}
	if uint32(a[1]) == 0 {
		return nil
	}
	c, err := l.usable(call, a[2])
	if err != nil {
		return err
	}
	p, err := c.batch(rt.Read[item](a[0], uint64(uint32(a[1]))))
	if err != nil {
		return err
	}
	return c.launch(t, a[3], plan{header{Call: pointCall}, []phase{p}})
}

// The layout of HcclSendRecvItem: each constant overflows if a field moved.
const (
	_ = uint(unsafe.Sizeof(item{}) - 32)
	_ = uint(32 - unsafe.Sizeof(item{}))
)

func (l *Library) barrier(t *rt.Thread, a []uint64) error {
	const call = "HcclBarrier"
	if err := notNull(call, []string{"comm", "stream"}, a[0], a[1]); err != nil {
		return err
	}
	c, err := l.usable(call, a[0])
	if err != nil {
		return err
	}
	none := func(int) part { return part{} }
	return c.launch(t, a[1], plan{header{Call: call, Type: abi.HCCL_DATA_TYPE_FP32}, []phase{c.exchange(none, none)}})
}

// twice reports whether a number occurs more than once.
func twice[T ~int32 | ~uint32](v []T) bool {
	s := slices.Sorted(slices.Values(v))
	return len(slices.Compact(s)) < len(v)
}
