package rt_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// memLocation is C's aclrtMemLocation.
type memLocation struct {
	_    uint32 // device id
	side int32
}

// batchAttributes is C's aclrtMemcpyBatchAttr.
type batchAttributes struct {
	dst, src memLocation
	_        [16]byte
}

// batchCall holds the arguments of a batch copy.
type batchCall struct {
	dsts, rooms, srcs, sizes []uint64
	attributes               []batchAttributes
	starts                   []uint64
}

// between returns a batch of copies of n bytes, one for each pair of addresses, all in the same
// direction.
func between(dsts, srcs []uint64, n uint64, b batchAttributes) *batchCall {
	c := &batchCall{dsts: dsts, srcs: srcs, attributes: []batchAttributes{b}, starts: []uint64{0}}
	for range dsts {
		c.rooms, c.sizes = append(c.rooms, n), append(c.sizes, n)
	}
	return c
}

func (c *batchCall) words(more ...uint64) []uint64 {
	return append([]uint64{
		rttest.Address(&c.dsts[0]), rttest.Address(&c.rooms[0]), rttest.Address(&c.srcs[0]), rttest.Address(&c.sizes[0]), uint64(len(c.dsts)),
		rttest.Address(&c.attributes[0]), rttest.Address(&c.starts[0]), uint64(len(c.attributes)),
	}, more...)
}

var (
	toDevice = batchAttributes{dst: memLocation{side: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}, src: memLocation{side: int32(abi.ACL_MEM_LOCATION_TYPE_HOST)}}
	toHost   = batchAttributes{dst: toDevice.src, src: toDevice.dst}
)

// TestCopyBatch copies entries back and forth with every form of the function.
func TestCopyBatch(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	const n = 7
	index := rttest.Address(new(uint64))
	for _, form := range []struct {
		name string
		more []uint64
	}{
		{"aclrtMemcpyBatch", []uint64{index}},
		{"aclrtMemcpyBatchV2", nil},
		{"aclrtMemcpyBatchAsync", []uint64{index, s}},
		{"aclrtMemcpyBatchAsyncV2", []uint64{s}},
	} {
		t.Run(form.name, func(t *testing.T) {
			var devices, sources, results []uint64
			var want, got []*[n]byte
			for i := range byte(3) {
				devices = append(devices, p.Out(th, "aclrtMalloc", 0, n, 0))
				want, got = append(want, &[n]byte{i, 1, 2, 3, 4, 5, 200 + i}), append(got, new([n]byte))
				sources, results = append(sources, rttest.Address(want[i])), append(results, rttest.Address(got[i]))
			}
			c := between(devices, sources, n, toDevice)
			c.sizes[1] = 0 // an entry without bytes
			want[1] = new([n]byte)
			p.Must(th, "aclrtMemset", devices[1], n, 0, n)
			p.Must(th, form.name, c.words(form.more...)...)
			back := between(results, devices, n, toHost)
			back.attributes, back.starts = append(back.attributes, toHost), append(back.starts, 2)
			p.Must(th, form.name, back.words(form.more...)...)
			p.Must(th, "aclrtSynchronizeStream", s)
			require.Equal(t, want, got)
			for _, d := range devices {
				p.Must(th, "aclrtFree", d)
			}
		})
	}
	p.Must(th, "aclrtDestroyStream", s)
}

// TestCopyBatchRefuses checks that one wrong entry prevents all copies and that failIndex names it.
func TestCopyBatchRefuses(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	device := p.Out(th, "aclrtMalloc", 0, 64, 0)
	host := &[8]byte{1, 2, 3}
	const none = math.MaxUint64
	for name, c := range map[string]struct {
		change func(c *batchCall)
		fails  uint64
		code   int32
	}{
		"too little room":         {func(c *batchCall) { c.rooms[1] = 7 }, 1, rt.ParamInvalid},
		"null":                    {func(c *batchCall) { c.srcs[1] = 0 }, 1, rt.InvalidParam},
		"host is device":          {func(c *batchCall) { c.srcs[0] = device + 32 }, 0, rt.ParamInvalid},
		"device to device":        {func(c *batchCall) { c.attributes[0].src = c.attributes[0].dst }, 0, rt.ParamInvalid},
		"two directions":          {func(c *batchCall) { c.attributes, c.starts = append(c.attributes, toHost), []uint64{0, 1} }, 1, rt.ParamInvalid},
		"attributes start late":   {func(c *batchCall) { c.starts[0] = 1 }, none, rt.ParamInvalid},
		"attributes past the end": {func(c *batchCall) { c.attributes, c.starts = append(c.attributes, toDevice), []uint64{0, 2} }, none, rt.ParamInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			p.Must(th, "aclrtMemset", device, 64, 0, 64)
			b := between([]uint64{device, device + 8}, []uint64{rttest.Address(host), rttest.Address(host)}, 8, toDevice)
			c.change(b)
			at := uint64(99)
			require.Equal(t, c.code, p.Call(th, "aclrtMemcpyBatch", b.words(rttest.Address(&at))...))
			require.Equal(t, c.fails, at)
			require.Contains(t, rttest.Text(th), "aclrtMemcpyBatch")
			back := new([8]byte)
			p.Must(th, "aclrtMemcpy", rttest.Address(back), 8, device, 8, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
			require.Zero(t, *back)
		})
	}
	b := between([]uint64{device}, []uint64{rttest.Address(host)}, 8, toDevice)
	for i := range 7 {
		if w := b.words(); i != 4 {
			w[i] = 0
			require.Equal(t, rt.InvalidParam, p.Call(th, "aclrtMemcpyBatchV2", w...), "argument %d", i)
		}
	}
	w := b.words()
	w[4] = 0
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclrtMemcpyBatchV2", w...))
	p.Must(th, "aclrtFree", device)
}
