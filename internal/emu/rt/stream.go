package rt

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

const (
	lowestPriority = 7
	maxStreams     = 1984 // per device, default streams included
	queueDepth     = 2013 // tasks a stream may hold before a launch blocks
	queueRefill    = 1500 // length at which blocked launches go on, not one by one

	flagPersistent  = uint32(abi.ACL_STREAM_PERSISTENT)
	flagCPUSchedule = uint32(abi.ACL_STREAM_CPU_SCHEDULE)
	flagDeviceOnly  = uint32(abi.ACL_STREAM_DEVICE_USE_ONLY)
)

// Stream runs its tasks one after the other on its own goroutine, which ends when the stream is
// destroyed.
type Stream struct {
	handle   uint64
	id       int32
	ctx      *Context
	flags    uint32
	priority uint32

	mu        sync.Mutex
	notEmpty  *sync.Cond
	notFull   *sync.Cond
	queue     []Task // pending tasks start at head
	head      int
	submitted uint64
	completed uint64
	waiters   []*waiter
	fault     *Fault // the next synchronising call returns it
	stop      bool   // stop-on-failure mode
	cancel    chan struct{}
	dropping  int // number of aborts that drop tasks; no other task begins meanwhile
	closed    bool
	done      chan struct{}
	reporter  *reporter // thread that runs the stream's callbacks, nil without a subscription
	attrs     map[int32]attrValue
	cores     coreLimits
	overflow  uint32 // switch of overflow detection

	actor sanitize.Actor // the stream as the sanitizer sees it

	// Receivers of the tasks instead of the queue; nil when tasks go to the queue. Package graph
	// sets them.
	Capture atomic.Pointer[Capture]
	Update  atomic.Pointer[Detour] // a group of tasks of a graph
	Build   atomic.Pointer[Detour] // the stream's place in a graph that is built
}

// waiter is a call that waits until a number of tasks is done or the stream is aborted.
type waiter struct {
	target uint64
	done   chan struct{}
	abort  int32
	clock  sanitize.Clock // of the stream when the tasks were done
}

// newStream creates a stream of the context, or returns the reason why it cannot.
func (c *Context) newStream(flags, priority uint32) (*Stream, *Fault) {
	d := c.device
	if !d.TakeStreams(1) {
		return nil, &Fault{Code: NoStreamResource, Text: "EE1023: the device has no stream left; destroy some, 1984 can exist"}
	}
	s := &Stream{
		id: d.rt.streamCount.Add(1), ctx: c, flags: flags, priority: min(priority, lowestPriority),
		cancel: make(chan struct{}), done: make(chan struct{}),
	}
	s.notEmpty, s.notFull = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.actor.ID = s.id
	s.handle = d.rt.Handles.New(StreamKind, s)
	c.streams[s] = struct{}{}
	go s.loop()
	return s, nil
}

// TakeStreams reserves n of the device's streams. It returns false when fewer are left.
func (d *Device) TakeStreams(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams+n > maxStreams {
		return false
	}
	d.streams += n
	return true
}

func (d *Device) GiveStreams(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams -= n
}

// defaultStream returns the stream that a null handle stands for.
func (c *Context) defaultStream() (*Stream, *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.main == nil {
		s, f := c.newStream(0, 0)
		if f != nil {
			return nil, f
		}
		c.main = s
	}
	return c.main, nil
}

// IsDefault reports whether the stream is the one behind a null handle.
func (s *Stream) IsDefault() bool {
	s.ctx.mu.Lock()
	defer s.ctx.mu.Unlock()
	return s.ctx.main == s
}

// Stream returns the stream of a handle for a call on the thread. A null handle is the default
// stream of the current context, and a stream of another context is refused.
//
//npugen:decode aclrtStream
func (r *Runtime) Stream(t *Thread, h Handle) (*Stream, Code) {
	c, code := r.Current(t)
	if c == nil {
		return nil, code
	}
	if h == 0 {
		s, f := c.defaultStream()
		if f != nil {
			return nil, f.Report(t)
		}
		return s, 0
	}
	s, ok := Lookup[*Stream](&r.Handles, h)
	if !ok {
		return nil, t.Fail(ParamInvalid, "EE1003: %#x is no live stream; was it destroyed?", h)
	}
	if s.ctx != c {
		return nil, t.Fail(StreamContext, "EE1010: the stream belongs to another context (device %d) than the thread's current one (device %d)", s.ctx.device.id, c.device.id)
	}
	return s, 0
}

// Memory returns the memory of the stream's device.
func (s *Stream) Memory() *Memory { return s.ctx.device.memory }

// Handle returns the stream's handle, which is not null for a default stream either.
func (s *Stream) Handle() uint64 { return s.handle }

// ID returns the stream's number in error texts and the trace.
func (s *Stream) ID() int32 { return s.id }

// Completed returns the number of tasks that the stream has done.
func (s *Stream) Completed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.completed
}

// Context returns the context to which the stream belongs.
func (s *Stream) Context() *Context { return s.ctx }

// Persistent reports whether the stream was created to be part of graphs.
func (s *Stream) Persistent() bool { return s.flags&flagPersistent != 0 }

// Device returns the index of the stream's device.
func (s *Stream) Device() int { return s.ctx.device.id }

// Capturing reports whether submitted tasks become part of a graph.
func (s *Stream) Capturing() bool { return s.Capture.Load() != nil || s.Update.Load() != nil }

// Submit queues a task, or passes it to the capture of the stream. It blocks while the queue is
// full. In a context that a failure has stopped, it returns the sticky code.
func (r *Runtime) Submit(t *Thread, s *Stream, task Task) uint64 {
	if f := s.ctx.failure.Load(); f != nil {
		return f.Report(t)
	}
	if c := s.Capture.Load(); c != nil {
		return c.Take(t, s, task)
	}
	if u := s.Update.Load(); u != nil {
		return u.Take(t, s, task)
	}
	if b := s.Build.Load(); b != nil {
		return b.Take(t, s, task)
	}
	r.Schedule.submitted(s, &task)
	if r.sanitizer != nil {
		step := task.step()
		task.after, task.ended = r.sanitizer.Now(), r.sanitizer.Queued(s.id, &step)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue)-s.head >= queueDepth && !s.closed {
		s.notFull.Wait()
	}
	if s.closed {
		task.end()
		return t.Fail(ParamInvalid, "EE1003: the stream was destroyed while %s waited for a place in its queue", task.Name)
	}
	s.push(task)
	return 0
}

// push appends a task to the queue. The caller holds s.mu.
func (s *Stream) push(task Task) {
	if s.head > 0 && len(s.queue) == cap(s.queue) {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, task)
	s.submitted++
	s.notEmpty.Signal()
}

// loop runs the tasks until the stream is closed and empty.
func (s *Stream) loop() {
	defer close(s.done)
	for {
		s.mu.Lock()
		for (s.head == len(s.queue) || s.dropping > 0) && !s.closed {
			s.ctx.device.rt.Trace.Flush()
			s.notEmpty.Wait()
		}
		if s.head == len(s.queue) {
			s.mu.Unlock()
			return
		}
		task := s.queue[s.head]
		s.queue[s.head] = Task{}
		s.head++
		cancel := s.cancel
		if len(s.queue)-s.head == queueRefill {
			s.notFull.Broadcast()
		}
		s.mu.Unlock()
		s.finish(&task, s.run(task, cancel))
	}
}

// run runs one task. In a stopped context it only drops the task.
func (s *Stream) run(task Task, cancel <-chan struct{}) *Fault {
	defer task.end()
	if s.ctx.failure.Load() != nil {
		task.drop()
		return nil
	}
	trace := s.ctx.device.rt.Trace
	begin := trace.now()
	if m := &s.ctx.device.meter; m.begin(&task) {
		defer m.end()
	}
	err := s.injectRun(task.Name)
	if err != nil {
		task.drop()
	} else {
		err = s.Perform(&task, cancel)
	}
	trace.task(s, &task, begin, err)
	if err == nil {
		return nil
	}
	f := FaultOf(task.Name, err)
	s.ctx.device.suffer(s.ctx, f)
	s.ctx.device.rt.notifyException(s, f)
	return f
}

// Perform runs a task after the sanitizer has checked its accesses. A finding of the sanitizer
// takes precedence over the error of the task.
func (s *Stream) Perform(task *Task, cancel <-chan struct{}) error {
	z := s.ctx.device.rt.sanitizer
	if z == nil {
		return task.do(s, cancel)
	}
	step := task.step()
	finding := z.Enter(&s.actor, &step)
	err := task.do(s, cancel)
	z.Leave(&s.actor, &step)
	if finding != "" {
		return &Fault{Code: VectorException, Text: finding}
	}
	return err
}

func (t *Task) drop() {
	if t.Drop != nil {
		t.Drop()
	}
}

func (t *Task) then() {
	if t.Then != nil {
		t.Then()
	}
}

func (t *Task) end() {
	if t.ended != nil {
		t.ended()
	}
}

// finish counts a task as done, stores its fault, and wakes the waiters.
func (s *Stream) finish(task *Task, f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f != nil {
		s.fault = f
		if s.stop {
			s.ctx.failure.CompareAndSwap(nil, f)
		}
	}
	s.completed++
	task.then()
	s.wake(0)
}

// wake releases the waiters whose tasks are done, or all of them when abort is a code. The caller
// holds s.mu.
func (s *Stream) wake(abort int32) {
	kept := s.waiters[:0]
	for _, w := range s.waiters {
		if abort == 0 && w.target > s.completed {
			kept = append(kept, w)
			continue
		}
		w.abort, w.clock = abort, s.ctx.device.rt.sanitizer.Reached(&s.actor)
		close(w.done)
	}
	clear(s.waiters[len(kept):])
	s.waiters = kept
}

// Wait is the time limit of a synchronising call.
type Wait struct{ deadline time.Time }

// NewWait converts a timeout in milliseconds. -1 means no limit; 0 and other negative numbers are
// refused.
func NewWait(milliseconds int32) (w Wait, ok bool) {
	switch {
	case milliseconds == -1:
		return w, true
	case milliseconds <= 0:
		return w, false
	}
	return Wait{time.Now().Add(time.Duration(milliseconds) * time.Millisecond)}, true
}

// On waits for a channel to be closed. It returns false when the time is up.
func (w Wait) On(done <-chan struct{}) bool {
	if w.deadline.IsZero() {
		<-done
		return true
	}
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Synchronize waits for all tasks queued before the call and returns the stream's fault.
func (s *Stream) Synchronize(w Wait) *Fault {
	if s.flags&(flagPersistent|flagCPUSchedule|flagDeviceOnly) != 0 {
		return nil
	}
	if f := s.ctx.device.rt.Schedule.waited(s); f != nil {
		return f
	}
	z := s.ctx.device.rt.sanitizer
	s.mu.Lock()
	if s.completed < s.submitted {
		me := &waiter{target: s.submitted, done: make(chan struct{})}
		s.waiters = append(s.waiters, me)
		s.mu.Unlock()
		if !w.On(me.done) {
			s.expire(me)
			return &Fault{Code: StreamSyncTimeout, Text: "EE1002: stream synchronize timeout"}
		}
		z.Returned(me.clock)
		if me.abort != 0 {
			return &Fault{Code: me.abort, Text: "EE1019: the stream was aborted while a call waited for it"}
		}
		s.mu.Lock()
	} else {
		z.Returned(z.Reached(&s.actor))
	}
	defer s.mu.Unlock()
	if f := s.ctx.failure.Load(); f != nil {
		return f
	}
	f := s.fault
	s.fault = nil
	return f
}

// expire leaves behind what a wait that ran out of time does: an error in the log, and on the
// stream the task by which the runtime would have noticed the end of the work.
func (s *Stream) expire(w *waiter) {
	s.ctx.device.rt.expired.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters = slices.DeleteFunc(s.waiters, func(o *waiter) bool { return o == w })
	if !s.closed && len(s.queue)-s.head < queueDepth {
		s.push(Task{Name: "EVENT_RECORD"})
	}
}

// idle reports whether all queued tasks are done. The fault of the stream stays for a wait.
func (s *Stream) idle() (bool, *Fault) {
	if f := s.ctx.failure.Load(); f != nil {
		return true, f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.completed < s.submitted {
		return false, nil
	}
	if f := s.ctx.device.rt.Schedule.waited(s); f != nil {
		return true, f
	}
	z := s.ctx.device.rt.sanitizer
	z.Returned(z.Reached(&s.actor))
	return true, nil
}

// abort drops the queued tasks and interrupts a task that waits. Blocked calls return code.
func (s *Stream) abort(code int32) {
	s.spoil()
	s.mu.Lock()
	dropped := append([]Task(nil), s.queue[s.head:]...)
	clear(s.queue)
	s.queue, s.head = s.queue[:0], 0
	s.dropping++
	close(s.cancel)
	s.cancel = make(chan struct{})
	s.notFull.Broadcast()
	s.mu.Unlock()
	for i := range dropped {
		dropped[i].drop()
		dropped[i].end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.completed += uint64(len(dropped))
	for i := range dropped {
		dropped[i].then()
	}
	s.wake(code)
	s.dropping--
	s.notEmpty.Broadcast()
}

// close ends the stream and waits for its goroutine. With drain, the queued tasks run first. A
// second call does nothing.
func (s *Stream) close(drain bool) {
	if !drain {
		s.abort(StreamAbort)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.spoil()
	s.notEmpty.Broadcast()
	s.notFull.Broadcast()
	s.mu.Unlock()
	<-s.done
	d := s.ctx.device
	d.rt.sanitizer.Returned(d.rt.sanitizer.Reached(&s.actor))
	d.rt.Handles.Delete(s.handle)
	s.abandon()
	s.ctx.mu.Lock()
	delete(s.ctx.streams, s)
	if s.ctx.main == s {
		s.ctx.main = nil
	}
	s.ctx.mu.Unlock()
	d.GiveStreams(1)
}
