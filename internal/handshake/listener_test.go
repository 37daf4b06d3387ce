package handshake

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// open returns a listener with a secret on the loopback interface, and its address.
func open(t *testing.T, secret string, refused func(net.Addr, error)) (*Listener, string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Listen(ln, testProtocol, []byte(secret), refused)
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestListener checks that peers without the secret, including silent ones, do not disturb a peer
// that knows it.
func TestListener(t *testing.T) {
	refused := make(chan error, 10)
	l, address := open(t, "right", func(_ net.Addr, err error) { refused <- err })
	ctx := within(t)
	_, err := Dial(ctx, address, testProtocol, []byte("wrong"), nil)
	require.ErrorIs(t, err, ErrSecret)
	require.ErrorIs(t, <-refused, ErrSecret)
	web, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer web.Close()
	_, err = fmt.Fprintf(web, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.ErrorIs(t, <-refused, ErrProtocol)
	for range 10 {
		silent, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer silent.Close()
	}
	for rank := range 3 {
		dialed := make(chan side, 1)
		go func() {
			c, err := Dial(ctx, address, testProtocol, []byte("right"), []byte{byte(rank)})
			dialed <- side{c, err}
		}()
		c, err := l.Accept(ctx)
		require.NoError(t, err)
		assert.Equal(t, []byte{byte(rank)}, c.Hello())
		d := <-dialed
		require.NoError(t, d.err)
		require.NoError(t, c.Send([]byte("welcome")))
		got, err := d.conn.Receive(100)
		require.NoError(t, err)
		assert.Equal(t, "welcome", string(got))
		require.NoError(t, d.conn.Close())
		require.NoError(t, c.Close())
	}
	assert.Empty(t, refused)
}

// A stranger that was refused keeps its place, so that it does not come again at once, until others need
// it, its time is over or the listener closes.
func TestRefusedAreHeld(t *testing.T) {
	refused := make(chan error, 2*atOnce)
	l, address := open(t, "secret", func(_ net.Addr, err error) { refused <- err })
	stranger := func() net.Conn {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		require.ErrorIs(t, <-refused, ErrProtocol)
		return c
	}
	ends := func(c net.Conn) {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	places := func() []*waiting {
		l.doorstep.mu.Lock()
		defer l.doorstep.mu.Unlock()
		return slices.Clone(l.doorstep.all)
	}
	first, second := stranger(), stranger()
	held := places()
	require.Len(t, held, 2)
	flood(t, address, atOnce-1)
	ends(first)
	require.ErrorIs(t, <-refused, ErrCrowded, "the oldest gives way")
	require.False(t, slices.Contains(places(), held[0]))
	require.True(t, slices.Contains(places(), held[1]))
	require.NoError(t, l.Close())
	ends(second)
	require.Empty(t, places())

	l, address = open(t, "secret", func(_ net.Addr, err error) { refused <- err })
	near, far := net.Pipe()
	w := &waiting{conn: far, source: "late", since: time.Now().Add(-answerLimit)}
	l.doorstep.enter(w)
	l.doorstep.open(w)
	l.hold(w, ErrSecret)
	require.ErrorIs(t, <-refused, ErrSecret)
	_, err := near.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, places())
	l.hold(w, ErrSecret)
	require.Empty(t, refused, "it has left already")
}

func TestAcceptEnds(t *testing.T) {
	l, address := open(t, "secret", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Accept(ctx)
	require.ErrorIs(t, err, context.Canceled)

	// The listener closes a peer that was never accepted, and a silent one, when it is closed.
	unheard, err := Dial(within(t), address, testProtocol, []byte("secret"), nil)
	require.NoError(t, err)
	defer unheard.Close()
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	accepting := make(chan error, 1)
	require.NoError(t, l.Close())
	go func() {
		_, err := l.Accept(t.Context())
		accepting <- err
	}()
	require.ErrorIs(t, <-accepting, net.ErrClosed)
	for _, c := range []net.Conn{unheard, silent} {
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
	}
}

func TestDialEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close() // it never accepts
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, ln.Addr().String(), testProtocol, nil, nil)
	require.ErrorContains(t, err, "timeout")
}

// A listener that has stopped leaves its address to another one, and still ends what it has begun.
func TestStop(t *testing.T) {
	l, address := open(t, "secret", nil)
	flood(t, address, 10)
	require.NoError(t, l.Stop())
	_, err := l.Accept(within(t))
	require.ErrorIs(t, err, net.ErrClosed)
	next, err := net.Listen("tcp", address)
	require.NoError(t, err)
	require.NoError(t, next.Close())
	require.NoError(t, l.Close())
	require.Empty(t, l.doorstep.all)
}
