package queue

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func (p *process) create(t *rt.Thread, function string, args ...uint64) uint64 {
	p.tb.Helper()
	h := p.Functions[function](t, args)
	require.NotZero(p.tb, h, "%s: %s", function, rttest.Text(t))
	return h
}

// queue creates a queue, without a name if name is "".
func (p *process) queue(t *rt.Thread, name string, depth uint32) uint64 {
	p.tb.Helper()
	attr := p.create(t, "acltdtCreateQueueAttr")
	if name != "" {
		text := append([]byte(name), 0)
		at := rttest.Address(&text[0])
		p.Must(t, "acltdtSetQueueAttr", attr, uint64(abi.ACL_TDT_QUEUE_NAME_PTR), 8, rttest.Address(&at))
	}
	p.Must(t, "acltdtSetQueueAttr", attr, uint64(abi.ACL_TDT_QUEUE_DEPTH_UINT32), 4, rttest.Address(&depth))
	id := p.Out(t, "acltdtCreateQueue", 1, attr)
	p.Must(t, "acltdtDestroyQueueAttr", attr)
	return id
}

func (p *process) enqueue(t *rt.Thread, q uint64, data, user string, timeout int32) int32 {
	b, u := []byte(data), []byte(user)
	at := uint64(0)
	if len(u) > 0 {
		at = rttest.Address(&u[0])
	}
	return p.Call(t, "acltdtEnqueueData", q, rttest.Address(&b[0]), uint64(len(b)), at, uint64(len(u)), uint64(uint32(timeout)), 0)
}

func (p *process) dequeue(t *rt.Thread, q uint64, timeout int32) (data, user string, code int32) {
	b, u, n := make([]byte, 64), make([]byte, 4), new(uint64)
	code = p.Call(t, "acltdtDequeueData", q, rttest.Address(&b[0]), 64, rttest.Address(n), rttest.Address(&u[0]), 4, uint64(uint32(timeout)))
	end := max(0, slices.Index(append(u, 0), 0))
	return string(b[:*n]), string(u[:end]), code
}

func (p *process) noQueues() {
	for k := rt.QueueAttrKind; k <= rt.DataItemKind; k++ {
		require.Zero(p.tb, p.Runtime.Handles.Count(k), "kind %d", k)
	}
	require.Empty(p.tb, p.queues.byID)
	require.Empty(p.tb, p.queues.routes)
}

func TestQueue(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	q := p.queue(th, "numbers", 2)
	require.Zero(t, p.enqueue(th, q, "one", "tag", 0))
	require.Zero(t, p.enqueue(th, q, "second", "", 0))
	require.Equal(t, queueFull, p.enqueue(th, q, "third", "", 0))
	require.Equal(t, queueFull, p.enqueue(th, q, "third", "", 1))
	done := make(chan int32)
	go func() { done <- p.enqueue(p.Thread(0), q, "third", "", -1) }()
	for _, want := range [][2]string{{"one", "tag"}, {"second", ""}, {"third", ""}} {
		data, user, code := p.dequeue(th, q, -1)
		require.Zero(t, code)
		require.Equal(t, want, [2]string{data, user})
	}
	require.Zero(t, <-done)
	_, _, code := p.dequeue(th, q, 1)
	require.Equal(t, queueEmpty, code)

	// A message that does not fit stays in the queue, and the call reports its size.
	require.Zero(t, p.enqueue(th, q, "long message", "", -1))
	n, small := new(uint64), make([]byte, 4)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "acltdtDequeueData", q, rttest.Address(&small[0]), 4, rttest.Address(n), 0, 0, 0))
	require.EqualValues(t, 12, *n)
	d := p.Out(th, "aclrtMalloc", 0, 64, 0) // to and from device memory
	p.Must(th, "acltdtDequeueData", q, d, 64, rttest.Address(n), 0, 0, 0)
	p.Must(th, "acltdtEnqueueData", q, d, 4, 0, 0, 0, 0)
	data, _, code := p.dequeue(th, q, 0)
	require.Zero(t, code)
	require.Equal(t, "long", data)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "acltdtEnqueueData", q, d, 1<<20, 0, 0, 0, 0))

	// A waiter returns when the queue is destroyed.
	go func() { _, _, code := p.dequeue(p.Thread(0), q, -1); done <- code }()
	p.Must(th, "acltdtDestroyQueue", q)
	require.Contains(t, []int32{queueEmpty, unknownQueue}, <-done)
	require.Equal(t, unknownQueue, p.enqueue(th, q, "late", "", 0))
	p.Must(th, "aclrtFree", d)
	p.noQueues()
}

// TestQueueReaderFreed checks that memory freed during a wait is not written and that the message
// stays in the queue.
func TestQueueReaderFreed(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	q, d, n := p.queue(th, "", 2), p.Out(th, "aclrtMalloc", 0, 64, 0), new(uint64)
	done := make(chan int32)
	go func() {
		done <- p.Call(p.Thread(0), "acltdtDequeueData", q, d, 64, rttest.Address(n), 0, 0, uint64(uint32(0xffffffff)))
	}()
	require.Eventually(t, func() bool {
		p.queues.mu.Lock()
		defer p.queues.mu.Unlock()
		return p.queues.change != nil
	}, time.Minute, time.Millisecond, "it waits")
	p.Must(th, "aclrtFree", d)
	require.Zero(t, p.enqueue(th, q, "data", "", 0))
	require.Equal(t, rt.ParamInvalid, <-done)
	data, _, code := p.dequeue(th, q, 0)
	require.Zero(t, code)
	require.Equal(t, "data", data)
	p.Must(th, "acltdtDestroyQueue", q)
	p.noQueues()
}

func (p *process) route(t *rt.Thread, list, src, dst uint64) {
	w := p.create(t, "acltdtCreateQueueRoute", src, dst)
	p.Must(t, "acltdtAddQueueRoute", list, w)
	p.Must(t, "acltdtDestroyQueueRoute", w)
}

func (p *process) routeStatus(t *rt.Thread, list, index uint64) int32 {
	w := p.create(t, "acltdtCreateQueueRoute", 0, 0)
	defer p.Must(t, "acltdtDestroyQueueRoute", w)
	p.Must(t, "acltdtGetQueueRoute", list, index, w)
	status, size := new(int32), new(uint64)
	p.Must(t, "acltdtGetQueueRouteParam", w, uint64(abi.ACL_TDT_QUEUE_ROUTE_STATUS_INT32), 4, rttest.Address(size), rttest.Address(status))
	require.EqualValues(p.tb, 4, *size)
	return *status
}

// TestQueueRoutes checks that a message that enters a queue with routes reaches all their ends that
// have room.
func TestQueueRoutes(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(1)
	src, mid, left, right := p.queue(th, "", 2), p.queue(th, "", 2), p.queue(th, "", 3), p.queue(th, "", 2)
	require.Zero(t, p.enqueue(th, src, "0", "", 0), "before the routes exist")
	list := p.create(th, "acltdtCreateQueueRouteList")
	p.route(th, list, src, mid)
	p.route(th, list, mid, left)
	p.route(th, list, mid, right)
	p.Must(th, "acltdtBindQueueRoutes", list)
	p.Must(th, "acltdtBindQueueRoutes", list) // binding again changes nothing
	for i := 1; i < 6; i++ {
		require.Zero(t, p.enqueue(th, src, string(rune('0'+i)), "", 0), "message %d: there are six places on the way of the fullest", i)
	}
	require.Equal(t, queueFull, p.enqueue(th, src, "6", "", 0))
	for i := range 6 {
		for _, q := range []uint64{left, right} {
			data, _, code := p.dequeue(th, q, 0)
			require.Zero(t, code)
			require.Equal(t, string(rune('0'+i)), data)
		}
	}
	for i := range uint64(3) {
		require.EqualValues(t, abi.ACL_TDT_QUEUE_ROUTE_BIND, p.routeStatus(th, list, i))
	}

	query := p.create(th, "acltdtCreateQueueRouteQueryInfo")
	found := func(mode int64) uint64 {
		out := p.create(th, "acltdtCreateQueueRouteList")
		defer p.Must(th, "acltdtDestroyQueueRouteList", out)
		p.Must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM), 4, rttest.Address(&mode))
		p.Must(th, "acltdtQueryQueueRoutes", query, out)
		return p.Functions["acltdtGetQueueRouteNum"](th, []uint64{out})
	}
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtQueryQueueRoutes", query, list), "no mode")
	mode := int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC)
	p.Must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM), 4, rttest.Address(&mode))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtQueryQueueRoutes", query, list), "no source")
	p.Must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32), 4, rttest.Address(&mid))
	p.Must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32), 4, rttest.Address(&mid))
	assert.EqualValues(t, 2, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC))
	assert.EqualValues(t, 1, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST))
	assert.EqualValues(t, 0, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST))
	assert.EqualValues(t, 0, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL))
	p.Must(th, "acltdtDestroyQueueRouteQueryInfo", query)

	wrong := p.create(th, "acltdtCreateQueueRouteList")
	p.route(th, wrong, right, src)
	p.route(th, wrong, src, 99)
	require.Equal(t, rt.Failure, p.Call(th, "acltdtBindQueueRoutes", wrong))
	text := rttest.Text(th)
	require.Contains(t, text, "circle")
	require.Contains(t, text, "no such queues")
	require.EqualValues(t, abi.ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL, p.routeStatus(th, wrong, 1))
	require.Equal(t, rt.Failure, p.Call(th, "acltdtUnbindQueueRoutes", wrong))
	require.Equal(t, rt.Failure, p.Call(th, "acltdtDestroyQueue", mid))
	require.Contains(t, rttest.Text(th), "acltdtUnbindQueueRoutes")
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtGetQueueRoute", list, 3, p.create(th, "acltdtCreateQueueRoute", 0, 0)))
	p.Must(th, "acltdtUnbindQueueRoutes", list)
	for _, q := range []uint64{src, mid, left, right} {
		p.Must(th, "acltdtDestroyQueue", q)
	}
	for _, l := range []uint64{list, wrong} {
		p.Must(th, "acltdtDestroyQueueRouteList", l)
	}
	for h := range p.Runtime.Handles.Of(rt.QueueRouteKind) {
		p.Must(th, "acltdtDestroyQueueRoute", h)
	}
	p.noQueues()
}

// TestQueueHistories checks that a queue with a route behaves like one longer queue.
func TestQueueHistories(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	rapid.Check(t, func(rt *rapid.T) {
		depths := rapid.SliceOfN(rapid.IntRange(2, 4), 2, 2).Draw(rt, "depths")
		src, dst := p.queue(th, "", uint32(depths[0])), p.queue(th, "", uint32(depths[1]))
		list := p.create(th, "acltdtCreateQueueRouteList")
		p.route(th, list, src, dst)
		p.Must(th, "acltdtBindQueueRoutes", list)
		var model []string
		for i, put := range rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(rt, "puts") {
			if put {
				text, code := string(rune('a'+i)), int32(0)
				if len(model) == depths[0]+depths[1] {
					code = queueFull
				} else {
					model = append(model, text)
				}
				require.Equal(rt, code, p.enqueue(th, src, text, "", 0))
				continue
			}
			data, _, code := p.dequeue(th, dst, 0)
			if len(model) == 0 {
				require.Equal(rt, queueEmpty, code)
				continue
			}
			require.Zero(rt, code)
			require.Equal(rt, model[0], data)
			model = model[1:]
		}
		p.Must(th, "acltdtUnbindQueueRoutes", list)
		p.Must(th, "acltdtDestroyQueueRouteList", list)
		p.Must(th, "acltdtDestroyQueue", src)
		p.Must(th, "acltdtDestroyQueue", dst)
	})
	p.noQueues()
}

func TestQueueFaults(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	attr := p.create(th, "acltdtCreateQueueAttr")
	q := p.queue(th, "taken", 2)
	long := append(slices.Repeat([]byte{'x'}, queueNameSize), 0)
	name, taken := rttest.Address(&long[0]), append([]byte("taken"), 0)
	takenAt, depth, word := rttest.Address(&taken[0]), uint32(1), new(uint64)
	at, b := rttest.Address(word), rttest.Address(new([8]byte))
	nameOf, depthOf := uint64(abi.ACL_TDT_QUEUE_NAME_PTR), uint64(abi.ACL_TDT_QUEUE_DEPTH_UINT32)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"acltdtSetQueueAttr", rt.InvalidParam, []uint64{attr, nameOf, 8, rttest.Address(&name)}, "128 bytes"},
		{"acltdtSetQueueAttr", rt.Failure, []uint64{attr, nameOf, 4, rttest.Address(&name)}, "pointer of 8 bytes"},
		{"acltdtSetQueueAttr", rt.InvalidParam, []uint64{attr, nameOf, 8, rttest.Address(new(uint64))}, "name is null"},
		{"acltdtSetQueueAttr", rt.Failure, []uint64{attr, depthOf, 8, at}, "4 bytes"},
		{"acltdtSetQueueAttr", rt.InvalidParam, []uint64{attr, 2, 4, at}, "attribute 2"},
		{"acltdtSetQueueAttr", rt.InvalidParam, []uint64{attr, 0, 8, 0}, "param is null"},
		{"acltdtSetQueueAttr", rt.InvalidParam, []uint64{77, 0, 8, at}, "no live attr"},
		{"acltdtGetQueueAttr", rt.Failure, []uint64{attr, nameOf, 4, at, b}, "8 bytes"},
		{"acltdtGetQueueAttr", rt.InvalidParam, []uint64{attr, depthOf, 4, 0, b}, "null"},
		{"acltdtGetQueueAttr", rt.InvalidParam, []uint64{attr, 7, 4, at, b}, "attribute 7"},
		{"acltdtCreateQueue", rt.InvalidParam, []uint64{attr, 0}, "qid is null"},
		{"acltdtCreateQueue", rt.InvalidParam, []uint64{attr + 1, at}, "no live attr"},
		{"acltdtDestroyQueue", unknownQueue, []uint64{q + 1}, "no queue"},
		{"acltdtEnqueueData", rt.InvalidParam, []uint64{q, 0, 8, 0, 0, 0, 0}, "null"},
		{"acltdtEnqueueData", rt.InvalidParam, []uint64{q, b, 8, 0, 1, 0, 0}, "null"},
		{"acltdtEnqueueData", rt.InvalidParam, []uint64{q, b, 0, 0, 0, 0, 0}, "dataSize 0"},
		{"acltdtEnqueueData", rt.InvalidParam, []uint64{q, b, 8, 0, 0, 0xfffffffe, 0}, "timeout -2"},
		{"acltdtDequeueData", rt.InvalidParam, []uint64{q, b, 8, 0, 0, 0, 0}, "null"},
		{"acltdtDequeueData", rt.InvalidParam, []uint64{q, b, 8, at, 0, 0, 0xfffffffe}, "timeout -2"},
		{"acltdtDequeueData", unknownQueue, []uint64{q + 1, b, 8, at, 0, 0, 0}, "no queue"},
		{"acltdtEnqueue", unsupported, []uint64{q, b, 0}, "acltdtEnqueueData"},
		{"acltdtAllocBuf", unsupported, []uint64{8, 0, at}, "acltdtAllocBuf"},
		{"acltdtGrantQueue", unsupported, []uint64{q, 1, 2, 0}, "acltdtGrantQueue"},
	} {
		require.Equal(t, x.code, p.Call(th, x.name, x.args...), "%s %v", x.name, x.text)
		require.Contains(t, rttest.Text(th), x.text, x.name)
	}
	p.Must(th, "acltdtSetQueueAttr", attr, depthOf, 4, rttest.Address(&depth))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtCreateQueue", attr, at))
	require.Contains(t, rttest.Text(th), "depth is 1")
	depth = 2
	p.Must(th, "acltdtSetQueueAttr", attr, depthOf, 4, rttest.Address(&depth))
	p.Must(th, "acltdtSetQueueAttr", attr, nameOf, 8, rttest.Address(&takenAt))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtCreateQueue", attr, at))
	require.Contains(t, rttest.Text(th), `"taken" already`)
	require.Equal(t, rt.ContextNull, p.Call(new(rt.Thread), "acltdtCreateQueue", attr, at))

	p.Must(th, "acltdtGetQueueAttr", attr, nameOf, 8, at, b)
	require.Equal(t, "taken", rt.CString(rt.Read[uint64](b, 1)[0]))
	other := p.Thread(1) // queues belong to a device
	require.Equal(t, unknownQueue, p.enqueue(other, q, "x", "", 0))
	p.Must(other, "acltdtCreateQueue", attr, at)
	p.Must(other, "acltdtDestroyQueue", *word)
	p.Must(th, "acltdtDestroyQueueAttr", attr)
	plain := p.Out(th, "acltdtCreateQueue", 1, 0)
	for range defaultDepth {
		require.Zero(t, p.enqueue(th, plain, "x", "", 0))
	}
	require.Equal(t, queueFull, p.enqueue(th, plain, "x", "", 0))
	p.Must(th, "acltdtDestroyQueue", plain)
	p.Must(th, "acltdtDestroyQueue", q)
	p.noQueues()
}

func (p *process) item(t *rt.Thread, data []float32) uint64 {
	dims := []int64{1, int64(len(data))}
	return p.create(t, "acltdtCreateDataItem", uint64(dataTensor), rttest.Address(&dims[0]), 2, uint64(abi.ACL_FLOAT), rttest.Address(&data[0]), 4*uint64(len(data)))
}

func (p *process) dataset(t *rt.Thread, items ...uint64) uint64 {
	s := p.create(t, "acltdtCreateDataset")
	for _, x := range items {
		p.Must(t, "acltdtAddDataItem", s, x)
	}
	return s
}

func TestChannel(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	name := append([]byte("stream of datasets"), 0)
	c := p.create(th, "acltdtCreateChannelWithCapacity", 0, rttest.Address(&name[0]), 2)
	require.Zero(t, p.Functions["acltdtCreateChannelWithCapacity"](th, []uint64{0, rttest.Address(&name[0]), 2}), "the name is taken")
	first, second := p.item(th, []float32{1, 2, 3}), p.create(th, "acltdtCreateDataItem", uint64(abi.ACL_TENSOR_DATA_END_OF_SEQUENCE), 0, 0, 0, 0, 0)
	sent, got := p.dataset(th, first, second), p.dataset(th)
	p.Must(th, "acltdtSendTensor", c, sent, 0)
	p.Must(th, "acltdtSendTensor", c, p.dataset(th), 0)
	require.EqualValues(t, 2, p.Out(th, "acltdtQueryChannelSize", 1, c))
	require.Equal(t, queueFull, p.Call(th, "acltdtSendTensor", c, sent, 1))
	for _, x := range []uint64{first, second} { // the channel has copies
		p.Must(th, "acltdtDestroyDataItem", x)
	}
	p.Must(th, "acltdtReceiveTensor", c, got, 0)
	require.EqualValues(t, 2, p.Functions["acltdtGetDatasetSize"](th, []uint64{got}))
	x := p.Functions["acltdtGetDataItem"](th, []uint64{got, 0})
	require.EqualValues(t, 2, p.Functions["acltdtGetDimNumFromItem"](th, []uint64{x}))
	dims := make([]int64, 2)
	p.Must(th, "acltdtGetDimsFromItem", x, rttest.Address(&dims[0]), 2)
	require.Equal(t, []int64{1, 3}, dims)
	require.EqualValues(t, abi.ACL_FLOAT, int32(p.Functions["acltdtGetDataTypeFromItem"](th, []uint64{x})))
	require.EqualValues(t, 12, p.Functions["acltdtGetDataSizeFromItem"](th, []uint64{x}))
	at := p.Functions["acltdtGetDataAddrFromItem"](th, []uint64{x})
	require.Equal(t, []float32{1, 2, 3}, unsafe.Slice((*float32)(rt.Pointer(at)), 3))
	end := p.Functions["acltdtGetDataItem"](th, []uint64{got, 1})
	require.EqualValues(t, abi.ACL_TENSOR_DATA_END_OF_SEQUENCE, int32(p.Functions["acltdtGetTensorTypeFromItem"](th, []uint64{end})))
	require.Zero(t, p.Functions["acltdtGetDataItem"](th, []uint64{got, 2}))
	require.Empty(t, rt.CString(p.Functions["acltdtGetDatasetName"](th, []uint64{got})))
	slice := new([2]uint64)
	p.Must(th, "acltdtGetSliceInfoFromItem", x, rttest.Address(&slice[0]), rttest.Address(&slice[1]))

	p.Must(th, "acltdtReceiveTensor", c, got, -1&0xffffffff) // again into got, without items now
	require.Zero(t, p.Functions["acltdtGetDatasetSize"](th, []uint64{got}))
	require.Equal(t, queueEmpty, p.Call(th, "acltdtReceiveTensor", c, got, 0))
	own := p.item(th, []float32{1})
	require.Equal(t, unsupported, p.Call(th, "acltdtAddDataItem", got, own))
	mixed := p.dataset(th, own)
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtReceiveTensor", c, mixed, 0))
	d := p.Out(th, "aclrtMalloc", 0, 64, 0)
	onDevice := p.create(th, "acltdtCreateDataItem", uint64(dataTensor), 0, 0, uint64(abi.ACL_FLOAT), d, 64)
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtAddDataItem", mixed, onDevice))
	beyond := p.create(th, "acltdtCreateDataItem", uint64(dataTensor), 0, 0, uint64(abi.ACL_FLOAT), d, 1<<20)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "acltdtSendTensor", c, p.dataset(th, beyond), 0))
	p.Must(th, "acltdtSendTensor", c, p.dataset(th, onDevice), 0)
	p.Must(th, "acltdtCleanChannel", c)
	require.Zero(t, p.Out(th, "acltdtQueryChannelSize", 1, c))
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtSendTensor", c, sent, -2&0xffffffff))
	p.Must(th, "acltdtStopChannel", c)
	p.Must(th, "acltdtDestroyChannel", c)
	require.Equal(t, rt.InvalidParam, p.Call(th, "acltdtStopChannel", c))
	for h := range p.Runtime.Handles.Of(rt.DatasetKind) {
		p.Must(th, "acltdtDestroyDataset", h)
	}
	for h := range p.Runtime.Handles.Of(rt.DataItemKind) {
		p.Must(th, "acltdtDestroyDataItem", h)
	}
	p.Must(th, "aclrtFree", d)

	rttest.Text(th)
	for _, x := range [][]uint64{{0, 0, 2}, {0, rttest.Address(&name[0]), 1}, {3, rttest.Address(&name[0]), 2}, {9, rttest.Address(&name[0]), 2}} {
		require.Zero(t, p.Functions["acltdtCreateChannelWithCapacity"](th, x))
		require.NotEmpty(t, rttest.Text(th), "%v", x)
	}
	require.Zero(t, p.Functions["acltdtCreateChannel"](th, []uint64{0, rttest.Address(&name[0])}))
	require.Contains(t, rttest.Text(th), "acltdtCreateChannelWithCapacity")
	one := int64(1)
	for _, x := range [][]uint64{{0, 0, 1, 0, 0, 0}, {0, rttest.Address(&one), 0, 0, 0, 0}, {1, rttest.Address(&one), 1, 0, 0, 0}, {0xffffffff, 0, 0, 0, 0, 0}, {0, rttest.Address(&one), maxDims + 1, 0, 0, 0}} {
		require.Zero(t, p.Functions["acltdtCreateDataItem"](th, x), "%v", x)
	}
	p.noQueues()
}
