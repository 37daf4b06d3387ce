package handshake

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
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
	if listener.conn, listener.err = server(context.Background(), b, protocols[1], []byte(listeners), func() {}); listener.err != nil {
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
	_, err = server(context.Background(), a, "", nil, func() {})
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
		_, _ = b.Write(opened) // the dialer's own key and ticket
		rest, _ := io.ReadAll(b)
		heard <- rest
	}()
	_, err := client(context.Background(), a, testProtocol, []byte("secret"), []byte("rank 3"))
	require.ErrorIs(t, err, ErrSecret)
	require.NoError(t, a.Close())
	require.Equal(t, make([]byte, 32), <-heard)
}

// A listener makes no key for a peer that has no ticket, and needs more than a ticket, which an eavesdropper
// can repeat, to accept a peer.
func TestTicket(t *testing.T) {
	answer := func(opened []byte, invited func()) (got []byte, err error) {
		a, b := pipe(t)
		heard := make(chan []byte, 1)
		go func() {
			_, _ = b.Write(opened)
			reply := make([]byte, opening)
			_, _ = io.ReadFull(b, reply)
			_, _ = b.Write(make([]byte, 32)) // a guess of the proof
			heard <- reply
		}()
		_, err = server(context.Background(), a, testProtocol, []byte("secret"), invited)
		require.NoError(t, a.Close())
		return <-heard, err
	}
	wrong := append([]byte(testProtocol), make([]byte, opening-protocolSize)...)
	got, err := answer(wrong, func() { t.Error("invited") })
	require.ErrorIs(t, err, ErrSecret)
	require.Equal(t, wrong, got, "zeros, which are no proof")

	a, b := pipe(t)
	go func() { _, _ = client(t.Context(), a, testProtocol, []byte("secret"), nil) }()
	heard := make([]byte, opening)
	_, err = io.ReadFull(b, heard)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	invited := false
	got, err = answer(heard, func() { invited = true })
	require.True(t, invited)
	require.ErrorIs(t, err, ErrSecret)
	require.NotEqual(t, wrong, got)
}

func TestHandshakeEndsWithContext(t *testing.T) {
	for name, shake := range map[string]func(context.Context, net.Conn) error{
		"client": func(ctx context.Context, c net.Conn) error {
			_, err := client(ctx, c, testProtocol, nil, nil)
			return err
		},
		"server": func(ctx context.Context, c net.Conn) error {
			_, err := server(ctx, c, testProtocol, nil, func() {})
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

// between returns both ends of a connection whose handshake was done with the given secrets.
func between(t testing.TB, listeners, dialers string) (listener, dialer *Conn) {
	a, b := pipe(t)
	agreed := make([]byte, publicSize)
	return newConn(a, &transcript{protocol: testProtocol, secret: []byte(listeners)}, agreed, true),
		newConn(b, &transcript{protocol: testProtocol, secret: []byte(dialers)}, agreed, false)
}

// TestForgedRecords checks records that are forged, repeated, left out, changed, sent in the other
// direction, or too long.
func TestForgedRecords(t *testing.T) {
	t.Run("other secret", func(t *testing.T) {
		listener, eavesdropper := between(t, "secret", "guess")
		go func() { _ = eavesdropper.Send([]byte("x")) }()
		_, err := listener.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	t.Run("too long a message", func(t *testing.T) {
		listener, dialer := between(t, "secret", "secret")
		go func() { _, _ = dialer.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }()
		var size *SizeError
		_, err := listener.Receive(100)
		require.ErrorAs(t, err, &size)
		require.ErrorContains(t, err, "18446744073709551615 bytes announced, at most 100 allowed")
	})
	t.Run("too long a record", func(t *testing.T) {
		listener, dialer := between(t, "secret", "secret")
		go func() { _, _ = dialer.Conn.Write([]byte{0xff, 0xff, 0xff, 0xff}) }()
		_, err := listener.Receive(100)
		require.ErrorIs(t, err, ErrForged)
		require.ErrorContains(t, err, "4294967295 bytes")
	})
	recorded := func(t *testing.T, messages ...string) []byte {
		recorder, dialer := between(t, "secret", "secret")
		heard := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(recorder.Conn)
			heard <- all
		}()
		for _, m := range messages {
			require.NoError(t, dialer.Send([]byte(m)))
		}
		require.NoError(t, dialer.Close())
		return <-heard
	}
	// play sends bytes on a new connection and returns the error of the n-th message.
	play := func(t *testing.T, n int, bytes ...[]byte) error {
		listener, dialer := between(t, "secret", "secret")
		go func() {
			for _, b := range bytes {
				_, _ = dialer.Conn.Write(b)
			}
			_ = dialer.Close()
		}()
		for range n - 1 {
			_, err := listener.Receive(100)
			require.NoError(t, err)
		}
		_, err := listener.Receive(100)
		return err
	}
	one := recorded(t, "x")
	both := recorded(t, "x", "y")
	require.NotContains(t, string(recorded(t, "a text that nobody may read")), "text")
	require.NoError(t, play(t, 1, one))
	require.ErrorIs(t, play(t, 2, one, one), ErrForged, "twice")
	require.ErrorIs(t, play(t, 1, both[len(one):]), ErrForged, "the first left out")
	t.Run("sent back", func(t *testing.T) {
		listener, dialer := between(t, "secret", "secret")
		go func() { _, _ = listener.Conn.Write(one) }()
		_, err := dialer.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	for bit := range len(one) * 8 {
		changed := slices.Clone(one)
		changed[bit/8] ^= 1 << (bit % 8)
		require.Error(t, play(t, 1, changed), "bit %d", bit)
	}
	for n := range len(one) {
		if err := play(t, 1, one[:n]); n == 0 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		}
	}
}

// TestStream checks that the bytes of a stream arrive in order whatever the sizes of the writes and
// of the reads are.
func TestStream(t *testing.T) {
	listener, dialer := between(t, "secret", "secret")
	random := rand.New(rand.NewPCG(1, 2))
	sent := make([]byte, 5*recordMax+17)
	for i := range sent {
		sent[i] = byte(random.Uint32())
	}
	go func() {
		for rest := sent; len(rest) > 0; {
			n, m := random.IntN(min(len(rest), 2*recordMax)+1), 0
			if n < len(rest) {
				m = random.IntN(min(len(rest)-n, 100) + 1)
			}
			assert.NoError(t, dialer.WriteAll(rest[:n], nil, rest[n:n+m]))
			rest = rest[n+m:]
		}
		assert.NoError(t, dialer.Close())
	}()
	var got []byte
	for n := 1; ; n = n*7%(recordMax+11) + 1 {
		p := make([]byte, n)
		n, err := listener.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.True(t, bytes.Equal(sent, got))
}

// Two handshakes with one secret have different keys, so that nothing recorded in one of them is
// accepted by, or readable for, the other.
func TestKeysAreFresh(t *testing.T) {
	first, _ := introduce(t, "secret", "secret", same, nil)
	second, _ := introduce(t, "secret", "secret", same, nil)
	nonce := make([]byte, 12)
	sealed := first.conn.out.aead.Seal(nil, nonce, []byte("x"), nil)
	_, err := second.conn.out.aead.Open(nil, nonce, sealed, nil)
	require.Error(t, err)
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
	f.Add(append([]byte(testProtocol), make([]byte, publicSize+32+8)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pipe(t)
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write(data)
			_ = b.Close()
		}()
		_, err := server(context.Background(), a, testProtocol, []byte("secret"), func() {})
		require.Error(t, err)
	})
}

// FuzzClient checks that the dialing side refuses any answer without the secret and does not crash.
func FuzzClient(f *testing.F) {
	f.Add([]byte(testProtocol))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(append([]byte(testProtocol), make([]byte, publicSize+32)...))
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
		listener, dialer := between(t, "secret", "secret")
		go func() {
			_, _ = dialer.Write(data)
			_ = dialer.Close()
		}()
		got, err := listener.Receive(16)
		if err == nil {
			require.LessOrEqual(t, len(got), 16)
		}
	})
}

// FuzzRecords checks that a reader refuses records that the peer has not sent and does not crash.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		listener, dialer := between(t, "secret", "secret")
		go func() {
			_, _ = dialer.Conn.Write(data)
			_ = dialer.Close()
		}()
		_, err := listener.Receive(1 << 10)
		require.Error(t, err)
	})
}

func TestExposed(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": false, "127.3.2.1:80": false, "[::1]:80": false, "localhost:80": false, "LOCALHOST": false, "::1": false,
		"10.0.0.1:80": true, ":80": true, "0.0.0.0:80": true, "[::]:80": true, "[fe80::1]:80": true, "": true, "name.invalid:80": true,
	} {
		assert.Equal(t, want, Exposed(t.Context(), address), "%q", address)
	}
}
