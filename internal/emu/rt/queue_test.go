package rt

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/abi"
)

func (p *process) create(t *Thread, function string, args ...uint64) uint64 {
	p.tb.Helper()
	h := p.f[function](t, args)
	require.NotZero(p.tb, h, "%s: %s", function, takeText(t))
	return h
}

// queue makes a queue; a name of "" is left out.
func (p *process) queue(t *Thread, name string, depth uint32) uint64 {
	p.tb.Helper()
	attr := p.create(t, "acltdtCreateQueueAttr")
	if name != "" {
		text := append([]byte(name), 0)
		at := address(&text[0])
		p.must(t, "acltdtSetQueueAttr", attr, uint64(abi.ACL_TDT_QUEUE_NAME_PTR), 8, address(&at))
	}
	p.must(t, "acltdtSetQueueAttr", attr, uint64(abi.ACL_TDT_QUEUE_DEPTH_UINT32), 4, address(&depth))
	id := p.out(t, "acltdtCreateQueue", 1, attr)
	p.must(t, "acltdtDestroyQueueAttr", attr)
	return id
}

func (p *process) enqueue(t *Thread, q uint64, data, user string, timeout int32) int32 {
	b, u := []byte(data), []byte(user)
	at := uint64(0)
	if len(u) > 0 {
		at = address(&u[0])
	}
	return p.call(t, "acltdtEnqueueData", q, address(&b[0]), uint64(len(b)), at, uint64(len(u)), uint64(uint32(timeout)), 0)
}

func (p *process) dequeue(t *Thread, q uint64, timeout int32) (data, user string, code int32) {
	b, u, n := make([]byte, 64), make([]byte, 4), new(uint64)
	code = p.call(t, "acltdtDequeueData", q, address(&b[0]), 64, address(n), address(&u[0]), 4, uint64(uint32(timeout)))
	end := max(0, slices.Index(append(u, 0), 0))
	return string(b[:*n]), string(u[:end]), code
}

func (p *process) noQueues() {
	for k := QueueAttrKind; k <= DataItemKind; k++ {
		require.Zero(p.tb, p.r.Handles.Count(k), "kind %d", k)
	}
	require.Empty(p.tb, p.r.queues.byID)
	require.Empty(p.tb, p.r.queues.routes)
}

func TestQueue(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	q := p.queue(th, "numbers", 2)
	require.Zero(t, p.enqueue(th, q, "one", "tag", 0))
	require.Zero(t, p.enqueue(th, q, "second", "", 0))
	require.Equal(t, queueFull, p.enqueue(th, q, "third", "", 0))
	require.Equal(t, queueFull, p.enqueue(th, q, "third", "", 1))
	done := make(chan int32)
	go func() { done <- p.enqueue(p.thread(0), q, "third", "", -1) }()
	for _, want := range [][2]string{{"one", "tag"}, {"second", ""}, {"third", ""}} {
		data, user, code := p.dequeue(th, q, -1)
		require.Zero(t, code)
		require.Equal(t, want, [2]string{data, user})
	}
	require.Zero(t, <-done)
	_, _, code := p.dequeue(th, q, 1)
	require.Equal(t, queueEmpty, code)

	// A message that does not fit stays, and its size is told.
	require.Zero(t, p.enqueue(th, q, "long message", "", -1))
	n, small := new(uint64), make([]byte, 4)
	require.Equal(t, paramInvalid, p.call(th, "acltdtDequeueData", q, address(&small[0]), 4, address(n), 0, 0, 0))
	require.EqualValues(t, 12, *n)
	d := p.out(th, "aclrtMalloc", 0, 64, 0) // into device memory, and from it
	p.must(th, "acltdtDequeueData", q, d, 64, address(n), 0, 0, 0)
	p.must(th, "acltdtEnqueueData", q, d, 4, 0, 0, 0, 0)
	data, _, code := p.dequeue(th, q, 0)
	require.Zero(t, code)
	require.Equal(t, "long", data)
	require.Equal(t, paramInvalid, p.call(th, "acltdtEnqueueData", q, d, 1<<20, 0, 0, 0, 0))

	// Who waits when the queue ends goes on.
	go func() { _, _, code := p.dequeue(p.thread(0), q, -1); done <- code }()
	p.must(th, "acltdtDestroyQueue", q)
	require.Contains(t, []int32{queueEmpty, queueUnknown}, <-done)
	require.Equal(t, queueUnknown, p.enqueue(th, q, "late", "", 0))
	p.must(th, "aclrtFree", d)
	p.noQueues()
}

// Memory that is freed while its reader waits is not written; the message stays.
func TestQueueReaderFreed(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	q, d, n := p.queue(th, "", 2), p.out(th, "aclrtMalloc", 0, 64, 0), new(uint64)
	done := make(chan int32)
	go func() {
		done <- p.call(p.thread(0), "acltdtDequeueData", q, d, 64, address(n), 0, 0, uint64(uint32(0xffffffff)))
	}()
	require.Eventually(t, func() bool {
		p.r.queues.mu.Lock()
		defer p.r.queues.mu.Unlock()
		return p.r.queues.change != nil
	}, 10*time.Second, time.Millisecond, "it waits")
	p.must(th, "aclrtFree", d)
	require.Zero(t, p.enqueue(th, q, "data", "", 0))
	require.Equal(t, paramInvalid, <-done)
	data, _, code := p.dequeue(th, q, 0)
	require.Zero(t, code)
	require.Equal(t, "data", data)
	p.must(th, "acltdtDestroyQueue", q)
	p.noQueues()
}

func (p *process) route(t *Thread, list, src, dst uint64) {
	w := p.create(t, "acltdtCreateQueueRoute", src, dst)
	p.must(t, "acltdtAddQueueRoute", list, w)
	p.must(t, "acltdtDestroyQueueRoute", w)
}

func (p *process) routeStatus(t *Thread, list, index uint64) int32 {
	w := p.create(t, "acltdtCreateQueueRoute", 0, 0)
	defer p.must(t, "acltdtDestroyQueueRoute", w)
	p.must(t, "acltdtGetQueueRoute", list, index, w)
	status, size := new(int32), new(uint64)
	p.must(t, "acltdtGetQueueRouteParam", w, uint64(abi.ACL_TDT_QUEUE_ROUTE_STATUS_INT32), 4, address(size), address(status))
	require.EqualValues(p.tb, 4, *size)
	return *status
}

// What enters a queue with routes comes out of all their ends, as far as these have room.
func TestQueueRoutes(t *testing.T) {
	p := newProcess(t)
	th := p.thread(1)
	src, mid, left, right := p.queue(th, "", 2), p.queue(th, "", 2), p.queue(th, "", 3), p.queue(th, "", 2)
	require.Zero(t, p.enqueue(th, src, "0", "", 0), "before the routes exist")
	list := p.create(th, "acltdtCreateQueueRouteList")
	p.route(th, list, src, mid)
	p.route(th, list, mid, left)
	p.route(th, list, mid, right)
	p.must(th, "acltdtBindQueueRoutes", list)
	p.must(th, "acltdtBindQueueRoutes", list) // again changes nothing
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
		defer p.must(th, "acltdtDestroyQueueRouteList", out)
		p.must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM), 4, address(&mode))
		p.must(th, "acltdtQueryQueueRoutes", query, out)
		return p.f["acltdtGetQueueRouteNum"](th, []uint64{out})
	}
	require.Equal(t, invalidParam, p.call(th, "acltdtQueryQueueRoutes", query, list), "no mode")
	mode := int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC)
	p.must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM), 4, address(&mode))
	require.Equal(t, invalidParam, p.call(th, "acltdtQueryQueueRoutes", query, list), "no source")
	p.must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32), 4, address(&mid))
	p.must(th, "acltdtSetQueueRouteQueryInfo", query, uint64(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32), 4, address(&mid))
	assert.EqualValues(t, 2, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC))
	assert.EqualValues(t, 1, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST))
	assert.EqualValues(t, 0, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST))
	assert.EqualValues(t, 0, found(abi.ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL))
	p.must(th, "acltdtDestroyQueueRouteQueryInfo", query)

	wrong := p.create(th, "acltdtCreateQueueRouteList")
	p.route(th, wrong, right, src)
	p.route(th, wrong, src, 99)
	require.Equal(t, failure, p.call(th, "acltdtBindQueueRoutes", wrong))
	text := takeText(th)
	require.Contains(t, text, "circle")
	require.Contains(t, text, "no such queues")
	require.EqualValues(t, abi.ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL, p.routeStatus(th, wrong, 1))
	require.Equal(t, failure, p.call(th, "acltdtUnbindQueueRoutes", wrong))
	require.Equal(t, failure, p.call(th, "acltdtDestroyQueue", mid))
	require.Contains(t, takeText(th), "acltdtUnbindQueueRoutes")
	require.Equal(t, invalidParam, p.call(th, "acltdtGetQueueRoute", list, 3, p.create(th, "acltdtCreateQueueRoute", 0, 0)))
	p.must(th, "acltdtUnbindQueueRoutes", list)
	for _, q := range []uint64{src, mid, left, right} {
		p.must(th, "acltdtDestroyQueue", q)
	}
	for _, l := range []uint64{list, wrong} {
		p.must(th, "acltdtDestroyQueueRouteList", l)
	}
	for h := range p.r.Handles.Of(QueueRouteKind) {
		p.must(th, "acltdtDestroyQueueRoute", h)
	}
	p.noQueues()
}

// A queue with a route is one longer queue.
func TestQueueHistories(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	rapid.Check(t, func(rt *rapid.T) {
		depths := rapid.SliceOfN(rapid.IntRange(2, 4), 2, 2).Draw(rt, "depths")
		src, dst := p.queue(th, "", uint32(depths[0])), p.queue(th, "", uint32(depths[1]))
		list := p.create(th, "acltdtCreateQueueRouteList")
		p.route(th, list, src, dst)
		p.must(th, "acltdtBindQueueRoutes", list)
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
		p.must(th, "acltdtUnbindQueueRoutes", list)
		p.must(th, "acltdtDestroyQueueRouteList", list)
		p.must(th, "acltdtDestroyQueue", src)
		p.must(th, "acltdtDestroyQueue", dst)
	})
	p.noQueues()
}

func TestQueueFaults(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	attr := p.create(th, "acltdtCreateQueueAttr")
	q := p.queue(th, "taken", 2)
	long := append(slices.Repeat([]byte{'x'}, queueNameSize), 0)
	name, taken := address(&long[0]), append([]byte("taken"), 0)
	takenAt, depth, word := address(&taken[0]), uint32(1), new(uint64)
	at, b := address(word), address(new([8]byte))
	nameOf, depthOf := uint64(abi.ACL_TDT_QUEUE_NAME_PTR), uint64(abi.ACL_TDT_QUEUE_DEPTH_UINT32)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"acltdtSetQueueAttr", invalidParam, []uint64{attr, nameOf, 8, address(&name)}, "128 bytes"},
		{"acltdtSetQueueAttr", failure, []uint64{attr, nameOf, 4, address(&name)}, "pointer of 8 bytes"},
		{"acltdtSetQueueAttr", invalidParam, []uint64{attr, nameOf, 8, address(new(uint64))}, "name is null"},
		{"acltdtSetQueueAttr", failure, []uint64{attr, depthOf, 8, at}, "4 bytes"},
		{"acltdtSetQueueAttr", invalidParam, []uint64{attr, 2, 4, at}, "attribute 2"},
		{"acltdtSetQueueAttr", invalidParam, []uint64{attr, 0, 8, 0}, "param is null"},
		{"acltdtSetQueueAttr", invalidParam, []uint64{77, 0, 8, at}, "no live attr"},
		{"acltdtGetQueueAttr", failure, []uint64{attr, nameOf, 4, at, b}, "8 bytes"},
		{"acltdtGetQueueAttr", invalidParam, []uint64{attr, depthOf, 4, 0, b}, "null"},
		{"acltdtGetQueueAttr", invalidParam, []uint64{attr, 7, 4, at, b}, "attribute 7"},
		{"acltdtCreateQueue", invalidParam, []uint64{attr, 0}, "qid is null"},
		{"acltdtCreateQueue", invalidParam, []uint64{attr + 1, at}, "no live attr"},
		{"acltdtDestroyQueue", queueUnknown, []uint64{q + 1}, "no queue"},
		{"acltdtEnqueueData", invalidParam, []uint64{q, 0, 8, 0, 0, 0, 0}, "null"},
		{"acltdtEnqueueData", invalidParam, []uint64{q, b, 8, 0, 1, 0, 0}, "null"},
		{"acltdtEnqueueData", invalidParam, []uint64{q, b, 0, 0, 0, 0, 0}, "dataSize 0"},
		{"acltdtEnqueueData", invalidParam, []uint64{q, b, 8, 0, 0, 0xfffffffe, 0}, "timeout -2"},
		{"acltdtDequeueData", invalidParam, []uint64{q, b, 8, 0, 0, 0, 0}, "null"},
		{"acltdtDequeueData", invalidParam, []uint64{q, b, 8, at, 0, 0, 0xfffffffe}, "timeout -2"},
		{"acltdtDequeueData", queueUnknown, []uint64{q + 1, b, 8, at, 0, 0, 0}, "no queue"},
		{"acltdtEnqueue", queueUnsupported, []uint64{q, b, 0}, "acltdtEnqueueData"},
		{"acltdtAllocBuf", queueUnsupported, []uint64{8, 0, at}, "acltdtAllocBuf"},
		{"acltdtGrantQueue", queueUnsupported, []uint64{q, 1, 2, 0}, "acltdtGrantQueue"},
	} {
		require.Equal(t, x.code, p.call(th, x.name, x.args...), "%s %v", x.name, x.text)
		require.Contains(t, takeText(th), x.text, x.name)
	}
	p.must(th, "acltdtSetQueueAttr", attr, depthOf, 4, address(&depth))
	require.Equal(t, invalidParam, p.call(th, "acltdtCreateQueue", attr, at))
	require.Contains(t, takeText(th), "depth is 1")
	depth = 2
	p.must(th, "acltdtSetQueueAttr", attr, depthOf, 4, address(&depth))
	p.must(th, "acltdtSetQueueAttr", attr, nameOf, 8, address(&takenAt))
	require.Equal(t, invalidParam, p.call(th, "acltdtCreateQueue", attr, at))
	require.Contains(t, takeText(th), `"taken" already`)
	require.Equal(t, contextNull, p.call(new(Thread), "acltdtCreateQueue", attr, at))

	p.must(th, "acltdtGetQueueAttr", attr, nameOf, 8, at, b)
	require.Equal(t, "taken", CString(Read[uint64](b, 1)[0]))
	other := p.thread(1) // queues are of a device
	require.Equal(t, queueUnknown, p.enqueue(other, q, "x", "", 0))
	p.must(other, "acltdtCreateQueue", attr, at)
	p.must(other, "acltdtDestroyQueue", *word)
	p.must(th, "acltdtDestroyQueueAttr", attr)
	plain := p.out(th, "acltdtCreateQueue", 1, 0)
	for range defaultDepth {
		require.Zero(t, p.enqueue(th, plain, "x", "", 0))
	}
	require.Equal(t, queueFull, p.enqueue(th, plain, "x", "", 0))
	p.must(th, "acltdtDestroyQueue", plain)
	p.must(th, "acltdtDestroyQueue", q)
	p.noQueues()
}

func (p *process) item(t *Thread, data []float32) uint64 {
	dims := []int64{1, int64(len(data))}
	return p.create(t, "acltdtCreateDataItem", uint64(dataTensor), address(&dims[0]), 2, uint64(abi.ACL_FLOAT), address(&data[0]), 4*uint64(len(data)))
}

func (p *process) dataset(t *Thread, items ...uint64) uint64 {
	s := p.create(t, "acltdtCreateDataset")
	for _, x := range items {
		p.must(t, "acltdtAddDataItem", s, x)
	}
	return s
}

func TestChannel(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	name := append([]byte("stream of datasets"), 0)
	c := p.create(th, "acltdtCreateChannelWithCapacity", 0, address(&name[0]), 2)
	require.Zero(t, p.f["acltdtCreateChannelWithCapacity"](th, []uint64{0, address(&name[0]), 2}), "the name is taken")
	first, second := p.item(th, []float32{1, 2, 3}), p.create(th, "acltdtCreateDataItem", uint64(abi.ACL_TENSOR_DATA_END_OF_SEQUENCE), 0, 0, 0, 0, 0)
	sent, got := p.dataset(th, first, second), p.dataset(th)
	p.must(th, "acltdtSendTensor", c, sent, 0)
	p.must(th, "acltdtSendTensor", c, p.dataset(th), 0)
	require.EqualValues(t, 2, p.out(th, "acltdtQueryChannelSize", 1, c))
	require.Equal(t, queueFull, p.call(th, "acltdtSendTensor", c, sent, 1))
	for _, x := range []uint64{first, second} { // the channel has copies
		p.must(th, "acltdtDestroyDataItem", x)
	}
	p.must(th, "acltdtReceiveTensor", c, got, 0)
	require.EqualValues(t, 2, p.f["acltdtGetDatasetSize"](th, []uint64{got}))
	x := p.f["acltdtGetDataItem"](th, []uint64{got, 0})
	require.EqualValues(t, 2, p.f["acltdtGetDimNumFromItem"](th, []uint64{x}))
	dims := make([]int64, 2)
	p.must(th, "acltdtGetDimsFromItem", x, address(&dims[0]), 2)
	require.Equal(t, []int64{1, 3}, dims)
	require.EqualValues(t, abi.ACL_FLOAT, int32(p.f["acltdtGetDataTypeFromItem"](th, []uint64{x})))
	require.EqualValues(t, 12, p.f["acltdtGetDataSizeFromItem"](th, []uint64{x}))
	at := p.f["acltdtGetDataAddrFromItem"](th, []uint64{x})
	require.Equal(t, []float32{1, 2, 3}, unsafe.Slice((*float32)(Pointer(at)), 3))
	end := p.f["acltdtGetDataItem"](th, []uint64{got, 1})
	require.EqualValues(t, abi.ACL_TENSOR_DATA_END_OF_SEQUENCE, int32(p.f["acltdtGetTensorTypeFromItem"](th, []uint64{end})))
	require.Zero(t, p.f["acltdtGetDataItem"](th, []uint64{got, 2}))
	require.Empty(t, CString(p.f["acltdtGetDatasetName"](th, []uint64{got})))
	slice := new([2]uint64)
	p.must(th, "acltdtGetSliceInfoFromItem", x, address(&slice[0]), address(&slice[1]))

	p.must(th, "acltdtReceiveTensor", c, got, -1&0xffffffff) // again into the same one, without items now
	require.Zero(t, p.f["acltdtGetDatasetSize"](th, []uint64{got}))
	require.Equal(t, queueEmpty, p.call(th, "acltdtReceiveTensor", c, got, 0))
	own := p.item(th, []float32{1})
	require.Equal(t, queueUnsupported, p.call(th, "acltdtAddDataItem", got, own))
	mixed := p.dataset(th, own)
	require.Equal(t, invalidParam, p.call(th, "acltdtReceiveTensor", c, mixed, 0))
	d := p.out(th, "aclrtMalloc", 0, 64, 0)
	onDevice := p.create(th, "acltdtCreateDataItem", uint64(dataTensor), 0, 0, uint64(abi.ACL_FLOAT), d, 64)
	require.Equal(t, invalidParam, p.call(th, "acltdtAddDataItem", mixed, onDevice))
	beyond := p.create(th, "acltdtCreateDataItem", uint64(dataTensor), 0, 0, uint64(abi.ACL_FLOAT), d, 1<<20)
	require.Equal(t, paramInvalid, p.call(th, "acltdtSendTensor", c, p.dataset(th, beyond), 0))
	p.must(th, "acltdtSendTensor", c, p.dataset(th, onDevice), 0)
	p.must(th, "acltdtCleanChannel", c)
	require.Zero(t, p.out(th, "acltdtQueryChannelSize", 1, c))
	require.Equal(t, invalidParam, p.call(th, "acltdtSendTensor", c, sent, -2&0xffffffff))
	p.must(th, "acltdtStopChannel", c)
	p.must(th, "acltdtDestroyChannel", c)
	require.Equal(t, invalidParam, p.call(th, "acltdtStopChannel", c))
	for h := range p.r.Handles.Of(DatasetKind) {
		p.must(th, "acltdtDestroyDataset", h)
	}
	for h := range p.r.Handles.Of(DataItemKind) {
		p.must(th, "acltdtDestroyDataItem", h)
	}
	p.must(th, "aclrtFree", d)

	takeText(th)
	for _, x := range [][]uint64{{0, 0, 2}, {0, address(&name[0]), 1}, {3, address(&name[0]), 2}, {9, address(&name[0]), 2}} {
		require.Zero(t, p.f["acltdtCreateChannelWithCapacity"](th, x))
		require.NotEmpty(t, takeText(th), "%v", x)
	}
	require.Zero(t, p.f["acltdtCreateChannel"](th, []uint64{0, address(&name[0])}))
	require.Contains(t, takeText(th), "acltdtCreateChannelWithCapacity")
	one := int64(1)
	for _, x := range [][]uint64{{0, 0, 1, 0, 0, 0}, {0, address(&one), 0, 0, 0, 0}, {1, address(&one), 1, 0, 0, 0}, {0xffffffff, 0, 0, 0, 0, 0}, {0, address(&one), maxDescDims + 1, 0, 0, 0}} {
		require.Zero(t, p.f["acltdtCreateDataItem"](th, x), "%v", x)
	}
	p.noQueues()
}
