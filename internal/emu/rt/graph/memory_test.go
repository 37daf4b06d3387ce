package graph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// TestReplayAfterFree: a replay works on the addresses of the capture. Memory that nobody has got
// since is missed; other memory is overwritten, which only a sanitizer reports.
func TestReplayAfterFree(t *testing.T) {
	for name, checks := range map[string]sanitize.Config{"plain": {}, "memory": {Memory: true}, "race": {Race: true}} {
		t.Run(name, func(t *testing.T) {
			p := newMachine(t, rt.Config{Devices: 1, Memory: 16 << 20, SoC: "Ascend910B1", Sanitize: checks})
			th := p.Thread(0)
			s := p.Stream(th)
			addr := p.Out(th, "aclrtMalloc", 0, 64, 0)
			p.begin(th, s, captureThreadLocal)
			p.Must(th, "aclrtMemsetAsync", addr, 64, 7, 64, s)
			graph := p.end(th, s)
			p.Must(th, "aclmdlRIExecuteAsync", graph, s)
			p.Must(th, "aclrtSynchronizeStream", s)

			p.Must(th, "aclrtFree", addr)
			p.Must(th, "aclmdlRIExecuteAsync", graph, s)
			require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
			require.Contains(t, rttest.Text(th), "freed")

			other := p.Out(th, "aclrtMalloc", 0, 64, 0)
			require.Equal(t, addr, other)
			p.Must(th, "aclrtMemset", other, 64, 1, 64)
			p.Must(th, "aclmdlRIExecuteAsync", graph, s)
			code := p.Call(th, "aclrtSynchronizeStream", s)
			if checks == (sanitize.Config{}) {
				require.Zero(t, code)
				var back [64]byte
				p.Must(th, "aclrtMemcpy", rttest.Address(&back[0]), 64, other, 64, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
				require.Equal(t, byte(7), back[5], "the replay overwrites memory of another")
			} else {
				require.Equal(t, rt.VectorException, code)
				require.Contains(t, rttest.Text(th), "use after free: aclrtMemsetAsync was captured with devPtr")
			}
			p.Must(th, "aclmdlRIDestroy", graph)
			p.Must(th, "aclrtFree", other)
		})
	}
}

// TestUpdatedTaskAfterFree: the tasks of an update are watched as well, and the memory of those
// that it replaced may be freed.
func TestUpdatedTaskAfterFree(t *testing.T) {
	p := newMachine(t, rt.Config{Devices: 1, Memory: 16 << 20, SoC: "Ascend910B1", Sanitize: sanitize.Config{Memory: true}})
	th := p.Thread(0)
	s := p.Stream(th)
	first, second := p.Out(th, "aclrtMalloc", 0, 64, 0), p.Out(th, "aclrtMalloc", 0, 64, 0)
	p.begin(th, s, captureRelaxed)
	p.Must(th, "aclmdlRICaptureTaskGrpBegin", s)
	p.Must(th, "aclrtMemsetAsync", first, 64, 7, 64, s)
	group := p.Out(th, "aclmdlRICaptureTaskGrpEnd", 1, s)
	graph := p.end(th, s)
	p.Must(th, "aclmdlRICaptureTaskUpdateBegin", s, group)
	p.Must(th, "aclrtMemsetAsync", second, 64, 7, 64, s)
	p.Must(th, "aclmdlRICaptureTaskUpdateEnd", s)
	p.Must(th, "aclrtFree", first)
	p.Must(th, "aclmdlRIExecuteAsync", graph, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	p.Must(th, "aclrtFree", second)
	again := p.Out(th, "aclrtMalloc", 0, 200, 0)
	p.Must(th, "aclmdlRIExecuteAsync", graph, s)
	require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, rttest.Text(th), "use after free")
	p.Must(th, "aclmdlRIDestroy", graph)
	p.Must(th, "aclrtFree", again)
}
