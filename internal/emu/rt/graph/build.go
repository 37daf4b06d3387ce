package graph

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Flags of aclmdlRIBindStream: a head stream runs from the start, any other stream when another one
// activates it.
const (
	headStream      = uint32(abi.ACL_MODEL_STREAM_FLAG_HEAD)
	activatedStream = uint32(abi.ACL_MODEL_STREAM_FLAG_DEFAULT)
)

// building is a graph made of streams that are bound to it. A replay runs the head streams
// concurrently; they can activate other streams and jump.
type building struct {
	ended atomic.Bool

	mu      sync.Mutex
	streams []*boundStream
}

// boundStream is the part of a graph that one stream contributes: the tasks submitted to it.
type boundStream struct {
	graph  *building
	stream *rt.Stream
	head   bool
	steps  []step
	detour *rt.Detour // the stream's detour to this boundStream
}

func newBoundStream(g *building, s *rt.Stream, head bool) *boundStream {
	b := &boundStream{graph: g, stream: s, head: head}
	b.detour = &rt.Detour{Taker: b}
	return b
}

// boundOf returns the part of a graph that a stream is building, or nil.
func boundOf(s *rt.Stream) *boundStream {
	if d := s.Build.Load(); d != nil {
		return d.Taker.(*boundStream)
	}
	return nil
}

// step is a task, or a point at which the run starts another stream or jumps.
type step struct {
	task  rt.Task
	start *boundStream                   // stream that starts here, concurrent with this one
	jump  func() (to *target, err error) // a nil target goes on with the next step
}

// target is the step of a stream at which a run continues.
type target struct {
	stream *boundStream
	at     int
}

func (r *Runtime) aclmdlRIBuildBegin(t *rt.Thread, modelRI rt.Out[rt.Handle], flag uint32) rt.Code {
	if code := r.Schedule.Refuse(t, "aclmdlRIBuildBegin"); code != 0 {
		return code
	}
	if flag != 0 {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIBuildBegin: flag is %d; only 0 is supported", flag)
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	g := r.newGraph(c.Device())
	g.built = &building{}
	g.handle = r.Handles.New(rt.GraphKind, g)
	modelRI.Set(g.handle)
	return 0
}

// unfinished is a graph argument that must still be under construction.
type unfinished = Graph

//npugen:decode aclmdlRI
func (r *Runtime) unfinished(t *rt.Thread, function string, h rt.Handle) (*unfinished, rt.Code) {
	g, code := r.graph(t, function, h)
	switch {
	case g == nil:
		return nil, code
	case g.built == nil:
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: the graph comes from a capture; use one of aclmdlRIBuildBegin", function)
	case g.built.ended.Load():
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: the graph is complete", function)
	}
	return g, 0
}

func (r *Runtime) aclmdlRIBindStream(t *rt.Thread, modelRI *unfinished, stream *rt.Stream, flag uint32) rt.Code {
	const function = "aclmdlRIBindStream"
	g, s := modelRI, stream
	switch {
	case !s.Persistent():
		return t.Fail(rt.FeatureNotSupported, "EE1005: %s: the stream was made without ACL_STREAM_PERSISTENT", function)
	case s.Context().Device() != g.device:
		return t.Fail(rt.StreamContext, "EE1010: %s: the graph is of device %d, the stream of device %d", function, g.device.ID(), s.Context().Device().ID())
	case flag != headStream && flag != activatedStream:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: flag %#x is unknown", function, flag)
	}
	b := newBoundStream(g.built, s, flag == headStream)
	if s.Capture.Load() != nil || !s.Build.CompareAndSwap(nil, b.detour) {
		return t.Fail(rt.StreamCaptured, "EE1016: %s: the stream is capturing, or belongs to a graph already", function)
	}
	g.built.mu.Lock()
	defer g.built.mu.Unlock()
	g.built.streams = append(g.built.streams, b)
	return 0
}

// aclmdlRIUnbindStream makes the stream execute its tasks again. The tasks that it contributed stay
// in the graph.
func (r *Runtime) aclmdlRIUnbindStream(t *rt.Thread, modelRI *Graph, stream *rt.Stream) rt.Code {
	b := boundOf(stream)
	if b == nil || b.graph != modelRI.built {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIUnbindStream: the stream is not bound to the graph")
	}
	stream.Build.CompareAndSwap(b.detour, nil)
	return 0
}

// aclmdlRIEndTask marks the end of a stream's tasks. A run needs no such mark, so it only checks
// its arguments.
func (r *Runtime) aclmdlRIEndTask(t *rt.Thread, modelRI *unfinished, stream *boundStream) rt.Code {
	if stream.graph != modelRI.built {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIEndTask: the stream is not bound to the graph")
	}
	return 0
}

func (r *Runtime) aclmdlRIBuildEnd(modelRI *unfinished, _ uintptr) rt.Code {
	modelRI.built.ended.Store(true)
	return 0
}

// boundStream returns the part of a graph that a stream is building.
//
//npugen:decode aclrtStream
func (r *Runtime) boundStream(t *rt.Thread, function string, h rt.Handle) (*boundStream, rt.Code) {
	s, code := r.Stream(t, h)
	if s == nil {
		return nil, code
	}
	b := boundOf(s)
	if b == nil {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: stream %d is not bound to a graph; call aclmdlRIBindStream", function, s.ID())
	}
	return b, 0
}

// Take appends a task submitted to the stream to the graph.
func (b *boundStream) Take(t *rt.Thread, _ *rt.Stream, task rt.Task) rt.Code {
	if !task.Repeatable {
		return t.Fail(rt.FeatureNotSupported, "EE1005: %s cannot be part of a graph", task.Name)
	}
	return b.put(t, step{task: task})
}

func (b *boundStream) put(t *rt.Thread, x step) rt.Code {
	b.graph.mu.Lock()
	defer b.graph.mu.Unlock()
	if b.graph.ended.Load() {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the graph of the stream is complete; call aclmdlRIUnbindStream", x.task.Name)
	}
	b.steps = append(b.steps, x)
	return 0
}

// unbind makes the streams execute their tasks again. b may be nil.
func (b *building) unbind() {
	if b == nil {
		return
	}
	for _, x := range b.streams {
		x.stream.Build.CompareAndSwap(x.detour, nil)
	}
}

func (b *building) taskNames() (names []string) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.streams {
		for _, step := range x.steps {
			names = append(names, step.task.Name)
		}
	}
	return names
}

// replay is one run of a building.
type replay struct {
	cancel  chan struct{} // closed by an abort or the first failure
	once    sync.Once
	err     error
	begin   sanitize.Order // orders the start of a stream after its activation
	end     sanitize.Order
	streams sync.WaitGroup

	mu     sync.Mutex
	active map[*boundStream]bool
}

// run runs the head streams and everything that they activate, as a task of stream s.
func (b *building) run(s *rt.Stream, cancel <-chan struct{}) error {
	x := &replay{cancel: make(chan struct{}), active: make(map[*boundStream]bool)}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-cancel:
			x.stop(nil)
		case <-over:
		}
	}()
	for _, stream := range b.streams {
		if stream.head {
			x.start(s, stream)
		}
	}
	x.streams.Wait()
	close(over)
	<-watched
	if x.err != nil {
		return x.err
	}
	return s.Perform(&rt.Task{Name: "aclmdlRIExecuteAsync", Acquires: &x.end}, cancel)
}

// stop ends the run. Only the error of the first call counts.
func (x *replay) stop(err error) {
	x.once.Do(func() {
		x.err = err
		close(x.cancel)
	})
}

// start runs a stream concurrently, unless it is running already.
func (x *replay) start(from *rt.Stream, b *boundStream) {
	if err := from.Perform(&rt.Task{Name: "aclrtActiveStream", Releases: &x.begin}, x.cancel); err != nil {
		x.stop(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.active[b] {
		return
	}
	x.active[b] = true
	x.streams.Go(func() { x.follow(&target{b, 0}) })
}

// follow runs the steps from a target on and follows each jump.
func (x *replay) follow(at *target) {
	for at != nil {
		b := at.stream
		err := b.stream.Perform(&rt.Task{Name: "aclmdlRIExecuteAsync", Acquires: &x.begin}, x.cancel)
		next, stepErr := x.steps(at)
		if err == nil {
			err = stepErr
		}
		if err == nil {
			err = b.stream.Perform(&rt.Task{Name: "aclmdlRIExecuteAsync", Releases: &x.end}, x.cancel)
		}
		if err != nil {
			x.stop(err)
		}
		x.mu.Lock()
		if next == nil || next.stream != b {
			delete(x.active, b)
		}
		if next != nil && next.stream != b {
			if x.active[next.stream] {
				next = nil
			} else {
				x.active[next.stream] = true
			}
		}
		x.mu.Unlock()
		at = next
	}
}

// steps runs a stream from a step to its end or to a jump, whose target it returns.
func (x *replay) steps(from *target) (next *target, err error) {
	b := from.stream
	for _, step := range b.steps[from.at:] {
		select {
		case <-x.cancel:
			return nil, nil
		default:
		}
		switch {
		case step.start != nil:
			x.start(b.stream, step.start)
		case step.jump != nil:
			if next, err := step.jump(); next != nil || err != nil {
				if err != nil {
					err = rt.FaultOf(step.task.Name, err)
				} else if err = b.stream.Perform(&rt.Task{Name: step.task.Name, Releases: &x.begin}, x.cancel); err != nil {
					next = nil
				}
				return next, err
			}
		default:
			if err := b.stream.Perform(&step.task, x.cancel); err != nil {
				return nil, rt.FaultOf(step.task.Name, err)
			}
		}
	}
	return nil, nil
}
