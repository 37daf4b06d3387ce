package rt

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// propOf are the properties of ordinary memory of a device.
func propOf(device uint32) *physicalProp {
	return &physicalProp{
		attribute: int32(abi.ACL_HBM_MEM_HUGE), locationID: device, locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE),
	}
}

func (p *process) physical(t *Thread, device uint32, n uint64) uint64 {
	p.tb.Helper()
	return p.out(t, "aclrtMallocPhysical", 0, n, address(propOf(device)), 0)
}

func (p *process) reserve(t *Thread, n uint64) uint64 {
	p.tb.Helper()
	return p.out(t, "aclrtReserveMemAddress", 0, n, 0, 0, 1)
}

// write and read move bytes between device and host memory.
func (p *process) write(t *Thread, addr uint64, b []byte) int32 {
	return p.call(t, "aclrtMemcpy", addr, uint64(len(b)), address(&b[0]), uint64(len(b)), uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE))
}

func (p *process) read(t *Thread, addr uint64, n int) []byte {
	p.tb.Helper()
	b := make([]byte, n)
	p.must(t, "aclrtMemcpy", address(&b[0]), uint64(n), addr, uint64(n), uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
	return b
}

func TestMapping(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	free := func() uint64 {
		var free, total uint64
		p.must(th, "aclrtGetMemInfo", 0, address(&free), address(&total))
		return free
	}
	before := free()
	va := p.reserve(th, 4*pageUnit)
	require.Equal(t, before, free(), "addresses cost nothing")
	a, b := p.physical(th, 0, pageUnit), p.physical(th, 0, 2*pageUnit)
	require.Equal(t, before-3*pageUnit, free())
	p.must(th, "aclrtMapMem", va, pageUnit, 0, a, 0)
	p.must(th, "aclrtMapMem", va+pageUnit, 2*pageUnit, 0, b, 0)

	// A tensor may lie across two mappings.
	require.Zero(t, p.write(th, va+pageUnit-2, []byte{1, 2, 3, 4}))
	require.Equal(t, []byte{1, 2, 3, 4}, p.read(th, va+pageUnit-2, 4))
	require.Equal(t, paramInvalid, p.write(th, va+3*pageUnit-2, []byte{1, 2, 3, 4}))
	require.Contains(t, takeText(th), "nothing is mapped")

	// The bytes stay with the memory when it is mapped elsewhere.
	p.must(th, "aclrtUnmapMem", va)
	require.Equal(t, paramInvalid, p.write(th, va, []byte{1}))
	p.must(th, "aclrtMapMem", va+3*pageUnit, pageUnit, 0, a, 0)
	require.Equal(t, []byte{1, 2}, p.read(th, va+4*pageUnit-2, 2))

	require.Equal(t, paramInvalid, p.call(th, "aclrtReleaseMemAddress", va))
	p.must(th, "aclrtFreePhysical", a)
	require.Equal(t, before-3*pageUnit, free(), "mapped memory lives without its handle")
	require.Equal(t, []byte{1, 2}, p.read(th, va+4*pageUnit-2, 2))
	p.must(th, "aclrtUnmapMem", va+3*pageUnit)
	require.Equal(t, before-2*pageUnit, free())
	p.must(th, "aclrtUnmapMem", va+pageUnit)
	p.must(th, "aclrtFreePhysical", b)
	require.Equal(t, before, free())
	p.must(th, "aclrtReleaseMemAddress", va)
	require.Zero(t, p.r.Handles.Count(PhysicalKind))
}

func TestMappingRefusals(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	word := address(new(uint64))
	va, mem := p.reserve(th, 2*pageUnit), p.physical(th, 0, pageUnit)
	p.must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	onHost := propOf(0)
	onHost.locationType = int32(abi.ACL_MEM_LOCATION_TYPE_HOST)
	for name, c := range map[string]struct {
		want int32
		f    string
		args []uint64
	}{
		"odd size":         {paramInvalid, "aclrtMallocPhysical", []uint64{word, 100, address(propOf(0)), 0}},
		"no such device":   {invalidDevice, "aclrtMallocPhysical", []uint64{word, pageUnit, address(propOf(9)), 0}},
		"host memory":      {featureNotSupported, "aclrtMallocPhysical", []uint64{word, pageUnit, address(onHost), 0}},
		"too much":         {memoryAllocation, "aclrtMallocPhysical", []uint64{word, 1 << 40, address(propOf(0)), 0}},
		"reserve nothing":  {paramInvalid, "aclrtReserveMemAddress", []uint64{word, 0, 0, 0, 0}},
		"part of a memory": {paramInvalid, "aclrtMapMem", []uint64{va + pageUnit, pageUnit / 2, 0, mem, 0}},
		"offset":           {paramInvalid, "aclrtMapMem", []uint64{va + pageUnit, pageUnit, 4096, mem, 0}},
		"mapped already":   {paramInvalid, "aclrtMapMem", []uint64{va, pageUnit, 0, mem, 0}},
		"not reserved":     {paramInvalid, "aclrtMapMem", []uint64{va + 2*pageUnit, pageUnit, 0, mem, 0}},
		"not aligned":      {paramInvalid, "aclrtMapMem", []uint64{va + 4096, pageUnit, 0, mem, 0}},
		"unmap the middle": {paramInvalid, "aclrtUnmapMem", []uint64{va + 4096}},
		"free an address":  {paramInvalid, "aclrtFree", []uint64{va}},
		"granularity":      {paramInvalid, "aclrtMemGetAllocationGranularity", []uint64{address(propOf(0)), 7, word}},
	} {
		assert.Equal(t, c.want, p.call(th, c.f, c.args...), "%s: %s", name, takeText(th))
	}
	require.Equal(t, uint64(pageUnit), p.out(th, "aclrtMemGetAllocationGranularity", 2, address(propOf(0)), 0))
	p.must(th, "aclrtFreePhysical", mem)
	require.Equal(t, paramInvalid, p.call(th, "aclrtFreePhysical", mem))
	p.must(th, "aclrtUnmapMem", va)
	p.must(th, "aclrtReleaseMemAddress", va)
}

// TestMappingOfAnotherDevice needs access, which the owner of the range gives.
func TestMappingOfAnotherDevice(t *testing.T) {
	p := newProcess(t)
	first, second := p.thread(0), p.thread(1)
	va, mem := p.reserve(second, pageUnit), p.physical(second, 1, pageUnit)
	p.must(second, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	require.Equal(t, paramInvalid, p.write(first, va, []byte{5}))
	require.Contains(t, takeText(first), "aclrtMemSetAccess")
	access := memAccess{flags: int32(abi.ACL_RT_MEM_ACCESS_FLAGS_READWRITE), locationType: int32(abi.ACL_MEM_LOCATION_TYPE_DEVICE)}
	p.must(second, "aclrtMemSetAccess", va, pageUnit, address(&access), 1)
	require.Zero(t, p.write(first, va, []byte{5}))
	require.Equal(t, []byte{5}, p.read(second, va, 1))
	p.must(second, "aclrtUnmapMem", va)
	p.must(second, "aclrtFreePhysical", mem)
	p.must(second, "aclrtReleaseMemAddress", va)
}

// TestSharedMemory shares memory with another process, which the exporter has to allow.
func TestSharedMemory(t *testing.T) {
	const variable = "CANN_EMU_TEST_SHARED"
	p := newProcess(t)
	th := p.thread(0)
	if h := os.Getenv(variable); h != "" {
		handle, err := strconv.ParseUint(h, 10, 64)
		require.NoError(t, err)
		mem := p.out(th, "aclrtMemImportFromShareableHandle", 2, handle, 0)
		va := p.reserve(th, pageUnit)
		p.must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
		require.Equal(t, []byte("ping"), p.read(th, va, 4))
		require.Zero(t, p.write(th, va, []byte("pong")))
		return
	}
	va, mem := p.reserve(th, pageUnit), p.physical(th, 0, pageUnit)
	p.must(th, "aclrtMapMem", va, pageUnit, 0, mem, 0)
	require.Zero(t, p.write(th, va, []byte("ping")))
	handle := p.out(th, "aclrtMemExportToShareableHandle", 3, mem, 0, 0)

	word := address(new(uint64))
	require.Equal(t, paramInvalid, p.call(th, "aclrtMemImportFromShareableHandle", handle, 0, word))
	require.Contains(t, takeText(th), "is not allowed")
	require.Equal(t, paramInvalid, p.call(th, "aclrtMemImportFromShareableHandle", shareName(os.Getpid(), 1<<20), 0, word))
	me := int32(os.Getpid())
	p.must(th, "aclrtMemSetPidToShareableHandle", handle, address(&me), 1)
	again := p.out(th, "aclrtMemImportFromShareableHandle", 2, handle, 0)
	require.Equal(t, featureNotSupported, p.call(th, "aclrtMemExportToShareableHandle", again, 0, 0, word))
	p.must(th, "aclrtFreePhysical", again)

	require.Equal(t, handle, p.out(th, "aclrtMemExportToShareableHandle", 3, mem, 0, 1)) // no check
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSharedMemory$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, handle))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, []byte("pong"), p.read(th, va, 4))
}
