package ccl

import "sync"

// header is what a rank tells another about the message that follows: both ends must be
// doing the same.
type header struct {
	Call  string // C function
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
	done   chan<- error // gets one value
}

// incoming is a message at the receiver.
type incoming struct {
	header header
	size   uint64
	next   func(n int) ([]byte, error) // the next n bytes, valid until the next call
	fill   func(to []byte) error       // the next len(to) bytes, where there is a shorter way than next
	end    func()                      // lets the sender go; once
}

// take puts the whole message into to.
func (m *incoming) take(to []byte) error {
	if m.fill != nil {
		return m.fill(to)
	}
	b, err := m.next(len(to))
	copy(to, b)
	return err
}

// whole is next for a message that lies in memory.
func whole(b []byte) func(n int) ([]byte, error) {
	at := 0
	return func(n int) ([]byte, error) { at += n; return b[at-n : at], nil }
}

// link carries the messages of a pair of ranks, in order in each direction.
type link interface {
	// send hands a message over without waiting.
	send(m message)
	// receive takes the next message.
	receive(l *limit) (incoming, error)
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
	q.wake()
}

// ready reports whether there is something to take.
func (q *queue) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages) > 0 || q.closed
}

func (q *queue) take() (m message, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return m, false, q.closed
	}
	m = q.messages[0]
	q.messages[0] = message{}
	q.messages = q.messages[1:]
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

func (p *pipe) send(m message) { p.out.put(m) }

func (p *pipe) receive(l *limit) (incoming, error) {
	linger(p.in.ready)
	for {
		m, ok, closed := p.in.take()
		if ok {
			return incoming{header: m.header, size: uint64(len(m.bytes)), next: whole(m.bytes), end: func() { m.done <- nil }}, nil
		}
		if closed {
			return incoming{}, gone(p.peer)
		}
		if err := l.wait(p.in.arrived); err != nil {
			return incoming{}, err
		}
	}
}

func (p *pipe) settle(*limit) error { return nil }

func (p *pipe) recall() {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	for _, m := range p.out.messages {
		m.done <- nil
	}
	p.out.messages = nil
}

func (p *pipe) abort(reason string) {
	if c := p.theirs(); c != nil {
		c.fail(fault(faultLost, "%s", reason))
	}
}

func (p *pipe) close() {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	p.out.closed = true
	p.out.wake()
}

func gone(peer int) error {
	return fault(faultLost, "EI0006: rank %d left the communicator: its process ended, or it destroyed the communicator before its peers were done", peer)
}
