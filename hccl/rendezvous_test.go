package hccl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// listener is an open port of the loopback and its address.
func listener(t testing.TB) (net.Listener, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln, ln.Addr().String()
}

// freeAddress is a port that nobody listens on.
func freeAddress(t testing.TB) string {
	ln, address := listener(t)
	ln.Close()
	return address
}

// meet runs the rendezvous of the given worlds at once.
func meet(t testing.TB, ctx context.Context, worlds []World, c GroupConfig) ([]*Group, []error) {
	t.Helper()
	groups, errs := make([]*Group, len(worlds)), make([]error, len(worlds))
	var wg sync.WaitGroup
	for i, w := range worlds {
		wg.Go(func() { groups[i], errs[i] = Rendezvous(ctx, w, c) })
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
	address := freeAddress(t)
	var worlds []World
	for rank := range 4 {
		worlds = append(worlds, World{Rank: rank, Size: 4, Address: address, Secret: "s"})
	}
	groups, errs := meet(t, within(t, patient), worlds, GroupConfig{Name: "g"})
	requireAll(t, errs)
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(context.Background()) }))
	assert.Equal(t, "g", groups[3].Name())

	alone, err := Rendezvous(context.Background(), Alone(), GroupConfig{})
	require.NoError(t, err)
	require.NoError(t, alone.Barrier(context.Background()))
	require.NoError(t, alone.Close())
	require.ErrorIs(t, alone.Barrier(context.Background()), ErrGroupClosed)

	_, err = Rendezvous(context.Background(), World{Size: 2}, GroupConfig{})
	require.ErrorIs(t, err, ErrWorld)
	_, err = LocalGroups(context.Background(), 0, GroupConfig{})
	require.ErrorIs(t, err, ErrWorld)
}

func TestRendezvousMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		came []int
		want []int
	}{{[]int{0, 2}, []int{1, 3}}, {[]int{1, 3}, []int{0}}, {[]int{0}, []int{1, 2, 3}}} {
		t.Run(fmt.Sprint(c.came), func(t *testing.T) {
			t.Parallel()
			address := freeAddress(t)
			var worlds []World
			for _, rank := range c.came {
				worlds = append(worlds, World{Rank: rank, Size: 4, Address: address})
			}
			ctx, cancel := context.WithTimeout(context.Background(), short)
			defer cancel()
			_, errs := meet(t, ctx, worlds, GroupConfig{})
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

// A rank that came and died before the others came does not count as present.
func TestRendezvousLost(t *testing.T) {
	ln, address := listener(t)
	secret := newGroup(World{}, GroupConfig{}).secret
	early := make(chan struct{})
	errs := make(chan error, 2)
	ctx := within(t, patient)
	go func() {
		_, err := Rendezvous(ctx, World{Size: 3, Address: address}, GroupConfig{Listener: ln})
		errs <- err
	}()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = joinHub(conn, secret, hello{rank: 1, size: 3})
	require.NoError(t, err)
	// A reset, as of a process that was killed with data unread.
	require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, conn.Close())
	close(early)
	go func() {
		<-early
		g, err := Rendezvous(ctx, World{Rank: 2, Size: 3, Address: address}, GroupConfig{})
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
	_, err := Rendezvous(within(t, patient), World{Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrPortInUse)
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "MASTER_PORT")
}

func TestRendezvousMismatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		wrong      World
		atRank0    string
		atTheWrong error
	}{
		{"size", World{Rank: 2, Size: 4}, "says it is rank 2 of 4", errSizeDiffers},
		{"rank twice", World{Rank: 1, Size: 3}, "says it is rank 1 of 3", errRankTaken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ln, address := listener(t)
			c.wrong.Address = address
			ctx := within(t, short) // of two with one rank, rank 0 waits for the third
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for i, w := range []World{{Size: 3, Address: address}, {Rank: 1, Size: 3, Address: address}, c.wrong} {
				wg.Go(func() { _, errs[i] = Rendezvous(ctx, w, GroupConfig{Listener: map[int]net.Listener{0: ln}[i]}) })
			}
			wg.Wait()
			for _, err := range errs {
				require.ErrorIs(t, err, ErrWorldMismatch)
			}
			require.ErrorContains(t, errs[0], c.atRank0)
			refused := errors.Is(errs[1], c.atTheWrong) || errors.Is(errs[2], c.atTheWrong)
			require.True(t, refused, "%v", errs)
		})
	}
}

// Strangers are turned away, heard of in the log, and do not disturb the job.
func TestRendezvousStrangers(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	ln, address := listener(t)
	ctx := within(t, patient)
	done := make(chan error, 1)
	go func() {
		g, err := Rendezvous(ctx, World{Size: 2, Address: address, Secret: "right"}, GroupConfig{Listener: ln, Logger: zap.New(core)})
		if err == nil {
			err = g.Barrier(ctx)
			g.Close()
		}
		done <- err
	}()
	// Another job on the same port.
	_, err := Rendezvous(ctx, World{Rank: 1, Size: 2, Address: address, Secret: "wrong"}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
	require.ErrorIs(t, err, errSecret)
	// A program that speaks something else, one that says nothing and stays, one that leaves.
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

	g, err := Rendezvous(ctx, World{Rank: 1, Size: 2, Address: address, Secret: "right"}, GroupConfig{})
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, g.Barrier(ctx))
	require.NoError(t, <-done)
	assert.GreaterOrEqual(t, logs.FilterMessageSnippet("turned a connection away").Len(), 2)
}

// A member that finds another program says so at once.
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
	_, err := Rendezvous(within(t, patient), World{Rank: 1, Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
	require.ErrorIs(t, err, errNotRendezvous)
}

// A hub that does not know the secret cannot pass for rank 0.
func TestRendezvousFalseHub(t *testing.T) {
	ln, address := listener(t)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(append([]byte(magic), make([]byte, nonceSize)...))
		io.ReadFull(conn, make([]byte, helloSize))
		conn.Write(append([]byte{welcome}, make([]byte, 32)...))
	}()
	_, err := Rendezvous(within(t, patient), World{Rank: 1, Size: 2, Address: address}, GroupConfig{})
	require.ErrorIs(t, err, ErrStranger)
}

func TestRendezvousCanceled(t *testing.T) {
	for rank := range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := Rendezvous(ctx, World{Rank: rank, Size: 2, Address: freeAddress(t)}, GroupConfig{})
			done <- err
		}()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

// After a failure the process forms a new group at the same address.
func TestRendezvousAgain(t *testing.T) {
	address := freeAddress(t)
	brief, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	worlds := []World{{Size: 2, Address: address}, {Rank: 1, Size: 2, Address: address}}
	_, errs := meet(t, brief, worlds[:1], GroupConfig{})
	require.ErrorIs(t, errs[0], ErrRanksMissing)
	groups, errs := meet(t, within(t, patient), worlds, GroupConfig{})
	requireAll(t, errs)
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(context.Background()) }))
}

// Whatever a stranger writes, examine refuses it and does not crash.
func FuzzExamine(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(make([]byte, helloSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		hub, stranger := net.Pipe()
		defer hub.Close()
		go func() {
			defer stranger.Close()
			io.ReadFull(stranger, make([]byte, len(magic)+nonceSize))
			stranger.Write(data)
		}()
		_, err := examine(hub, []byte("secret"))
		require.Error(t, err)
	})
}
