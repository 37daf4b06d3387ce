package ccl

import (
	"slices"
	"sync/atomic"
)

// sharedLink is the link of a communicator between two processes of one host. Headers and small
// messages go through shared memory, and large messages are read from the sender's memory. The
// embedded channel carries aborts and the end of the link.
type sharedLink struct {
	*channel
	r       *region
	pair    int
	out, in *ring
	at      uint64 // position up to which in was read
	sent    uint32 // number of records written to out
	held    []promise
	backlog []message // messages that wait for room in the ring
	piece   []byte    // buffer for memory that is read from the other process
}

// promise is a sent message whose bytes the peer still has to read.
type promise struct {
	record uint32
	done   chan<- struct{}
}

func newSharedLink(ch *channel, r *region) (*sharedLink, error) {
	pair, err := r.claim(ch.id)
	if err != nil {
		return nil, err
	}
	buffer, err := scratch(piece)
	if err != nil {
		return nil, refuse(internal, "EI0007: %v", err)
	}
	return &sharedLink{channel: ch, r: r, pair: pair, out: r.ring(pair, r.side), in: r.ring(pair, 1-r.side), piece: buffer}, nil
}

func (n *sharedLink) send(m message) bool {
	if len(n.backlog) == 0 {
		if inline, ok := n.push(m); ok {
			return !inline
		}
	}
	n.backlog = append(n.backlog, m)
	return true
}

// push writes a message to the ring. It reports whether the bytes were copied into the ring,
// and whether there was room.
func (n *sharedLink) push(m message) (inline, ok bool) {
	if inline, ok = n.out.put(m, n.r.memory); ok {
		n.sent++
		if !inline {
			n.held = append(n.held, promise{n.sent, m.done})
		}
	}
	return inline, ok
}

// flush writes as much of the backlog to the ring as there is room for.
func (n *sharedLink) flush() {
	sent := 0
	for ; sent < len(n.backlog); sent++ {
		m := n.backlog[sent]
		inline, ok := n.push(m)
		if !ok {
			break
		}
		if inline {
			m.done <- struct{}{}
		}
	}
	n.backlog = slices.Delete(n.backlog, 0, sent)
}

// watch waits until ready returns true. It polls for a while and then sleeps on word, which
// the peer changes; while it sleeps, asleep is 1, so that the peer wakes it.
func (n *sharedLink) watch(l *limit, word, asleep *atomic.Uint32, ready func() bool) error {
	for {
		l.flush()
		if spin(ready) {
			return nil
		}
		err := l.passed()
		if n.ended() {
			err = l.left(n.peer)
		}
		if err != nil {
			if ready() {
				return nil
			}
			return err
		}
		asleep.Store(1)
		old := word.Load()
		if ready() {
			asleep.Store(0)
			return nil
		}
		sleep(word, old)
		asleep.Store(0)
	}
}

func (n *sharedLink) receive(l *limit) (incoming, error) {
	s := n.in.state()
	for {
		err := n.watch(l, &s.arrived, &s.idle, func() bool { return s.written.Load() != n.at })
		if err != nil {
			return incoming{}, err
		}
		x := *n.in.record(n.at)
		if room := ringBytes - n.at%ringBytes; x.Length == 0 || x.Length%recordSize != 0 || uint64(x.Length) > room ||
			x.Kind == recordInline && x.Size > uint64(x.Length-recordSize) ||
			x.Kind == recordWindow && (x.Address > uint64(len(n.r.window)) || x.Size > uint64(len(n.r.window))-x.Address) {
			return incoming{}, fault(faultLost, "EI0006: rank %d has written nonsense to the memory it shares", n.peer)
		}
		start := n.at % ringBytes
		n.at += uint64(x.Length)
		if x.Kind == recordSkip {
			continue
		}
		m := incoming{
			header: x.Header, size: x.Size, link: n, place: n.at, lent: x.Kind != recordInline,
		}
		switch x.Kind {
		case recordInline:
			m.bytes = n.in.data()[start+recordSize:][:x.Size]
		case recordWindow:
			m.bytes = n.r.window[x.Address:][:x.Size]
		default:
			m.address, m.buffer = x.Address, n.piece
		}
		return m, nil
	}
}

func (n *sharedLink) finish(m *incoming) (err error) {
	if m.lent {
		err = n.kept()
	}
	n.in.release(m.place)
	return err
}

// fetch reads the sender's memory. It fails if the sender has withdrawn it by then.
func (n *sharedLink) fetch(to []byte, address uint64) error {
	if err := n.r.read(to, address); err != nil {
		return n.withdrawn(err)
	}
	return n.kept()
}

// kept fails if the sender has withdrawn its memory, because the bytes read may be wrong.
func (n *sharedLink) kept() error {
	if n.in.state().revoked.Load() == 0 {
		return nil
	}
	return n.withdrawn(nil)
}

func (n *sharedLink) withdrawn(err error) error {
	if why := n.c.reason(); why != nil {
		return why
	}
	return fault(faultLost, "EI0006: rank %d withdrew what it was sending, or its process ended (%v)", n.peer, err)
}

// ended reports whether the peer has left, so that nothing more can arrive.
func (n *sharedLink) ended() bool {
	n.channel.in.mu.Lock()
	defer n.channel.in.mu.Unlock()
	return n.channel.in.closed
}

// settle waits until the peer has read all messages that it reads from this rank's memory.
func (n *sharedLink) settle(l *limit) error {
	s := n.out.state()
	if len(n.backlog) > 0 {
		err := n.watch(l, &s.done, &s.held, func() bool { n.flush(); return len(n.backlog) == 0 })
		if err != nil {
			return err
		}
	}
	for len(n.held) > 0 {
		p := n.held[0]
		err := n.watch(l, &s.done, &s.held, func() bool { return int32(s.done.Load()-p.record) >= 0 })
		if err != nil {
			return err
		}
		p.done <- struct{}{}
		n.held = append(n.held[:0], n.held[1:]...)
	}
	return nil
}

func (n *sharedLink) recall() {
	if len(n.held) > 0 {
		n.out.state().revoked.Store(1)
	}
	for _, p := range n.held {
		p.done <- struct{}{}
	}
	for _, m := range n.backlog {
		m.done <- struct{}{}
	}
	n.held, n.backlog = n.held[:0], n.backlog[:0]
	n.channel.recall()
}

func (n *sharedLink) close() {
	n.r.release(n.pair)
	release(n.piece)
	n.channel.close()
}
