package communication

import (
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// schedules lists the operators by which a worker for attention, or for experts, waits for a micro-batch that the other kind of worker
// has written into its memory.
var schedules = op.Table{
	"InplaceAttentionWorkerScheduler": attentionScheduler,
	"InplaceFfnWorkerScheduler":       expertScheduler,
}.Selects()

// scheduleContext is the layout of the tensor that describes a worker. Addresses are those of device memory.
type scheduleContext struct {
	sessions   uint32 // workers for attention
	batches    uint32 // micro-batches of each
	tokens     uint32 // of a micro-batch
	choices    uint32 // experts of a token
	_          uint32 // experts of a layer
	tokenSize  uint32 // bytes from token to token, where experts receive them
	_          uint32
	mode       int32 // 0 for experts, 1 for attention
	_          [96]byte
	running    int32 // 0 ends a wait
	_          [124]byte
	attention  received
	batch      uint32 // the last micro-batch that was complete
	_          [92]byte
	experts    received
	next       uint64 // the micro-batch that is to be complete next
	_          [88]byte
	layers     region // by session that was complete: its layer, …
	sessionIDs region
	batchIDs   region
	expertIDs  region
	completed  uint32 // sessions of which a micro-batch was complete
	_          [60]byte
	_          [384]byte
}

const contextSize = int64(unsafe.Sizeof(scheduleContext{}))

// received describes the buffers that other workers fill: info receives flags and the numbers of experts, data receives tokens.
type received struct{ info, data region }

// region is memory of the device.
type region struct{ addr, size uint64 }

// flagSet is the value of a flag once what it announces is written.
const flagSet = 1

// worker is a call with a context.
type worker struct {
	c       *op.Call
	context *op.Tensor
	fault   func(format string, args ...any) error
}

// contextOf returns the argument that is the context of a worker.
func contextOf(c *op.Call, name string) *worker {
	w := &worker{c: c, context: c.Tensor(name)}
	w.fault = func(format string, args ...any) error { return op.AICPUFault(c, format, args...) }
	if c.Err() != nil {
		return w
	}
	c.Plain(w.context)
	c.DType(w.context, dtype.Int8)
	switch {
	case w.context.Rank() != 1:
		c.Invalid("%v must have one dimension, the %d bytes of a context", w.context, contextSize)
	case w.context.Len() == 0:
		c.Invalid("%v is empty; a context has %d bytes", w.context, contextSize)
	case !w.context.Contiguous():
		c.Invalid("%v must be contiguous", w.context)
	}
	return w
}

// read returns the context as it is when the stream comes to it.
func (w *worker) read() (*scheduleContext, error) {
	if n := w.context.Len(); n < contextSize {
		return nil, w.fault("%v has %d bytes; a context has %d", w.context, n, contextSize)
	}
	if uintptr(w.context.Data)%8 != 0 {
		return nil, w.fault("%v does not begin at a multiple of 8 bytes", w.context)
	}
	return (*scheduleContext)(w.context.Data), nil
}

// isRunning reports whether the program lets the worker wait. It may change that while the worker does.
func (x *scheduleContext) isRunning() bool { return atomic.LoadInt32(&x.running) != 0 }

// numbers returns the n 32-bit numbers at the start of a region, which must have room for them.
func (w *worker) numbers(x *op.Exec, name string, r region, n int64) ([]int32, error) {
	if uint64(4*n) > r.size {
		return nil, w.fault("%s_size is %d; %d numbers need %d bytes", name, r.size, n, 4*n)
	}
	return w.words(x, name, r.addr, n)
}

// words returns the n 32-bit numbers at an address.
func (w *worker) words(x *op.Exec, name string, addr uint64, n int64) ([]int32, error) {
	if addr%4 != 0 {
		return nil, w.fault("%s is %#x, which is no multiple of 4", name, addr)
	}
	p, err := x.Memory(addr, 4*n)
	if err != nil {
		return nil, w.fault("%s: %v", name, err)
	}
	return unsafe.Slice((*int32)(p), n), nil
}

// sizes returns the product of fields of the context. It refuses a field of 0, and a product above 2^40.
func (w *worker) sizes(names []string, values ...uint32) (int64, error) {
	n := int64(1)
	for i, v := range values {
		if v == 0 {
			return 0, w.fault("%s is 0", names[i])
		}
		if n > 1<<40/int64(v) {
			return 0, w.fault("%v are %v; no memory holds as much", names, values)
		}
		n *= int64(v)
	}
	return n, nil
}

// complete reports whether all flags are set, as another stream or process may do meanwhile.
func complete(flags []int32) bool {
	for i := range flags {
		if atomic.LoadInt32(&flags[i]) != flagSet {
			return false
		}
	}
	return true
}

// flagged declares no accesses. A call with it reads only buffers that other workers fill, and flags order these accesses; the sanitizer
// does not see flags.
func flagged(*op.Exec) []sanitize.Access { return nil }

// access describes memory at an address within the context.
func access(name string, touch sanitize.Touch, addr uint64, bytes int64) sanitize.Access {
	return sanitize.Bytes(name, touch, addr, uint64(bytes))
}

// attentionScheduler waits until experts have returned all tokens of the next micro-batch, clears their flags, and notes the micro-batch.
func attentionScheduler(c *op.Call) (op.Run, error) {
	w := contextOf(c, "scheduleContextRef")
	if c.Err() != nil {
		return nil, c.Err()
	}
	// next returns the next micro-batch and its flags.
	next := func(x *op.Exec) (s *scheduleContext, batch uint32, flags []int32, err error) {
		if s, err = w.read(); err != nil {
			return nil, 0, nil, err
		}
		if s.mode != 1 {
			return nil, 0, nil, w.fault("schedule_mode is %d; a worker for attention has 1", s.mode)
		}
		all, err := w.sizes([]string{"micro_batch_num", "micro_batch_size", "selected_expert_num"}, s.batches, s.tokens, s.choices)
		if err != nil {
			return nil, 0, nil, err
		}
		if s.attention.data.addr == 0 {
			return nil, 0, nil, w.fault("token_data_buf is null")
		}
		if s.batch >= s.batches {
			return nil, 0, nil, w.fault("micro_batch_id is %d; there are %d", s.batch, s.batches)
		}
		words, err := w.numbers(x, "token_info_buf", s.attention.info, all)
		if err != nil {
			return nil, 0, nil, err
		}
		batch, n := (s.batch+1)%s.batches, all/int64(s.batches)
		return s, batch, words[int64(batch)*n:][:n], nil
	}
	c.Follow(flagged)
	c.Await(func(x *op.Exec) (bool, error) {
		s, _, flags, err := next(x)
		return err != nil || !s.isRunning() || complete(flags), err
	})
	return func(x *op.Exec) error {
		s, batch, flags, err := next(x)
		if err != nil || !s.isRunning() {
			return err
		}
		clear(flags)
		s.batch = batch
		return nil
	}, nil
}

// emptyExpert replaces the numbers of experts that were read. A token with this number was not sent.
const emptyExpert = 0x7f7f7f7f

// syncGroup is a number of sessions of which a worker for experts takes a micro-batch together.
type syncGroup struct{ first, end int64 }

// expertScheduler waits until all sessions of a group have sent a micro-batch, and lists these sessions with their layers and experts. If
// there is one group, its micro-batches come in order; of several it takes the first complete one of each.
func expertScheduler(c *op.Call) (op.Run, error) {
	w, together := contextOf(c, "scheduleContextRef"), c.Int("syncGroupSize")
	if c.Err() == nil && c.Int("executeMode") != 0 {
		c.Invalid("executeMode is %d; 0 (once) is supported", c.Int("executeMode"))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Follow(func(x *op.Exec) []sanitize.Access {
		t, err := w.sessions(x, together)
		if err != nil {
			return nil
		}
		n := int64(t.s.sessions)
		return []sanitize.Access{
			access("layer_ids_buf", sanitize.WritesSome, t.s.layers.addr, 4*n),
			access("session_ids_buf", sanitize.WritesSome, t.s.sessionIDs.addr, 4*n),
			access("micro_batch_ids_buf", sanitize.WritesSome, t.s.batchIDs.addr, 4*n), access("expert_ids_buf", sanitize.WritesSome, t.s.expertIDs.addr, 4*int64(len(t.expertIDs))),
		}
	})
	c.Await(func(x *op.Exec) (bool, error) {
		t, err := w.sessions(x, together)
		return err != nil || !t.s.isRunning() || len(t.ready()) > 0, err
	})
	return func(x *op.Exec) error {
		t, err := w.sessions(x, together)
		if err != nil {
			return err
		}
		t.s.completed = 0
		if !t.s.isRunning() {
			return nil
		}
		for _, r := range t.ready() {
			for session := r.first; session < r.end; session++ {
				t.take(session, r.batch)
			}
		}
		if len(t.groups) == 1 {
			t.s.next = (t.s.next + 1) % uint64(t.s.batches)
		}
		return nil
	}, nil
}

// sessions is the memory in which workers for attention announce tokens, and that in which a worker for experts lists them.
type sessions struct {
	s                                       *scheduleContext
	groups                                  []syncGroup
	info                                    []int32 // by session and micro-batch: a flag, the layer, and the experts of each token
	row                                     int64   // numbers of a micro-batch in info
	layers, sessionIDs, batchIDs, expertIDs []int32
}

func (w *worker) sessions(x *op.Exec, together int64) (*sessions, error) {
	s, err := w.read()
	if err != nil {
		return nil, err
	}
	if s.mode != 0 {
		return nil, w.fault("schedule_mode is %d; a worker for experts has 0", s.mode)
	}
	if _, err := w.sizes([]string{"session_num", "micro_batch_num", "micro_batch_size", "selected_expert_num"}, s.sessions, s.batches, s.tokens, s.choices); err != nil {
		return nil, err
	}
	n := int64(s.sessions)
	if together < 1 || together > n || n%together != 0 {
		return nil, w.fault("syncGroupSize is %d; it must divide the %d sessions", together, n)
	}
	if s.next >= uint64(s.batches) {
		return nil, w.fault("polling_index is %d; there are %d micro-batches", s.next, s.batches)
	}
	if s.experts.data.addr == 0 {
		return nil, w.fault("token_data_buf is null")
	}
	t := &sessions{s: s, row: 2 + int64(s.tokens)*int64(s.choices)}
	for first := int64(0); first < n; first += together {
		t.groups = append(t.groups, syncGroup{first, first + together})
	}
	for _, r := range []struct {
		name string
		region
		into *[]int32
		n    int64
	}{
		{"token_info_buf", s.experts.info, &t.info, n * int64(s.batches) * t.row}, {"layer_ids_buf", s.layers, &t.layers, n}, {"session_ids_buf", s.sessionIDs, &t.sessionIDs, n},
		{"micro_batch_ids_buf", s.batchIDs, &t.batchIDs, n}, {"expert_ids_buf", s.expertIDs, &t.expertIDs, n * (t.row - 2)},
	} {
		if *r.into, err = w.numbers(x, r.name, r.region, r.n); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// of returns what a session announces of a micro-batch.
func (t *sessions) of(session, batch int64) []int32 {
	return t.info[(session*int64(t.s.batches)+batch)*t.row:][:t.row]
}

// ready returns the groups that have a complete micro-batch, with its number.
func (t *sessions) ready() (all []readyGroup) {
	for _, g := range t.groups {
		first, end := int64(0), int64(t.s.batches)
		if len(t.groups) == 1 {
			first, end = int64(t.s.next), int64(t.s.next)+1
		}
		for batch := first; batch < end; batch++ {
			if t.complete(g, batch) {
				all = append(all, readyGroup{g, batch})
				break
			}
		}
	}
	return all
}

type readyGroup struct {
	syncGroup
	batch int64
}

func (t *sessions) complete(g syncGroup, batch int64) bool {
	for session := g.first; session < g.end; session++ {
		if !complete(t.of(session, batch)[:1]) {
			return false
		}
	}
	return true
}

// take lists a session, and makes its micro-batch one that is not announced.
func (t *sessions) take(session, batch int64) {
	announced, out := t.of(session, batch), int64(t.s.completed)
	t.layers[out], t.sessionIDs[out], t.batchIDs[out] = announced[1], int32(session), int32(batch)
	copy(t.expertIDs[out*(t.row-2):], announced[2:])
	for i := range announced[2:] {
		announced[2+i] = emptyExpert
	}
	announced[0] = 0
	t.s.completed++
}
