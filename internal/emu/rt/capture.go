package rt

import (
	"maps"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

const (
	captureGlobal      = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
	captureThreadLocal = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)
	captureRelaxed     = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
)

// capture records what its streams are given into a graph, instead of running it. Streams
// join it by waiting for an event that one of its streams recorded.
type capture struct {
	origin *Stream
	mode   int32
	thread *Thread
	graph  *Graph
	handle uint64

	mu     sync.Mutex
	clocks map[*Stream]clock
	groups map[*Stream]*taskGroup // open ones
	broken bool                   // a stream of it was aborted or destroyed
}

// clock says how many tasks of each stream come before a point of a stream.
type clock map[*Stream]int

// merge waits for another point.
func (c clock) merge(other clock) {
	for s, n := range other {
		c[s] = max(c[s], n)
	}
}

// mark is where a captured event was recorded.
type mark struct {
	capture *capture
	at      clock
}

// captures are the captures under way.
type captures struct {
	mu  sync.Mutex
	all map[*capture]struct{}
}

func (c *captures) add(x *capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*capture]struct{})
	}
	c.all[x] = struct{}{}
}

func (c *captures) remove(x *capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x)
}

// of is the capture that makes a graph, nil once it has ended.
func (c *captures) of(g *Graph) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.graph == g {
			return x
		}
	}
	return nil
}

// forbid reports whether the thread must not make calls that a capture cannot see: any
// thread while a capture is global, the capturing thread while it is thread-local.
func (c *captures) forbid(t *Thread) bool {
	if t.captureMode == captureRelaxed {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.mode != captureRelaxed && x.thread == t || x.mode == captureGlobal && t.captureMode == captureGlobal {
			return true
		}
	}
	return false
}

// onDevice reports whether a stream of the device is capturing.
func (c *captures) onDevice(d *Device) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.origin.ctx.device == d {
			return true
		}
	}
	return false
}

func (r *Runtime) captureFunctions() table {
	return table{
		"aclmdlRICaptureBegin":              r.beginCapture,
		"aclmdlRICaptureEnd":                r.endCapture,
		"aclmdlRICaptureGetInfo":            r.captureInfo,
		"aclmdlRICaptureThreadExchangeMode": exchangeCaptureMode,
		"aclmdlRICaptureTaskGrpBegin":       r.beginTaskGroup,
		"aclmdlRICaptureTaskGrpEnd":         r.endTaskGroup,
	}
}

// capturing is the stream of a call of this family, which must not be the default one.
func (r *Runtime) capturing(t *Thread, function string, h uint64) (*Stream, uint64) {
	s, code := r.Stream(t, h)
	if s == nil {
		return nil, uint64(uint32(code))
	}
	if s.isDefault() {
		return nil, t.Fail(captureImplicit, "EE1016: %s: the default stream cannot be captured", function)
	}
	return s, 0
}

// underWay is the capture that a stream is part of.
func (r *Runtime) underWay(t *Thread, function string, h uint64) (*Stream, *capture, uint64) {
	s, code := r.capturing(t, function, h)
	if s == nil {
		return nil, nil, code
	}
	c := s.capture.Load()
	if c == nil {
		return nil, nil, t.Fail(streamNotCaptured, "EE1016: %s: the stream is not capturing", function)
	}
	return s, c, 0
}

func (r *Runtime) beginCapture(t *Thread, a []uint64) uint64 {
	return r.startCapture(t, "aclmdlRICaptureBegin", a[0], int32(a[1]), nil, 0)
}

// startCapture begins a capture on a stream, into a graph that is there already or else a new one.
func (r *Runtime) startCapture(t *Thread, function string, stream uint64, mode int32, g *Graph, handle uint64) uint64 {
	if mode < captureGlobal || mode > captureRelaxed {
		return t.Fail(paramInvalid, "EE1003: %s: mode %d is unknown", function, mode)
	}
	s, code := r.capturing(t, function, stream)
	if s == nil {
		return code
	}
	if g == nil {
		g = &Graph{id: uint32(r.graphCount.Add(1)), device: s.ctx.device}
	}
	if g.device != s.ctx.device {
		return t.Fail(streamContext, "EE1010: %s: the graph is of device %d, the stream of device %d", function, g.device.id, s.ctx.device.id)
	}
	c := &capture{
		origin: s, mode: mode, thread: t, graph: g,
		clocks: map[*Stream]clock{s: {}}, groups: make(map[*Stream]*taskGroup),
	}
	if s.update.Load() != nil || !s.capture.CompareAndSwap(nil, c) {
		return t.Fail(streamCaptured, "EE1016: %s: the stream is capturing already", function)
	}
	if c.handle = handle; handle == 0 {
		c.handle = r.Handles.New(GraphKind, g)
	}
	r.captures.add(c)
	return 0
}

// endCapture gives the graph, unless a stream has not come back or the capture was broken.
func (r *Runtime) endCapture(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICaptureEnd"
	if a[1] == 0 {
		return t.null(function, "modelRI")
	}
	s, c, code := r.underWay(t, function, a[0])
	if c == nil {
		return code
	}
	switch {
	case c.origin != s:
		return t.Fail(captureUnmatched, "EE1016: %s: the capture began on another stream", function)
	case c.mode != captureRelaxed && c.thread != t:
		return t.Fail(captureWrongThread, "EE1016: %s: the capture began on another thread; use the relaxed mode for that", function)
	}
	r.captures.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	for member := range c.clocks {
		member.capture.CompareAndSwap(c, nil)
	}
	Write[uint64](a[1], 0)
	code = c.verdict(t)
	if code == 0 && !c.graph.device.takeStreams(len(c.clocks)) {
		code = t.Fail(noStreamResource, "EE1023: %s: the graph takes up %d streams, the device has not as many left", function, len(c.clocks))
	}
	if code != 0 {
		r.undo(c)
		return code
	}
	c.graph.held = len(c.clocks)
	Write(a[1], c.handle)
	return 0
}

// verdict is why a capture gives no graph, or 0. c.mu is held.
func (c *capture) verdict(t *Thread) uint64 {
	if c.broken {
		return t.Fail(captureInvalidated, "EE1016: aclmdlRICaptureEnd: a stream of the capture was aborted or destroyed")
	}
	end := c.clocks[c.origin]
	for s, own := range c.clocks {
		if s != c.origin && end[s] < max(own[s], 1) {
			return t.Fail(streamUnjoined, "EE1016: aclmdlRICaptureEnd: stream %d joined the capture and did not rejoin: record an event on it and wait for it on the first stream", s.id)
		}
	}
	return 0
}

func (r *Runtime) captureInfo(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	status, handle := int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_NONE), uint64(0)
	if c := s.capture.Load(); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		status, handle = int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE), c.handle
		if c.broken {
			status = int32(abi.ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED)
		}
	}
	if a[1] != 0 {
		Write(a[1], status)
	}
	if a[2] != 0 {
		Write(a[2], handle)
	}
	return 0
}

// exchangeCaptureMode swaps the mode by which captures restrict this thread.
func exchangeCaptureMode(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclmdlRICaptureThreadExchangeMode", "mode")
	}
	mode := Read[int32](a[0], 1)[0]
	if mode < captureGlobal || mode > captureRelaxed {
		return t.Fail(paramInvalid, "EE1003: aclmdlRICaptureThreadExchangeMode: mode %d is unknown", mode)
	}
	Write(a[0], t.captureMode)
	t.captureMode = mode
	return 0
}

// add records a task. Only a task that can run again can be part of a graph.
func (c *capture) add(t *Thread, s *Stream, task Task) uint64 {
	if !task.Repeatable {
		return t.Fail(captureForbids, "EE1016: %s cannot be captured", task.Name)
	}
	if task.Promise != nil && c.graph.inside != nil {
		return t.Fail(captureForbids, "EE1016: %s with the external flag cannot be captured into a body: it may never run", task.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.graph
	g.tasks = append(g.tasks, task)
	c.clocks[s][s]++
	if group := c.groups[s]; group != nil {
		group.tasks = append(group.tasks, len(g.tasks)-1)
	}
	return 0
}

// mark notes where a stream records an event.
func (c *capture) mark(s *Stream) *mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.clocks[s]
	own[s] = max(own[s], 1) // a stream without tasks has come back too
	return &mark{c, maps.Clone(own)}
}

// join makes a stream wait for a mark, and part of the capture.
func (m *mark) join(t *Thread, s *Stream) uint64 {
	c := m.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	switch member := s.capture.Load(); {
	case member == c:
	case c.origin.capture.Load() != c:
		return t.Fail(eventCaptured, "EE1016: aclrtStreamWaitEvent: the event belongs to a capture that has ended")
	case member != nil:
		return t.Fail(captureDependency, "EE1016: aclrtStreamWaitEvent: the event is of another capture than the stream")
	case s.isDefault():
		return t.Fail(captureImplicit, "EE1016: aclrtStreamWaitEvent: the default stream cannot join a capture")
	default:
		if !s.capture.CompareAndSwap(nil, c) {
			return t.Fail(captureDependency, "EE1016: aclrtStreamWaitEvent: the stream has just joined another capture")
		}
		c.clocks[s] = clock{}
	}
	c.clocks[s].merge(m.at)
	return 0
}

// abandon ends the capture of a stream that is gone, if it began there.
func (r *Runtime) abandon(s *Stream) {
	c := s.capture.Load()
	if c == nil || c.origin != s {
		return
	}
	r.captures.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	for member := range c.clocks {
		member.capture.CompareAndSwap(c, nil)
	}
	r.undo(c)
}

// undo drops what was captured; a body can be captured once more.
func (r *Runtime) undo(c *capture) {
	if c.graph.inside == nil {
		r.Handles.Delete(c.handle)
	}
	r.empty(c.graph)
}

// spoil makes the capture of an aborted or destroyed stream end in an error.
func (s *Stream) spoil() {
	if c := s.capture.Load(); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.broken = true
	}
}

func (r *Runtime) beginTaskGroup(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICaptureTaskGrpBegin"
	s, c, code := r.underWay(t, function, a[0])
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[s] != nil {
		return t.Fail(int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), "EE1016: %s: the stream has an open group", function)
	}
	c.groups[s] = &taskGroup{graph: c.graph}
	return 0
}

func (r *Runtime) endTaskGroup(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICaptureTaskGrpEnd"
	if a[1] == 0 {
		return t.null(function, "handle")
	}
	s, c, code := r.underWay(t, function, a[0])
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.groups[s]
	if group == nil {
		return t.Fail(int32(abi.ACL_ERROR_STREAM_TASK_GROUP_STATUS), "EE1016: %s: the stream has no open group", function)
	}
	delete(c.groups, s)
	h := r.Handles.New(TaskGroupKind, group)
	c.graph.groups = append(c.graph.groups, h)
	Write(a[1], h)
	return 0
}
