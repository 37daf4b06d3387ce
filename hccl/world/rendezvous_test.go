package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/internal/handshake"
	"github.com/goascend/cann/internal/testing/freeport"
)

// listener is an open port of the loopback and its address.
func listener(t testing.TB) (net.Listener, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln, ln.Addr().String()
}

// rendezvous runs the rendezvous of the given places concurrently.
func rendezvous(t testing.TB, ctx context.Context, worlds []Place, c GroupConfig) ([]*Group, []error) {
	t.Helper()
	groups, errs := make([]*Group, len(worlds)), make([]error, len(worlds))
	var wg sync.WaitGroup
	for i, w := range worlds {
		wg.Go(func() { groups[i], errs[i] = Join(ctx, w, c) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, g := range groups {
			if g != nil {
				g.Close()
			}
		}
	})
	return groups, errs
}

func TestRendezvous(t *testing.T) {
	address := freeport.Free(t)
	var worlds []Place
	for rank := range 4 {
		worlds = append(worlds, Place{Rank: rank, Size: 4, Address: address, Secret: "s"})
	}
	groups, errs := rendezvous(t, within(t, patient), worlds, GroupConfig{Name: "g"})
	requireAll(t, errs)
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(context.Background()) }))
	assert.Equal(t, "g", groups[3].Name())

	alone, err := Join(context.Background(), Alone(), GroupConfig{})
	require.NoError(t, err)
	require.NoError(t, alone.Barrier(context.Background()))
	require.NoError(t, alone.Close())
	require.ErrorIs(t, alone.Barrier(context.Background()), ErrClosed)

	_, err = Join(context.Background(), Place{Size: 2}, GroupConfig{})
	require.ErrorIs(t, err, ErrPlace)
	_, err = LocalGroups(context.Background(), 0, GroupConfig{})
	require.ErrorIs(t, err, ErrPlace)
}

func TestRendezvousMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		came []int
		want []int
	}{{[]int{0, 2}, []int{1, 3}}, {[]int{1, 3}, []int{0}}, {[]int{0}, []int{1, 2, 3}}} {
		t.Run(fmt.Sprint(c.came), func(t *testing.T) {
			t.Parallel()
			address := freeport.Free(t)
			var worlds []Place
			for _, rank := range c.came {
				worlds = append(worlds, Place{Rank: rank, Size: 4, Address: address})
			}
			ctx, cancel := context.WithTimeout(context.Background(), short)
			defer cancel()
			_, errs := rendezvous(t, ctx, worlds, GroupConfig{})
			for _, err := range errs {
				require.ErrorIs(t, err, ErrRanksMissing)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var e *GroupError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.want, e.Ranks, "%v", err)
				assert.ErrorContains(t, err, address)
			}
		})
	}
}

// A rank that connected and died before the others came does not count as present.
func TestRendezvousLost(t *testing.T) {
	ln, address := listener(t)
	secret := newGroup(Place{}, GroupConfig{}, nil).secret
	early := make(chan struct{})
	errs := make(chan error, 2)
	ctx := within(t, patient)
	go func() {
		_, err := Join(ctx, Place{Size: 3, Address: address}, GroupConfig{Listener: ln})
		errs <- err
	}()
	conn, err := handshake.Dial(ctx, address, protocol, secret, hello{rank: 1, size: 3}.bytes())
	require.NoError(t, err)
	require.NoError(t, readAnswer(conn))
	// A reset, like that of a process killed with unread data.
	require.NoError(t, conn.Conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, conn.Close())
	close(early)
	go func() {
		<-early
		g, err := Join(ctx, Place{Rank: 2, Size: 3, Address: address}, GroupConfig{})
		if err == nil { // formed, so the loss shows at the first call
			err = g.Barrier(ctx)
			g.Close()
		}
		errs <- err
	}()
	for range 2 {
		err := <-errs
		require.ErrorIs(t, err, ErrRankLost)
	}
}

func TestRendezvousPortInUse(t *testing.T) {
	_, address := listener(t)
	_, err := Join(within(t, patient), Place{Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrPortInUse)
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "MASTER_PORT")
}

func TestRendezvousMismatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		wrong      Place
		atRank0    string
		atTheWrong error
	}{
		{"size", Place{Rank: 2, Size: 4}, "claims to be rank 2 of 4", errSizeDiffers},
		{"rank twice", Place{Rank: 1, Size: 3}, "claims to be rank 1 of 3", errRankTaken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ln, address := listener(t)
			c.wrong.Address = address
			ctx := within(t, short) // if a rank comes twice, rank 0 still waits for rank 2
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for i, w := range []Place{{Size: 3, Address: address}, {Rank: 1, Size: 3, Address: address}, c.wrong} {
				wg.Go(func() { _, errs[i] = Join(ctx, w, GroupConfig{Listener: map[int]net.Listener{0: ln}[i]}) })
			}
			wg.Wait()
			for _, err := range errs {
				require.ErrorIs(t, err, ErrDisagree)
			}
			require.ErrorContains(t, errs[0], c.atRank0)
			refused := errors.Is(errs[1], c.atTheWrong) || errors.Is(errs[2], c.atTheWrong)
			require.True(t, refused, "%v", errs)
		})
	}
}

// Strangers are rejected and logged, and do not disturb the job.
func TestRendezvousStrangers(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	ln, address := listener(t)
	ctx := within(t, patient)
	done := make(chan error, 1)
	go func() {
		g, err := Join(ctx, Place{Size: 2, Address: address, Secret: "right"}, GroupConfig{Listener: ln}, WithLogger(slog.New(zapslog.NewHandler(core))))
		if err == nil {
			err = g.Barrier(ctx)
			g.Close()
		}
		done <- err
	}()
	// Another job on the same port.
	_, err := Join(ctx, Place{Rank: 1, Size: 2, Address: address, Secret: "wrong"}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
	require.ErrorIs(t, err, handshake.ErrSecret)
	// One program speaks another protocol, one stays silent, and one disconnects.
	web, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer web.Close()
	fmt.Fprintf(web, "GET / HTTP/1.1\r\nHost: x\r\n\r\n%0200d", 0)
	_, err = io.Copy(io.Discard, web)
	_ = err // the end of the stream or a reset, both are a refusal
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	gone, err := net.Dial("tcp", address)
	require.NoError(t, err)
	require.NoError(t, gone.Close())

	g, err := Join(ctx, Place{Rank: 1, Size: 2, Address: address, Secret: "right"}, GroupConfig{})
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, g.Barrier(ctx))
	require.NoError(t, <-done)
	assert.GreaterOrEqual(t, logs.FilterMessageSnippet("refused a connection").Len(), 2)
}

// A member that reaches another program reports that at once.
func TestRendezvousOtherProgram(t *testing.T) {
	ln, address := listener(t)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			fmt.Fprintf(conn, "SSH-2.0-x %0100d", 0)
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	_, err := Join(within(t, patient), Place{Rank: 1, Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
	require.ErrorIs(t, err, handshake.ErrProtocol)
}

// A hub that does not know the secret is not accepted as rank 0.
func TestRendezvousFalseHub(t *testing.T) {
	ln, address := listener(t)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(append([]byte(protocol), make([]byte, 32+32)...)) // a nonce and no proof
		io.Copy(io.Discard, conn)
	}()
	_, err := Join(within(t, patient), Place{Rank: 1, Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
}

func TestRendezvousCanceled(t *testing.T) {
	for rank := range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := Join(ctx, Place{Rank: rank, Size: 2, Address: freeport.Free(t)}, GroupConfig{})
			done <- err
		}()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

// After a failure the process forms a new group at the same address.
func TestRendezvousAgain(t *testing.T) {
	address := freeport.Free(t)
	brief, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	worlds := []Place{{Size: 2, Address: address}, {Rank: 1, Size: 2, Address: address}}
	_, errs := rendezvous(t, brief, worlds[:1], GroupConfig{})
	require.ErrorIs(t, errs[0], ErrRanksMissing)
	groups, errs := rendezvous(t, within(t, patient), worlds, GroupConfig{})
	requireAll(t, errs)
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(context.Background()) }))
}

// A member that proves the secret but sends an invalid hello is rejected.
func TestRendezvousNonsense(t *testing.T) {
	ln, address := listener(t)
	ctx := within(t, patient)
	done := make(chan error, 1)
	go func() {
		g, err := Join(ctx, Place{Size: 2, Address: address}, GroupConfig{Listener: ln})
		if err == nil {
			g.Close()
		}
		done <- err
	}()
	secret := newGroup(Place{}, GroupConfig{}, nil).secret
	for _, sent := range [][]byte{nil, []byte("rank 1"), make([]byte, handshake.MaxHello)} {
		c, err := handshake.Dial(ctx, address, protocol, secret, sent)
		require.NoError(t, err)
		require.Error(t, readAnswer(c), "%q", sent)
		require.NoError(t, c.Close())
	}
	g, err := Join(ctx, Place{Rank: 1, Size: 2, Address: address}, GroupConfig{})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, g.Close())
}

func FuzzHello(f *testing.F) {
	f.Add(hello{rank: 1, size: 4, budget: time.Second}.bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHello(data)
		if err != nil {
			return
		}
		again, err := parseHello(h.bytes())
		require.NoError(t, err)
		require.Equal(t, h, again)
		require.GreaterOrEqual(t, h.budget, time.Duration(0))
	})
}
