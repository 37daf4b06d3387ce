package rt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// batchCall is what a batch of copies is called with.
type batchCall struct {
	dsts, rooms, srcs, sizes []uint64
	attributes               []batchAttributes
	starts                   []uint64
}

// between makes entries for pairs of addresses of n bytes each, which all go one way.
func between(dsts, srcs []uint64, n uint64, b batchAttributes) *batchCall {
	c := &batchCall{dsts: dsts, srcs: srcs, attributes: []batchAttributes{b}, starts: []uint64{0}}
	for range dsts {
		c.rooms, c.sizes = append(c.rooms, n), append(c.sizes, n)
	}
	return c
}

func (c *batchCall) words(more ...uint64) []uint64 {
	return append([]uint64{
		address(&c.dsts[0]), address(&c.rooms[0]), address(&c.srcs[0]), address(&c.sizes[0]), uint64(len(c.dsts)),
		address(&c.attributes[0]), address(&c.starts[0]), uint64(len(c.attributes)),
	}, more...)
}

var (
	toDevice = batchAttributes{dst: memLocation{side: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}, src: memLocation{side: int32(abi.ACL_MEM_LOCATION_TYPE_HOST)}}
	toHost   = batchAttributes{dst: toDevice.src, src: toDevice.dst}
)

// TestCopyBatch: every form brings all entries there and back.
func TestCopyBatch(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	const n = 7
	for _, form := range []struct {
		name string
		more []uint64
	}{
		{"aclrtMemcpyBatch", []uint64{0}},
		{"aclrtMemcpyBatchV2", nil},
		{"aclrtMemcpyBatchAsync", []uint64{0, s}},
		{"aclrtMemcpyBatchAsyncV2", []uint64{s}},
	} {
		t.Run(form.name, func(t *testing.T) {
			var devices, sources, results []uint64
			var want, got []*[n]byte
			for i := range byte(3) {
				devices = append(devices, p.out(th, "aclrtMalloc", 0, n, 0))
				want, got = append(want, &[n]byte{i, 1, 2, 3, 4, 5, 200 + i}), append(got, new([n]byte))
				sources, results = append(sources, address(want[i])), append(results, address(got[i]))
			}
			c := between(devices, sources, n, toDevice)
			c.sizes[1] = 0 // an entry without bytes
			want[1] = new([n]byte)
			p.must(th, "aclrtMemset", devices[1], n, 0, n)
			p.must(th, form.name, c.words(form.more...)...)
			back := between(results, devices, n, toHost)
			back.attributes, back.starts = append(back.attributes, toHost), append(back.starts, 2)
			p.must(th, form.name, back.words(form.more...)...)
			p.must(th, "aclrtSynchronizeStream", s)
			require.Equal(t, want, got)
			for _, d := range devices {
				p.must(th, "aclrtFree", d)
			}
		})
	}
	p.must(th, "aclrtDestroyStream", s)
}

// TestCopyBatchRefuses: one wrong entry, and nothing is copied; failIndex says which.
func TestCopyBatchRefuses(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	device := p.out(th, "aclrtMalloc", 0, 64, 0)
	host := &[8]byte{1, 2, 3}
	const none = math.MaxUint64
	for name, c := range map[string]struct {
		change func(c *batchCall)
		fails  uint64
		code   int32
	}{
		"too little room":         {func(c *batchCall) { c.rooms[1] = 7 }, 1, paramInvalid},
		"null":                    {func(c *batchCall) { c.srcs[1] = 0 }, 1, invalidParam},
		"host is device":          {func(c *batchCall) { c.srcs[0] = device + 32 }, 0, paramInvalid},
		"device to device":        {func(c *batchCall) { c.attributes[0].src = c.attributes[0].dst }, 0, paramInvalid},
		"two directions":          {func(c *batchCall) { c.attributes, c.starts = append(c.attributes, toHost), []uint64{0, 1} }, 1, paramInvalid},
		"attributes start late":   {func(c *batchCall) { c.starts[0] = 1 }, none, paramInvalid},
		"attributes past the end": {func(c *batchCall) { c.attributes, c.starts = append(c.attributes, toDevice), []uint64{0, 2} }, none, paramInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			p.must(th, "aclrtMemset", device, 64, 0, 64)
			b := between([]uint64{device, device + 8}, []uint64{address(host), address(host)}, 8, toDevice)
			c.change(b)
			at := uint64(99)
			require.Equal(t, c.code, p.call(th, "aclrtMemcpyBatch", b.words(address(&at))...))
			require.Equal(t, c.fails, at)
			require.Contains(t, takeText(th), "aclrtMemcpyBatch")
			back := new([8]byte)
			p.must(th, "aclrtMemcpy", address(back), 8, device, 8, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
			require.Zero(t, *back)
		})
	}
	b := between([]uint64{device}, []uint64{address(host)}, 8, toDevice)
	for i := range 7 {
		if w := b.words(); i != 4 {
			w[i] = 0
			require.Equal(t, invalidParam, p.call(th, "aclrtMemcpyBatchV2", w...), "argument %d", i)
		}
	}
	w := b.words()
	w[4] = 0
	require.Equal(t, paramInvalid, p.call(th, "aclrtMemcpyBatchV2", w...))
	p.must(th, "aclrtFree", device)
}
