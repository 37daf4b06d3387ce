package rt_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestAllocatorAgainstModel allocates and frees at random. It checks that live ranges never
// overlap, that the amount of free memory is right, and that all free ranges merge in the end.
func TestAllocatorAgainstModel(t *testing.T) {
	p := newProcess(t)
	p.Thread(0)
	m := p.Runtime.Memory(0)
	rapid.Check(t, func(rt *rapid.T) {
		live := make(map[uint64]uint64)
		for range rapid.IntRange(1, 80).Draw(rt, "length") {
			if len(live) > 0 && rapid.Bool().Draw(rt, "free") {
				addrs := make([]uint64, 0, len(live))
				for a := range live {
					addrs = append(addrs, a)
				}
				a := rapid.SampledFrom(slices.Sorted(slices.Values(addrs))).Draw(rt, "address")
				require.True(rt, m.Release(a))
				require.False(rt, m.Release(a), "freed twice")
				_, err := m.Resolve(a, 1)
				require.Error(rt, err, "use after free")
				delete(live, a)
				continue
			}
			n := rapid.Uint64Range(1, 3<<20).Draw(rt, "size")
			a, ok := m.Alloc(n)
			if !ok {
				continue
			}
			require.Zero(rt, a%64)
			for b, k := range live {
				require.False(rt, a < b+k && b < a+n, "%d bytes at %#x overlap %d at %#x", n, a, k, b)
			}
			live[a] = n
			_, err := m.Resolve(a, int64(n))
			require.NoError(rt, err)
			_, err = m.Resolve(a, int64(n)+1)
			require.Error(rt, err, "beyond the end")
			_, err = m.Resolve(a+n-1, 1)
			require.NoError(rt, err)
		}
		for a := range live {
			require.True(rt, m.Release(a))
		}
		free, total := m.Info()
		require.Equal(rt, total, free)
		require.Equal(rt, 1, m.FreeRanges(), "free ranges must join")
	})
}

// TestCopies copies bytes in every direction and compares them.
func TestCopies(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	a, b := p.Out(th, "aclrtMalloc", 0, 1000, 0), p.Out(th, "aclrtMalloc", 0, 1000, 0)
	pinnedA, pinnedB := p.Out(th, "aclrtMallocHost", 0, 1000), p.Out(th, "aclrtMallocHost", 0, 1000)
	in, back := make([]byte, 1000), make([]byte, 1000)
	for i := range in {
		in[i] = byte(i * 7)
	}
	pageable, result := rttest.Address(&in[0]), rttest.Address(&back[0])

	p.Must(th, "aclrtMemcpy", pinnedA, 1000, pageable, 1000, 0)
	p.Must(th, "aclrtMemcpyAsync", a, 1000, pinnedA, 1000, 1, s)
	p.Must(th, "aclrtMemcpyAsync", b, 1000, a, 1000, 3, s)
	p.Must(th, "aclrtMemcpyAsync", pinnedB, 1000, b, 1000, 2, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	p.Must(th, "aclrtMemcpy", result, 1000, pinnedB, 1000, 4)
	require.Equal(t, in, back)

	clear(back)
	p.Must(th, "aclrtMemsetAsync", a, 1000, 0xAB, 1000, s)
	p.Must(th, "aclrtMemcpyAsync", result, 1000, a, 1000, 2, s) // pageable: done when the call returns
	for i := range back {
		require.Equal(t, byte(0xAB), back[i])
	}

	// Rows of 10 bytes, 20 apart in the source and 25 in the target.
	p.Must(th, "aclrtMemset", b, 1000, 0, 1000)
	p.Must(th, "aclrtMemcpy2d", b, 25, pageable, 20, 10, 30, 1)
	p.Must(th, "aclrtMemcpy", result, 1000, b, 1000, 2)
	for row := range 30 {
		require.Equal(t, in[20*row:20*row+10], back[25*row:25*row+10])
		require.Equal(t, make([]byte, 15), back[25*row+10:25*row+25])
	}
	for _, x := range []uint64{a, b} {
		p.Must(th, "aclrtFree", x)
	}
	for _, x := range []uint64{pinnedA, pinnedB} {
		p.Must(th, "aclrtFreeHost", x)
	}
	p.Must(th, "aclrtDestroyStream", s)
}

func TestMemset(t *testing.T) {
	const most = 100_003
	p := newProcess(t)
	th := p.Thread(0)
	a := p.Out(th, "aclrtMalloc", 0, most+1, 0)
	got := make([]byte, most+1)
	for _, value := range []uint64{0, 0xAB} {
		for _, n := range []uint64{0, 1, 2, 3, 1000, 16 << 10, 16<<10 + 1, most} {
			p.Must(th, "aclrtMemset", a, most+1, 0x55, most+1)
			p.Must(th, "aclrtMemset", a, most+1, value, n)
			p.Must(th, "aclrtMemcpy", rttest.Address(&got[0]), most+1, a, most+1, 2)
			want := append(slices.Repeat([]byte{byte(value)}, int(n)), slices.Repeat([]byte{0x55}, int(most+1-n))...)
			require.True(t, slices.Equal(want, got), "%d bytes of %#x", n, value)
		}
	}
	p.Must(th, "aclrtFree", a)
}

func TestPeerMemory(t *testing.T) {
	p := newProcess(t)
	th0, th1 := p.Thread(0), p.Thread(1)
	a, b := p.Out(th0, "aclrtMalloc", 0, 64, 0), p.Out(th1, "aclrtMalloc", 0, 64, 0)
	require.Equal(t, int32(107000), p.Call(th0, "aclrtMemcpy", a, 64, b, 64, 3))
	require.Contains(t, rttest.Text(th0), "aclrtDeviceEnablePeerAccess")
	p.Must(th0, "aclrtDeviceEnablePeerAccess", 1, 0)
	p.Must(th0, "aclrtDeviceEnablePeerAccess", 1, 0)
	p.Must(th0, "aclrtMemcpy", a, 64, b, 64, 3)
	p.Must(th0, "aclrtDeviceDisablePeerAccess", 1)
	require.Equal(t, int32(107000), p.Call(th0, "aclrtMemcpy", a, 64, b, 64, 3))
	p.Must(th0, "aclrtFree", a)
	p.Must(new(rt.Thread), "aclrtFree", b) // needs no context
}

// TestFreedPages checks that freed memory keeps its pages up to a limit and that all pages are
// returned above it.
func TestFreedPages(t *testing.T) {
	p := newMachine(t, rt.Config{Devices: 1, Memory: 2 * rt.MaxWarm, SoC: "Ascend910B1"})
	th := p.Thread(0)
	const n = rt.MaxWarm/2 + pageUnit
	a, b := p.Out(th, "aclrtMalloc", 0, n, 0), p.Out(th, "aclrtMalloc", 0, n, 0)
	file, _ := p.Runtime.Memory(0).File()
	require.NotNil(t, file)
	resident := func() int64 {
		var s unix.Stat_t
		require.NoError(t, unix.Fstat(int(file.Fd()), &s))
		return s.Blocks * 512
	}
	for _, x := range []uint64{a, b} {
		p.Must(th, "aclrtMemset", x, n, 0xff, n)
	}
	require.GreaterOrEqual(t, resident(), int64(2*n))
	p.Must(th, "aclrtFree", a)
	require.GreaterOrEqual(t, resident(), int64(2*n))
	a = p.Out(th, "aclrtMalloc", 0, n, 0)
	p.Must(th, "aclrtFree", a) // must count only once
	require.GreaterOrEqual(t, resident(), int64(2*n))
	p.Must(th, "aclrtFree", b)
	require.Less(t, resident(), int64(pageUnit))
}

// TestUnifiedTail checks that an allocation has room behind its end, since kernels move whole
// blocks.
func TestUnifiedTail(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	addr := p.Out(th, "aclrtMalloc", 0, 100, 0)
	m := p.Runtime.Memory(0)
	_, err := m.Resolve(addr, 160) // (100+63)/32*32
	require.NoError(t, err)
	_, err = m.Resolve(addr, 161)
	require.ErrorContains(t, err, "beyond")
	p.Must(th, "aclrtFree", addr)
	addr = p.Out(th, "aclrtMallocAlign32", 0, 100, 0)
	_, err = m.Resolve(addr, 129)
	require.Error(t, err)
	p.Must(th, "aclrtFree", addr)
}

// TestPagesAreCounted checks what allocations take from the device: aclrtMalloc adds 32 bytes, and
// huge pages are whole, so an exact multiple of 2 MiB takes a page more.
func TestPagesAreCounted(t *testing.T) {
	const mega = 1 << 20
	p := newMachine(t, rt.Config{Devices: 1, Memory: 16 * mega, SoC: "Ascend910B1"})
	th := p.Thread(0)
	m := p.Runtime.Memory(0)
	used := func() uint64 {
		free, total := m.Info()
		return total - free
	}
	before := used()
	for _, c := range []struct {
		function           string
		size, policy, want uint64
	}{
		{"aclrtMalloc", 2 * mega, 0, 4 * mega},
		{"aclrtMalloc", 2*mega - 32, 0, 2 * mega},
		{"aclrtMalloc", 2*mega - 31, 0, 4 * mega},
		{"aclrtMalloc", mega - 32, 0, mega},
		{"aclrtMalloc", mega, 0, 2 * mega}, // its 32 bytes make it too large for small pages
		{"aclrtMallocCached", 2 * mega, 0, 4 * mega},
		{"aclrtMallocAlign32", 2 * mega, 0, 2 * mega},
		{"aclrtMallocAlign32", 2*mega + 1, 0, 4 * mega},
		{"aclrtMallocAlign32", mega, 0, mega},
		{"aclrtMallocAlign32", 32, 1, 2 * mega},         // huge pages only
		{"aclrtMallocAlign32", 3 * mega, 2, 3 * mega},   // small pages only
		{"aclrtMallocAlign32", 3 * mega, 3, 4 * mega},   // peers, huge pages first
		{"aclrtMallocAlign32", 15 * mega, 0, 16 * mega}, // all there is
	} {
		addr := p.Out(th, c.function, 0, c.size, c.policy)
		require.Equal(t, c.want, used()-before, "%s of %d, policy %d", c.function, c.size, c.policy)
		p.Must(th, "aclrtFree", addr)
		require.Equal(t, before, used())
	}
	small := p.Out(th, "aclrtMallocAlign32", 0, 512, 0)
	last := p.Out(th, "aclrtMallocAlign32", 0, 15*mega, 0) // small pages where huge ones do not fit
	require.Equal(t, uint64(15*mega+512), used()-before)
	require.Equal(t, int32(207001), p.Call(th, "aclrtMallocAlign32", rttest.Address(new(uint64)), 32, 1))
	require.Equal(t, int32(207001), p.Call(th, "aclrtMallocAlign32", rttest.Address(new(uint64)), 32, 6), "a page of 1 GiB")
	p.Must(th, "aclrtFree", small)
	p.Must(th, "aclrtFree", last)
}
