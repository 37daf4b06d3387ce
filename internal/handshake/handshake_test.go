package handshake

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	mrand "math/rand/v2"
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

const testProtocol = "cann/test/1"

// pipe returns a connection over the loopback that is closed at the end of the test.
func pipe(t testing.TB) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	b, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func identityOf(t testing.TB, protocol, secret, role, peer string) *identity {
	i, err := newIdentity(protocol, []byte(secret), role, peer)
	require.NoError(t, err)
	return i
}

type side struct {
	conn *Conn
	err  error
}

// meet performs a handshake. A side that fails closes its end, as Dial and Listener do.
func meet(a, b net.Conn, dialers, listeners *identity, hello []byte, opened func()) (dialer, listener side) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if dialer.conn, dialer.err = client(context.Background(), a, dialers, hello); dialer.err != nil {
			_ = a.Close()
		}
	}()
	if listener.conn, listener.err = server(context.Background(), b, listeners, opened); listener.err != nil {
		_ = b.(*net.TCPConn).CloseWrite() // the alert is read before the connection ends
	}
	<-done
	return dialer, listener
}

// between returns both ends of a connection whose handshake is done, and what the dialer writes below TLS.
func between(t testing.TB) (listener, dialer *Conn, below *tap) {
	a, b := pipe(t)
	below = &tap{Conn: a}
	d, l := meet(below, b, identityOf(t, testProtocol, "secret", dials, listens), identityOf(t, testProtocol, "secret", listens, dials), nil, func() {})
	require.NoError(t, d.err)
	require.NoError(t, l.err)
	return l.conn, d.conn, below
}

// tap is a connection that can keep what is written to it.
type tap struct {
	net.Conn
	keeps bool
	kept  [][]byte
}

func (x *tap) Write(p []byte) (int, error) {
	if x.keeps {
		x.kept = append(x.kept, slices.Clone(p))
		return len(p), nil
	}
	return x.Conn.Write(p)
}

func TestHandshake(t *testing.T) {
	a, b := pipe(t)
	opened := 0
	dialer, listener := meet(a, b, identityOf(t, testProtocol, "secret", dials, listens), identityOf(t, testProtocol, "secret", listens, dials), []byte("rank 3"), func() { opened++ })
	require.NoError(t, dialer.err)
	require.NoError(t, listener.err)
	assert.Equal(t, 1, opened)
	assert.Equal(t, "rank 3", string(listener.conn.Hello()))
	state := listener.conn.sealed.ConnectionState()
	assert.EqualValues(t, tls.VersionTLS13, state.Version)
	assert.False(t, state.DidResume)
	for from, to := range map[*Conn]*Conn{dialer.conn: listener.conn, listener.conn: dialer.conn} {
		for _, pieces := range [][][]byte{nil, {[]byte("one")}, {[]byte("o"), nil, []byte("ne")}} {
			sent := make(chan error, 1)
			go func() { sent <- from.Send(pieces...) }()
			got, err := to.Receive(3)
			require.NoError(t, err)
			require.NoError(t, <-sent)
			if pieces == nil {
				require.Empty(t, got)
			} else {
				require.Equal(t, "one", string(got))
			}
		}
	}
}

func TestHandshakeRefuses(t *testing.T) {
	right := identityOf(t, testProtocol, "secret", listens, dials)
	heard := func(i *identity, ticket string) *identity { // somebody who has heard a ticket, and does not know the secret
		i.ticket = ticket
		return i
	}
	for _, c := range []struct {
		name             string
		dialers          *identity
		opened           bool
		dialer, listener error
	}{
		{"secret", identityOf(t, testProtocol, "guess", dials, listens), false, ErrSecret, ErrSecret},
		{"protocol", identityOf(t, "cann/test/2", "secret", dials, listens), false, ErrProtocol, ErrProtocol},
		{"a ticket alone", heard(identityOf(t, testProtocol, "guess", dials, listens), right.ticket), true, ErrSecret, nil},
		{"the listener's key", heard(identityOf(t, testProtocol, "secret", listens, listens), right.ticket), true, nil, ErrSecret},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pipe(t)
			opened := false
			dialer, listener := meet(a, b, c.dialers, right, nil, func() { opened = true })
			assert.Equal(t, c.opened, opened)
			if assert.Error(t, errors.Join(dialer.err, listener.err)); c.dialer != nil {
				assert.ErrorIs(t, dialer.err, c.dialer)
			}
			if c.listener != nil {
				assert.ErrorIs(t, listener.err, c.listener)
			} else {
				assert.Error(t, listener.err)
			}
		})
	}
	var size *SizeError
	_, err := Dial(t.Context(), "127.0.0.1:1", testProtocol, nil, make([]byte, MaxHello+1))
	assert.ErrorAs(t, err, &size)
}

// TestFalseListener checks that a listener without the secret is refused, and that it never learns the hello of the
// dialing side.
func TestFalseListener(t *testing.T) {
	a, b := pipe(t)
	false1 := identityOf(t, testProtocol, "guess", listens, dials)
	false1.ticket = identityOf(t, testProtocol, "secret", listens, dials).ticket
	false1.config.VerifyConnection = nil // it takes every dialer
	dialer, listener := meet(a, b, identityOf(t, testProtocol, "secret", dials, listens), false1, []byte("rank 3"), func() {})
	require.ErrorIs(t, dialer.err, ErrSecret)
	require.Error(t, listener.err)
	require.Nil(t, listener.conn)
}

// TestForgedRecords checks records that are forged, repeated, left out, changed, sent in the other
// direction, or too long.
func TestForgedRecords(t *testing.T) {
	t.Run("too long a message", func(t *testing.T) {
		listener, dialer, _ := between(t)
		go func() { _, _ = dialer.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }()
		var size *SizeError
		_, err := listener.Receive(100)
		require.ErrorAs(t, err, &size)
		require.ErrorContains(t, err, "18446744073709551615 bytes announced, at most 100 allowed")
	})
	// play lets the dialer send messages, sends what change makes of their records, and returns the error of the n-th message.
	play := func(t *testing.T, n int, change func(records [][]byte) [][]byte, messages ...string) error {
		listener, dialer, below := between(t)
		below.keeps = true
		for _, m := range messages {
			require.NoError(t, dialer.Send([]byte(m)))
		}
		for _, record := range change(below.kept) {
			require.NotContains(t, string(record), "text")
			_, _ = below.Conn.Write(record)
		}
		require.NoError(t, below.Conn.(*net.TCPConn).CloseWrite())
		for range n - 1 {
			_, err := listener.Receive(100)
			require.NoError(t, err)
		}
		_, err := listener.Receive(100)
		return err
	}
	same := func(records [][]byte) [][]byte { return records }
	twice := func(records [][]byte) [][]byte { return append(records, records[0]) }
	without := func(records [][]byte) [][]byte { return records[1:] }
	require.NoError(t, play(t, 1, same, "a text that nobody may read"))
	require.ErrorIs(t, play(t, 2, twice, "text"), ErrForged, "twice")
	require.ErrorIs(t, play(t, 1, without, "text", "y"), ErrForged, "the first left out")
	t.Run("sent back", func(t *testing.T) {
		listener, dialer, below := between(t)
		below.keeps = true
		require.NoError(t, dialer.Send([]byte("x")))
		_, err := listener.Conn.Write(below.kept[0])
		require.NoError(t, err)
		_, err = dialer.Receive(100)
		require.ErrorIs(t, err, ErrForged)
	})
	t.Run("of another connection", func(t *testing.T) { // with the same secret
		_, dialer, below := between(t)
		below.keeps = true
		require.NoError(t, dialer.Send([]byte("x")))
		require.ErrorIs(t, play(t, 1, func([][]byte) [][]byte { return below.kept }), ErrForged)
	})
	size := 0
	require.NoError(t, play(t, 1, func(records [][]byte) [][]byte { size = len(records[0]); return records }, "x"))
	for bit := range size * 8 {
		err := play(t, 1, func(records [][]byte) [][]byte {
			records[0][bit/8] ^= 1 << (bit % 8)
			return records
		}, "x")
		require.Error(t, err, "bit %d", bit)
	}
	for n := range size {
		err := play(t, 1, func(records [][]byte) [][]byte { return [][]byte{records[0][:n]} }, "x")
		if n == 0 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		}
	}
}

// TestStream checks that the bytes of a stream arrive in order whatever the sizes of the writes and
// of the reads are.
func TestStream(t *testing.T) {
	listener, dialer, _ := between(t)
	random := mrand.New(mrand.NewPCG(1, 2))
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

func TestHandshakeEndsWithContext(t *testing.T) {
	own := identityOf(t, testProtocol, "secret", dials, listens)
	for name, shake := range map[string]func(context.Context, net.Conn) error{
		"client": func(ctx context.Context, c net.Conn) error {
			_, err := client(ctx, c, own, nil)
			return err
		},
		"server": func(ctx context.Context, c net.Conn) error {
			_, err := server(ctx, c, own, func() {})
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

// fuzzed sends data to one end of a connection and returns that end, whose other end closes then.
func fuzzed(t *testing.T, data []byte) net.Conn {
	a, b := pipe(t)
	go func() { _, _ = io.Copy(io.Discard, b) }()
	_, err := b.Write(data)
	require.NoError(t, err)
	require.NoError(t, b.(*net.TCPConn).CloseWrite())
	return a
}

// FuzzServer checks that a listener refuses any input without the secret and does not crash.
func FuzzServer(f *testing.F) {
	own := identityOf(f, testProtocol, "secret", listens, dials)
	f.Add([]byte(testProtocol))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := server(context.Background(), fuzzed(t, data), own, func() {})
		require.Error(t, err)
	})
}

// FuzzClient checks that the dialing side refuses any answer without the secret and does not crash.
func FuzzClient(f *testing.F) {
	own := identityOf(f, testProtocol, "secret", dials, listens)
	f.Add([]byte(testProtocol))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte{21, 3, 3, 0, 2, 2, 80})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := client(context.Background(), fuzzed(t, data), own, []byte("rank 3"))
		require.Error(t, err)
	})
}

// FuzzReceive checks that Receive never accepts more than its limit and does not crash.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 3, 'o', 'n', 'e'})
	f.Add(make([]byte, 8+32))
	f.Fuzz(func(t *testing.T, data []byte) {
		listener, dialer, _ := between(t)
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
	f.Add([]byte{23, 3, 3, 0, 1, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		listener, _, below := between(t)
		_, err := below.Conn.Write(data)
		require.NoError(t, err)
		require.NoError(t, below.Conn.(*net.TCPConn).CloseWrite())
		_, err = listener.Receive(1 << 10)
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
