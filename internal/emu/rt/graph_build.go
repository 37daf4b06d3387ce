package rt

import (
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/abi"
)

// Flags of aclmdlRIBindStream: a stream that runs from the start, or when another activates it.
const (
	headStream      = uint32(abi.ACL_MODEL_STREAM_FLAG_HEAD)
	activatedStream = uint32(abi.ACL_MODEL_STREAM_FLAG_DEFAULT)
)

// building is a graph made of streams that were bound to it. A replay runs the head streams
// side by side; they activate others and jump.
type building struct {
	ended atomic.Bool

	mu      sync.Mutex
	streams []*boundStream
}

// boundStream is a stream's part of a graph: the steps that it was given.
type boundStream struct {
	graph  *building
	stream *Stream
	head   bool
	steps  []step
}

// step is a task, or a place where the run goes on elsewhere.
type step struct {
	task  Task
	start *boundStream                   // to run beside this one from here on
	jump  func() (to *target, err error) // nil goes on behind it
}

// target is where in a graph a run goes on.
type target struct {
	stream *boundStream
	at     int
}

func (r *Runtime) buildFunctions() table {
	return table{
		"aclmdlRIBuildBegin":      r.beginBuild,
		"aclmdlRIBindStream":      r.bindStream,
		"aclmdlRIUnbindStream":    r.unbindStream,
		"aclmdlRIEndTask":         r.endTasks,
		"aclmdlRIBuildEnd":        r.endBuild,
		"aclrtActiveStream":       r.activateStream,
		"aclrtSwitchStream":       r.switchStream,
		"aclrtCreateLabel":        r.createLabel,
		"aclrtDestroyLabel":       r.destroyLabel,
		"aclrtSetLabel":           r.setLabel,
		"aclrtCreateLabelList":    r.createLabelList,
		"aclrtDestroyLabelList":   r.destroyLabelList,
		"aclrtSwitchLabelByIndex": r.switchLabel,
	}
}

func (r *Runtime) beginBuild(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIBuildBegin"
	if a[0] == 0 {
		return t.null(function, "modelRI")
	}
	if flag := uint32(a[1]); flag != 0 {
		return t.Fail(paramInvalid, "EE1003: %s: flag is %d; only 0 is supported", function, flag)
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	Write(a[0], r.Handles.New(GraphKind, &Graph{id: uint32(r.graphCount.Add(1)), device: c.device, built: &building{}}))
	return 0
}

// underConstruction is a graph that is being built.
func (r *Runtime) underConstruction(t *Thread, function string, h uint64) (*Graph, uint64) {
	g, code := r.graph(t, function, h)
	switch {
	case g == nil:
		return nil, code
	case g.built == nil:
		return nil, t.Fail(paramInvalid, "EE1003: %s: the graph comes from a capture; use one of aclmdlRIBuildBegin", function)
	case g.built.ended.Load():
		return nil, t.Fail(paramInvalid, "EE1003: %s: the graph is complete", function)
	}
	return g, 0
}

func (r *Runtime) bindStream(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIBindStream"
	g, code := r.underConstruction(t, function, a[0])
	if g == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "stream")
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	flag := uint32(a[2])
	switch {
	case s.flags&flagPersistent == 0:
		return t.Fail(featureNotSupported, "EE1005: %s: the stream was made without ACL_STREAM_PERSISTENT", function)
	case s.ctx.device != g.device:
		return t.Fail(streamContext, "EE1010: %s: the graph is of device %d, the stream of device %d", function, g.device.id, s.ctx.device.id)
	case flag != headStream && flag != activatedStream:
		return t.Fail(paramInvalid, "EE1003: %s: flag %#x is unknown", function, flag)
	}
	b := &boundStream{graph: g.built, stream: s, head: flag == headStream}
	if s.capture.Load() != nil || !s.bound.CompareAndSwap(nil, b) {
		return t.Fail(streamCaptured, "EE1016: %s: the stream is capturing, or belongs to a graph already", function)
	}
	g.built.mu.Lock()
	defer g.built.mu.Unlock()
	g.built.streams = append(g.built.streams, b)
	return 0
}

// unbindStream lets the stream execute again; what it was given stays in the graph.
func (r *Runtime) unbindStream(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIUnbindStream"
	g, code := r.graph(t, function, a[0])
	if g == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	b := s.bound.Load()
	if b == nil || b.graph != g.built {
		return t.Fail(paramInvalid, "EE1003: %s: the stream is not bound to the graph", function)
	}
	s.bound.CompareAndSwap(b, nil)
	return 0
}

// endTasks says that a stream gets no more tasks, which a run sees by itself.
func (r *Runtime) endTasks(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIEndTask"
	g, code := r.underConstruction(t, function, a[0])
	if g == nil {
		return code
	}
	b, code := r.boundStream(t, function, a[1])
	if b != nil && b.graph != g.built {
		return t.Fail(paramInvalid, "EE1003: %s: the stream is not bound to the graph", function)
	}
	return code
}

func (r *Runtime) endBuild(t *Thread, a []uint64) uint64 {
	g, code := r.underConstruction(t, "aclmdlRIBuildEnd", a[0])
	if g == nil {
		return code
	}
	g.built.ended.Store(true)
	return 0
}

// boundStream is the part of a graph that a stream has.
func (r *Runtime) boundStream(t *Thread, function string, h uint64) (*boundStream, uint64) {
	s, code := r.Stream(t, h)
	if s == nil {
		return nil, uint64(uint32(code))
	}
	b := s.bound.Load()
	if b == nil {
		return nil, t.Fail(paramInvalid, "EE1003: %s: stream %d is not bound to a graph; call aclmdlRIBindStream", function, s.id)
	}
	return b, 0
}

// add takes a task that the stream is given.
func (b *boundStream) add(t *Thread, task Task) uint64 {
	if !task.Repeatable {
		return t.Fail(featureNotSupported, "EE1005: %s cannot be part of a graph", task.Name)
	}
	return b.put(t, step{task: task})
}

func (b *boundStream) put(t *Thread, x step) uint64 {
	b.graph.mu.Lock()
	defer b.graph.mu.Unlock()
	if b.graph.ended.Load() {
		return t.Fail(paramInvalid, "EE1003: %s: the graph of the stream is complete; call aclmdlRIUnbindStream", x.task.Name)
	}
	b.steps = append(b.steps, x)
	return 0
}

// unbind lets the streams execute again. There may be no building.
func (b *building) unbind() {
	if b == nil {
		return
	}
	for _, x := range b.streams {
		x.stream.bound.CompareAndSwap(x, nil)
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

// replay is one run of a graph that was built.
type replay struct {
	cancel  chan struct{} // closed by an abort, and by the first failure
	once    sync.Once
	err     error
	begin   Order // from those who activate to the activated
	end     Order
	streams sync.WaitGroup

	mu     sync.Mutex
	active map[*boundStream]bool
}

// run runs the head streams and all that they lead to, on behalf of stream s.
func (b *building) run(s *Stream, cancel <-chan struct{}) error {
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
	return s.perform(&Task{Name: "aclmdlRIExecuteAsync", Acquires: &x.end}, cancel)
}

// stop ends the run; the first reason counts.
func (x *replay) stop(err error) {
	x.once.Do(func() {
		x.err = err
		close(x.cancel)
	})
}

// start runs a stream beside others, unless it runs already.
func (x *replay) start(from *Stream, b *boundStream) {
	if err := from.perform(&Task{Name: "aclrtActiveStream", Releases: &x.begin}, x.cancel); err != nil {
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

// follow runs the steps from a place on, and those behind each jump.
func (x *replay) follow(at *target) {
	for at != nil {
		b := at.stream
		err := b.stream.perform(&Task{Name: "aclmdlRIExecuteAsync", Acquires: &x.begin}, x.cancel)
		next, stepErr := x.steps(at)
		if err == nil {
			err = stepErr
		}
		if err == nil {
			err = b.stream.perform(&Task{Name: "aclmdlRIExecuteAsync", Releases: &x.end}, x.cancel)
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

// steps runs a stream from a place on, to its end or to a jump.
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
					err = faultOf(step.task.Name, err)
				} else if err = b.stream.perform(&Task{Name: step.task.Name, Releases: &x.begin}, x.cancel); err != nil {
					next = nil
				}
				return next, err
			}
		default:
			if err := b.stream.perform(&step.task, x.cancel); err != nil {
				return nil, faultOf(step.task.Name, err)
			}
		}
	}
	return nil, nil
}
