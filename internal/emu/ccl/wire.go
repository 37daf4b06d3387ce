package ccl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/handshake"
)

// Kinds of frames.
const (
	frameMessage = iota + 1
	frameAbort   // the sender's communicator failed; the body is the reason
	frameClose   // the sender left the channel
)

// frame is the fixed-size header of everything that is sent over a wire.
type frame struct {
	Kind    uint64
	Size    uint64 // number of bytes that follow the frame
	Channel uint64
	Header  header
}

var frameSize = binary.Size(frame{})

// largest is the maximum size in bytes of a body that a peer may announce.
const largest = 1 << 40

// packet is an outgoing frame with its body.
type packet struct {
	frame frame
	body  []byte
	done  chan<- struct{}
}

// wire is an authenticated connection to a rank in another process. It carries the messages
// of a communicator and of all its sub-communicators, each in its own channel.
type wire struct {
	conn   *handshake.Conn
	peer   string  // for error texts
	shared *region // with the other process, nil when it is on another host

	mu       sync.Mutex
	out      []packet
	ready    *sync.Cond // signals that out or closing changed
	closing  bool
	channels map[uint64]*channel
	open     int   // number of channels that this side has not closed
	lost     error // why the connection ended, nil while it works

	work sync.WaitGroup // the reader and writer goroutines
}

func newWire(conn *handshake.Conn, peer string, shared *region) *wire {
	w := &wire{conn: conn, peer: peer, shared: shared, channels: make(map[uint64]*channel)}
	w.ready = sync.NewCond(&w.mu)
	w.work.Go(w.write)
	w.work.Go(w.read)
	return w
}

// channel is the link of one communicator over a wire.
type channel struct {
	w    *wire
	id   uint64
	peer int
	c    *comm // nil until this rank has made the communicator
	in   *queue
}

// connect returns the link of a communicator to a peer over this wire.
func (w *wire) connect(c *comm, id uint64, peer int) (link, error) {
	w.mu.Lock()
	ch := w.channel(id)
	ch.c, ch.peer = c, peer
	w.open++
	if w.lost != nil {
		ch.in.shut()
	}
	w.mu.Unlock()
	if w.shared == nil {
		return ch, nil
	}
	n, err := newSharedLink(ch, w.shared)
	if err != nil {
		ch.close()
		return nil, err
	}
	return n, nil
}

// channel returns the channel with an id and makes it if it does not exist yet, since either
// side may be the first to use it. The caller holds w.mu.
func (w *wire) channel(id uint64) *channel {
	ch := w.channels[id]
	if ch == nil {
		ch = &channel{w: w, id: id, in: newQueue()}
		w.channels[id] = ch
	}
	return ch
}

func (w *wire) put(p packet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil || w.closing {
		if p.done != nil {
			p.done <- struct{}{} // the receiving side reports the failure
		}
		return
	}
	w.out = append(w.out, p)
	w.ready.Signal()
}

// write sends packets until the wire closes and all are sent.
func (w *wire) write() {
	for {
		w.mu.Lock()
		for len(w.out) == 0 && !w.closing && w.lost == nil {
			w.ready.Wait()
		}
		if len(w.out) == 0 {
			w.mu.Unlock()
			_ = w.conn.CloseWrite() // no packet follows; an error is known already
			return
		}
		p := w.out[0]
		w.out = w.out[1:]
		w.mu.Unlock()
		err := w.writeOne(p)
		if p.done != nil {
			p.done <- struct{}{}
		}
		if err != nil {
			w.lose(err)
			return
		}
	}
}

func (w *wire) writeOne(p packet) error {
	head := new(bytes.Buffer)
	_ = binary.Write(head, binary.LittleEndian, &p.frame) // writing to a buffer never fails
	return w.conn.WriteAll(head.Bytes(), p.body)
}

// read reads whole messages from the connection, so that a channel without a reader does not
// block the others.
func (w *wire) read() {
	head := make([]byte, frameSize)
	for {
		if _, err := io.ReadFull(w.conn, head); err != nil {
			w.lose(err)
			return
		}
		var f frame
		_ = binary.Read(bytes.NewReader(head), binary.LittleEndian, &f) // the length is right
		if f.Size > largest {
			w.lose(fmt.Errorf("a message of %d bytes", f.Size))
			return
		}
		var body []byte
		if f.Size > 0 {
			var err error
			if body, err = scratch(int(f.Size)); err == nil {
				_, err = io.ReadFull(w.conn, body)
			}
			if err != nil {
				release(body)
				w.lose(err)
				return
			}
		}
		w.deliver(&f, body)
	}
}

// unread reports whether the connection has brought bytes, or its end, that the reader has not taken
// yet. It never waits.
func (w *wire) unread() (more bool) {
	conn, ok := w.conn.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		more = !errors.Is(err, unix.EAGAIN)
	})
	return more && err == nil
}

func (w *wire) deliver(f *frame, body []byte) {
	w.mu.Lock()
	ch := w.channel(f.Channel)
	c := ch.c
	w.mu.Unlock()
	switch f.Kind {
	case frameMessage:
		ch.in.put(message{header: f.Header, bytes: body})
		return
	case frameClose:
		ch.in.shut()
	case frameAbort:
		if c != nil {
			c.fail(fault(faultLost, "%s", body))
		}
		ch.in.shut()
	}
	release(body)
}

// lose ends the wire because the connection failed or the peer closed it. It fails the
// communicators of the channels that are still open.
func (w *wire) lose(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return
	}
	w.lost = err
	for _, p := range w.out {
		if p.done != nil {
			p.done <- struct{}{}
		}
	}
	w.out = nil
	w.ready.Broadcast()
	_ = w.conn.Close()
	for _, ch := range w.channels {
		ch.in.mu.Lock()
		left := ch.in.closed
		ch.in.mu.Unlock()
		if !left && ch.c != nil && !w.closing {
			ch.c.fail(fault(faultLost, "EI0006: the connection to rank %d (%s) of %q broke: %v; did its process end?", ch.peer, w.peer, ch.c.name, err))
		}
		ch.in.shut()
	}
}

func (ch *channel) send(m message) bool {
	f := frame{Kind: frameMessage, Size: uint64(len(m.bytes)), Channel: ch.id, Header: m.header}
	ch.w.put(packet{frame: f, body: m.bytes, done: m.done})
	return true
}

func (ch *channel) receive(l *limit) (incoming, error) {
	for {
		m, ok, closed := ch.in.take()
		if ok {
			return incoming{header: m.header, size: uint64(len(m.bytes)), bytes: m.bytes, body: m.bytes, link: ch}, nil
		}
		if closed {
			return incoming{}, l.left(ch.peer)
		}
		if err := l.wait(ch.in.arrived); err != nil && !ch.in.ready() {
			return incoming{}, err
		}
	}
}

func (ch *channel) fetch([]byte, uint64) error { return nil } // never called

func (ch *channel) finish(m *incoming) error {
	release(m.body)
	return nil
}

func (ch *channel) settle(*limit) error { return nil }

// patience is how long closing a communicator waits for a peer that no longer reads.
const patience = time.Second

// recall sets a deadline for a write that hangs. abort has dropped the queued messages.
func (ch *channel) recall() { _ = ch.w.conn.SetWriteDeadline(time.Now().Add(patience)) }

func (ch *channel) abort(reason string) {
	w := ch.w
	w.mu.Lock()
	kept := w.out[:0]
	for _, p := range w.out {
		if p.frame.Channel == ch.id && p.frame.Kind == frameMessage {
			p.done <- struct{}{}
			continue
		}
		kept = append(kept, p)
	}
	w.out = kept
	w.mu.Unlock()
	body := []byte(reason)
	w.put(packet{frame: frame{Kind: frameAbort, Size: uint64(len(body)), Channel: ch.id}, body: body})
}

// close closes the channel. Closing the last channel of a wire ends the wire.
func (ch *channel) close() {
	w := ch.w
	w.put(packet{frame: frame{Kind: frameClose, Channel: ch.id}})
	w.mu.Lock()
	w.open--
	last := w.open == 0
	if last {
		w.closing = true
		w.ready.Broadcast()
	}
	ch.drain()
	delete(w.channels, ch.id)
	w.mu.Unlock()
	if last {
		// The peer reads the rest and closes its side, or is cut off at the deadline.
		_ = w.conn.SetDeadline(time.Now().Add(patience))
		w.work.Wait()
		_ = w.conn.Close()
		if w.shared != nil {
			w.shared.unmap()
		}
	}
}

// drain releases the bodies of messages that were never received.
func (ch *channel) drain() {
	for {
		m, ok, _ := ch.in.take()
		if !ok {
			return
		}
		release(m.bytes)
	}
}
