package graph

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// conditional captures a conditional task with n bodies on a capturing stream.
func (p *process) conditional(t *rt.Thread, stream, handle uint64, kind int64, n int) (bodies []uint64) {
	p.tb.Helper()
	bodies = make([]uint64, n)
	params := condParams{condition: handle, kind: int32(kind), size: uint32(n), graphs: rt.Out[rt.Handle](rttest.Address(&bodies[0]))}
	p.Must(t, "aclmdlRIAddCondTask", rttest.Address(&params), stream, 0)
	return bodies
}

// within captures what f does on a stream into a body.
func (p *process) within(t *rt.Thread, stream, body uint64, f func()) {
	p.tb.Helper()
	p.Must(t, "aclmdlRICaptureToModelRIBegin", stream, body, uint64(captureRelaxed))
	f()
	require.Equal(p.tb, body, p.end(t, stream))
}

// capturedGraph returns the graph into which a stream is being captured.
func (p *process) capturedGraph(t *rt.Thread, stream uint64) uint64 {
	p.tb.Helper()
	return p.Out(t, "aclmdlRICaptureGetInfo", 2, stream, rttest.Address(new(int32)))
}

// conditionOf creates a condition and returns its handle and the address of its value, for host
// code of the test.
func (p *process) conditionOf(t *rt.Thread, graph uint64, value uint32, flag int64) (handle uint64, number *uint64) {
	p.tb.Helper()
	handle = p.Out(t, "aclmdlRICondHandleCreate", 3, graph, uint64(value), uint64(flag))
	addr := p.Out(t, "aclmdlRICondHandleGetCondPtr", 1, handle)
	device, _ := p.Runtime.CurrentDevice(t)
	at, err := p.Runtime.Memory(device).Resolve(addr, 8)
	require.NoError(p.tb, err)
	return handle, (*uint64)(at)
}

func TestConditionalGraphs(t *testing.T) {
	for _, x := range []struct {
		name   string
		kind   int64
		bodies int
		value  uint64
		want   string
	}{
		{"if, true", abi.ACL_MODEL_RI_COND_TYPE_IF, 1, 1, "<0>"},
		{"if, any bit", abi.ACL_MODEL_RI_COND_TYPE_IF, 1, 1 << 63, "<0>"},
		{"if, false", abi.ACL_MODEL_RI_COND_TYPE_IF, 1, 0, "<>"},
		{"if, true, else", abi.ACL_MODEL_RI_COND_TYPE_IF, 2, 7, "<0>"},
		{"if, false, else", abi.ACL_MODEL_RI_COND_TYPE_IF, 2, 0, "<1>"},
		{"while, none", abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1, 0, "<>"},
		{"while, three", abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1, 3, "<000>"},
		{"switch, first", abi.ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 0, "<0>"},
		{"switch, last", abi.ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 2, "<2>"},
		{"switch, beyond", abi.ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 3, "<>"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newProcess(t)
			th := p.Thread(0)
			s, sub := p.Stream(th), p.Stream(th)
			text := ""
			note := func(stream uint64, word string, f func()) {
				p.repeat(th, stream, word, func() { text += word; f() })
			}
			p.begin(th, s, captureRelaxed)
			handle, number := p.conditionOf(th, p.capturedGraph(th, s), 0, 0)
			note(s, "<", func() {})
			for i, body := range p.conditional(th, s, handle, x.kind, x.bodies) {
				p.within(th, sub, body, func() {
					note(sub, string(rune('0'+i)), func() {
						if x.kind == abi.ACL_MODEL_RI_COND_TYPE_WHILE {
							*number--
						}
					})
				})
			}
			note(s, ">", func() {})
			g := p.end(th, s)
			for range 2 { // without the flag a run keeps the number that the last one left
				*number, text = x.value, ""
				p.Must(th, "aclmdlRIExecuteAsync", g, s)
				p.Must(th, "aclrtSynchronizeStream", s)
				require.Equal(t, x.want, text)
			}
			p.Must(th, "aclmdlRIDestroy", g)
			for _, k := range []rt.Kind{rt.GraphKind, rt.ConditionKind} {
				require.Zero(t, p.Runtime.Handles.Count(k))
			}
		})
	}
}

// TestNestedConditions checks that bodies nest and that a condition of a body is reset each time
// the body runs.
func TestNestedConditions(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	free := func() uint64 {
		free, total := new(uint64), new(uint64)
		p.Must(th, "aclrtGetMemInfo", uint64(abi.ACL_HBM_MEM), rttest.Address(free), rttest.Address(total))
		return *free
	}
	before := free()
	s, sub, deep := p.Stream(th), p.Stream(th), p.Stream(th)
	runs := 0
	p.begin(th, s, captureRelaxed)
	outer, rounds := p.conditionOf(th, p.capturedGraph(th, s), 3, abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
	loop := p.conditional(th, s, outer, abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1)[0]
	p.within(th, sub, loop, func() {
		inner, left := p.conditionOf(th, loop, 2, abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
		p.within(th, deep, p.conditional(th, sub, inner, abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1)[0], func() {
			p.repeat(th, deep, "count", func() { runs++; *left-- })
		})
		p.repeat(th, sub, "round", func() { *rounds-- })
	})
	g := p.end(th, s)
	for i := range 2 {
		p.Must(th, "aclmdlRIExecute", g, ^uint64(0))
		require.Equal(t, 6*(i+1), runs)
	}
	p.Must(th, "aclmdlRIDestroy", g)
	require.Equal(t, before, free())
	for _, k := range []rt.Kind{rt.GraphKind, rt.ConditionKind} {
		require.Zero(t, p.Runtime.Handles.Count(k))
	}
}

// TestConditionalFailures checks that the failure of a body ends the replay and that an abort ends
// a loop.
func TestConditionalFailures(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s, sub := p.Stream(th), p.Stream(th)
	broken, began, looping := false, make(chan struct{}), false
	p.begin(th, s, captureRelaxed)
	handle, _ := p.conditionOf(th, p.capturedGraph(th, s), 1, abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
	p.within(th, sub, p.conditional(th, s, handle, abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1)[0], func() {
		stream, code := p.Runtime.Stream(th, sub)
		require.Zero(t, code)
		require.Zero(t, p.Runtime.Submit(th, stream, rt.Task{Name: "fail", Repeatable: true, Run: func() error {
			switch {
			case broken:
				return errors.New("the body is broken")
			case !looping:
				looping = true
				close(began)
			}
			return nil
		}}))
	})
	g := p.end(th, s)
	p.Must(th, "aclmdlRIExecuteAsync", g, s)
	<-began
	p.Must(th, "aclrtStreamAbort", s)
	p.Must(th, "aclrtDestroyStream", s) // waits until the loop has seen the abort
	broken = true
	s = p.Stream(th)
	p.Must(th, "aclmdlRIExecuteAsync", g, s)
	require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, rttest.Text(th), "the body is broken")
	p.Must(th, "aclmdlRIDestroy", g)
}

func TestConditionFaults(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s, sub, other := p.Stream(th), p.Stream(th), p.Stream(th)
	p.begin(th, other, captureRelaxed)
	foreign, _ := p.conditionOf(th, p.capturedGraph(th, other), 0, 0)
	p.begin(th, s, captureRelaxed)
	graph := p.capturedGraph(th, s)
	handle, _ := p.conditionOf(th, graph, 0, 0)
	built := p.Out(th, "aclmdlRIBuildBegin", 0, 0)
	word, graphs := rttest.Address(new(uint64)), rttest.Address(new([4]uint64))
	params := func(handle uint64, kind int64, size uint32, graphs uint64) uint64 {
		return rttest.Address(&condParams{handle, int32(kind), size, rt.Out[rt.Handle](graphs)})
	}
	good := p.conditional(th, s, handle, abi.ACL_MODEL_RI_COND_TYPE_IF, 1)[0]
	relaxed := uint64(captureRelaxed)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"aclmdlRICondHandleCreate", rt.InvalidParam, []uint64{0, 0, 1, word}, "null"},
		{"aclmdlRICondHandleCreate", rt.InvalidParam, []uint64{graph, 0, 1, 0}, "null"},
		{"aclmdlRICondHandleCreate", rt.ParamInvalid, []uint64{77, 0, 1, word}, "no live graph"},
		{"aclmdlRICondHandleCreate", rt.ParamInvalid, []uint64{graph, 0, 2, word}, "flag 2"},
		{"aclmdlRICondHandleCreate", rt.FeatureNotSupported, []uint64{built, 0, 1, word}, "built of streams"},
		{"aclmdlRICondHandleGetCondPtr", rt.InvalidParam, []uint64{handle, 0}, "ptr is null"},
		{"aclmdlRICondHandleGetCondPtr", rt.ParamInvalid, []uint64{graph, word}, "no live condition"},
		{"aclmdlRIAddCondTask", rt.StreamNotCaptured, []uint64{params(handle, 0, 1, graphs), sub, 0}, "not capturing"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(0, 0, 1, graphs), s, 0}, "no live condition"},
		{"aclmdlRIAddCondTask", rt.InvalidParam, []uint64{params(handle, 0, 1, 0), s, 0}, "modelRIArray is null"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(handle, 0, 1, graphs), s, 1}, "flags are 1"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(handle, 3, 1, graphs), s, 0}, "type 3"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(handle, 0, 3, graphs), s, 0}, "1 to 2 bodies"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(handle, 1, 2, graphs), s, 0}, "1 to 1 bodies"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(handle, 2, 0, graphs), s, 0}, "size is 0"},
		{"aclmdlRIAddCondTask", rt.ParamInvalid, []uint64{params(foreign, 0, 1, graphs), s, 0}, "another graph"},
		{"aclmdlRICaptureToModelRIBegin", rt.ModelCaptured, []uint64{sub, graph, relaxed}, "still being captured"},
		{"aclmdlRICaptureToModelRIBegin", rt.ParamInvalid, []uint64{sub, built, relaxed}, "no body"},
		{"aclmdlRICaptureToModelRIBegin", rt.ParamInvalid, []uint64{sub, good, 9}, "mode 9"},
		{"aclmdlRICaptureToModelRIBegin", rt.StreamCaptured, []uint64{s, good, relaxed}, "capturing already"},
		{"aclmdlRIExecuteAsync", rt.ParamInvalid, []uint64{good, sub}, "body of a conditional task"},
		{"aclmdlRIDestroy", rt.ParamInvalid, []uint64{good}, "body of a conditional task"},
	} {
		require.Equal(t, x.code, p.Call(th, x.name, x.args...), "%s: %s", x.name, x.text)
		require.Contains(t, rttest.Text(th), x.text, x.name)
	}

	// A body can be captured again after a failed capture, but not after a successful one.
	p.Must(th, "aclmdlRICaptureToModelRIBegin", sub, good, relaxed)
	fork := p.Event(th)
	p.Must(th, "aclrtRecordEvent", fork, sub)
	p.Must(th, "aclrtStreamWaitEvent", p.Stream(th), fork)
	require.Equal(t, rt.StreamUnjoined, p.Call(th, "aclmdlRICaptureEnd", sub, word))
	sync := p.Out(th, "aclrtCreateEventExWithFlag", 0, uint64(eventSync))
	p.within(th, sub, good, func() {
		require.Equal(t, rt.CaptureForbids, p.Call(th, "aclrtRecordEventWithFlag", sync, sub, uint64(abi.ACL_EVENT_RECORD_EXTERNAL)))
		p.repeat(th, sub, "task", func() {})
	})
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclmdlRICaptureToModelRIBegin", sub, good, relaxed))
	require.Contains(t, rttest.Text(th), "captured already")
	p.Must(th, "aclmdlRIDestroy", p.end(th, s))
	p.Must(th, "aclmdlRIDestroy", p.end(th, other))
	p.Must(th, "aclmdlRIBuildEnd", built, 0)
	p.Must(th, "aclmdlRIDestroy", built)
	for _, k := range []rt.Kind{rt.GraphKind, rt.ConditionKind} {
		require.Zero(t, p.Runtime.Handles.Count(k))
	}
	require.EqualValues(t, 24, unsafe.Sizeof(condParams{}))
}
