package rt

import (
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Modes of a capture: they limit which threads may make calls that the capture cannot record.
const (
	CaptureGlobal      = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
	CaptureThreadLocal = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)
	CaptureRelaxed     = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
)

// Taker receives the tasks submitted to a stream, instead of the stream's queue.
type Taker interface {
	Take(t *Thread, s *Stream, task Task) Code
}

// Detour wraps a Taker, so that a stream can hold it in an atomic pointer.
type Detour struct{ Taker }

// Recorder is the interface of a capture; package graph implements it.
type Recorder interface {
	Taker
	// Mark returns a mark for an event recorded on the stream now.
	Mark(s *Stream) Mark
	// Spoil makes the capture end with an error, because one of its streams was aborted or
	// destroyed.
	Spoil()
	// Abandon ends the capture, because the stream on which it began no longer exists.
	Abandon()
}

// Mark is the point of a captured stream at which an event was recorded.
type Mark interface {
	// Join makes a stream wait for the mark and adds the stream to the capture.
	Join(t *Thread, s *Stream) Code
}

// Capture is a capture under way: it records the tasks of its streams into a graph instead of
// running them.
type Capture struct {
	Recorder
	Origin *Stream // on which it began
	Mode   int32
	Thread *Thread // which began it
}

// Captures holds the captures under way.
type Captures struct {
	mu  sync.Mutex
	all map[*Capture]struct{}
}

// Add registers a capture that begins.
func (c *Captures) Add(x *Capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*Capture]struct{})
	}
	c.all[x] = struct{}{}
}

// Remove drops a capture that has ended.
func (c *Captures) Remove(x *Capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x)
}

// forbid reports whether the thread may not make calls that a capture cannot record. A global
// capture forbids them to every thread in global mode; a global or thread-local capture forbids
// them to the thread that began it. A relaxed thread is always allowed.
func (c *Captures) forbid(t *Thread) bool {
	if t.captureMode == CaptureRelaxed {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.Mode != CaptureRelaxed && x.Thread == t || x.Mode == CaptureGlobal && t.captureMode == CaptureGlobal {
			return true
		}
	}
	return false
}

// onDevice reports whether a stream of the device is capturing.
func (c *Captures) onDevice(d *Device) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		if x.Origin.ctx.device == d {
			return true
		}
	}
	return false
}

// spoil makes the capture of an aborted or destroyed stream end with an error.
func (s *Stream) spoil() {
	if c := s.Capture.Load(); c != nil {
		c.Spoil()
	}
}

// abandon ends the capture that began on this stream, because the stream no longer exists.
func (s *Stream) abandon() {
	if c := s.Capture.Load(); c != nil && c.Origin == s {
		c.Abandon()
	}
}

// aclmdlRICaptureThreadExchangeMode swaps the mode by which captures restrict this thread.
func aclmdlRICaptureThreadExchangeMode(t *Thread, mode Out[int32]) Code {
	next := In[int32](mode).Get()
	if next < CaptureGlobal || next > CaptureRelaxed {
		return t.Fail(ParamInvalid, "EE1003: aclmdlRICaptureThreadExchangeMode: mode %d is unknown", next)
	}
	mode.Set(t.captureMode)
	t.captureMode = next
	return 0
}
