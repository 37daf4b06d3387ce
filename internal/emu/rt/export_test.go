package rt

import "time"

// Accessors for state that tests need and C functions do not show.

type TraceEvent = traceEvent

const (
	QueueDepth   = queueDepth
	MaxStreams   = maxStreams
	MaxWarm      = maxWarm
	MostManaged  = mostManaged
	RecordPlaces = recordPlaces
)

var ShareName = shareName

// Waiters returns the number of calls that wait for the stream.
func (s *Stream) Waiters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters)
}

// Queued returns the number of tasks that the stream has not started.
func (s *Stream) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) - s.head
}

// AwaitRecord waits until a shared event has been recorded once.
func (e *Event) AwaitRecord(limit time.Duration) {
	page := e.shared.page
	page.until(0, func() bool { return page.word(0).Load() > 0 }, nil, after(limit))
}

func (r *Runtime) Allocators() int { return len(r.allocators.of) }

func (f *Faults) Hit(name string, device int) int32 { return f.hit(name, device) }

func (t *Trace) Close() error { return t.file.Close() }

func (m *Memory) Info() (free, total uint64)         { return m.info() }
func (m *Memory) HostBytes(start, end uint64) []byte { return m.bytes(start, end) }

func (r *Runtime) MemoryOf(addr uint64) *Memory { return r.memoryOf(addr) }

func (m *Memory) FreeRanges() int { return len(m.free) }
