//go:build linux

package hccl_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/internal/testing/freeport"
	"github.com/goascend/cann/internal/testing/process"
)

// join makes the children form a world of all of them.
func join(all []*process.Child, address string) {
	for i, p := range all {
		p.Send("join %s %d %d", address, i, len(all))
	}
}

// requireJoined requires that the children joined and that a collective gives the right result.
func requireJoined(t *testing.T, all []*process.Child) {
	for _, p := range all {
		code, text := p.Receive()
		require.Zero(t, code, text)
	}
	for _, text := range process.All(all, "reduce") {
		require.Equal(t, fmt.Sprint(len(all)), text)
	}
}

// requireFailed requires that each survivor reports one of the errors with all of the words.
func requireFailed(t *testing.T, survivors []*process.Child, errors string, words ...string) {
	began := time.Now()
	for i, p := range survivors {
		code, text := p.Receive()
		require.Equal(t, 1, code, "rank %d: %s", i, text)
		names, message, _ := strings.Cut(text, ": ")
		found := false
		for name := range strings.FieldsSeq(errors) {
			found = found || strings.Contains(names, name)
		}
		require.True(t, found, "rank %d: %s", i, text)
		for _, w := range words {
			require.Contains(t, message, w, "rank %d", i)
		}
	}
	require.Less(t, time.Since(began), answer/2)
}

// requireFresh requires that the survivors have freed everything and can work in a new world.
func requireFresh(t *testing.T, survivors []*process.Child, address string) {
	for range 2 {
		process.All(survivors, "leave")
		for i, left := range process.All(survivors, "check") {
			require.Empty(t, left, "rank %d", i)
		}
		join(survivors, address)
		requireJoined(t, survivors)
	}
}

// TestFaults checks that, whatever happens to the last of three processes, the others get a typed
// error before their deadline, leak nothing, and continue in a new world.
func TestFaults(t *testing.T) {
	acltest.Need(t)
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	for _, c := range []struct {
		name    string
		happens func(t *testing.T, all []*process.Child)
		errors  string
		words   []string
	}{
		{"killed before joining", func(t *testing.T, all []*process.Child) {
			all[2].Kill()
			address := freeport.Free(t)
			for i, p := range all[:2] {
				p.Send("join %s %d 3", address, i)
			}
		}, "world.ErrRanksMissing", []string{"rank 2"}},
		{"stalled before joining", func(t *testing.T, all []*process.Child) {
			all[2].Signal(syscall.SIGSTOP)
			join(all, freeport.Free(t))
		}, "world.ErrRanksMissing", []string{"rank 2"}},
		{"wrong world size", func(t *testing.T, all []*process.Child) {
			address := freeport.Free(t)
			for i, p := range all {
				p.Send("join %s %d %d", address, i, 3+i/2)
			}
		}, "world.ErrDisagree", []string{"rank 2 of 4"}},
		{"killed while others wait", func(t *testing.T, all []*process.Child) {
			join(all, freeport.Free(t))
			requireJoined(t, all)
			for _, p := range all[:2] {
				p.Send("reduce")
			}
			all[2].Kill()
		}, "acl.ErrPeerLost hccl.ErrRemote", []string{"EI0006"}},
		{"killed between collectives", func(t *testing.T, all []*process.Child) {
			join(all, freeport.Free(t))
			requireJoined(t, all)
			all[2].Kill()
			for _, p := range all[:2] {
				p.Send("reduce")
			}
		}, "acl.ErrPeerLost hccl.ErrRemote", []string{"EI0006"}},
		{"stalled", func(t *testing.T, all []*process.Child) {
			join(all, freeport.Free(t))
			requireJoined(t, all)
			all[2].Signal(syscall.SIGSTOP)
			for _, p := range all[:2] {
				p.Send("reduce")
			}
		}, "acl.ErrTimeout acl.ErrPeerLost hccl.ErrRemote", []string{"EI0002"}},
		{"left", func(t *testing.T, all []*process.Child) {
			join(all, freeport.Free(t))
			requireJoined(t, all)
			all[2].Must("leave")
			for _, p := range all[:2] {
				p.Send("reduce")
			}
		}, "acl.ErrPeerLost hccl.ErrRemote", []string{"EI0006", "rank 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := children(t, 3)
			c.happens(t, all)
			requireFailed(t, all[:2], c.errors, c.words...)
			requireFresh(t, all[:2], freeport.Free(t))
		})
	}
}

// TestRendezvousPortTaken checks that, if another program listens at the rendezvous port, rank 0
// reports the port and the other ranks a stranger; strangers that only connect have no effect.
func TestRendezvousPortTaken(t *testing.T) {
	acltest.Need(t)
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	all := children(t, 3)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().String()
	join(all, address)
	requireFailed(t, all[:1], "world.ErrPortInUse", address)
	requireFailed(t, all[1:], "world.ErrRanksMissing world.ErrStranger", address)
	require.NoError(t, ln.Close())
	process.All(all, "leave")

	all[0].Send("join %s 0 3", address)
	other := dialed(t, address)
	_, err = fmt.Fprintf(other, "GET / HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	for i, p := range all[1:] {
		p.Send("join %s %d 3", address, i+1)
	}
	requireJoined(t, all)
	require.NoError(t, other.Close())
	requireFresh(t, all, freeport.Free(t))
}

// dialed connects to a process that may not listen yet.
func dialed(t *testing.T, address string) (conn net.Conn) {
	require.Eventually(t, func() (ok bool) {
		var err error
		conn, err = net.Dial("tcp", address)
		return err == nil
	}, answer, time.Millisecond)
	return conn
}

// TestGatherWhileStuck gathers objects over the host group while the streams wait for a collective
// that one rank never makes, and again after that collective has failed.
func TestGatherWhileStuck(t *testing.T) {
	acltest.Need(t)
	if testing.Short() {
		t.Skip("processes, and timeouts of seconds")
	}
	all := children(t, 3)
	join(all, freeport.Free(t))
	requireJoined(t, all)
	gathered := func() {
		for _, text := range process.All(all, "gather") {
			require.Equal(t, "[0 1 2]", text)
		}
	}
	process.All(all[:2], "queue")
	gathered()
	for _, p := range all[:2] {
		p.Send("wait")
	}
	requireFailed(t, all[:2], "acl.ErrTimeout acl.ErrPeerLost", "EI0002")
	gathered()
	requireFresh(t, all, freeport.Free(t))
}
