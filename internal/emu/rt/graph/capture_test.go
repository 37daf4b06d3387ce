package graph

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// repeat queues a Go function as a task that can be captured.
func (p *process) repeat(t *rt.Thread, stream uint64, name string, f func()) {
	p.tb.Helper()
	s, code := p.Runtime.Stream(t, stream)
	require.Zero(p.tb, code)
	require.Zero(p.tb, p.Runtime.Submit(t, s, rt.Task{Name: name, Repeatable: true, Run: func() error { f(); return nil }}))
}

func (p *process) begin(t *rt.Thread, stream uint64, mode int32) {
	p.tb.Helper()
	p.Must(t, "aclmdlRICaptureBegin", stream, uint64(mode))
}

func (p *process) end(t *rt.Thread, stream uint64) (graph uint64) {
	p.tb.Helper()
	return p.Out(t, "aclmdlRICaptureEnd", 1, stream)
}

func TestCaptureRunsNothingAndReplayEverything(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	first, second := p.Stream(th), p.Stream(th)
	fork, join := p.Event(th), p.Event(th)
	var order []string
	task := func(stream uint64, name string) { p.repeat(th, stream, name, func() { order = append(order, name) }) }

	p.begin(th, first, captureGlobal)
	task(first, "a")
	p.Must(th, "aclrtRecordEvent", fork, first)
	p.Must(th, "aclrtStreamWaitEvent", second, fork)
	task(second, "b")
	task(first, "c")
	p.Must(th, "aclrtRecordEvent", join, second)
	p.Must(th, "aclrtStreamWaitEvent", first, join)
	task(first, "d")
	graph := p.end(th, first)
	require.Empty(t, order)

	for range 3 {
		order = nil
		p.Must(th, "aclmdlRIExecuteAsync", graph, first)
		p.Must(th, "aclrtSynchronizeStream", first)
		require.Equal(t, []string{"a", "b", "c", "d"}, order)
	}
	order = nil
	p.Must(th, "aclmdlRIExecute", graph, ^uint64(0))
	require.Equal(t, []string{"a", "b", "c", "d"}, order)
	p.Must(th, "aclmdlRIDestroy", graph)
	require.Equal(t, int32(abi.ACL_ERROR_RT_PARAM_INVALID), p.Call(th, "aclmdlRIExecuteAsync", graph, first))
}

func TestCaptureOfCopies(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	pinned := p.Out(th, "aclrtMallocHost", 0, 16)
	dev := p.Out(th, "aclrtMalloc", 0, 16, 0)
	p.begin(th, s, captureThreadLocal)
	p.Must(th, "aclrtMemcpyAsync", dev, 16, pinned, 16, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), s)
	p.Must(th, "aclrtMemsetAsync", dev, 16, 7, 8, s)
	graph := p.end(th, s)
	back := make([]byte, 16)
	for _, v := range []byte{1, 2} {
		for i := range 16 {
			rt.Write(pinned+uint64(i), v)
		}
		p.Must(th, "aclmdlRIExecuteAsync", graph, s)
		p.Must(th, "aclrtSynchronizeStream", s)
		p.Must(th, "aclrtMemcpy", rttest.Address(&back[0]), 16, dev, 16, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
		require.Equal(t, []byte{7, 7, 7, 7, 7, 7, 7, 7, v, v, v, v, v, v, v, v}, back)
	}
	p.Must(th, "aclmdlRIDestroy", graph)
	p.Must(th, "aclrtFree", dev)
	p.Must(th, "aclrtFreeHost", pinned)
}

func TestCaptureRefusals(t *testing.T) {
	p := newProcess(t)
	th, other := p.Thread(0), p.Thread(0)
	s, outside := p.Stream(th), p.Stream(th)
	status, word := new(int32), new(uint64)
	pageable := make([]byte, 8)
	dev := p.Out(th, "aclrtMalloc", 0, 8, 0)
	host := rttest.Address(&pageable[0])
	plain := p.Out(th, "aclrtCreateEvent", 0)
	before := p.Event(th)
	p.Must(th, "aclrtRecordEvent", before, outside)

	require.Equal(t, rt.InvalidParam, p.Call(th, "aclmdlRICaptureBegin", 0, 0))
	require.Equal(t, rt.CaptureImplicit, p.Call(th, "aclmdlRICaptureBegin", p.Out(th, "aclrtCtxGetCurrentDefaultStream", 0), 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclmdlRICaptureGetInfo", s, 0, 0))
	require.Equal(t, rt.StreamNotCaptured, p.Call(th, "aclmdlRICaptureEnd", s, 0))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclmdlRICaptureBegin", s, 3))
	require.Equal(t, rt.StreamNotCaptured, p.Call(th, "aclmdlRICaptureEnd", s, rttest.Address(word)))
	p.begin(th, s, captureGlobal)
	ev := p.Event(th)
	p.Must(th, "aclrtRecordEvent", ev, s)
	to, from := uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST)
	for name, c := range map[string]struct {
		th   *rt.Thread
		want int32
		f    string
		args []uint64
	}{
		"begin twice":            {th, rt.StreamCaptured, "aclmdlRICaptureBegin", []uint64{s, 0}},
		"end elsewhere":          {other, rt.CaptureWrongThread, "aclmdlRICaptureEnd", []uint64{s, rttest.Address(word)}},
		"synchronize":            {th, rt.StreamCaptured, "aclrtSynchronizeStream", []uint64{s}},
		"query":                  {th, rt.StreamCaptured, "aclrtStreamQuery", []uint64{s, rttest.Address(status)}},
		"synchronize device":     {th, rt.StreamCaptured, "aclrtSynchronizeDevice", nil},
		"destroy":                {th, rt.StreamCaptured, "aclrtDestroyStream", []uint64{s}},
		"event query":            {th, rt.EventCaptured, "aclrtQueryEventStatus", []uint64{ev, rttest.Address(status)}},
		"event synchronize":      {th, rt.EventCaptured, "aclrtSynchronizeEvent", []uint64{ev}},
		"event of another kind":  {th, rt.FeatureNotSupported, "aclrtRecordEvent", []uint64{plain, s}},
		"event from outside":     {th, rt.CaptureDependency, "aclrtStreamWaitEvent", []uint64{s, before}},
		"default stream joins":   {th, rt.CaptureImplicit, "aclrtStreamWaitEvent", []uint64{0, ev}},
		"copy":                   {th, rt.CaptureForbids, "aclrtMemcpy", []uint64{dev, 8, host, 8, to}},
		"copy of another thread": {other, rt.CaptureForbids, "aclrtMemcpy", []uint64{host, 8, dev, 8, from}},
		"memset":                 {th, rt.CaptureForbids, "aclrtMemset", []uint64{dev, 8, 0, 8}},
		"pageable, captured":     {th, rt.ParamInvalid, "aclrtMemcpyAsync", []uint64{dev, 8, host, 8, to, s}},
		"pageable, elsewhere":    {th, rt.CaptureBlocksAsync, "aclrtMemcpyAsync", []uint64{dev, 8, host, 8, to, outside}},
		"reset":                  {th, rt.FeatureNotSupported, "aclrtResetEvent", []uint64{before, s}},
	} {
		assert.Equal(t, c.want, p.Call(c.th, c.f, c.args...), "%s: %s", name, rttest.Text(c.th))
	}

	mode := captureRelaxed
	p.Must(other, "aclmdlRICaptureThreadExchangeMode", rttest.Address(&mode))
	require.Equal(t, captureGlobal, mode)
	p.Must(other, "aclrtMemcpy", host, 8, dev, 8, from)

	p.Must(th, "aclmdlRICaptureGetInfo", s, rttest.Address(status), rttest.Address(word))
	require.Equal(t, int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE), *status)
	require.Equal(t, rt.ModelCaptured, p.Call(th, "aclmdlRIExecuteAsync", *word, outside))
	p.Must(th, "aclmdlRIDestroy", p.end(th, s))
	p.Must(th, "aclmdlRICaptureGetInfo", s, rttest.Address(status), rttest.Address(word))
	require.Equal(t, int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_NONE), *status)
	require.Zero(t, *word)
	for _, e := range []uint64{ev, before, plain} {
		p.Must(th, "aclrtDestroyEvent", e)
	}
	p.Must(th, "aclrtFree", dev)
}

func TestCaptureThatGivesNoGraph(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	word := new(uint64)
	for name, c := range map[string]struct {
		want  int32
		spoil func(first, second, event uint64)
	}{
		"not rejoined": {rt.StreamUnjoined, func(first, second, event uint64) {
			p.repeat(th, second, "late", func() {})
		}},
		"a task after the rejoining event": {rt.StreamUnjoined, func(first, second, event uint64) {
			p.Must(th, "aclrtRecordEvent", event, second)
			p.Must(th, "aclrtStreamWaitEvent", first, event)
			p.repeat(th, second, "late", func() {})
		}},
		"aborted": {rt.CaptureInvalidated, func(first, second, event uint64) {
			p.Must(th, "aclrtStreamAbort", second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, event := p.Stream(th), p.Stream(th), p.Event(th)
			p.begin(th, first, captureRelaxed)
			p.Must(th, "aclrtRecordEvent", event, first)
			p.Must(th, "aclrtStreamWaitEvent", second, event)
			require.Equal(t, rt.CaptureUnmatched, p.Call(th, "aclmdlRICaptureEnd", second, rttest.Address(word)))
			c.spoil(first, second, event)
			require.Equal(t, c.want, p.Call(th, "aclmdlRICaptureEnd", first, rttest.Address(word)), rttest.Text(th))
			require.Zero(t, *word)
			p.Must(th, "aclrtSynchronizeStream", second) // the streams execute again
			p.Must(th, "aclrtDestroyEvent", event)
		})
	}
	require.Zero(t, p.Runtime.Handles.Count(rt.GraphKind))
}

func TestGraphTasksCanBeReplaced(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	var got []int
	put := func(stream uint64, name string, v int) { p.repeat(th, stream, name, func() { got = append(got, v) }) }
	p.begin(th, s, captureRelaxed)
	put(s, "x", 1)
	p.Must(th, "aclmdlRICaptureTaskGrpBegin", s)
	require.Equal(t, int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), p.Call(th, "aclmdlRICaptureTaskGrpBegin", s))
	put(s, "x", 2)
	put(s, "y", 3)
	group := p.Out(th, "aclmdlRICaptureTaskGrpEnd", 1, s)
	put(s, "x", 4)
	graph := p.end(th, s)

	update := func(values map[string]int, names ...string) int32 {
		p.Must(th, "aclmdlRICaptureTaskUpdateBegin", s, group)
		for _, name := range names {
			put(s, name, values[name])
		}
		return p.Call(th, "aclmdlRICaptureTaskUpdateEnd", s)
	}
	require.Equal(t, rt.ModelUpdateFailed, update(map[string]int{"x": 9}, "x"))
	require.Equal(t, rt.ModelUpdateFailed, update(map[string]int{"x": 9, "y": 9}, "y", "x"))
	require.Zero(t, update(map[string]int{"x": 20, "y": 30}, "x", "y"))
	require.Equal(t, rt.StreamNotCaptured, p.Call(th, "aclmdlRICaptureTaskUpdateEnd", s))
	p.Must(th, "aclmdlRIExecuteAsync", graph, s)
	p.Must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, []int{1, 20, 30, 4}, got)
	p.Must(th, "aclmdlRIDestroy", graph)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclmdlRICaptureTaskUpdateBegin", s, group))
}

func TestGraphFailureAndEnd(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	gate := make(chan struct{})
	var ran bool
	p.begin(th, s, captureRelaxed)
	stream, code := p.Runtime.Stream(th, s)
	require.Zero(t, code)
	require.Zero(t, p.Runtime.Submit(th, stream, rt.Task{Name: "fails", Repeatable: true, Run: func() error { <-gate; return errors.New("no") }}))
	p.repeat(th, s, "after", func() { ran = true })
	graph := p.end(th, s)
	p.Must(th, "aclmdlRIExecuteAsync", graph, s)
	require.Equal(t, rt.ModelRunning, p.Call(th, "aclmdlRIDestroy", graph))
	close(gate)
	require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, rttest.Text(th), "fails: no")
	require.False(t, ran)

	name := append([]byte("step"), 0)
	p.Must(th, "aclmdlRISetName", graph, rttest.Address(&name[0]))
	read := make([]byte, 5)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclmdlRIGetName", graph, 4, rttest.Address(&read[0])))
	p.Must(th, "aclmdlRIGetName", graph, 5, rttest.Address(&read[0]))
	require.Equal(t, name, read)
	p.Must(th, "aclmdlRIDestroy", graph)
}
