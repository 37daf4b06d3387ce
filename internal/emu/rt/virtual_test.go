package rt_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// physicalProp is C's aclrtPhysicalMemProp.
type physicalProp struct {
	_, _, attribute int32 // handle type, allocation type
	locationID      uint32
	locationType    int32
	_               uint32
	_               uint64
}

// memAccess is C's aclrtMemAccessDesc.
type memAccess struct {
	flags        int32
	_            uint32
	locationType int32
	_            [12]byte
}

// propOf returns the properties of ordinary memory of a device.
func propOf(device uint32) *physicalProp {
	return &physicalProp{
		attribute: int32(abi.ACL_HBM_MEM_HUGE), locationID: device, locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE),
	}
}

func (p *process) physical(t *rt.Thread, device uint32, n uint64) uint64 {
	p.tb.Helper()
	return p.Out(t, "aclrtMallocPhysical", 0, n, rttest.Address(propOf(device)), 0)
}

func (p *process) reserve(t *rt.Thread, n uint64) uint64 {
	p.tb.Helper()
	return p.Out(t, "aclrtReserveMemAddress", 0, n, 0, 0, 1)
}

// write and read copy bytes between device and host memory.
func (p *process) write(t *rt.Thread, addr uint64, b []byte) int32 {
	return p.Call(t, "aclrtMemcpy", addr, uint64(len(b)), rttest.Address(&b[0]), uint64(len(b)), uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE))
}

func (p *process) read(t *rt.Thread, addr uint64, n int) []byte {
	p.tb.Helper()
	b := make([]byte, n)
	p.Must(t, "aclrtMemcpy", rttest.Address(&b[0]), uint64(n), addr, uint64(n), uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
	return b
}

func TestMapping(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	free := func() uint64 {
		var free, total uint64
		p.Must(th, "aclrtGetMemInfo", 0, rttest.Address(&free), rttest.Address(&total))
		return free
	}
	before := free()
	va := p.reserve(th, 4*pageUnit)
	require.Equal(t, before, free(), "addresses cost nothing")
	a, b := p.physical(th, 0, pageUnit), p.physical(th, 0, 2*pageUnit)
	require.Equal(t, before-3*pageUnit, free())
	p.Must(th, "aclrtMapMem", va, pageUnit, 0, a, 0)
	p.Must(th, "aclrtMapMem", va+pageUnit, 2*pageUnit, 0, b, 0)

	// A tensor may span two mappings.
	require.Zero(t, p.write(th, va+pageUnit-2, []byte{1, 2, 3, 4}))
	require.Equal(t, []byte{1, 2, 3, 4}, p.read(th, va+pageUnit-2, 4))
	require.Equal(t, rt.ParamInvalid, p.write(th, va+3*pageUnit-2, []byte{1, 2, 3, 4}))
	require.Contains(t, rttest.Text(th), "nothing is mapped")

	// The memory keeps its bytes when it is mapped at another address.
	p.Must(th, "aclrtUnmapMem", va)
	require.Equal(t, rt.ParamInvalid, p.write(th, va, []byte{1}))
	p.Must(th, "aclrtMapMem", va+3*pageUnit, pageUnit, 0, a, 0)
	require.Equal(t, []byte{1, 2}, p.read(th, va+4*pageUnit-2, 2))

	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtReleaseMemAddress", va))
	p.Must(th, "aclrtFreePhysical", a)
	require.Equal(t, before-3*pageUnit, free(), "mapped memory lives without its handle")
	require.Equal(t, []byte{1, 2}, p.read(th, va+4*pageUnit-2, 2))
	p.Must(th, "aclrtUnmapMem", va+3*pageUnit)
	require.Equal(t, before-2*pageUnit, free())
	p.Must(th, "aclrtUnmapMem", va+pageUnit)
	p.Must(th, "aclrtFreePhysical", b)
	require.Equal(t, before, free())
	p.Must(th, "aclrtReleaseMemAddress", va)
	require.Zero(t, p.Runtime.Handles.Count(rt.PhysicalKind))
}

// A size that is no multiple of a huge page is rounded up.
func TestReservedSizesAreRounded(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	for _, n := range []uint64{1, pageUnit + 1, 3*pageUnit - 4096} {
		whole := (n + pageUnit - 1) / pageUnit * pageUnit
		va, mem := p.reserve(th, n), p.physical(th, 0, whole)
		p.Must(th, "aclrtMapMem", va, whole, 0, mem, 0)
		p.Must(th, "aclrtMemset", va, whole, 1, whole)
		p.Must(th, "aclrtUnmapMem", va)
		p.Must(th, "aclrtFreePhysical", mem)
		p.Must(th, "aclrtReleaseMemAddress", va)
	}
}

func TestMappingRefusals(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	word := rttest.Address(new(uint64))
	va, mem := p.reserve(th, 2*pageUnit), p.physical(th, 0, pageUnit)
	p.Must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	onHost := propOf(0)
	onHost.locationType = int32(abi.ACL_MEM_LOCATION_TYPE_HOST)
	for name, c := range map[string]struct {
		want int32
		f    string
		args []uint64
	}{
		"odd size":         {rt.ParamInvalid, "aclrtMallocPhysical", []uint64{word, 100, rttest.Address(propOf(0)), 0}},
		"no such device":   {rt.InvalidDevice, "aclrtMallocPhysical", []uint64{word, pageUnit, rttest.Address(propOf(9)), 0}},
		"host memory":      {rt.FeatureNotSupported, "aclrtMallocPhysical", []uint64{word, pageUnit, rttest.Address(onHost), 0}},
		"too much":         {rt.MemoryAllocation, "aclrtMallocPhysical", []uint64{word, 1 << 40, rttest.Address(propOf(0)), 0}},
		"reserve nothing":  {rt.InvalidParam, "aclrtReserveMemAddress", []uint64{word, 0, 0, 0, 0}},
		"part of a memory": {rt.ParamInvalid, "aclrtMapMem", []uint64{va + pageUnit, pageUnit / 2, 0, mem, 0}},
		"offset":           {rt.ParamInvalid, "aclrtMapMem", []uint64{va + pageUnit, pageUnit, 4096, mem, 0}},
		"mapped already":   {rt.ParamInvalid, "aclrtMapMem", []uint64{va, pageUnit, 0, mem, 0}},
		"not reserved":     {rt.ParamInvalid, "aclrtMapMem", []uint64{va + 2*pageUnit, pageUnit, 0, mem, 0}},
		"not aligned":      {rt.ParamInvalid, "aclrtMapMem", []uint64{va + 4096, pageUnit, 0, mem, 0}},
		"unmap the middle": {rt.ParamInvalid, "aclrtUnmapMem", []uint64{va + 4096}},
		"free an address":  {rt.ParamInvalid, "aclrtFree", []uint64{va}},
		"granularity":      {rt.ParamInvalid, "aclrtMemGetAllocationGranularity", []uint64{rttest.Address(propOf(0)), 7, word}},
	} {
		assert.Equal(t, c.want, p.Call(th, c.f, c.args...), "%s: %s", name, rttest.Text(th))
	}
	require.Equal(t, uint64(pageUnit), p.Out(th, "aclrtMemGetAllocationGranularity", 2, rttest.Address(propOf(0)), 0))
	p.Must(th, "aclrtFreePhysical", mem)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtFreePhysical", mem))
	p.Must(th, "aclrtUnmapMem", va)
	p.Must(th, "aclrtReleaseMemAddress", va)
}

// TestMappingOfAnotherDevice checks that a device can only use a mapping after the owner of the
// range has given it access.
func TestMappingOfAnotherDevice(t *testing.T) {
	p := newProcess(t)
	first, second := p.Thread(0), p.Thread(1)
	va, mem := p.reserve(second, pageUnit), p.physical(second, 1, pageUnit)
	p.Must(second, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	require.Equal(t, rt.ParamInvalid, p.write(first, va, []byte{5}))
	require.Contains(t, rttest.Text(first), "aclrtMemSetAccess")
	access := memAccess{flags: int32(abi.ACL_RT_MEM_ACCESS_FLAGS_READWRITE), locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}
	p.Must(second, "aclrtMemSetAccess", va, pageUnit, rttest.Address(&access), 1)
	require.Zero(t, p.write(first, va, []byte{5}))
	require.Equal(t, []byte{5}, p.read(second, va, 1))
	p.Must(second, "aclrtUnmapMem", va)
	p.Must(second, "aclrtFreePhysical", mem)
	p.Must(second, "aclrtReleaseMemAddress", va)
}

// TestSharedMemory shares memory with another process, which the exporter has to allow first.
func TestSharedMemory(t *testing.T) {
	const variable = "CANN_EMU_TEST_SHARED"
	p := newProcess(t)
	th := p.Thread(0)
	if h := os.Getenv(variable); h != "" {
		handle, err := strconv.ParseUint(h, 10, 64)
		require.NoError(t, err)
		mem := p.Out(th, "aclrtMemImportFromShareableHandle", 2, handle, 0)
		va := p.reserve(th, pageUnit)
		p.Must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
		require.Equal(t, []byte("ping"), p.read(th, va, 4))
		require.Zero(t, p.write(th, va, []byte("pong")))
		return
	}
	va, mem := p.reserve(th, pageUnit), p.physical(th, 0, pageUnit)
	p.Must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	require.Zero(t, p.write(th, va, []byte("ping")))
	handle := p.Out(th, "aclrtMemExportToShareableHandle", 3, mem, 0, 0)

	word := rttest.Address(new(uint64))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtMemImportFromShareableHandle", handle, 0, word))
	require.Contains(t, rttest.Text(th), "is not allowed")
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtMemImportFromShareableHandle", rt.ShareName(os.Getpid(), 1<<20), 0, word))
	me := int32(os.Getpid())
	p.Must(th, "aclrtMemSetPidToShareableHandle", handle, rttest.Address(&me), 1)
	again := p.Out(th, "aclrtMemImportFromShareableHandle", 2, handle, 0)
	require.Equal(t, rt.FeatureNotSupported, p.Call(th, "aclrtMemExportToShareableHandle", again, 0, 0, word))
	p.Must(th, "aclrtFreePhysical", again)

	require.Equal(t, handle, p.Out(th, "aclrtMemExportToShareableHandle", 3, mem, 0, 1)) // no check of process ids
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSharedMemory$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, handle))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, []byte("pong"), p.read(th, va, 4))
}
