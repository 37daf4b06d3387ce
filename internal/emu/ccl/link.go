package ccl

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/emu/rt"
)

// function is the name of a C function, of a fixed size for the way between processes.
type function [24]byte

func functionOf(name string) (f function) {
	copy(f[:], name)
	return f
}

func (f function) String() string {
	name, _, _ := bytes.Cut(f[:], []byte{0})
	return string(name)
}

// header is what a rank tells another about the message that follows: both ends must be
// doing the same.
type header struct {
	Call  function
	Phase int32
	Type  int32 // HcclDataType
	Op    int32 // HcclReduceOp, 0 where nothing is reduced
	Root  uint32
	Count uint64 // elements, 0 where ranks may differ
}

// message is a header and its bytes. Its bytes stay unchanged until its sender got done.
type message struct {
	header header
	bytes  []byte
	memory *rt.Memory      // that the bytes are of
	done   chan<- struct{} // gets one value, if send says so
}

// incoming is a message at the receiver: bytes in memory, or an address of the sender's from
// which they are fetched by pieces.
type incoming struct {
	header  header
	size    uint64
	bytes   []byte
	address uint64
	buffer  []byte // for what is fetched, nil when the bytes are in memory
	body    []byte // memory of the receiver that holds them, to be released
	link    link
	lent    bool            // the bytes are in memory of a process that may take it back
	place   uint64          // where a lane's ring ends behind it
	done    chan<- struct{} // of a sender in this process
}

// next is the next n bytes, valid until the next call.
func (m *incoming) next(n int) ([]byte, error) {
	if m.buffer != nil {
		b := m.buffer[:n]
		return b, m.take(b)
	}
	b := m.bytes[:n]
	m.bytes = m.bytes[n:]
	return b, nil
}

// take puts the next len(to) bytes into to.
func (m *incoming) take(to []byte) error {
	if m.buffer != nil {
		m.address += uint64(len(to))
		return m.link.fetch(to, m.address-uint64(len(to)))
	}
	copy(to, m.bytes)
	m.bytes = m.bytes[len(to):]
	return nil
}

// link carries the messages of a pair of ranks, in order in each direction.
type link interface {
	// send hands a message over without waiting; it reports whether done will get a value.
	send(m message) bool
	// receive takes the next message.
	receive(l *limit) (incoming, error)
	// fetch reads the sender's memory, where messages do not come with their bytes.
	fetch(to []byte, address uint64) error
	// finish lets the sender of a message go, once; it fails when the sender took its bytes
	// back before.
	finish(m *incoming) error
	// settle waits until the peer has read what was sent, where the peer does not say so by
	// itself.
	settle(l *limit) error
	// recall takes back what was not received yet, at the end of a failed collective.
	recall()
	// abort tells the peer that this rank gives up, and why.
	abort(reason string)
	// close ends this rank's side: what it sent can still be received.
	close()
}

// queue is one direction of a link between ranks of one process.
type queue struct {
	mu       sync.Mutex
	messages []message
	arrived  chan struct{} // has a value when messages or closed changed
	closed   bool
	events   atomic.Int32 // messages there are, and one for closed
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

// shut says that nothing follows.
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
	if len(q.messages) == 1 { // keeps the room
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

// pipe is one rank's end of a link within a process: a message is the sender's memory, which
// the receiver reads in place.
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
	linger(p.in.ready)
	for {
		m, ok, closed := p.in.take()
		if ok {
			return incoming{header: m.header, size: uint64(len(m.bytes)), bytes: m.bytes, link: p, done: m.done}, nil
		}
		if closed {
			return incoming{}, gone(p.peer)
		}
		if err := l.wait(p.in.arrived); err != nil {
			return incoming{}, err
		}
	}
}

func (p *pipe) fetch([]byte, uint64) error { return nil } // never asked for

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
