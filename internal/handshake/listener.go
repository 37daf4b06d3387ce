package handshake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Errors with which connections are refused, in addition to those of the handshake.
var (
	ErrCrowded     = errors.New("the handshake was not finished, and others wait")
	ErrDescriptors = errors.New("no file descriptor is left for a connection (raise the limit on open files, ulimit -n)")
)

// Listener accepts connections and returns those whose peer knows the secret.
type Listener struct {
	listener net.Listener
	identity *identity
	refused  func(from net.Addr, err error)
	doorstep *doorstep
	proved   chan *Conn

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	failed chan struct{} // closed when err is set
	err    error
	full   time.Time // since when there is neither a descriptor nor a connection to turn away; zero if there is

	mu      sync.Mutex
	trouble error // why connections cannot be accepted at the moment
}

// Listen starts to accept connections of the protocol. It calls refused for
// each connection that it rejects, possibly from several goroutines at a time, and with a nil address
// when it cannot accept connections for a while. refused may be nil and must not call Close. Close
// closes the listener.
func Listen(listener net.Listener, protocol string, secret []byte, refused func(from net.Addr, err error)) *Listener {
	if refused == nil {
		refused = func(net.Addr, error) {}
	}
	l := &Listener{
		listener: listener, refused: refused,
		doorstep: newDoorstep(), proved: make(chan *Conn), failed: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if l.identity, l.err = newIdentity(protocol, secret, listens, dials); l.err != nil {
		close(l.failed)
		return l
	}
	l.work.Go(l.accept)
	return l
}

// Addr returns the address that peers dial.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Accept returns the next connection, without a deadline. It fails with the error of ctx, joined with
// the reason if no connection could be accepted at that time, or with the reason why the listener has
// stopped: net.ErrClosed after Close, ErrDescriptors when the process stays at its limit of open files.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.proved:
		return c, nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.trouble != nil {
			return nil, fmt.Errorf("%w (%w)", l.trouble, ctx.Err())
		}
		return nil, ctx.Err()
	case <-l.failed:
		return nil, l.err
	}
}

// Stop stops listening. It leaves the connections that have not been accepted to Close, which takes
// some milliseconds when strangers have opened hundreds.
func (l *Listener) Stop() error { return l.listener.Close() }

// Close stops listening and closes the connections that have not been accepted.
func (l *Listener) Close() error {
	err := l.Stop()
	// Hundreds that end at the same moment would keep the rest of the program from running.
	for w := l.doorstep.evict(); w != nil; w = l.doorstep.evict() {
		_ = w.conn.Close()
	}
	l.cancel()
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // by Stop
	}
	return err
}

func (l *Listener) accept() {
	defer close(l.failed)
	for {
		conn, err := l.listener.Accept()
		switch {
		case err == nil:
			l.note(nil)
			l.full = time.Time{}
			l.receive(conn)
		case l.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			l.err = net.ErrClosed
			return
		default:
			if l.err = l.makeRoom(err); l.err != nil {
				return
			}
		}
	}
}

// patience is how long a process may be at its own limit of descriptors while none of them belongs to a connection that could be turned away.
const patience = 2 * time.Second

// makeRoom makes room after an accept that failed for want of resources, which comes back when a
// connection closes. It returns other errors, and that of a process which stays at its limit.
func (l *Listener) makeRoom(err error) error {
	limit := errors.Is(err, syscall.EMFILE)
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		err = fmt.Errorf("%w: %w", ErrDescriptors, err)
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
	default:
		return err
	}
	if l.note(err) {
		l.refused(nil, err)
	}
	if w := l.doorstep.evict(); w != nil {
		l.full = time.Time{}
		l.turnAway(w)
		return nil
	}
	if l.full.IsZero() {
		l.full = time.Now()
	}
	if limit && time.Since(l.full) > patience {
		return err
	}
	l.pause(50 * time.Millisecond)
	return nil
}

// note keeps why connections cannot be accepted, nil when they can. It reports whether that is new.
func (l *Listener) note(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.trouble == nil
	l.trouble = err
	return fresh
}

// pause waits, until a handshake ends or the listener closes at the latest.
func (l *Listener) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.doorstep.room:
	case <-l.ctx.Done():
	}
}

// receive starts the handshake of a connection. If too many are unfinished, another one ends.
func (l *Listener) receive(conn net.Conn) {
	w := &waiting{conn: conn, source: sourceOf(conn.RemoteAddr()), since: time.Now()}
	leaves, wait := l.doorstep.enter(w)
	for wait > 0 {
		l.pause(wait)
		if l.ctx.Err() != nil {
			_ = conn.Close()
			return
		}
		leaves, wait = l.doorstep.enter(w)
	}
	if leaves != nil {
		l.turnAway(leaves)
	}
	l.work.Go(func() { l.prove(w) })
}

// turnAway closes a connection that had to leave the doorstep. Its handshake ends with that.
func (l *Listener) turnAway(w *waiting) {
	_ = w.conn.Close()
	l.refused(w.conn.RemoteAddr(), ErrCrowded)
}

// prove performs the handshake and passes the connection to Accept, or closes it.
func (l *Listener) prove(w *waiting) {
	c, err := server(l.ctx, w.conn, l.identity, func() { l.doorstep.open(w) })
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrProtocol) {
		l.hold(w, err)
		return
	}
	stayed := l.doorstep.leave(w)
	if err != nil || !stayed {
		_ = w.conn.Close()
		if stayed && l.ctx.Err() == nil {
			l.refused(w.conn.RemoteAddr(), err)
		}
		return
	}
	_ = w.conn.SetDeadline(time.Time{}) // a closed connection fails on first use
	select {
	case l.proved <- c:
	case <-l.ctx.Done():
		_ = w.conn.Close()
	}
}

// hold refuses a stranger, and closes its connection only when the time for a handshake is over or
// others need the place. Strangers that come again as soon as they are turned away, by the hundred,
// would take the time of the peers. What they still send is not read.
func (l *Listener) hold(w *waiting, err error) {
	if !l.doorstep.refuse(w) {
		return // it had to leave
	}
	l.refused(w.conn.RemoteAddr(), err)
	timer := time.NewTimer(time.Until(w.since.Add(answerLimit)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.left:
	case <-l.ctx.Done():
	}
	l.doorstep.leave(w)
	_ = w.conn.Close()
}
