package graph

import (
	"maps"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// capture records the tasks of its streams into a graph instead of running them. A stream joins the
// capture when it waits for an event that one of the capture's streams recorded.
type capture struct {
	rt.Capture
	room  *Runtime
	graph *Graph

	mu     sync.Mutex
	clocks map[*rt.Stream]clock
	groups map[*rt.Stream]*taskGroup // open task groups
	broken bool                      // one of its streams was aborted or destroyed
}

// clock maps each stream to the number of its tasks that come before some point.
type clock map[*rt.Stream]int

// merge adds everything that comes before another point.
func (c clock) merge(other clock) {
	for s, n := range other {
		c[s] = max(c[s], n)
	}
}

// mark is the point at which a captured event was recorded.
type mark struct {
	capture *capture
	at      clock
}

// capturable is a stream argument of a function about captures; it may not be the default stream.
type capturable = rt.Stream

//npugen:decode aclrtStream
func (r *Runtime) capturable(t *rt.Thread, function string, h rt.Handle) (*capturable, rt.Code) {
	s, code := r.Stream(t, h)
	if s == nil {
		return nil, code
	}
	if s.IsDefault() {
		return nil, t.Fail(rt.CaptureImplicit, "EE1016: %s: the default stream cannot be captured", function)
	}
	return s, 0
}

// captureOf returns the capture of a stream, or nil.
func captureOf(s *rt.Stream) *capture {
	if c := s.Capture.Load(); c != nil {
		return c.Recorder.(*capture)
	}
	return nil
}

// underWay returns the capture of a stream and refuses a stream that is not capturing.
func underWay(t *rt.Thread, function string, s *rt.Stream) (*capture, rt.Code) {
	c := captureOf(s)
	if c == nil {
		return nil, t.Fail(rt.StreamNotCaptured, "EE1016: %s: the stream is not capturing", function)
	}
	return c, 0
}

func (r *Runtime) aclmdlRICaptureBegin(t *rt.Thread, stream *capturable, mode int32) rt.Code {
	return r.startCapture(t, "aclmdlRICaptureBegin", stream, mode, nil)
}

// startCapture begins a capture on a stream, into graph g or, if g is nil, into a new graph.
func (r *Runtime) startCapture(t *rt.Thread, function string, s *rt.Stream, mode int32, g *Graph) rt.Code {
	if code := r.Schedule.Refuse(t, function); code != 0 {
		return code
	}
	if mode < rt.CaptureGlobal || mode > rt.CaptureRelaxed {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: mode %d is unknown", function, mode)
	}
	if g == nil {
		g = r.newGraph(s.Context().Device())
	}
	if g.device != s.Context().Device() {
		return t.Fail(rt.StreamContext, "EE1010: %s: the graph is of device %d, the stream of device %d", function, g.device.ID(), s.Context().Device().ID())
	}
	c := &capture{room: r, graph: g, clocks: map[*rt.Stream]clock{s: {}}, groups: make(map[*rt.Stream]*taskGroup)}
	c.Capture = rt.Capture{Recorder: c, Origin: s, Mode: mode, Thread: t}
	if s.Update.Load() != nil || !s.Capture.CompareAndSwap(nil, &c.Capture) {
		return t.Fail(rt.StreamCaptured, "EE1016: %s: the stream is capturing already", function)
	}
	if g.handle == 0 {
		g.handle = r.Handles.New(rt.GraphKind, g)
	}
	g.captured.Store(true)
	r.Captures.Add(&c.Capture)
	return 0
}

// aclmdlRICaptureEnd writes the handle of the graph. It fails when a stream has not joined the
// origin again or the capture was broken.
func (r *Runtime) aclmdlRICaptureEnd(t *rt.Thread, stream *capturable, modelRI *rt.Handle) rt.Code {
	const function = "aclmdlRICaptureEnd"
	c, code := underWay(t, function, stream)
	if c == nil {
		return code
	}
	switch {
	case modelRI == nil:
		return t.NullBelow(function, "modelRI")
	case c.Origin != stream:
		return t.Fail(rt.CaptureUnmatched, "EE1016: %s: the capture began on another stream", function)
	case c.Mode != rt.CaptureRelaxed && c.Thread != t:
		return t.Fail(rt.CaptureWrongThread, "EE1016: %s: the capture began on another thread; use the relaxed mode for that", function)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	*modelRI = 0
	code = c.verdict(t)
	if code == 0 && !c.graph.device.TakeStreams(len(c.clocks)) {
		code = t.Fail(rt.NoStreamResource, "EE1023: %s: the graph takes up %d streams, the device has not as many left", function, len(c.clocks))
	}
	if code != 0 {
		r.undo(c)
		return code
	}
	c.graph.held = len(c.clocks)
	*modelRI = c.graph.handle
	return 0
}

// end makes the streams execute their tasks again. The caller holds c.mu.
func (c *capture) end() {
	c.room.Captures.Remove(&c.Capture)
	c.graph.captured.Store(false)
	for member := range c.clocks {
		member.Capture.CompareAndSwap(&c.Capture, nil)
	}
}

// verdict returns the reason why a capture gives no graph, or 0. The caller holds c.mu.
func (c *capture) verdict(t *rt.Thread) rt.Code {
	if c.broken {
		return t.Fail(rt.CaptureInvalidated, "EE1016: aclmdlRICaptureEnd: a stream of the capture was aborted or destroyed")
	}
	end := c.clocks[c.Origin]
	for s, own := range c.clocks {
		if s != c.Origin && end[s] < max(own[s], 1) {
			return t.Fail(rt.StreamUnjoined, "EE1016: aclmdlRICaptureEnd: stream %d joined the capture and did not rejoin: record an event on it and wait for it on the first stream", s.ID())
		}
	}
	return 0
}

func (r *Runtime) aclmdlRICaptureGetInfo(t *rt.Thread, stream *rt.Stream, status *int32, modelRI *rt.Handle) rt.Code {
	if status == nil && modelRI == nil {
		return t.Null("aclmdlRICaptureGetInfo", "status and modelRI")
	}
	state, graph := int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_NONE), rt.Handle(0)
	if c := captureOf(stream); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		state, graph = int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE), c.graph.handle
		if c.broken {
			state = int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED)
		}
	}
	if status != nil {
		*status = state
	}
	if modelRI != nil {
		*modelRI = graph
	}
	return 0
}

// Take records a task. It refuses a task that is not Repeatable.
func (c *capture) Take(t *rt.Thread, s *rt.Stream, task rt.Task) rt.Code {
	if !task.Repeatable {
		return t.Fail(rt.CaptureForbids, "EE1016: %s cannot be captured", task.Name)
	}
	if task.Promise != nil && c.graph.inside != nil {
		return t.Fail(rt.CaptureForbids, "EE1016: %s with the external flag cannot be captured into a body: it may never run", task.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.graph
	g.tasks = append(g.tasks, c.room.watched(task))
	c.clocks[s][s]++
	if group := c.groups[s]; group != nil {
		group.tasks = append(group.tasks, len(g.tasks)-1)
	}
	return 0
}

// Mark returns the point of the stream at which an event is recorded.
func (c *capture) Mark(s *rt.Stream) rt.Mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.clocks[s]
	own[s] = max(own[s], 1) // a stream without tasks has joined as well
	return &mark{c, maps.Clone(own)}
}

// Join makes a stream wait for the mark and adds the stream to the capture.
func (m *mark) Join(t *rt.Thread, s *rt.Stream) rt.Code {
	c := m.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	switch member := captureOf(s); {
	case member == c:
	case captureOf(c.Origin) != c:
		return t.Fail(rt.EventCaptured, "EE1016: aclrtStreamWaitEvent: the event belongs to a capture that has ended")
	case member != nil:
		return t.Fail(rt.CaptureDependency, "EE1016: aclrtStreamWaitEvent: the event is of another capture than the stream")
	case s.IsDefault():
		return t.Fail(rt.CaptureImplicit, "EE1016: aclrtStreamWaitEvent: the default stream cannot join a capture")
	default:
		if !s.Capture.CompareAndSwap(nil, &c.Capture) {
			return t.Fail(rt.CaptureDependency, "EE1016: aclrtStreamWaitEvent: the stream has just joined another capture")
		}
		c.clocks[s] = clock{}
	}
	c.clocks[s].merge(m.at)
	return 0
}

// Abandon ends the capture and discards the recorded tasks.
func (c *capture) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.room.undo(c)
}

// Spoil makes the capture end with an error.
func (c *capture) Spoil() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
}

// undo discards the recorded tasks. If the graph was a body, it can be captured again.
func (r *Runtime) undo(c *capture) {
	if c.graph.inside == nil {
		r.Handles.Delete(c.graph.handle)
	}
	r.empty(c.graph)
}

func (r *Runtime) aclmdlRICaptureTaskGrpBegin(t *rt.Thread, stream *capturable) rt.Code {
	const function = "aclmdlRICaptureTaskGrpBegin"
	c, code := underWay(t, function, stream)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[stream] != nil {
		return t.Fail(int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), "EE1016: %s: the stream has an open group", function)
	}
	c.groups[stream] = &taskGroup{graph: c.graph}
	return 0
}

func (r *Runtime) aclmdlRICaptureTaskGrpEnd(t *rt.Thread, stream *capturable, handle rt.Out[rt.Handle]) rt.Code {
	const function = "aclmdlRICaptureTaskGrpEnd"
	c, code := underWay(t, function, stream)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.groups[stream]
	if group == nil {
		return t.Fail(int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), "EE1016: %s: the stream has no open group", function)
	}
	delete(c.groups, stream)
	h := r.Handles.New(rt.TaskGroupKind, group)
	c.graph.groups = append(c.graph.groups, h)
	handle.Set(h)
	return 0
}
