package nn

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

// program calls C functions of the runtime and of aclnn on a device.
type program struct {
	t      testing.TB
	f      map[string]rt.Func
	thread *rt.Thread
}

func newProgram(t testing.TB) *program {
	r := rt.NewMachine(rt.Config{Devices: 1, Memory: 1 << 20})
	p := &program{t: t, f: r.Functions(), thread: new(rt.Thread)}
	for name, f := range New(r).Functions() {
		p.f[name] = f
	}
	p.must("aclrtSetDevice", 0)
	t.Cleanup(func() { p.must("aclFinalize") })
	return p
}

func (p *program) call(name string, args ...uint64) int32 { return int32(p.f[name](p.thread, args)) }

func (p *program) must(name string, args ...uint64) {
	p.t.Helper()
	require.Zero(p.t, p.call(name, args...), "%s: %s", name, p.text())
}

func (p *program) text() string {
	if a := p.thread.TakeText(); a != 0 {
		return rt.CString(a)
	}
	return ""
}

// word allocates C memory for one result.
func (p *program) word() kernel.View {
	return kerneltest.New(p.t, dtype.Uint64, kerneltest.Contiguous, []int64{1}, []float64{0})
}

func at(v kernel.View) uint64 { return uint64(uintptr(v.Data)) }

// onDevice copies the elements of v to device memory and returns its address.
func (p *program) onDevice(v kernel.View) uint64 {
	out, n := p.word(), uint64(len(kerneltest.Values(v))*v.DType.Size())
	p.must("aclrtMalloc", at(out), n+1, 0)
	addr := *(*uint64)(out.Data)
	p.must("aclrtMemcpy", addr, n, at(v), n, abi.ACL_MEMCPY_HOST_TO_DEVICE)
	p.t.Cleanup(func() { p.must("aclrtFree", addr) })
	return addr
}

func TestReduceAsync(t *testing.T) {
	for d := range copyReducible {
		for kind, want := range map[uint64][]float64{
			abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM: {11, 5, 7, 10, 100},
			abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX: {10, 3, 7, 5, 99},
			abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN: {1, 2, 0, 5, 1},
		} {
			t.Run(fmt.Sprint(d, kind), func(t *testing.T) {
				p := newProgram(t)
				x := kerneltest.New(t, d, kerneltest.Contiguous, []int64{5}, []float64{1, 2, 7, 5, 1})
				y := kerneltest.New(t, d, kerneltest.Contiguous, []int64{5}, []float64{10, 3, 0, 5, 99})
				dst, src, n := p.onDevice(x), p.onDevice(y), uint64(5*d.Size())
				p.must("aclrtReduceAsync", dst, src, n, kind, uint64(d), 0, 0)
				p.must("aclrtReduceAsync", dst, src, 0, kind, uint64(d), 0, 0) // nothing
				p.must("aclrtSynchronizeStream", 0)
				p.must("aclrtMemcpy", at(x), n, dst, n, abi.ACL_MEMCPY_DEVICE_TO_HOST)
				assert.Equal(t, want, kerneltest.Values(x))
			})
		}
	}
}

func TestReduceAsyncRefuses(t *testing.T) {
	p := newProgram(t)
	x := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{4}, []float64{1})
	a := p.onDevice(x)
	const sum = abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM
	for _, c := range []struct {
		code int32
		text string
		args []uint64
	}{
		{100000, "dst is null", []uint64{0, a, 16, sum, uint64(dtype.Float32), 0, 0}},
		{100000, "src is null", []uint64{a, 0, 16, sum, uint64(dtype.Float32), 0, 0}},
		{100000, "reserve must be null", []uint64{a, a, 16, sum, uint64(dtype.Float32), 0, 1}},
		{100000, "type float64 cannot be reduced", []uint64{a, a, 16, sum, uint64(dtype.Float64), 0, 0}},
		{100000, "15 bytes are no whole number of float32", []uint64{a, a, 15, sum, uint64(dtype.Float32), 0, 0}},
		{207000, "kind 13", []uint64{a, a, 16, abi.ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL, uint64(dtype.Float32), 0, 0}},
	} {
		assert.Equal(t, c.code, p.call("aclrtReduceAsync", c.args...))
		text := p.text()
		assert.Contains(t, text, "aclrtReduceAsync")
		assert.Contains(t, text, c.text)
	}
	p.must("aclrtReduceAsync", a, uint64(uintptr(unsafe.Pointer(x.Data))), 16, sum, uint64(dtype.Float32), 0, 0)
	assert.NotZero(t, p.call("aclrtSynchronizeStream", 0), "host memory")
	assert.Contains(t, p.text(), "aclrtReduceAsync: src")
}
