package ccl

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/emu/rt"
)

// function is the name of a C function, in a fixed size so that a header can be sent as is.
type function [24]byte

func functionOf(name string) (f function) {
	copy(f[:], name)
	return f
}

func (f function) String() string {
	name, _, _ := bytes.Cut(f[:], []byte{0})
	return string(name)
}

// header describes the call that a message belongs to. The receiver compares it with its own
// call, because both ends must make the same one.
type header struct {
	Call  function
	Phase int32
	Type  int32 // HcclDataType
	Op    int32 // HcclReduceOp, 0 where nothing is reduced
	Root  uint32
	Count uint64 // number of elements, 0 where it may differ between ranks
}

// message is a header with its bytes, which must not change until done has received a value.
type message struct {
	header header
	bytes  []byte
	memory *rt.Memory      // the memory that holds the bytes
	done   chan<- struct{} // receives one value, if send returned true
}

// incoming is a message at the receiver. Its bytes are in mapped memory, or at an address in
// the sender's process, from which they are fetched in pieces.
type incoming struct {
	header  header
	size    uint64
	bytes   []byte
	address uint64
	buffer  []byte // for fetched pieces, nil when the bytes are in mapped memory
	body    []byte // memory of the receiver that holds the bytes and is to be released
	link    link
	lent    bool            // the bytes are in memory that the sender may withdraw
	place   uint64          // position in the ring of shared memory just after the message
	done    chan<- struct{} // the done channel of a sender in this process
}

// next returns the next n bytes. They are valid until the next call.
func (m *incoming) next(n int) ([]byte, error) {
	if m.buffer != nil {
		b := m.buffer[:n]
		return b, m.take(b)
	}
	b := m.bytes[:n]
	m.bytes = m.bytes[n:]
	return b, nil
}

// take copies the next len(to) bytes to to.
func (m *incoming) take(to []byte) error {
	if m.buffer != nil {
		m.address += uint64(len(to))
		return m.link.fetch(to, m.address-uint64(len(to)))
	}
	copy(to, m.bytes)
	m.bytes = m.bytes[len(to):]
	return nil
}

// link carries the messages between two ranks, in order in each direction.
type link interface {
	// send queues a message without waiting. It reports whether done will receive a value.
	send(m message) bool
	// receive takes the next message.
	receive(l *limit) (incoming, error)
	// fetch reads the sender's memory, for messages that carry only an address.
	fetch(to []byte, address uint64) error
	// finish reports to the sender that a message has been read. It is called once per message and
	// fails if the sender withdrew the bytes before.
	finish(m *incoming) error
	// settle waits until the peer has read what was sent, for links whose receiver does not
	// send to done itself.
	settle(l *limit) error
	// recall withdraws messages that were not received yet, after a failed collective.
	recall()
	// abort reports to the peer that this rank's communicator failed, and the reason.
	abort(reason string)
	// close closes this rank's side. What it sent can still be received.
	close()
}

// queue is one direction of a link between ranks of one process.
type queue struct {
	mu       sync.Mutex
	messages []message
	arrived  chan struct{} // receives a value when messages or closed changes
	closed   bool
	events   atomic.Int32 // number of queued messages, plus 1 when closed
}

func newQueue() *queue { return &queue{arrived: make(chan struct{}, 1)} }

func (q *queue) wake() {
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

func (q *queue) put(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, m)
	q.events.Add(1)
	q.wake()
}

// ready reports whether there is something to take.
func (q *queue) ready() bool { return q.events.Load() > 0 }

// shut marks the end of the queue: no message follows.
func (q *queue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.events.Add(1)
	}
	q.wake()
}

func (q *queue) take() (m message, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return m, false, q.closed
	}
	m = q.messages[0]
	if len(q.messages) == 1 { // keep the slice's capacity
		q.messages[0], q.messages = message{}, q.messages[:0]
	} else {
		q.messages[0], q.messages = message{}, q.messages[1:]
	}
	q.events.Add(-1)
	if len(q.messages) > 0 || q.closed {
		q.wake()
	}
	return m, true, false
}

// pipe is one rank's end of a link within a process. The receiver reads the sender's memory in
// place.
type pipe struct {
	out, in *queue
	peer    int
	theirs  func() *comm // the peer's communicator, nil before it exists
}

func (p *pipe) send(m message) bool {
	p.out.put(m)
	return true
}

func (p *pipe) receive(l *limit) (incoming, error) {
	spin(p.in.ready)
	for {
		m, ok, closed := p.in.take()
		if ok {
			return incoming{header: m.header, size: uint64(len(m.bytes)), bytes: m.bytes, link: p, done: m.done}, nil
		}
		if closed {
			return incoming{}, l.left(p.peer)
		}
		if err := l.wait(p.in.arrived); err != nil && !p.in.ready() {
			return incoming{}, err
		}
	}
}

func (p *pipe) fetch([]byte, uint64) error { return nil } // never called

func (p *pipe) finish(m *incoming) error {
	m.done <- struct{}{}
	return nil
}

func (p *pipe) settle(*limit) error { return nil }

func (p *pipe) recall() {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	for _, m := range p.out.messages {
		m.done <- struct{}{}
		p.out.events.Add(-1)
	}
	p.out.messages = nil
}

func (p *pipe) abort(reason string) {
	if c := p.theirs(); c != nil {
		c.fail(fault(faultLost, "%s", reason))
	}
}

func (p *pipe) close() { p.out.shut() }

func gone(peer int) error {
	return fault(faultLost, "EI0006: rank %d left the communicator: its process ended, or it destroyed the communicator before its peers were done", peer)
}
