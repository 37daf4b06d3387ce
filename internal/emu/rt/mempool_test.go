package rt_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// poolProps is aclrtMemPoolProps.
type poolProps struct {
	allocationType, handleType int32
	id                         uint32
	locationType               int32
	maxSize                    uint64
	reserved                   [32]byte
}

func newPool(p *process, th *rt.Thread, size uint64) uint64 {
	return p.Out(th, "aclrtMemPoolCreate", 0, rttest.Address(&poolProps{locationType: 1, maxSize: size}))
}

// attribute returns a 64-bit attribute of a pool.
func attribute(p *process, th *rt.Thread, pool uint64, attr int64) uint64 {
	return p.Out(th, "aclrtMemPoolGetAttr", 2, pool, uint64(attr))
}

const mib = 1 << 20

// TestMemPoolOrder checks that memory of a pool is there from the moment in which its stream reaches the allocation to
// the moment in which a stream reaches the release, and for no longer.
func TestMemPoolOrder(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	a, b, e := p.Stream(th), p.Stream(th), p.Event(th)
	pool := newPool(p, th, 8*mib)
	fill := func(stream, addr uint64) { p.Must(th, "aclrtMemsetAsync", addr, 4, 7, 4, stream) }
	hold := func(stream uint64) (open func()) {
		gate := make(chan struct{})
		p.Submit(th, stream, func() error { <-gate; return nil })
		return func() { close(gate) }
	}
	ok := func(stream uint64) { p.Must(th, "aclrtSynchronizeStream", stream) }
	fails := func(stream uint64, text string) {
		assert.EqualValues(t, 507035, p.Call(th, "aclrtSynchronizeStream", stream))
		assert.Contains(t, rttest.Text(th), text)
	}

	open := hold(a)
	m := p.Out(th, "aclrtMemPoolMallocAsync", 0, 5, pool, a)
	fill(b, m)
	fails(b, "nothing is mapped")
	fill(a, m)
	p.Must(th, "aclrtRecordEvent", e, a)
	p.Must(th, "aclrtStreamWaitEvent", b, e)
	fill(b, m)
	open()
	ok(b)
	var host uint32
	p.Must(th, "aclrtMemcpy", rttest.Address(&host), 4, m, 4, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
	assert.EqualValues(t, 0x07070707, host)
	assert.NotZero(t, p.Call(th, "aclrtMemcpy", rttest.Address(&host), 4, m+2*mib, 4, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST)), "behind the block")

	open = hold(a)
	p.Must(th, "aclrtMemPoolFreeAsync", m, a)
	fill(b, m) // before the stream reaches the release: a race that the program may win
	ok(b)
	p.Must(th, "aclrtRecordEvent", e, a)
	p.Must(th, "aclrtStreamWaitEvent", b, e)
	fill(b, m)
	open()
	fails(b, "nothing is mapped")
	ok(a)

	for _, f := range []string{"aclrtFree", "aclrtUnmapMem"} {
		n := p.Out(th, "aclrtMemPoolMallocAsync", 0, mib, pool, a)
		ok(a)
		assert.EqualValues(t, 107000, p.Call(th, f, n), f)
	}
	p.Must(th, "aclrtMemPoolDestroy", pool)
	assert.EqualValues(t, 107000, p.Call(th, "aclrtMemsetAsync", m, 4, 7, 4, a), "the pool is gone")
	for _, s := range []uint64{a, b} {
		p.Must(th, "aclrtDestroyStream", s)
	}
}

// TestMemPoolReuse checks that released memory stays with the pool until a trim, which takes only what the streams
// have passed.
func TestMemPoolReuse(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	pool := newPool(p, th, 6*mib-1)
	var word uint64
	alloc := func() int32 {
		return p.Call(th, "aclrtMemPoolMallocAsync", rttest.Address(&word), 2*mib, pool, s)
	}
	var at []uint64
	for range 3 {
		require.Zero(t, alloc())
		at = append(at, word)
	}
	require.EqualValues(t, 507000, alloc(), "the pool is full")
	gate := make(chan struct{})
	p.Submit(th, s, func() error { <-gate; return nil })
	p.Must(th, "aclrtMemPoolFreeAsync", at[1], s)
	assert.EqualValues(t, 107000, p.Call(th, "aclrtMemPoolFreeAsync", at[1], s), "twice")
	assert.EqualValues(t, 107000, p.Call(th, "aclrtMemPoolFreeAsync", at[0]+512, s), "inside of a block")
	assert.EqualValues(t, 4*mib, attribute(p, th, pool, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT))
	p.Must(th, "aclrtMemPoolTrimTo", pool, 4*mib)
	assert.EqualValues(t, 6*mib, attribute(p, th, pool, abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT), "the stream has not passed the release")
	require.EqualValues(t, 507000, alloc())
	close(gate)
	p.Must(th, "aclrtSynchronizeStream", s)
	require.EqualValues(t, 507000, alloc(), "released memory is not given out again by itself")
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolTrimTo", pool, 4*mib-1), "less than is in use")
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolTrimTo", pool, 6*mib+1), "more than the pool has")
	p.Must(th, "aclrtMemPoolTrimTo", pool, 5*mib)
	require.EqualValues(t, 507000, alloc(), "a mebibyte is not enough")
	p.Must(th, "aclrtMemPoolTrimTo", pool, 4*mib)
	require.Zero(t, alloc())
	assert.Equal(t, at[1], word)
	assert.EqualValues(t, 6*mib, attribute(p, th, pool, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH))
	p.Must(th, "aclrtMemPoolDestroy", pool)
	p.Must(th, "aclrtDestroyStream", s)
}

// TestMemPoolMemory checks that memory of a pool counts against the device when the stream reaches it, and that a
// full device shows when the stream is waited for.
func TestMemPoolMemory(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	pool := newPool(p, th, 0) // all 16 MiB
	other := p.Out(th, "aclrtMalloc", 0, 6*mib-64, 0)
	unused := func() uint64 {
		var free, total uint64
		p.Must(th, "aclrtGetMemInfo", 1, rttest.Address(&free), rttest.Address(&total))
		return free
	}
	before := unused()
	m := p.Out(th, "aclrtMemPoolMallocAsync", 0, 8*mib, pool, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	assert.EqualValues(t, 8*mib, before-unused())
	p.Out(th, "aclrtMemPoolMallocAsync", 0, 8*mib, pool, s)
	assert.EqualValues(t, 507018, p.Call(th, "aclrtSynchronizeStream", s), "the device is full")
	p.Must(th, "aclrtMemPoolFreeAsync", m, s)
	p.Must(th, "aclrtMemPoolFreeAsync", other, s) // memory of aclrtMalloc
	p.Must(th, "aclrtSynchronizeStream", s)
	assert.EqualValues(t, 16*mib, unused())
	p.Must(th, "aclrtMemPoolFreeAsync", other, s)
	assert.EqualValues(t, 107000, p.Call(th, "aclrtSynchronizeStream", s), "freed already")
	p.Must(th, "aclrtDestroyStream", s)
}

// TestMemPoolArguments checks the codes of wrong arguments and the attributes.
func TestMemPoolArguments(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	var word uint64
	out := rttest.Address(&word)
	for name, x := range map[string]struct {
		props poolProps
		code  int32
	}{
		"allocation type": {poolProps{allocationType: 1, locationType: 1}, 100000},
		"handle type":     {poolProps{handleType: 1, locationType: 1}, 100000},
		"on the host":     {poolProps{}, 100000},
		"reserved":        {poolProps{locationType: 1, reserved: [32]byte{31: 1}}, 100000},
		"device":          {poolProps{locationType: 1, id: 9}, 107001},
		"size":            {poolProps{locationType: 1, maxSize: 16*mib + 1}, 107000},
	} {
		assert.Equal(t, x.code, p.Call(th, "aclrtMemPoolCreate", out, rttest.Address(&x.props)), name)
	}
	pool := newPool(p, th, 4*mib)
	word = 3
	p.Must(th, "aclrtMemPoolMallocAsync", out, 0, pool, s)
	assert.EqualValues(t, 3, word, "0 bytes succeed and write nothing")
	for attr := int64(1); attr <= 3; attr++ {
		assert.Zero(t, attribute(p, th, pool, attr))
		word = 1<<40 | 7 // the attribute has 32 bits
		p.Must(th, "aclrtMemPoolSetAttr", pool, uint64(attr), out)
		assert.EqualValues(t, 1, attribute(p, th, pool, attr))
	}
	word = 4*mib + 1
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolSetAttr", pool, uint64(abi.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), out))
	word = 4 * mib
	p.Must(th, "aclrtMemPoolSetAttr", pool, uint64(abi.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), out)
	assert.EqualValues(t, 4*mib, attribute(p, th, pool, abi.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD))
	for attr, code := range map[int64]int32{
		abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT: 107000, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT: 107000,
		abi.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH: 507000, abi.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH: 507000, 9: 507000, 0: 507000,
	} {
		assert.Equal(t, code, p.Call(th, "aclrtMemPoolSetAttr", pool, uint64(attr), out), "attribute %d", attr)
	}
	assert.EqualValues(t, 100000, p.Call(th, "aclrtMemPoolGetAttr", 0, 4, out))
	assert.EqualValues(t, 107000, p.Call(th, "aclrtMemPoolGetAttr", pool, 4, 0))
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolGetAttr", pool, 9, out))
	assert.EqualValues(t, 100000, p.Call(th, "aclrtMemPoolMallocAsync", out, 5, pool, 0), "the default stream")
	assert.EqualValues(t, 100000, p.Call(th, "aclrtMemPoolFreeAsync", 0, s))
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolFreeAsync", 512, 0), "the default stream")
	p.Must(th, "aclrtMemPoolDestroy", pool)
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolDestroy", pool))
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolTrimTo", pool, 0))
	assert.EqualValues(t, 507000, p.Call(th, "aclrtMemPoolMallocAsync", out, 5, pool, s))
	assert.EqualValues(t, 107000, p.Call(th, "aclrtMemPoolGetAttr", pool, 4, out))
	p.Must(th, "aclrtDestroyStream", s)

	a3 := rttest.NewMachine(t, rt.Config{Devices: 1, Memory: 16 << 20, SoC: "Ascend910_9391"})
	assert.EqualValues(t, 207000, a3.Call(a3.Thread(0), "aclrtMemPoolCreate", out, rttest.Address(&poolProps{locationType: 1})))
}

// TestPlatform checks what the platform files of CANN have, and that what they lack is refused.
func TestPlatform(t *testing.T) {
	for soc, want := range map[string]map[int64]string{
		"Ascend910B4": {
			abi.ACL_PLATFORM_AICORE_CNT: "20", abi.ACL_PLATFORM_CUBE_CORE_CNT: "20", abi.ACL_PLATFORM_VECTOR_CORE_CNT: "40",
			abi.ACL_PLATFORM_AICORE_UB_SIZE: "196608", abi.ACL_PLATFORM_L2_SIZE: "100663296", abi.ACL_PLATFORM_MEMORY_SIZE: "34359738368",
			abi.ACL_PLATFORM_CUBE_FREQ: "1500", abi.ACL_PLATFORM_VEC_FREQ: "", abi.ACL_PLATFORM_BT_SIZE: "1024", abi.ACL_PLATFORM_L0_A_SIZE: "65536",
			abi.ACL_PLATFORM_L0_C_SIZE: "131072", abi.ACL_PLATFORM_L1_SIZE: "524288", abi.ACL_PLATFORM_SOC_VERSION: "Ascend910B4",
			abi.ACL_PLATFORM_AIC_VERSION: "AIC-C-220", abi.ACL_PLATFORM_NPU_ARCH: "2201", abi.ACL_PLATFORM_MEMORY_TYPE: "",
		},
		"Ascend310P3": {
			abi.ACL_PLATFORM_CUBE_CORE_CNT: "", abi.ACL_PLATFORM_VECTOR_CORE_CNT: "7", abi.ACL_PLATFORM_VEC_FREQ: "1000", abi.ACL_PLATFORM_MEMORY_TYPE: "0",
			abi.ACL_PLATFORM_MEMORY_SIZE: "24000000000", abi.ACL_PLATFORM_BT_SIZE: "", abi.ACL_PLATFORM_NPU_ARCH: "2002",
		},
		"Ascend910A": {abi.ACL_PLATFORM_VECTOR_CORE_CNT: "0", abi.ACL_PLATFORM_MEMORY_SIZE: "", abi.ACL_PLATFORM_AIC_VERSION: "AIC-C-100"},
	} {
		p := rttest.NewMachine(t, rt.Config{Devices: 1, Memory: 16 << 20, SoC: soc})
		th := new(rt.Thread)
		text := make([]byte, 32)
		for info, value := range want {
			code := p.Call(th, "aclplatformGetDeviceInfo", uint64(info), rttest.Address(&text[0]), 32)
			if value == "" {
				assert.EqualValues(t, 100000, code, "%s %d", soc, info)
				continue
			}
			require.Zero(t, code, "%s %d", soc, info)
			assert.Equal(t, value, rt.CString(rttest.Address(&text[0])), "%s %d", soc, info)
			n := uint64(len(value))
			assert.EqualValues(t, 100000, p.Call(th, "aclplatformGetDeviceInfo", uint64(info), rttest.Address(&text[0]), n), "no place for the NUL")
			assert.Zero(t, p.Call(th, "aclplatformGetDeviceInfo", uint64(info), rttest.Address(&text[0]), n+1))
		}
		assert.EqualValues(t, 100000, p.Call(th, "aclplatformGetDeviceInfo", 17, rttest.Address(&text[0]), 32))
		assert.EqualValues(t, 100000, p.Call(th, "aclplatformGetDeviceInfo", 0, 0, 32))
	}
}
