package handshake

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flood opens silent connections to an address. They close with the test.
func flood(t *testing.T, address string, n int) {
	var work sync.WaitGroup
	conns := make([]net.Conn, n)
	for worker := range 16 {
		work.Go(func() {
			for i := worker; i < n; i += 16 {
				c, err := net.Dial("tcp", address)
				if assert.NoError(t, err) {
					conns[i] = c
				}
			}
		})
	}
	work.Wait()
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
}

// A peer that knows the secret is not kept waiting by many more silent connections than there is room
// for, although they come from the same address.
func TestSilentConnectionsGiveWay(t *testing.T) {
	var mu sync.Mutex
	crowded := 0
	l, address := open(t, "secret", func(_ net.Addr, err error) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, ErrCrowded) {
			crowded++
		}
	})
	const silent = atOnce + 100
	flood(t, address, silent)
	ctx := within(t)
	go func() {
		c, err := Dial(ctx, address, testProtocol, []byte("secret"), nil)
		if assert.NoError(t, err) {
			assert.NoError(t, c.Send([]byte("x")))
		}
	}()
	c, err := l.Accept(ctx)
	require.NoError(t, err)
	got, err := c.Receive(1)
	require.NoError(t, err)
	assert.Equal(t, "x", string(got))
	require.NoError(t, c.Close())
	mu.Lock()
	defer mu.Unlock()
	assert.GreaterOrEqual(t, crowded, silent-atOnce)
	l.doorstep.mu.Lock()
	defer l.doorstep.mu.Unlock()
	assert.LessOrEqual(t, len(l.doorstep.all), atOnce)
}

// The connection that leaves is the oldest of the source that has most of them.
func TestDoorstep(t *testing.T) {
	d := newDoorstep()
	old := time.Now().Add(-time.Minute)
	few := &waiting{source: "few", since: old}
	leaves, wait := d.enter(few)
	require.Nil(t, leaves)
	require.Zero(t, wait)
	var many []*waiting
	for range atOnce - 1 {
		w := &waiting{source: "many", since: old}
		many = append(many, w)
		leaves, _ = d.enter(w)
		require.Nil(t, leaves)
	}
	leaves, wait = d.enter(&waiting{source: "new", since: time.Now()})
	assert.Same(t, many[0], leaves)
	assert.Zero(t, wait)
	assert.True(t, d.leave(few))
	assert.False(t, d.leave(few))
	assert.False(t, d.leave(many[0]), "it has left already")
	assert.Same(t, many[1], d.evict())

	d.open(many[2])
	assert.Same(t, many[3], d.evict(), "silent ones first")
	d.open(many[3])
	d.open(many[4])
	assert.True(t, d.refuse(many[4]))
	assert.Same(t, many[4], d.evict(), "what was refused counts as silent")
	assert.False(t, d.refuse(many[4]))
	for _, w := range slices.Clone(d.all) {
		d.leave(w)
	}
	assert.Empty(t, d.silent)
	assert.Empty(t, d.opened, "what has left is not counted")

	young := newDoorstep()
	for range atOnce {
		_, wait = young.enter(&waiting{source: "many", since: time.Now().Add(time.Hour)})
		require.Zero(t, wait)
	}
	leaves, wait = young.enter(&waiting{source: "new"})
	assert.Nil(t, leaves, "a connection has some time before it must leave")
	assert.Greater(t, wait, grace)
	assert.Nil(t, newDoorstep().evict())
}

// exhausted is a listener whose first calls of Accept fail.
type exhausted struct {
	net.Listener
	mu    sync.Mutex
	left  int
	cause error
}

func (e *exhausted) Accept() (net.Conn, error) {
	e.mu.Lock()
	fail := e.left > 0
	if fail {
		e.left--
	}
	e.mu.Unlock()
	if fail {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: e.cause}
	}
	return e.Listener.Accept()
}

// A process without descriptors goes on accepting when it has some again, and says meanwhile what is
// wrong.
func TestNoDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		cause    error
	}{"for a while": {3, syscall.EMFILE}, "for long": {1 << 30, syscall.ENFILE}} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			told := make(chan error, 10)
			l := Listen(&exhausted{Listener: ln, left: c.failures, cause: c.cause}, testProtocol, []byte("secret"), func(from net.Addr, err error) {
				assert.Nil(t, from)
				told <- err
			})
			defer func() { assert.NoError(t, l.Close()) }()
			require.ErrorIs(t, <-told, ErrDescriptors)
			ctx := within(t)
			if c.failures > 100 {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				_, err := l.Accept(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, ErrDescriptors)
				require.ErrorIs(t, err, c.cause)
				assert.Empty(t, told, "it is told once")
				return
			}
			go func() {
				c, err := Dial(ctx, ln.Addr().String(), testProtocol, []byte("secret"), nil)
				if assert.NoError(t, err) {
					assert.NoError(t, c.Close())
				}
			}()
			conn, err := l.Accept(ctx)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stays := Listen(&exhausted{Listener: ln, left: 1 << 30, cause: syscall.EMFILE}, testProtocol, nil, nil)
	_, err = stays.Accept(t.Context())
	require.ErrorIs(t, err, ErrDescriptors, "at the limit of the process, and no connection to turn away")
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NoError(t, stays.Close())
	ln, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Listen(&exhausted{Listener: ln, left: 1, cause: syscall.EPERM}, testProtocol, nil, nil)
	defer func() { assert.NoError(t, l.Close()) }()
	_, err = l.Accept(t.Context())
	require.ErrorIs(t, err, syscall.EPERM, "other failures end the listener")
}
