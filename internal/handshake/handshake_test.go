package handshake

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testProtocol = "TESTS001"

// pipe returns a connection inside the process that is closed at the end of the test.
func pipe(t testing.TB) (a, b net.Conn) {
	a, b = net.Pipe()
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

type side struct {
	conn *Conn
	err  error
}

// introduce performs a handshake over a pipe. A side that fails closes its end, as Dial and
// Listener do.
func introduce(t testing.TB, dialers, listeners string, protocols [2]string, hello []byte) (dialer, listener side) {
	a, b := pipe(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if dialer.conn, dialer.err = client(context.Background(), a, protocols[0], []byte(dialers), hello); dialer.err != nil {
			_ = a.Close()
		}
	}()
	if listener.conn, listener.err = server(context.Background(), b, protocols[1], []byte(listeners)); listener.err != nil {
		_ = b.Close()
	}
	<-done
	return dialer, listener
}

var same = [2]string{testProtocol, testProtocol}

func TestHandshake(t *testing.T) {
	dialer, listener := introduce(t, "secret", "secret", same, []byte("rank 3"))
	require.NoError(t, dialer.err)
	require.NoError(t, listener.err)
	assert.Equal(t, "rank 3", string(listener.conn.Hello()))
	for from, to := range map[*Conn]*Conn{dialer.conn: listener.conn, listener.conn: dialer.conn} {
		for _, pieces := range [][][]byte{nil, {[]byte("one")}, {[]byte("o"), nil, []byte("ne")}} {
			go func() { assert.NoError(t, from.Send(pieces...)) }()
			got, err := to.Receive(3)
			require.NoError(t, err)
			if pieces == nil {
				require.Empty(t, got)
			} else {
				require.Equal(t, "one", string(got))
			}
		}
	}
}

func TestHandshakeRefuses(t *testing.T) {
	for _, c := range []struct {
		name              string
		dialers, protocol string
		hello             []byte
		dialer, listener  error
	}{
		{"secret", "guess", testProtocol, nil, ErrSecret, ErrSecret},
		{"protocol", "secret", "TESTS002", nil, io.ErrClosedPipe, ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialer, listener := introduce(t, c.dialers, "secret", [2]string{c.protocol, testProtocol}, c.hello)
			assert.ErrorIs(t, dialer.err, c.dialer)
			assert.ErrorIs(t, listener.err, c.listener)
		})
	}
	a, _ := pipe(t)
	var size *SizeError
	_, err := client(context.Background(), a, testProtocol, nil, make([]byte, MaxHello+1))
	assert.ErrorAs(t, err, &size)
	_, err = client(context.Background(), a, "short", nil, nil)
	assert.ErrorContains(t, err, "does not have 8 bytes")
	_, err = server(context.Background(), a, "", nil)
	assert.ErrorContains(t, err, "does not have 8 bytes")
}

// TestFalseListener checks that a listener without the secret is refused whatever it answers, and
// that it never learns the hello of the dialing side.
func TestFalseListener(t *testing.T) {
	a, b := pipe(t)
	heard := make(chan []byte, 1)
	go func() {
		opened := make([]byte, opening)
		_, _ = io.ReadFull(b, opened)
		_, _ = b.Write(append(opened, make([]byte, 32)...)) // the dialer's own nonce
		rest, _ := io.ReadAll(b)
		heard <- rest
	}()
	_, err := client(context.Background(), a, testProtocol, []byte("secret"), []byte("rank 3"))
	require.ErrorIs(t, err, ErrSecret)
	require.NoError(t, a.Close())
	require.Equal(t, make([]byte, 32), <-heard)
}

func TestHandshakeEndsWithContext(t *testing.T) {
	for name, shake := range map[string]func(context.Context, net.Conn) error{
		"client": func(ctx context.Context, c net.Conn) error {
			_, err := client(ctx, c, testProtocol, nil, nil)
			return err
		},
		"server": func(ctx context.Context, c net.Conn) error {
			_, err := server(ctx, c, testProtocol, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := pipe(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- shake(ctx, a) }()
			cancel()
			require.ErrorContains(t, <-done, "timeout")
		})
	}
}

// TestForgedFrames checks frames that are forged, repeated, sent in the other direction, or too
// long.
func TestForgedFrames(t *testing.T) {
	secret := []byte("secret")
	conns := func(t *testing.T, theirs []byte) (listener, dialer *Conn) {
		a, b := pipe(t)
		same := &transcript{protocol: testProtocol}
		return newConn(a, secret, same, true), newConn(b, theirs, same, false)
	}
	t.Run("other secret", func(t *testing.T) {
		listener, eavesdropper := conns(t, []byte("guess"))
		go func() { _ = eavesdropper.Send([]byte("x")) }()
		_, err := listener.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	t.Run("too long", func(t *testing.T) {
		listener, dialer := conns(t, secret)
		go func() { _, _ = dialer.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }()
		var size *SizeError
		_, err := listener.Receive(100)
		require.ErrorAs(t, err, &size)
		require.ErrorContains(t, err, "18446744073709551615 bytes announced, at most 100 allowed")
	})
	frame := func(t *testing.T) []byte {
		recorder, dialer := conns(t, secret)
		recorded := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(recorder.Conn)
			recorded <- all
		}()
		require.NoError(t, dialer.Send([]byte("x")))
		require.NoError(t, dialer.Close())
		return <-recorded
	}
	t.Run("twice", func(t *testing.T) {
		bytes := frame(t)
		listener, dialer := conns(t, secret)
		go func() { _, _ = dialer.Write(append(bytes, bytes...)) }()
		_, err := listener.Receive(100)
		require.NoError(t, err)
		_, err = listener.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	t.Run("sent back", func(t *testing.T) {
		bytes := frame(t)
		listener, dialer := conns(t, secret)
		go func() { _, _ = listener.Write(bytes) }()
		_, err := dialer.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	t.Run("cut off", func(t *testing.T) {
		bytes := frame(t)
		for n := range len(bytes) {
			listener, dialer := conns(t, secret)
			go func() {
				_, _ = dialer.Write(bytes[:n])
				_ = dialer.Close()
			}()
			_, err := listener.Receive(100)
			if n == 0 {
				require.ErrorIs(t, err, io.EOF)
			} else {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
			}
		}
	})
}

// TestBoundEndsWithItsCall checks that a context that ends after its call does not affect the next
// call, not even when both end at the same moment.
func TestBoundEndsWithItsCall(t *testing.T) {
	ours, theirs := pipe(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, theirs)
	}()
	c := &Conn{Conn: ours}
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		release := c.Bound(ctx, time.Time{})
		cancel()
		release()
		require.NoError(t, ours.SetDeadline(time.Now().Add(time.Minute)))
		runtime.Gosched()
		_, err := ours.Write([]byte{1})
		require.NoError(t, err)
	}
	require.NoError(t, ours.Close())
	<-done
}

// FuzzServer checks that a listener refuses any input without the secret and does not crash.
func FuzzServer(f *testing.F) {
	f.Add([]byte(testProtocol))
	f.Add(make([]byte, opening))
	f.Add(append([]byte(testProtocol), make([]byte, nonceSize+32+8)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pipe(t)
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write(data)
			_ = b.Close()
		}()
		_, err := server(context.Background(), a, testProtocol, []byte("secret"))
		require.Error(t, err)
	})
}

// FuzzClient checks that the dialing side refuses any answer without the secret and does not crash.
func FuzzClient(f *testing.F) {
	f.Add([]byte(testProtocol))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(append([]byte(testProtocol), make([]byte, nonceSize+32)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pipe(t)
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write(data)
			_ = b.Close()
		}()
		_, err := client(context.Background(), a, testProtocol, []byte("secret"), []byte("rank 3"))
		require.Error(t, err)
	})
}

// FuzzReceive checks that Receive never accepts more than its limit and does not crash.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 3, 'o', 'n', 'e'})
	f.Add(make([]byte, 8+32))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pipe(t)
		go func() {
			_, _ = b.Write(data)
			_ = b.Close()
		}()
		_, err := newConn(a, []byte("secret"), &transcript{protocol: testProtocol}, true).Receive(16)
		require.Error(t, err)
	})
}
