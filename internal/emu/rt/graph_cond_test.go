package rt

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// conditional captures a task with n bodies on a stream that is being captured.
func (p *process) conditional(t *Thread, stream, handle uint64, kind int64, n int) (bodies []uint64) {
	p.tb.Helper()
	bodies = make([]uint64, n)
	params := condParams{condition: handle, kind: int32(kind), size: uint32(n), graphs: address(&bodies[0])}
	p.must(t, "aclmdlRIAddCondTask", address(&params), stream, 0)
	return bodies
}

// within captures into a body.
func (p *process) within(t *Thread, stream, body uint64, f func()) {
	p.tb.Helper()
	p.must(t, "aclmdlRICaptureToModelRIBegin", stream, body, uint64(captureRelaxed))
	f()
	require.Equal(p.tb, body, p.end(t, stream))
}

// capturedGraph is the graph that a stream is being captured into.
func (p *process) capturedGraph(t *Thread, stream uint64) uint64 {
	p.tb.Helper()
	return p.out(t, "aclmdlRICaptureGetInfo", 2, stream, address(new(int32)))
}

// conditionOf makes a condition and tells where its number lies, for host code of the test.
func (p *process) conditionOf(t *Thread, graph uint64, value uint32, flag int64) (handle uint64, number *uint64) {
	p.tb.Helper()
	handle = p.out(t, "aclmdlRICondHandleCreate", 3, graph, uint64(value), uint64(flag))
	addr := p.out(t, "aclmdlRICondHandleGetCondPtr", 1, handle)
	at, err := p.r.memoryOf(addr).Resolve(addr, 8)
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
			th := p.thread(0)
			s, sub := p.stream(th), p.stream(th)
			text := ""
			say := func(stream uint64, word string, f func()) {
				p.repeat(th, stream, word, func() { text += word; f() })
			}
			p.begin(th, s, captureRelaxed)
			handle, number := p.conditionOf(th, p.capturedGraph(th, s), 0, 0)
			say(s, "<", func() {})
			for i, body := range p.conditional(th, s, handle, x.kind, x.bodies) {
				p.within(th, sub, body, func() {
					say(sub, string(rune('0'+i)), func() {
						if x.kind == abi.ACL_MODEL_RI_COND_TYPE_WHILE {
							*number--
						}
					})
				})
			}
			say(s, ">", func() {})
			g := p.end(th, s)
			for range 2 { // without the flag the number stays what it is, so a loop has run out
				*number, text = x.value, ""
				p.must(th, "aclmdlRIExecuteAsync", g, s)
				p.must(th, "aclrtSynchronizeStream", s)
				require.Equal(t, x.want, text)
			}
			p.must(th, "aclmdlRIDestroy", g)
			for _, k := range []Kind{GraphKind, ConditionKind} {
				require.Zero(t, p.r.Handles.Count(k))
			}
		})
	}
}

// A condition of a body begins anew each time the body runs, and bodies nest.
func TestNestedConditions(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	free := func() uint64 {
		free, total := new(uint64), new(uint64)
		p.must(th, "aclrtGetMemInfo", uint64(abi.ACL_HBM_MEM), address(free), address(total))
		return *free
	}
	before := free()
	s, sub, deep := p.stream(th), p.stream(th), p.stream(th)
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
		p.must(th, "aclmdlRIExecute", g, ^uint64(0))
		require.Equal(t, 6*(i+1), runs)
	}
	p.must(th, "aclmdlRIDestroy", g)
	require.Equal(t, before, free())
	for _, k := range []Kind{GraphKind, ConditionKind} {
		require.Zero(t, p.r.Handles.Count(k))
	}
}

// A body's failure ends the replay, and an abort ends a loop.
func TestConditionalFailures(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s, sub := p.stream(th), p.stream(th)
	broken, began, looping := false, make(chan struct{}), false
	p.begin(th, s, captureRelaxed)
	handle, _ := p.conditionOf(th, p.capturedGraph(th, s), 1, abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
	p.within(th, sub, p.conditional(th, s, handle, abi.ACL_MODEL_RI_COND_TYPE_WHILE, 1)[0], func() {
		stream, code := p.r.Stream(th, sub)
		require.Zero(t, code)
		require.Zero(t, p.r.Submit(th, stream, Task{Name: "fail", Repeatable: true, Run: func() error {
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
	p.must(th, "aclmdlRIExecuteAsync", g, s)
	<-began
	p.must(th, "aclrtStreamAbort", s)
	p.must(th, "aclrtDestroyStream", s) // waits until the loop has seen the abort
	broken = true
	s = p.stream(th)
	p.must(th, "aclmdlRIExecuteAsync", g, s)
	require.Equal(t, vectorException, p.call(th, "aclrtSynchronizeStream", s))
	require.Contains(t, takeText(th), "the body is broken")
	p.must(th, "aclmdlRIDestroy", g)
}

func TestConditionFaults(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s, sub, other := p.stream(th), p.stream(th), p.stream(th)
	p.begin(th, other, captureRelaxed)
	foreign, _ := p.conditionOf(th, p.capturedGraph(th, other), 0, 0)
	p.begin(th, s, captureRelaxed)
	graph := p.capturedGraph(th, s)
	handle, _ := p.conditionOf(th, graph, 0, 0)
	built := p.out(th, "aclmdlRIBuildBegin", 0, 0)
	word, graphs := address(new(uint64)), address(new([4]uint64))
	params := func(handle uint64, kind int64, size uint32, graphs uint64) uint64 {
		return address(&condParams{handle, int32(kind), size, graphs})
	}
	good := p.conditional(th, s, handle, abi.ACL_MODEL_RI_COND_TYPE_IF, 1)[0]
	relaxed := uint64(captureRelaxed)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"aclmdlRICondHandleCreate", invalidParam, []uint64{0, 0, 1, word}, "null"},
		{"aclmdlRICondHandleCreate", invalidParam, []uint64{graph, 0, 1, 0}, "null"},
		{"aclmdlRICondHandleCreate", paramInvalid, []uint64{77, 0, 1, word}, "no live graph"},
		{"aclmdlRICondHandleCreate", paramInvalid, []uint64{graph, 0, 2, word}, "flag 2"},
		{"aclmdlRICondHandleCreate", featureNotSupported, []uint64{built, 0, 1, word}, "built of streams"},
		{"aclmdlRICondHandleGetCondPtr", invalidParam, []uint64{handle, 0}, "ptr is null"},
		{"aclmdlRICondHandleGetCondPtr", paramInvalid, []uint64{graph, word}, "no live condition"},
		{"aclmdlRIAddCondTask", streamNotCaptured, []uint64{params(handle, 0, 1, graphs), sub, 0}, "not capturing"},
		{"aclmdlRIAddCondTask", invalidParam, []uint64{params(0, 0, 1, graphs), s, 0}, "handle is null"},
		{"aclmdlRIAddCondTask", invalidParam, []uint64{params(handle, 0, 1, 0), s, 0}, "modelRIArray is null"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(handle, 0, 1, graphs), s, 1}, "flags are 1"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(handle, 3, 1, graphs), s, 0}, "type 3"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(handle, 0, 3, graphs), s, 0}, "1 to 2 bodies"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(handle, 1, 2, graphs), s, 0}, "1 to 1 bodies"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(handle, 2, 0, graphs), s, 0}, "size is 0"},
		{"aclmdlRIAddCondTask", paramInvalid, []uint64{params(foreign, 0, 1, graphs), s, 0}, "another graph"},
		{"aclmdlRICaptureToModelRIBegin", modelCaptured, []uint64{sub, graph, relaxed}, "still being captured"},
		{"aclmdlRICaptureToModelRIBegin", paramInvalid, []uint64{sub, built, relaxed}, "no body"},
		{"aclmdlRICaptureToModelRIBegin", paramInvalid, []uint64{sub, good, 9}, "mode 9"},
		{"aclmdlRICaptureToModelRIBegin", streamCaptured, []uint64{s, good, relaxed}, "capturing already"},
		{"aclmdlRIExecuteAsync", paramInvalid, []uint64{good, sub}, "body of a conditional task"},
		{"aclmdlRIDestroy", paramInvalid, []uint64{good}, "body of a conditional task"},
	} {
		require.Equal(t, x.code, p.call(th, x.name, x.args...), "%s: %s", x.name, x.text)
		require.Contains(t, takeText(th), x.text, x.name)
	}

	// A body that was not captured well can be captured again, but not twice.
	p.must(th, "aclmdlRICaptureToModelRIBegin", sub, good, relaxed)
	fork := p.event(th)
	p.must(th, "aclrtRecordEvent", fork, sub)
	p.must(th, "aclrtStreamWaitEvent", p.stream(th), fork)
	require.Equal(t, streamUnjoined, p.call(th, "aclmdlRICaptureEnd", sub, word))
	sync := p.out(th, "aclrtCreateEventExWithFlag", 0, uint64(eventSync))
	p.within(th, sub, good, func() {
		require.Equal(t, captureForbids, p.call(th, "aclrtRecordEventWithFlag", sync, sub, uint64(abi.ACL_EVENT_RECORD_EXTERNAL)))
		p.repeat(th, sub, "task", func() {})
	})
	require.Equal(t, paramInvalid, p.call(th, "aclmdlRICaptureToModelRIBegin", sub, good, relaxed))
	require.Contains(t, takeText(th), "captured already")
	p.must(th, "aclmdlRIDestroy", p.end(th, s))
	p.must(th, "aclmdlRIDestroy", p.end(th, other))
	p.must(th, "aclmdlRIBuildEnd", built, 0)
	p.must(th, "aclmdlRIDestroy", built)
	for _, k := range []Kind{GraphKind, ConditionKind} {
		require.Zero(t, p.r.Handles.Count(k))
	}
	require.EqualValues(t, 24, unsafe.Sizeof(condParams{}))
}
