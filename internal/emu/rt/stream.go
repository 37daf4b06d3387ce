package rt

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/abi"
)

const (
	lowestPriority = 7
	maxStreams     = 1984 // per device, default streams included
	queueDepth     = 2013 // tasks a stream may hold before a launch blocks
	queueRefill    = 1500 // tasks left when launches that blocked go on: not one by one

	flagPersistent  = uint32(abi.ACL_STREAM_PERSISTENT)
	flagCPUSchedule = uint32(abi.ACL_STREAM_CPU_SCHEDULE)
	flagDeviceOnly  = uint32(abi.ACL_STREAM_DEVICE_USE_ONLY)
)

// Stream runs its tasks one after the other on a goroutine of its own, which ends when the
// stream is destroyed.
type Stream struct {
	handle   uint64
	id       int32
	ctx      *Context
	flags    uint32
	priority uint32

	mu        sync.Mutex
	notEmpty  *sync.Cond
	notFull   *sync.Cond
	queue     []Task // from head on
	head      int
	submitted uint64
	completed uint64
	waiters   []*waiter
	fault     *Fault // the next synchronising call returns it
	stop      bool   // stop-on-failure mode
	cancel    chan struct{}
	closed    bool
	done      chan struct{}
	reporter  *reporter // thread that runs the stream's callbacks, nil when none subscribed
	attrs     map[int32][16]byte
	cores     coreLimits
	overflow  uint32 // switch of overflow detection

	clock vectorClock // what lies before its next task, for the sanitizer

	capture atomic.Pointer[capture]     // the capture that gets the tasks, nil for none
	update  atomic.Pointer[groupUpdate] // the group of a graph that gets them
	bound   atomic.Pointer[boundStream] // its place in a graph that is built, which gets them
}

// waiter is a call that waits until a number of tasks is done, or until an abort.
type waiter struct {
	target uint64
	done   chan struct{}
	abort  int32
	clock  vectorClock // of the stream when the tasks were done
}

// newStream makes a stream of the context, or says why there can be none.
func (c *Context) newStream(flags, priority uint32) (*Stream, *Fault) {
	d := c.device
	if !d.takeStreams(1) {
		return nil, &Fault{Code: noStreamResource, Text: "EE1023: the device has no stream left; destroy some, 1984 can exist"}
	}
	s := &Stream{
		id: d.rt.streamCount.Add(1), ctx: c, flags: flags, priority: min(priority, lowestPriority),
		cancel: make(chan struct{}), done: make(chan struct{}),
	}
	s.notEmpty, s.notFull = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.handle = d.rt.Handles.New(StreamKind, s)
	c.streams[s] = struct{}{}
	go s.loop()
	return s, nil
}

// takeStreams takes n of the device's streams, if it has as many left.
func (d *Device) takeStreams(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams+n > maxStreams {
		return false
	}
	d.streams += n
	return true
}

func (d *Device) giveStreams(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams -= n
}

// defaultStream is the stream behind a null handle.
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

// isDefault reports whether the stream is the one behind a null handle.
func (s *Stream) isDefault() bool {
	s.ctx.mu.Lock()
	defer s.ctx.mu.Unlock()
	return s.ctx.main == s
}

// Stream finds the stream of a handle for a call on the thread: a null handle is the
// default stream of the current context, and a stream of another context is refused.
func (r *Runtime) Stream(t *Thread, h uint64) (*Stream, int32) {
	c, code := r.current(t)
	if c == nil {
		return nil, int32(code)
	}
	if h == 0 {
		s, f := c.defaultStream()
		if f != nil {
			return nil, int32(f.report(t))
		}
		return s, 0
	}
	s, ok := Lookup[*Stream](&r.Handles, h)
	if !ok {
		return nil, int32(t.Fail(paramInvalid, "EE1003: %#x is no live stream; was it destroyed?", h))
	}
	if s.ctx != c {
		return nil, int32(t.Fail(streamContext, "EE1010: the stream belongs to another context (device %d) than the thread's current one (device %d)", s.ctx.device.id, c.device.id))
	}
	return s, 0
}

// Memory is the memory of the stream's device.
func (s *Stream) Memory() *Memory { return s.ctx.device.memory }

// Device is the index of the stream's device.
func (s *Stream) Device() int { return s.ctx.device.id }

// Capturing reports whether what is submitted now becomes part of a graph.
func (s *Stream) Capturing() bool { return s.capture.Load() != nil || s.update.Load() != nil }

// Submit queues a task, or gives it to the capture that the stream is part of. It blocks
// while the queue is full, and refuses with the sticky code of a context that a failure
// stopped.
func (r *Runtime) Submit(t *Thread, s *Stream, task Task) uint64 {
	if f := s.ctx.failure.Load(); f != nil {
		return f.report(t)
	}
	if c := s.capture.Load(); c != nil {
		return c.add(t, s, task)
	}
	if u := s.update.Load(); u != nil {
		u.tasks = append(u.tasks, task)
		return 0
	}
	if b := s.bound.Load(); b != nil {
		return b.add(t, task)
	}
	task.after = r.sanitizer.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue)-s.head >= queueDepth && !s.closed {
		s.notFull.Wait()
	}
	if s.closed {
		return t.Fail(paramInvalid, "EE1003: the stream was destroyed while %s waited for a place in its queue", task.Name)
	}
	if s.head > 0 && len(s.queue) == cap(s.queue) {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, task)
	s.submitted++
	s.notEmpty.Signal()
	return 0
}

// loop runs the tasks until the stream is closed and empty.
func (s *Stream) loop() {
	defer close(s.done)
	for {
		s.mu.Lock()
		for s.head == len(s.queue) && !s.closed {
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
		s.finish(s.run(task, cancel))
	}
}

// run runs one task; in a stopped context it only drops it.
func (s *Stream) run(task Task, cancel <-chan struct{}) *Fault {
	if s.ctx.failure.Load() != nil {
		task.drop()
		return nil
	}
	trace := s.ctx.device.rt.Trace
	begin := trace.now()
	err := s.injectRun(task.Name)
	if err != nil {
		task.drop()
	} else {
		err = s.perform(&task, cancel)
	}
	trace.task(s, task.Name, begin, err)
	if err == nil {
		return nil
	}
	f := faultOf(task.Name, err)
	s.ctx.device.rt.notifyException(s, f)
	return f
}

// perform runs a task under the eyes of the sanitizer, which speaks first.
func (s *Stream) perform(task *Task, cancel <-chan struct{}) error {
	z := s.ctx.device.rt.sanitizer
	seen := z.enter(s, task)
	err := task.do(s, cancel)
	z.leave(s, task)
	if seen != nil {
		return seen
	}
	return err
}

func (t Task) drop() {
	if t.Drop != nil {
		t.Drop()
	}
}

// finish counts a task as done, keeps its fault, and wakes who waited for it.
func (s *Stream) finish(f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f != nil {
		s.fault = f
		if s.stop {
			s.ctx.failure.CompareAndSwap(nil, f)
		}
	}
	s.completed++
	s.wake(0)
}

// wake releases the waiters whose tasks are done, or all of them with an abort code; s.mu
// is held.
func (s *Stream) wake(abort int32) {
	kept := s.waiters[:0]
	for _, w := range s.waiters {
		if abort == 0 && w.target > s.completed {
			kept = append(kept, w)
			continue
		}
		w.abort, w.clock = abort, s.ctx.device.rt.sanitizer.reached(s)
		close(w.done)
	}
	clear(s.waiters[len(kept):])
	s.waiters = kept
}

// wait bounds a synchronising call.
type wait struct{ deadline time.Time }

// newWait reads a timeout in milliseconds: -1 waits for ever, 0 and other negative numbers
// are refused.
func newWait(milliseconds int32) (w wait, ok bool) {
	switch {
	case milliseconds == -1:
		return w, true
	case milliseconds <= 0:
		return w, false
	}
	return wait{time.Now().Add(time.Duration(milliseconds) * time.Millisecond)}, true
}

// on waits for a channel; false means that the time is up.
func (w wait) on(done <-chan struct{}) bool {
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

// synchronize waits for what was queued before the call and returns the stream's fault.
func (s *Stream) synchronize(w wait) *Fault {
	if s.flags&(flagPersistent|flagCPUSchedule|flagDeviceOnly) != 0 {
		return nil
	}
	z := s.ctx.device.rt.sanitizer
	s.mu.Lock()
	if s.completed < s.submitted {
		me := &waiter{target: s.submitted, done: make(chan struct{})}
		s.waiters = append(s.waiters, me)
		s.mu.Unlock()
		if !w.on(me.done) {
			return &Fault{Code: streamSyncTimeout, Text: "EE1002: stream synchronize timeout"}
		}
		z.returned(me.clock)
		if me.abort != 0 {
			return &Fault{Code: me.abort, Text: "EE1019: the stream was aborted while a call waited for it"}
		}
		s.mu.Lock()
	} else {
		z.returned(z.reached(s))
	}
	defer s.mu.Unlock()
	if f := s.ctx.failure.Load(); f != nil {
		return f
	}
	f := s.fault
	s.fault = nil
	return f
}

// idle reports whether everything queued is done, and the fault to return if so.
func (s *Stream) idle() (bool, *Fault) {
	if f := s.ctx.failure.Load(); f != nil {
		return true, f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.completed < s.submitted {
		return false, nil
	}
	z := s.ctx.device.rt.sanitizer
	z.returned(z.reached(s))
	f := s.fault
	s.fault = nil
	return true, f
}

// abort drops the queued tasks and interrupts a task that waits; blocked calls get code.
func (s *Stream) abort(code int32) {
	s.spoil()
	s.mu.Lock()
	dropped := append([]Task(nil), s.queue[s.head:]...)
	clear(s.queue)
	s.queue, s.head = s.queue[:0], 0
	s.completed += uint64(len(dropped))
	close(s.cancel)
	s.cancel = make(chan struct{})
	s.wake(code)
	s.notFull.Broadcast()
	s.mu.Unlock()
	for _, t := range dropped {
		t.drop()
	}
}

// close ends the stream, after its tasks when drain is set, and waits for its goroutine.
// Closing twice does nothing.
func (s *Stream) close(drain bool) {
	if !drain {
		s.abort(streamAbort)
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
	d.rt.sanitizer.returned(d.rt.sanitizer.reached(s))
	d.rt.Handles.Delete(s.handle)
	d.rt.abandon(s)
	s.ctx.mu.Lock()
	delete(s.ctx.streams, s)
	if s.ctx.main == s {
		s.ctx.main = nil
	}
	s.ctx.mu.Unlock()
	d.giveStreams(1)
}
