package rt

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// built is a graph under construction with streams bound to it.
type built struct {
	*process
	th      *Thread
	graph   uint64
	streams []uint64

	mu  sync.Mutex
	ran []string
}

// newBuilt binds a head stream and n others.
func newBuilt(t *testing.T, n int) *built {
	p := newProcess(t)
	b := &built{process: p, th: p.thread(0)}
	b.graph = p.out(b.th, "aclmdlRIBuildBegin", 0, 0)
	for i := range n + 1 {
		s := p.out(b.th, "aclrtCreateStreamWithConfig", 0, 0, uint64(abi.ACL_STREAM_PERSISTENT))
		flag := uint64(activatedStream)
		if i == 0 {
			flag = uint64(headStream)
		}
		p.must(b.th, "aclmdlRIBindStream", b.graph, s, flag)
		b.streams = append(b.streams, s)
	}
	return b
}

func (b *built) task(stream int, name string) {
	b.repeat(b.th, b.streams[stream], name, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ran = append(b.ran, name)
	})
}

// execute runs the graph and returns the tasks in the order in which they ran.
func (b *built) execute() []string {
	b.ran = nil
	s := b.stream(b.th)
	b.must(b.th, "aclmdlRIExecuteAsync", b.graph, s)
	b.must(b.th, "aclrtSynchronizeStream", s)
	b.must(b.th, "aclrtDestroyStream", s)
	return b.ran
}

// number is one on the device.
func (b *built) number(v uint32) uint64 {
	at := b.out(b.th, "aclrtMalloc", 0, 4, 0)
	b.put(at, v)
	return at
}

func (b *built) put(at uint64, v uint32) {
	b.must(b.th, "aclrtMemcpy", at, 4, address(&v), 4, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE))
}

func TestLabels(t *testing.T) {
	b := newBuilt(t, 0)
	index := b.number(0)
	var labels [3]uint64
	for i := range labels {
		labels[i] = b.out(b.th, "aclrtCreateLabel", 0)
	}
	list := b.out(b.th, "aclrtCreateLabelList", 2, address(&labels[0]), 3)
	s := b.streams[0]
	b.task(0, "start")
	b.must(b.th, "aclrtSwitchLabelByIndex", index, 3, list, s)
	b.task(0, "never")
	for i, label := range labels {
		b.must(b.th, "aclrtSetLabel", label, s)
		b.task(0, string(rune('a'+i)))
	}
	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSetLabel", labels[0], s), "twice")
	require.Equal(t, paramInvalid, b.call(b.th, "aclmdlRIExecuteAsync", b.graph, b.stream(b.th)), "not complete")
	b.must(b.th, "aclmdlRIEndTask", b.graph, s)
	b.must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	require.Equal(t, paramInvalid, b.call(b.th, "aclmdlRIBuildEnd", b.graph, 0))
	late := b.out(b.th, "aclrtCreateLabel", 0)
	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSetLabel", late, s), "the graph is complete")
	b.must(b.th, "aclrtDestroyLabel", late)
	for i, want := range [][]string{{"start", "a", "b", "c"}, {"start", "b", "c"}, {"start", "c"}, {"start", "c"}} {
		b.put(index, uint32(i))
		require.Equal(t, want, b.execute())
	}

	path := append([]byte(filepath.Join(t.TempDir(), "graph.json")), 0)
	b.must(b.th, "aclmdlRIDebugJsonPrint", b.graph, address(&path[0]), 0)
	text, err := os.ReadFile(string(path[:len(path)-1]))
	require.NoError(t, err)
	var document struct {
		Tasks []struct{ TaskType string }
	}
	require.NoError(t, json.Unmarshal(text, &document))
	require.Len(t, document.Tasks, 6)
	require.Equal(t, "aclrtSwitchLabelByIndex", document.Tasks[1].TaskType)
	path[0] = 0
	require.Equal(t, paramInvalid, b.call(b.th, "aclmdlRIDebugJsonPrint", b.graph, address(&path[0]), 0))

	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSwitchLabelByIndex", index, 2, list, s))
	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSwitchLabelByIndex", index, 3, labels[0], s))
	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSetLabel", labels[0], b.stream(b.th)), "not bound")
	b.must(b.th, "aclmdlRIUnbindStream", b.graph, s)
	require.Equal(t, paramInvalid, b.call(b.th, "aclmdlRIUnbindStream", b.graph, s))
	b.must(b.th, "aclmdlRIDestroy", b.graph)
	b.must(b.th, "aclrtDestroyLabelList", list)
	for _, label := range labels {
		b.must(b.th, "aclrtDestroyLabel", label)
		require.Equal(t, paramInvalid, b.call(b.th, "aclrtDestroyLabel", label))
	}
	require.Zero(t, b.r.Handles.Count(LabelKind)+b.r.Handles.Count(LabelListKind)+b.r.Handles.Count(GraphKind))
}

// A label of another graph is no place to go on.
func TestLabelsOfAnotherGraph(t *testing.T) {
	b := newBuilt(t, 0)
	index := b.number(0)
	label := b.out(b.th, "aclrtCreateLabel", 0)
	list := b.out(b.th, "aclrtCreateLabelList", 2, address(&label), 1)
	elsewhere := b.out(b.th, "aclmdlRIBuildBegin", 0, 0)
	s := b.out(b.th, "aclrtCreateStreamWithConfig", 0, 0, uint64(abi.ACL_STREAM_PERSISTENT))
	b.must(b.th, "aclmdlRIBindStream", elsewhere, s, uint64(headStream))
	b.must(b.th, "aclrtSetLabel", label, s)
	b.repeat(b.th, s, "elsewhere", func() { t.Error("a task of another graph ran") })
	b.must(b.th, "aclrtSwitchLabelByIndex", index, 1, list, b.streams[0])
	b.must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	b.must(b.th, "aclmdlRIBuildEnd", elsewhere, 0)
	run := b.stream(b.th)
	b.must(b.th, "aclmdlRIExecuteAsync", b.graph, run)
	require.Equal(t, paramInvalid, b.call(b.th, "aclrtSynchronizeStream", run))
	require.Contains(t, takeText(b.th), "not set on a stream of this graph")
}

// The head stream goes on on the second or the third; both activate the last.
func TestSwitchStreams(t *testing.T) {
	b := newBuilt(t, 3)
	value, one, two := b.number(1), b.number(1), b.number(2)
	b.task(0, "head")
	b.must(b.th, "aclrtSwitchStream", value, uint64(abi.ACL_RT_EQUAL), one, uint64(abi.ACL_RT_SWITCH_INT32), b.streams[1], 0, b.streams[0])
	b.must(b.th, "aclrtSwitchStream", value, uint64(abi.ACL_RT_GREATER_OR_EQUAL), two, uint64(abi.ACL_RT_SWITCH_INT32), b.streams[2], 0, b.streams[0])
	b.task(0, "neither")
	for i, name := range []string{"first", "second"} {
		b.task(i+1, name)
		b.must(b.th, "aclrtActiveStream", b.streams[3], b.streams[i+1])
	}
	b.task(3, "end")
	b.must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	for v, want := range [][]string{{"head", "neither"}, {"head", "first", "end"}, {"head", "second", "end"}, {"head", "second", "end"}} {
		b.put(value, uint32(v))
		require.Equal(t, want, b.execute())
	}
	for name, args := range map[string][]uint64{
		"condition": {value, 9, one, 0, b.streams[1], 0, b.streams[0]}, "type": {value, 0, one, 2, b.streams[1], 0, b.streams[0]},
		"falseStream": {value, 0, one, 0, b.streams[1], b.streams[2], b.streams[0]}, "bound": {value, 0, one, 0, b.stream(b.th), 0, b.streams[0]},
		"complete": {value, 0, one, 0, b.streams[1], 0, b.streams[0]},
	} {
		require.Equal(t, paramInvalid, b.call(b.th, "aclrtSwitchStream", args...), name)
		require.Contains(t, takeText(b.th), name)
	}
	b.must(b.th, "aclmdlRIDestroy", b.graph)
}

// Streams of a graph run side by side and meet by events; the first failure ends the run.
func TestBuiltGraphRunsStreamsTogether(t *testing.T) {
	b := newBuilt(t, 1)
	event := b.out(b.th, "aclrtCreateEventWithFlag", 0, uint64(eventSync))
	b.must(b.th, "aclrtActiveStream", b.streams[1], b.streams[0])
	b.must(b.th, "aclrtStreamWaitEvent", b.streams[0], event)
	b.must(b.th, "aclrtResetEvent", event, b.streams[0])
	b.task(0, "after")
	b.task(1, "before")
	b.must(b.th, "aclrtRecordEvent", event, b.streams[1])
	b.must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	for range 3 {
		require.Equal(t, []string{"before", "after"}, b.execute())
	}
	b.must(b.th, "aclmdlRIDestroy", b.graph)
	b.must(b.th, "aclrtDestroyEvent", event)
	// Destroyed, the graph has let go of its streams.
	b.ran = nil
	b.task(0, "free")
	done := b.event(b.th) // a synchronise does not wait for persistent streams
	b.must(b.th, "aclrtRecordEvent", done, b.streams[0])
	b.must(b.th, "aclrtSynchronizeEvent", done)
	require.Equal(t, []string{"free"}, b.ran)

	c := newBuilt(t, 1)
	never := c.out(c.th, "aclrtCreateEventWithFlag", 0, uint64(eventExternal))
	c.must(c.th, "aclrtActiveStream", c.streams[1], c.streams[0])
	c.must(c.th, "aclrtStreamWaitEvent", c.streams[0], never)
	s, code := c.r.Stream(c.th, c.streams[1])
	require.Zero(t, code)
	require.Zero(t, c.r.Submit(c.th, s, Task{Name: "fails", Repeatable: true, Run: func() error { return errors.New("no") }}))
	require.Equal(t, featureNotSupported, int32(c.r.Submit(c.th, s, Task{Name: "once"})))
	c.must(c.th, "aclmdlRIBuildEnd", c.graph, 0)
	out := c.stream(c.th)
	c.must(c.th, "aclmdlRIExecuteAsync", c.graph, out)
	require.Equal(t, vectorException, c.call(c.th, "aclrtSynchronizeStream", out))
	require.Contains(t, takeText(c.th), "fails: no")
}

func TestBuildRefusals(t *testing.T) {
	b := newBuilt(t, 0)
	plain := b.stream(b.th)
	other := b.out(b.th, "aclmdlRIBuildBegin", 0, 0)
	word := uint64(5)
	for name, c := range map[string]struct {
		code     int32
		function string
		args     []uint64
	}{
		"flag":               {paramInvalid, "aclmdlRIBuildBegin", []uint64{address(&word), 1}},
		"null":               {int32(abi.ACL_ERROR_INVALID_PARAM), "aclmdlRIBuildBegin", []uint64{0, 0}},
		"not persistent":     {featureNotSupported, "aclmdlRIBindStream", []uint64{other, plain, 0}},
		"bound already":      {streamCaptured, "aclmdlRIBindStream", []uint64{other, b.streams[0], 0}},
		"unknown flag":       {paramInvalid, "aclmdlRIBindStream", []uint64{other, b.streams[0], 3}},
		"end of another":     {paramInvalid, "aclmdlRIEndTask", []uint64{other, b.streams[0]}},
		"activation, plain":  {paramInvalid, "aclrtActiveStream", []uint64{plain, b.streams[0]}},
		"label, null":        {int32(abi.ACL_ERROR_INVALID_PARAM), "aclrtCreateLabel", []uint64{0}},
		"list of no label":   {paramInvalid, "aclrtCreateLabelList", []uint64{address(&word), 0, address(&word)}},
		"list of dead label": {paramInvalid, "aclrtCreateLabelList", []uint64{address(&word), 1, address(&word)}},
		"dead list":          {paramInvalid, "aclrtDestroyLabelList", []uint64{5}},
	} {
		require.Equal(t, c.code, b.call(b.th, c.function, c.args...), name)
		require.NotEmpty(t, takeText(b.th), name)
	}
	b.must(b.th, "aclmdlRIDestroy", b.graph)
	b.must(b.th, "aclmdlRIDestroy", other)
}

// By the external flag a replay meets a stream, and another replay.
func TestExternalFlag(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	outside, second := p.stream(th), p.stream(th)
	s := p.stream(th)
	event := p.out(th, "aclrtCreateEventExWithFlag", 0, uint64(eventSync))
	timed := p.event(th)
	var mu sync.Mutex
	var ran []string
	task := func(stream uint64, name string) {
		p.repeat(th, stream, name, func() {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, name)
		})
	}
	require.Equal(t, streamNotCaptured, p.call(th, "aclrtRecordEventWithFlag", event, s, 1))
	require.Equal(t, streamNotCaptured, p.call(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 1))
	p.begin(th, s, captureRelaxed)
	task(s, "recording")
	require.Equal(t, featureNotSupported, p.call(th, "aclrtRecordEventWithFlag", timed, s, 1))
	require.Equal(t, paramInvalid, p.call(th, "aclrtRecordEventWithFlag", event, s, 2))
	p.must(th, "aclrtRecordEventWithFlag", event, s, 1)
	recording := p.end(th, s)
	p.begin(th, s, captureRelaxed)
	require.Equal(t, paramInvalid, p.call(th, "aclrtStreamWaitEventWithFlag", s, event, 1, 1))
	require.Equal(t, paramInvalid, p.call(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 2))
	p.must(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 1)
	task(s, "waiting")
	waiting := p.end(th, s)

	for range 3 {
		ran = nil
		gate := make(chan struct{})
		p.submit(th, s, func() error { <-gate; return nil })
		p.must(th, "aclmdlRIExecuteAsync", recording, s) // cannot start yet, but its record is promised
		p.must(th, "aclrtStreamWaitEventWithFlag", outside, event, 0, 0)
		task(outside, "outside")
		p.must(th, "aclmdlRIExecuteAsync", waiting, second)
		close(gate)
		for _, x := range []uint64{s, outside, second} {
			p.must(th, "aclrtSynchronizeStream", x)
		}
		require.Len(t, ran, 3)
		require.Equal(t, "recording", ran[0])
	}
	// A replay that is dropped keeps its promise.
	gate := make(chan struct{})
	p.submit(th, s, func() error { <-gate; return nil })
	p.must(th, "aclmdlRIExecuteAsync", recording, s)
	p.must(th, "aclrtStreamWaitEventWithFlag", outside, event, 0, 0)
	done := make(chan int32)
	go func() {
		other := p.thread(0)
		done <- p.call(other, "aclrtStreamAbort", s)
	}()
	close(gate)
	require.Zero(t, <-done)
	p.must(th, "aclrtSynchronizeStream", outside)
	p.must(th, "aclmdlRIDestroy", recording)
	p.must(th, "aclmdlRIDestroy", waiting)
}

// An external event can be reset by a replay, so that the next one waits again.
func TestReplayWaitsForEachRecord(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s, update := p.stream(th), p.stream(th)
	event := p.out(th, "aclrtCreateEventWithFlag", 0, uint64(eventExternal))
	var ran int
	p.begin(th, s, captureRelaxed)
	p.must(th, "aclrtStreamWaitEvent", s, event)
	p.must(th, "aclrtResetEvent", event, s)
	p.repeat(th, s, "task", func() { ran++ })
	graph := p.end(th, s)
	for i := range 3 {
		p.must(th, "aclmdlRIExecuteAsync", graph, s)
		require.Equal(t, modelRunning, p.call(th, "aclmdlRIDestroy", graph), "it waits")
		p.must(th, "aclrtRecordEvent", event, update)
		p.must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, i+1, ran)
	}
	p.must(th, "aclmdlRIDestroy", graph)
	p.must(th, "aclrtDestroyEvent", event)
}
