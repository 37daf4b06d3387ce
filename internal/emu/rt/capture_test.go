package rt

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// repeat queues Go code that a capture may take.
func (p *process) repeat(t *Thread, stream uint64, name string, f func()) {
	p.tb.Helper()
	s, code := p.r.Stream(t, stream)
	require.Zero(p.tb, code)
	require.Zero(p.tb, p.r.Submit(t, s, Task{Name: name, Repeatable: true, Run: func() error { f(); return nil }}))
}

func (p *process) begin(t *Thread, stream uint64, mode int32) {
	p.tb.Helper()
	p.must(t, "aclmdlRICaptureBegin", stream, uint64(mode))
}

func (p *process) end(t *Thread, stream uint64) (graph uint64) {
	p.tb.Helper()
	return p.out(t, "aclmdlRICaptureEnd", 1, stream)
}

func TestCaptureRunsNothingAndReplayEverything(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	first, second := p.stream(th), p.stream(th)
	fork, join := p.event(th), p.event(th)
	var order []string
	task := func(stream uint64, name string) { p.repeat(th, stream, name, func() { order = append(order, name) }) }

	p.begin(th, first, captureGlobal)
	task(first, "a")
	p.must(th, "aclrtRecordEvent", fork, first)
	p.must(th, "aclrtStreamWaitEvent", second, fork)
	task(second, "b")
	task(first, "c")
	p.must(th, "aclrtRecordEvent", join, second)
	p.must(th, "aclrtStreamWaitEvent", first, join)
	task(first, "d")
	graph := p.end(th, first)
	require.Empty(t, order)

	for range 3 {
		order = nil
		p.must(th, "aclmdlRIExecuteAsync", graph, first)
		p.must(th, "aclrtSynchronizeStream", first)
		require.Equal(t, []string{"a", "b", "c", "d"}, order)
	}
	order = nil
	p.must(th, "aclmdlRIExecute", graph, ^uint64(0))
	require.Equal(t, []string{"a", "b", "c", "d"}, order)
	p.must(th, "aclmdlRIDestroy", graph)
	require.Equal(t, int32(abi.ACL_ERROR_RT_PARAM_INVALID), p.call(th, "aclmdlRIExecuteAsync", graph, first))
}

func TestCaptureOfCopies(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	pinned := p.out(th, "aclrtMallocHost", 0, 16)
	dev := p.out(th, "aclrtMalloc", 0, 16, 0)
	p.begin(th, s, captureThreadLocal)
	p.must(th, "aclrtMemcpyAsync", dev, 16, pinned, 16, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), s)
	p.must(th, "aclrtMemsetAsync", dev, 16, 7, 8, s)
	graph := p.end(th, s)
	back := make([]byte, 16)
	for _, v := range []byte{1, 2} {
		for i := range 16 {
			Write(pinned+uint64(i), v)
		}
		p.must(th, "aclmdlRIExecuteAsync", graph, s)
		p.must(th, "aclrtSynchronizeStream", s)
		p.must(th, "aclrtMemcpy", address(&back[0]), 16, dev, 16, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST))
		require.Equal(t, []byte{7, 7, 7, 7, 7, 7, 7, 7, v, v, v, v, v, v, v, v}, back)
	}
	p.must(th, "aclmdlRIDestroy", graph)
	p.must(th, "aclrtFree", dev)
	p.must(th, "aclrtFreeHost", pinned)
}

func TestCaptureRefusals(t *testing.T) {
	p := newProcess(t)
	th, other := p.thread(0), p.thread(0)
	s, outside := p.stream(th), p.stream(th)
	status, word := new(int32), new(uint64)
	pageable := make([]byte, 8)
	dev := p.out(th, "aclrtMalloc", 0, 8, 0)
	host := address(&pageable[0])
	plain := p.out(th, "aclrtCreateEvent", 0)
	before := p.event(th)
	p.must(th, "aclrtRecordEvent", before, outside)

	require.Equal(t, captureImplicit, p.call(th, "aclmdlRICaptureBegin", 0, 0))
	require.Equal(t, paramInvalid, p.call(th, "aclmdlRICaptureBegin", s, 3))
	require.Equal(t, streamNotCaptured, p.call(th, "aclmdlRICaptureEnd", s, address(word)))
	p.begin(th, s, captureGlobal)
	ev := p.event(th)
	p.must(th, "aclrtRecordEvent", ev, s)
	to, from := uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE), uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST)
	for name, c := range map[string]struct {
		th   *Thread
		want int32
		f    string
		args []uint64
	}{
		"begin twice":            {th, streamCaptured, "aclmdlRICaptureBegin", []uint64{s, 0}},
		"end elsewhere":          {other, captureWrongThread, "aclmdlRICaptureEnd", []uint64{s, address(word)}},
		"synchronize":            {th, streamCaptured, "aclrtSynchronizeStream", []uint64{s}},
		"query":                  {th, streamCaptured, "aclrtStreamQuery", []uint64{s, address(status)}},
		"synchronize device":     {th, streamCaptured, "aclrtSynchronizeDevice", nil},
		"destroy":                {th, streamCaptured, "aclrtDestroyStream", []uint64{s}},
		"event query":            {th, eventCaptured, "aclrtQueryEventStatus", []uint64{ev, address(status)}},
		"event synchronize":      {th, eventCaptured, "aclrtSynchronizeEvent", []uint64{ev}},
		"event of another kind":  {th, featureNotSupported, "aclrtRecordEvent", []uint64{plain, s}},
		"event from outside":     {th, captureDependency, "aclrtStreamWaitEvent", []uint64{s, before}},
		"default stream joins":   {th, captureImplicit, "aclrtStreamWaitEvent", []uint64{0, ev}},
		"copy":                   {th, captureForbids, "aclrtMemcpy", []uint64{dev, 8, host, 8, to}},
		"copy of another thread": {other, captureForbids, "aclrtMemcpy", []uint64{host, 8, dev, 8, from}},
		"memset":                 {th, captureForbids, "aclrtMemset", []uint64{dev, 8, 0, 8}},
		"pageable, captured":     {th, paramInvalid, "aclrtMemcpyAsync", []uint64{dev, 8, host, 8, to, s}},
		"pageable, elsewhere":    {th, captureBlocksAsync, "aclrtMemcpyAsync", []uint64{dev, 8, host, 8, to, outside}},
		"reset":                  {th, featureNotSupported, "aclrtResetEvent", []uint64{before, s}},
	} {
		assert.Equal(t, c.want, p.call(c.th, c.f, c.args...), "%s: %s", name, takeText(c.th))
	}

	mode := captureRelaxed
	p.must(other, "aclmdlRICaptureThreadExchangeMode", address(&mode))
	require.Equal(t, captureGlobal, mode)
	p.must(other, "aclrtMemcpy", host, 8, dev, 8, from)

	p.must(th, "aclmdlRICaptureGetInfo", s, address(status), address(word))
	require.Equal(t, int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE), *status)
	require.Equal(t, modelCaptured, p.call(th, "aclmdlRIExecuteAsync", *word, outside))
	p.must(th, "aclmdlRIDestroy", p.end(th, s))
	p.must(th, "aclmdlRICaptureGetInfo", s, address(status), address(word))
	require.Equal(t, int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_NONE), *status)
	require.Zero(t, *word)
	for _, e := range []uint64{ev, before, plain} {
		p.must(th, "aclrtDestroyEvent", e)
	}
	p.must(th, "aclrtFree", dev)
}

func TestCaptureThatGivesNoGraph(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	word := new(uint64)
	for name, c := range map[string]struct {
		want  int32
		spoil func(first, second, event uint64)
	}{
		"not rejoined": {streamUnjoined, func(first, second, event uint64) {
			p.repeat(th, second, "late", func() {})
		}},
		"a task after the rejoining event": {streamUnjoined, func(first, second, event uint64) {
			p.must(th, "aclrtRecordEvent", event, second)
			p.must(th, "aclrtStreamWaitEvent", first, event)
			p.repeat(th, second, "late", func() {})
		}},
		"aborted": {captureInvalidated, func(first, second, event uint64) {
			p.must(th, "aclrtStreamAbort", second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, event := p.stream(th), p.stream(th), p.event(th)
			p.begin(th, first, captureRelaxed)
			p.must(th, "aclrtRecordEvent", event, first)
			p.must(th, "aclrtStreamWaitEvent", second, event)
			require.Equal(t, captureUnmatched, p.call(th, "aclmdlRICaptureEnd", second, address(word)))
			c.spoil(first, second, event)
			require.Equal(t, c.want, p.call(th, "aclmdlRICaptureEnd", first, address(word)), takeText(th))
			require.Zero(t, *word)
			p.must(th, "aclrtSynchronizeStream", second) // the streams work on
			p.must(th, "aclrtDestroyEvent", event)
		})
	}
	require.Zero(t, p.r.Handles.Count(GraphKind))
}

func TestGraphTasksCanBeReplaced(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	var got []int
	put := func(stream uint64, name string, v int) { p.repeat(th, stream, name, func() { got = append(got, v) }) }
	p.begin(th, s, captureRelaxed)
	put(s, "x", 1)
	p.must(th, "aclmdlRICaptureTaskGrpBegin", s)
	require.Equal(t, int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), p.call(th, "aclmdlRICaptureTaskGrpBegin", s))
	put(s, "x", 2)
	put(s, "y", 3)
	group := p.out(th, "aclmdlRICaptureTaskGrpEnd", 1, s)
	put(s, "x", 4)
	graph := p.end(th, s)

	update := func(values map[string]int, names ...string) int32 {
		p.must(th, "aclmdlRICaptureTaskUpdateBegin", s, group)
		for _, name := range names {
			put(s, name, values[name])
		}
		return p.call(th, "aclmdlRICaptureTaskUpdateEnd", s)
	}
	require.Equal(t, modelUpdateFailed, update(map[string]int{"x": 9}, "x"))
	require.Equal(t, modelUpdateFailed, update(map[string]int{"x": 9, "y": 9}, "y", "x"))
	require.Zero(t, update(map[string]int{"x": 20, "y": 30}, "x", "y"))
	require.Equal(t, streamNotCaptured, p.call(th, "aclmdlRICaptureTaskUpdateEnd", s))
	p.must(th, "aclmdlRIExecuteAsync", graph, s)
	p.must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, []int{1, 20, 30, 4}, got)
	p.must(th, "aclmdlRIDestroy", graph)
	require.Equal(t, paramInvalid, p.call(th, "aclmdlRICaptureTaskUpdateBegin", s, group))
}

func TestGraphFailureAndEnd(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	gate := make(chan struct{})
	var ran bool
	p.begin(th, s, captureRelaxed)
	stream, code := p.r.Stream(th, s)
	require.Zero(t, code)
	require.Zero(t, p.r.Submit(th, stream, Task{Name: "fails", Repeatable: true, Run: func() error { <-gate; return errors.New("no") }}))
	p.repeat(th, s, "after", func() { ran = true })
	graph := p.end(th, s)
	p.must(th, "aclmdlRIExecuteAsync", graph, s)
	require.Equal(t, modelRunning, p.call(th, "aclmdlRIDestroy", graph))
	close(gate)
	require.Equal(t, vectorException, p.call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, takeText(th), "fails: no")
	require.False(t, ran)

	name := append([]byte("step"), 0)
	p.must(th, "aclmdlRISetName", graph, address(&name[0]))
	read := make([]byte, 5)
	require.Equal(t, paramInvalid, p.call(th, "aclmdlRIGetName", graph, 4, address(&read[0])))
	p.must(th, "aclmdlRIGetName", graph, 5, address(&read[0]))
	require.Equal(t, name, read)
	p.must(th, "aclmdlRIDestroy", graph)
}
