package graph

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// built is a graph under construction with streams bound to it.
type built struct {
	*process
	th      *rt.Thread
	graph   uint64
	streams []uint64

	mu  sync.Mutex
	ran []string
}

// newBuilt creates a graph and binds a head stream and n other streams to it.
func newBuilt(t *testing.T, n int) *built {
	p := newProcess(t)
	b := &built{process: p, th: p.Thread(0)}
	b.graph = p.Out(b.th, "aclmdlRIBuildBegin", 0, 0)
	for i := range n + 1 {
		s := p.Out(b.th, "aclrtCreateStreamWithConfig", 0, 0, uint64(abi.ACL_STREAM_PERSISTENT))
		flag := uint64(activatedStream)
		if i == 0 {
			flag = uint64(headStream)
		}
		p.Must(b.th, "aclmdlRIBindStream", b.graph, s, flag)
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
	s := b.Stream(b.th)
	b.Must(b.th, "aclmdlRIExecuteAsync", b.graph, s)
	b.Must(b.th, "aclrtSynchronizeStream", s)
	b.Must(b.th, "aclrtDestroyStream", s)
	return b.ran
}

// number returns the device address of a new number.
func (b *built) number(v uint32) uint64 {
	at := b.Out(b.th, "aclrtMalloc", 0, 4, 0)
	b.put(at, v)
	return at
}

func (b *built) put(at uint64, v uint32) {
	b.Must(b.th, "aclrtMemcpy", at, 4, rttest.Address(&v), 4, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE))
}

func TestLabels(t *testing.T) {
	b := newBuilt(t, 0)
	index := b.number(0)
	var labels [3]uint64
	for i := range labels {
		labels[i] = b.Out(b.th, "aclrtCreateLabel", 0)
	}
	list := b.Out(b.th, "aclrtCreateLabelList", 2, rttest.Address(&labels[0]), 3)
	s := b.streams[0]
	b.task(0, "start")
	b.Must(b.th, "aclrtSwitchLabelByIndex", index, 3, list, s)
	b.task(0, "never")
	for i, label := range labels {
		b.Must(b.th, "aclrtSetLabel", label, s)
		b.task(0, string(rune('a'+i)))
	}
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSetLabel", labels[0], s), "twice")
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclmdlRIExecuteAsync", b.graph, b.Stream(b.th)), "not complete")
	b.Must(b.th, "aclmdlRIEndTask", b.graph, s)
	b.Must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclmdlRIBuildEnd", b.graph, 0))
	late := b.Out(b.th, "aclrtCreateLabel", 0)
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSetLabel", late, s), "the graph is complete")
	b.Must(b.th, "aclrtDestroyLabel", late)
	for i, want := range [][]string{{"start", "a", "b", "c"}, {"start", "b", "c"}, {"start", "c"}, {"start", "c"}} {
		b.put(index, uint32(i))
		require.Equal(t, want, b.execute())
	}

	path := append([]byte(filepath.Join(t.TempDir(), "graph.json")), 0)
	b.Must(b.th, "aclmdlRIDebugJsonPrint", b.graph, rttest.Address(&path[0]), 0)
	text, err := os.ReadFile(string(path[:len(path)-1]))
	require.NoError(t, err)
	var document struct {
		Tasks []struct{ TaskType string }
	}
	require.NoError(t, json.Unmarshal(text, &document))
	require.Len(t, document.Tasks, 6)
	require.Equal(t, "aclrtSwitchLabelByIndex", document.Tasks[1].TaskType)
	path[0] = 0
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclmdlRIDebugJsonPrint", b.graph, rttest.Address(&path[0]), 0))

	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSwitchLabelByIndex", index, 2, list, s))
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSwitchLabelByIndex", index, 3, labels[0], s))
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSetLabel", labels[0], b.Stream(b.th)), "not bound")
	b.Must(b.th, "aclmdlRIUnbindStream", b.graph, s)
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclmdlRIUnbindStream", b.graph, s))
	b.Must(b.th, "aclmdlRIDestroy", b.graph)
	b.Must(b.th, "aclrtDestroyLabelList", list)
	for _, label := range labels {
		b.Must(b.th, "aclrtDestroyLabel", label)
		require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtDestroyLabel", label))
	}
	require.Zero(t, b.Runtime.Handles.Count(rt.LabelKind)+b.Runtime.Handles.Count(rt.LabelListKind)+b.Runtime.Handles.Count(rt.GraphKind))
}

// TestLabelsOfAnotherGraph checks that a jump to a label of another graph is refused.
func TestLabelsOfAnotherGraph(t *testing.T) {
	b := newBuilt(t, 0)
	index := b.number(0)
	label := b.Out(b.th, "aclrtCreateLabel", 0)
	list := b.Out(b.th, "aclrtCreateLabelList", 2, rttest.Address(&label), 1)
	elsewhere := b.Out(b.th, "aclmdlRIBuildBegin", 0, 0)
	s := b.Out(b.th, "aclrtCreateStreamWithConfig", 0, 0, uint64(abi.ACL_STREAM_PERSISTENT))
	b.Must(b.th, "aclmdlRIBindStream", elsewhere, s, uint64(headStream))
	b.Must(b.th, "aclrtSetLabel", label, s)
	b.repeat(b.th, s, "elsewhere", func() { t.Error("a task of another graph ran") })
	b.Must(b.th, "aclrtSwitchLabelByIndex", index, 1, list, b.streams[0])
	b.Must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	b.Must(b.th, "aclmdlRIBuildEnd", elsewhere, 0)
	run := b.Stream(b.th)
	b.Must(b.th, "aclmdlRIExecuteAsync", b.graph, run)
	require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSynchronizeStream", run))
	require.Contains(t, rttest.Text(b.th), "not set on a stream of this graph")
}

// TestSwitchStreams builds a head stream that switches to the second or the third stream; both
// activate the last one.
func TestSwitchStreams(t *testing.T) {
	b := newBuilt(t, 3)
	value, one, two := b.number(1), b.number(1), b.number(2)
	b.task(0, "head")
	b.Must(b.th, "aclrtSwitchStream", value, uint64(abi.ACL_RT_EQUAL), one, uint64(abi.ACL_RT_SWITCH_INT32), b.streams[1], 0, b.streams[0])
	b.Must(b.th, "aclrtSwitchStream", value, uint64(abi.ACL_RT_GREATER_OR_EQUAL), two, uint64(abi.ACL_RT_SWITCH_INT32), b.streams[2], 0, b.streams[0])
	b.task(0, "neither")
	for i, name := range []string{"first", "second"} {
		b.task(i+1, name)
		b.Must(b.th, "aclrtActiveStream", b.streams[3], b.streams[i+1])
	}
	b.task(3, "end")
	b.Must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	for v, want := range [][]string{{"head", "neither"}, {"head", "first", "end"}, {"head", "second", "end"}, {"head", "second", "end"}} {
		b.put(value, uint32(v))
		require.Equal(t, want, b.execute())
	}
	for name, args := range map[string][]uint64{
		"condition": {value, 9, one, 0, b.streams[1], 0, b.streams[0]}, "type": {value, 0, one, 2, b.streams[1], 0, b.streams[0]},
		"falseStream": {value, 0, one, 0, b.streams[1], b.streams[2], b.streams[0]}, "bound": {value, 0, one, 0, b.Stream(b.th), 0, b.streams[0]},
		"complete": {value, 0, one, 0, b.streams[1], 0, b.streams[0]},
	} {
		require.Equal(t, rt.ParamInvalid, b.Call(b.th, "aclrtSwitchStream", args...), name)
		require.Contains(t, rttest.Text(b.th), name)
	}
	b.Must(b.th, "aclmdlRIDestroy", b.graph)
}

// TestBuiltGraphRunsStreamsTogether checks that streams of a graph run concurrently and synchronise
// by events, and that the first failure ends the run.
func TestBuiltGraphRunsStreamsTogether(t *testing.T) {
	b := newBuilt(t, 1)
	event := b.Out(b.th, "aclrtCreateEventWithFlag", 0, uint64(eventSync))
	b.Must(b.th, "aclrtActiveStream", b.streams[1], b.streams[0])
	b.Must(b.th, "aclrtStreamWaitEvent", b.streams[0], event)
	b.Must(b.th, "aclrtResetEvent", event, b.streams[0])
	b.task(0, "after")
	b.task(1, "before")
	b.Must(b.th, "aclrtRecordEvent", event, b.streams[1])
	b.Must(b.th, "aclmdlRIBuildEnd", b.graph, 0)
	for range 3 {
		require.Equal(t, []string{"before", "after"}, b.execute())
	}
	b.Must(b.th, "aclmdlRIDestroy", b.graph)
	b.Must(b.th, "aclrtDestroyEvent", event)
	// A destroyed graph has released its streams.
	b.ran = nil
	b.task(0, "free")
	done := b.Event(b.th) // a synchronise does not wait for persistent streams
	b.Must(b.th, "aclrtRecordEvent", done, b.streams[0])
	b.Must(b.th, "aclrtSynchronizeEvent", done)
	require.Equal(t, []string{"free"}, b.ran)

	c := newBuilt(t, 1)
	never := c.Out(c.th, "aclrtCreateEventWithFlag", 0, uint64(eventExternal))
	c.Must(c.th, "aclrtActiveStream", c.streams[1], c.streams[0])
	c.Must(c.th, "aclrtStreamWaitEvent", c.streams[0], never)
	s, code := c.Runtime.Stream(c.th, c.streams[1])
	require.Zero(t, code)
	require.Zero(t, c.Runtime.Submit(c.th, s, rt.Task{Name: "fails", Repeatable: true, Run: func() error { return errors.New("no") }}))
	require.Equal(t, rt.FeatureNotSupported, int32(c.Runtime.Submit(c.th, s, rt.Task{Name: "once"})))
	c.Must(c.th, "aclmdlRIBuildEnd", c.graph, 0)
	out := c.Stream(c.th)
	c.Must(c.th, "aclmdlRIExecuteAsync", c.graph, out)
	require.Equal(t, rt.VectorException, c.Call(c.th, "aclrtSynchronizeStream", out))
	require.Contains(t, rttest.Text(c.th), "fails: no")
}

func TestBuildRefusals(t *testing.T) {
	b := newBuilt(t, 0)
	plain := b.Stream(b.th)
	other := b.Out(b.th, "aclmdlRIBuildBegin", 0, 0)
	word := uint64(5)
	for name, c := range map[string]struct {
		code     int32
		function string
		args     []uint64
	}{
		"flag":               {rt.ParamInvalid, "aclmdlRIBuildBegin", []uint64{rttest.Address(&word), 1}},
		"null":               {int32(abi.ACL_ERROR_INVALID_PARAM), "aclmdlRIBuildBegin", []uint64{0, 0}},
		"not persistent":     {rt.FeatureNotSupported, "aclmdlRIBindStream", []uint64{other, plain, 0}},
		"bound already":      {rt.StreamCaptured, "aclmdlRIBindStream", []uint64{other, b.streams[0], 0}},
		"unknown flag":       {rt.ParamInvalid, "aclmdlRIBindStream", []uint64{other, b.streams[0], 3}},
		"end of another":     {rt.ParamInvalid, "aclmdlRIEndTask", []uint64{other, b.streams[0]}},
		"activation, plain":  {rt.ParamInvalid, "aclrtActiveStream", []uint64{plain, b.streams[0]}},
		"label, null":        {int32(abi.ACL_ERROR_INVALID_PARAM), "aclrtCreateLabel", []uint64{0}},
		"list of no label":   {rt.ParamInvalid, "aclrtCreateLabelList", []uint64{rttest.Address(&word), 0, rttest.Address(&word)}},
		"list of dead label": {rt.ParamInvalid, "aclrtCreateLabelList", []uint64{rttest.Address(&word), 1, rttest.Address(&word)}},
		"dead list":          {rt.ParamInvalid, "aclrtDestroyLabelList", []uint64{5}},
	} {
		require.Equal(t, c.code, b.Call(b.th, c.function, c.args...), name)
		require.NotEmpty(t, rttest.Text(b.th), name)
	}
	b.Must(b.th, "aclmdlRIDestroy", b.graph)
	b.Must(b.th, "aclmdlRIDestroy", other)
}

// TestExternalFlag checks that a replay synchronises with a stream and with another replay through
// the external flag.
func TestExternalFlag(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	outside, second := p.Stream(th), p.Stream(th)
	s := p.Stream(th)
	event := p.Out(th, "aclrtCreateEventExWithFlag", 0, uint64(eventSync))
	timed := p.Event(th)
	var mu sync.Mutex
	var ran []string
	task := func(stream uint64, name string) {
		p.repeat(th, stream, name, func() {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, name)
		})
	}
	require.Equal(t, rt.StreamNotCaptured, p.Call(th, "aclrtRecordEventWithFlag", event, s, 1))
	require.Equal(t, rt.StreamNotCaptured, p.Call(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 1))
	p.begin(th, s, captureRelaxed)
	task(s, "recording")
	require.Equal(t, rt.FeatureNotSupported, p.Call(th, "aclrtRecordEventWithFlag", timed, s, 1))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtRecordEventWithFlag", event, s, 2))
	p.Must(th, "aclrtRecordEventWithFlag", event, s, 1)
	recording := p.end(th, s)
	p.begin(th, s, captureRelaxed)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtStreamWaitEventWithFlag", s, event, 1, 1))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 2))
	p.Must(th, "aclrtStreamWaitEventWithFlag", s, event, 0, 1)
	task(s, "waiting")
	waiting := p.end(th, s)

	for range 3 {
		ran = nil
		gate := make(chan struct{})
		p.Submit(th, s, func() error { <-gate; return nil })
		p.Must(th, "aclmdlRIExecuteAsync", recording, s) // not started yet, but its record is promised
		p.Must(th, "aclrtStreamWaitEventWithFlag", outside, event, 0, 0)
		task(outside, "outside")
		p.Must(th, "aclmdlRIExecuteAsync", waiting, second)
		close(gate)
		for _, x := range []uint64{s, outside, second} {
			p.Must(th, "aclrtSynchronizeStream", x)
		}
		require.Len(t, ran, 3)
		require.Equal(t, "recording", ran[0])
	}
	// A dropped replay still makes its promised records.
	gate := make(chan struct{})
	p.Submit(th, s, func() error { <-gate; return nil })
	p.Must(th, "aclmdlRIExecuteAsync", recording, s)
	p.Must(th, "aclrtStreamWaitEventWithFlag", outside, event, 0, 0)
	done := make(chan int32)
	go func() {
		other := p.Thread(0)
		done <- p.Call(other, "aclrtStreamAbort", s)
	}()
	close(gate)
	require.Zero(t, <-done)
	p.Must(th, "aclrtSynchronizeStream", outside)
	p.Must(th, "aclmdlRIDestroy", recording)
	p.Must(th, "aclmdlRIDestroy", waiting)
}

// TestReplayWaitsForEachRecord checks that a replay can reset an external event, so that the next
// replay waits again.
func TestReplayWaitsForEachRecord(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s, update := p.Stream(th), p.Stream(th)
	event := p.Out(th, "aclrtCreateEventWithFlag", 0, uint64(eventExternal))
	var ran int
	p.begin(th, s, captureRelaxed)
	p.Must(th, "aclrtStreamWaitEvent", s, event)
	p.Must(th, "aclrtResetEvent", event, s)
	p.repeat(th, s, "task", func() { ran++ })
	graph := p.end(th, s)
	for i := range 3 {
		p.Must(th, "aclmdlRIExecuteAsync", graph, s)
		require.Equal(t, rt.ModelRunning, p.Call(th, "aclmdlRIDestroy", graph), "it waits")
		p.Must(th, "aclrtRecordEvent", event, update)
		p.Must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, i+1, ran)
	}
	p.Must(th, "aclmdlRIDestroy", graph)
	p.Must(th, "aclrtDestroyEvent", event)
}
