package rt_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestCallFaultCode checks the code that CANN returns for each call and fault.
func TestCallFaultCode(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	other := p.Thread(1)
	stream := p.Stream(th)
	foreign := p.Stream(other)
	ex := p.Event(th)
	plain := p.Out(th, "aclrtCreateEventWithFlag", 0, uint64(eventSync))
	device := p.Out(th, "aclrtMalloc", 0, 4096, 0)
	host := p.Out(th, "aclrtMallocHost", 0, 4096)
	dead := p.Out(new(rt.Thread), "aclrtCreateContext", 0, 2)
	p.Must(th, "aclrtDestroyContext", dead)
	word := new(uint64)
	out := rttest.Address(word)
	never := uint64(1<<64 - 1)
	set := func() *rt.Thread { return &rt.Thread{Context: th.Context} }
	bare := func() *rt.Thread { return new(rt.Thread) }

	stopped := p.Stream(th)
	p.Must(th, "aclrtSetStreamFailureMode", stopped, 1)
	busy := p.Stream(th)
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	p.Submit(th, busy, func() error { <-release; return nil })
	pending := p.Event(th)
	p.Must(th, "aclrtRecordEvent", pending, busy)
	noTime := p.Out(th, "aclrtCreateEventExWithFlag", 0, uint64(eventSync))
	p.Must(th, "aclrtRecordEvent", noTime, stream)
	p.Must(th, "aclrtRecordEvent", ex, stream)
	p.Must(th, "aclrtSynchronizeStream", stream)
	unrecorded := p.Event(th)

	for _, c := range []struct {
		fault    string
		thread   func() *rt.Thread
		function string
		args     []uint64
		code     int32
	}{
		{"null out", set, "aclrtGetDeviceCount", []uint64{0}, 100000},
		{"null out", set, "aclrtGetDevice", []uint64{0}, 100000},
		{"null out", set, "aclrtCreateStream", []uint64{0}, 100000},
		{"null out", set, "aclrtCreateEvent", []uint64{0}, 100000},
		{"null out", set, "aclrtGetCurrentContext", []uint64{0}, 100000},
		{"null out", set, "aclrtGetMemInfo", []uint64{1, 0, out}, 100000},
		{"null out", set, "aclrtMalloc", []uint64{0, 64, 0}, 100000},
		{"null out", set, "aclrtStreamQuery", []uint64{stream, 0}, 100000},
		{"null out", set, "aclrtGetVersion", []uint64{out, out, 0}, 100000},
		{"null out", set, "aclrtGetRunMode", []uint64{0}, 100000},

		{"id beyond the last", set, "aclrtSetDevice", []uint64{4}, 107001},
		{"negative id", set, "aclrtSetDevice", []uint64{never}, 107001},
		{"id beyond the last", set, "aclrtCreateContext", []uint64{out, 4}, 107001},
		{"device not set", set, "aclrtResetDevice", []uint64{3}, 507007},

		{"no context", bare, "aclrtGetDevice", []uint64{out}, 107002},
		{"no context", bare, "aclrtMalloc", []uint64{out, 64, 0}, 107002},
		{"no context", bare, "aclrtMallocHost", []uint64{out, 64}, 107002},
		{"no context", bare, "aclrtCreateStream", []uint64{out}, 107002},
		{"no context", bare, "aclrtCreateEvent", []uint64{out}, 107002},
		{"no context", bare, "aclrtGetMemInfo", []uint64{1, out, out}, 107002},
		{"no context", bare, "aclrtSynchronizeDevice", nil, 107002},
		{"no context", bare, "aclrtMemcpyAsync", []uint64{device, 64, host, 64, 1, 0}, 107002},
		{"no context", bare, "aclrtGetCurrentContext", []uint64{out}, 107002},

		{"stream of another context", set, "aclrtRecordEvent", []uint64{ex, foreign}, 107003},
		{"stream of another context", set, "aclrtDestroyStream", []uint64{foreign}, 107003},
		{"stream of another context", set, "aclrtStreamQuery", []uint64{foreign, out}, 0},
		{"stream of another context", set, "aclrtStreamWaitEvent", []uint64{foreign, ex}, 107003},
		{"stream of another context", set, "aclrtMemcpyAsync", []uint64{device, 64, host, 64, 1, foreign}, 107003},

		{"size 0", set, "aclrtMalloc", []uint64{out, 0, 0}, 100000},
		{"size 0", set, "aclrtMallocHost", []uint64{out, 0}, 100000},
		{"exhausted", set, "aclrtMalloc", []uint64{out, 1 << 30, 0}, 207001},
		{"size that overflows", set, "aclrtMalloc", []uint64{out, never, 0}, 100000},
		{"null", set, "aclrtFree", []uint64{0}, 100000},
		{"null", set, "aclrtFreeHost", []uint64{0}, 100000},
		{"null", set, "aclrtDestroyStream", []uint64{0}, 100000},
		{"null", set, "aclrtDestroyEvent", []uint64{0}, 100000},
		{"not an allocation", set, "aclrtFree", []uint64{device + 64}, 107000},
		{"not an allocation", set, "aclrtFreeHost", []uint64{host + 64}, 107000},

		{"destMax below count", set, "aclrtMemcpy", []uint64{device, 32, host, 64, 1}, 107000},
		{"destMax 0", set, "aclrtMemcpy", []uint64{device, 0, host, 64, 1}, 107000},
		{"destMax below count", set, "aclrtMemcpyAsync", []uint64{device, 32, host, 64, 1, stream}, 107000},
		{"kind 6", set, "aclrtMemcpy", []uint64{device, 64, host, 64, 6}, 100000},
		{"null source", set, "aclrtMemcpy", []uint64{device, 64, 0, 64, 1}, 100000},
		{"null target", set, "aclrtMemcpy", []uint64{0, 64, host, 64, 1}, 100000},
		{"count 0", set, "aclrtMemcpy", []uint64{0, 0, 0, 0, 1}, 0},
		{"same address", set, "aclrtMemcpy", []uint64{device, 64, device, 64, 3}, 0},
		{"host memory as device memory", set, "aclrtMemcpy", []uint64{host, 64, host + 64, 64, 1}, 107000},
		{"device memory as host memory", set, "aclrtMemcpy", []uint64{device, 64, device + 64, 64, 1}, 107000},
		{"beyond the allocation", set, "aclrtMemcpy", []uint64{device + 4096, 64, host, 64, 1}, 107000},
		{"host to host", set, "aclrtMemcpyAsync", []uint64{host, 64, host + 64, 64, 0, stream}, 207000},
		{"width above pitch", set, "aclrtMemcpy2d", []uint64{device, 16, host, 16, 17, 2, 1}, 100000},
		{"kind 99", set, "aclrtMemcpy2d", []uint64{device, 16, host, 16, 16, 2, 99}, 100000},
		{"host to host", set, "aclrtMemcpy2d", []uint64{host, 16, host + 64, 16, 16, 2, 0}, 100000},
		{"kind 99", set, "aclrtMemcpyAsync", []uint64{device, 64, host, 64, 99, stream}, 100000},
		{"kind before destMax", set, "aclrtMemcpyAsync", []uint64{device, 32, host, 64, 99, stream}, 100000},
		{"kind 99 of nothing", set, "aclrtMemcpy", []uint64{0, 0, 0, 0, 99}, 0},
		{"rows of 2⁶⁴ bytes and more", set, "aclrtMemcpy2d", []uint64{device, 1 << 63, device, 16, 16, 3, 3}, 107000},
		{"rows of 2⁶⁴ bytes and more", set, "aclrtMemcpy2dAsync", []uint64{device, 16, device, 1 << 62, 16, 5, 3, stream}, 107000},
		{"count 2⁶³", set, "aclrtMemcpy", []uint64{device, 1 << 63, host, 1 << 63, 1}, 107000},
		{"count above maxCount", set, "aclrtMemset", []uint64{device, 16, 0, 17}, 107000},
		{"foreign memory", set, "aclrtMemset", []uint64{out, 8, 0, 8}, 107000},

		{"timeout 0", set, "aclrtSynchronizeStreamWithTimeout", []uint64{stream, 0}, 107000},
		{"timeout -2", set, "aclrtSynchronizeStreamWithTimeout", []uint64{stream, never - 1}, 107000},
		{"expired", set, "aclrtSynchronizeStreamWithTimeout", []uint64{busy, 1}, 507046},
		{"timeout 0", set, "aclrtSynchronizeDeviceWithTimeout", []uint64{0}, 107000},
		{"expired", set, "aclrtSynchronizeDeviceWithTimeout", []uint64{1}, 507046},
		{"timeout 0", set, "aclrtSynchronizeEventWithTimeout", []uint64{pending, 0}, 107000},
		{"expired", set, "aclrtSynchronizeEventWithTimeout", []uint64{pending, 1}, 507047},

		{"flag 0", set, "aclrtCreateEventWithFlag", []uint64{out, 0}, 107000},
		{"unknown flag", set, "aclrtCreateEventWithFlag", []uint64{out, 0x1000}, 107000},
		{"unknown flag", set, "aclrtCreateEventExWithFlag", []uint64{out, 0x4}, 107000},
		{"Ex event", set, "aclrtResetEvent", []uint64{ex, stream}, 207000},
		{"Ex event", set, "aclrtQueryEvent", []uint64{ex, out}, 207000},
		{"Ex event", set, "aclrtQueryEventWaitStatus", []uint64{ex, out}, 207000},
		{"recorded but not passed", set, "aclrtEventElapsedTime", []uint64{out, ex, pending}, 507000},
		{"unrecorded", set, "aclrtEventElapsedTime", []uint64{out, unrecorded, ex}, 507000},
		{"no time line", set, "aclrtEventElapsedTime", []uint64{out, noTime, ex}, 107006},
		{"plain event", set, "aclrtResetEvent", []uint64{plain, stream}, 0},

		{"null", set, "aclrtSetCurrentContext", []uint64{0}, 100000},
		{"destroyed", set, "aclrtSetCurrentContext", []uint64{dead}, 107000},
		{"primary", set, "aclrtDestroyContext", []uint64{th.Context}, 107002},
		{"destroyed", set, "aclrtDestroyContext", []uint64{dead}, 507007},
		{"stop to continue", set, "aclrtSetStreamFailureMode", []uint64{stopped, 0}, 207000},
		{"lowest bit of the mode", set, "aclrtSetStreamFailureMode", []uint64{stream, 2}, 0},
		{"default stream", set, "aclrtSetStreamFailureMode", []uint64{0, 0}, 0},

		{"same device", set, "aclrtDeviceCanAccessPeer", []uint64{out, 1, 1}, 100000},
		{"no such peer", set, "aclrtDeviceEnablePeerAccess", []uint64{9, 0}, 107001},
		{"flags", set, "aclrtDeviceEnablePeerAccess", []uint64{1, 1}, 200006},
		{"null out", set, "aclrtDeviceCanAccessPeer", []uint64{0, 0, 1}, 107000},
		{"unknown attribute", set, "aclrtGetDeviceInfo", []uint64{0, 9999, out}, 107000},
		{"unknown attribute", set, "aclrtGetMemInfo", []uint64{99, out, out}, 107016},
		{"unknown mode", set, "aclrtSetDeviceSatMode", []uint64{9}, 107000},
		{"unknown option", set, "aclrtCtxGetSysParamOpt", []uint64{99, out}, 100000},
		{"option of the process", set, "aclrtCtxSetSysParamOpt", []uint64{3, 1}, 100000},
		{"level 9", set, "aclrtCtxSetSysParamOpt", []uint64{0, 9}, 107000},
		{"level 9", set, "aclrtSetSysParamOpt", []uint64{0, 9}, 107000},
		{"negative level", set, "aclrtSetSysParamOpt", []uint64{1, never}, 107000},
		{"null event", set, "aclrtStreamWaitEventWithTimeout", []uint64{stream, 0, 1}, 107000},
		{"size 0", set, "aclrtReserveMemAddress", []uint64{out, 0, 0, 0, 0}, 100000},
		{"flags 7", set, "aclrtReserveMemAddress", []uint64{out, 1 << 21, 0, 0, 7}, 100000},
		{"one null", set, "aclrtDeviceGetStreamPriorityRange", []uint64{out, 0}, 0},
		{"unknown flag", set, "aclrtCreateStreamWithConfig", []uint64{out, 0, 0x1000}, 0},
		{"stream without subscription", set, "aclrtUnSubscribeReport", []uint64{1, stream}, 107011},
		{"option never set", set, "aclrtCtxGetSysParamOpt", []uint64{0, out}, 107021},
		{"no subscription", set, "aclrtProcessReport", []uint64{1}, 107012},
		{"timeout 0", set, "aclrtProcessReport", []uint64{0}, 100000},
		{"no subscription", set, "aclrtLaunchCallback", []uint64{1, 0, 0, stream}, 107015},
		{"null function", set, "aclrtLaunchCallback", []uint64{0, 0, 0, stream}, 107000},
		{"block type", set, "aclrtLaunchCallback", []uint64{1, 0, 2, stream}, 100000},
		{"stale stream", set, "aclrtSynchronizeStream", []uint64{0xdead0}, 107000},
		{"stale event", set, "aclrtRecordEvent", []uint64{stream, stream}, 107000},
	} {
		th := c.thread()
		got := p.Call(th, c.function, c.args...)
		text := rttest.Text(th)
		require.Equal(t, c.code, got, "%s: %s: %s", c.function, c.fault, text)
		if c.code != 0 {
			require.NotEmpty(t, text, "%s: %s leaves no text", c.function, c.fault)
			recorded := c.code // only the runtime layer records its errors
			if c.code/1000%100 != 7 {
				recorded = 0
			}
			require.Equal(t, recorded, th.LastError, "%s: %s", c.function, c.fault)
			require.Empty(t, rttest.Text(th), "reading clears the text")
		}
	}
	end()
	p.Must(th, "aclrtFree", device)
	p.Must(th, "aclrtFreeHost", host)
	for _, e := range []uint64{ex, plain, pending, noTime, unrecorded} {
		p.Must(th, "aclrtDestroyEvent", e)
	}
}
