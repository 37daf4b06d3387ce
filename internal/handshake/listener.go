package handshake

import (
	"context"
	"net"
	"sync"
	"time"
)

// atOnce is the maximum number of concurrent handshakes; further connections wait in the kernel.
const atOnce = 512

// Listener accepts connections and returns those whose peer knows the secret.
type Listener struct {
	listener net.Listener
	refused  func(from net.Addr, err error)
	proved   chan *Conn

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	failed chan struct{} // closed when err is set
	err    error
}

// Listen starts to accept connections of the protocol, whose name has 8 bytes. It calls refused for
// each connection that it rejects, possibly from several goroutines at a time. refused may be nil
// and must not call Close. Close closes the listener.
func Listen(listener net.Listener, protocol string, secret []byte, refused func(from net.Addr, err error)) *Listener {
	if refused == nil {
		refused = func(net.Addr, error) {}
	}
	l := &Listener{listener: listener, refused: refused, proved: make(chan *Conn), failed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(func() { l.accept(protocol, secret) })
	return l
}

// Addr returns the address that peers dial.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Accept returns the next connection, without a deadline. It fails with the error of ctx, or with
// the reason why the listener has stopped: net.ErrClosed after Close.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.proved:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.failed:
		return nil, l.err
	}
}

// Close stops listening and closes the connections that have not been accepted.
func (l *Listener) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.work.Wait()
	return err
}

func (l *Listener) accept(protocol string, secret []byte) {
	defer close(l.failed)
	places := make(chan struct{}, atOnce)
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			if l.err = err; l.ctx.Err() != nil {
				l.err = net.ErrClosed
			}
			return
		}
		select {
		case places <- struct{}{}:
		case <-l.ctx.Done():
			_ = conn.Close()
			continue
		}
		l.work.Go(func() {
			defer func() { <-places }()
			l.prove(conn, protocol, secret)
		})
	}
}

// prove performs the handshake and passes the connection to Accept, or closes it.
func (l *Listener) prove(conn net.Conn, protocol string, secret []byte) {
	c, err := server(l.ctx, conn, protocol, secret)
	if err != nil {
		_ = conn.Close()
		if l.ctx.Err() == nil {
			l.refused(conn.RemoteAddr(), err)
		}
		return
	}
	_ = conn.SetDeadline(time.Time{}) // a closed connection fails on first use
	select {
	case l.proved <- c:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}
