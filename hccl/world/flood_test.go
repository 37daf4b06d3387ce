package world

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/handshake"
)

// strangersVariable is set in a process that only attacks an address: "address silent talking".
const strangersVariable = "CANN_TEST_STRANGERS"

func TestMain(m *testing.M) {
	if order := os.Getenv(strangersVariable); order != "" {
		attack(order)
		return
	}
	os.Exit(m.Run())
}

// attack opens silent connections, sends on others, reports that, until the standard input ends.
func attack(order string) {
	var address string
	var silent, talking int
	if _, err := fmt.Sscan(order, &address, &silent, &talking); err != nil {
		panic(err)
	}
	conns := make([]net.Conn, silent)
	for i := range conns {
		var err error
		if conns[i], err = net.Dial("tcp", address); err != nil {
			panic(err)
		}
	}
	stop := chatter(address, talking)
	fmt.Println("at the door")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	for _, c := range conns {
		_ = c.Close()
	}
}

// besiege lets strangers in another process attack an address until the returned function is called.
func besiege(t *testing.T, address string, silent, talking int) (leave func()) {
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), program)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", strangersVariable, address, silent, talking))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "at the door\n", line)
	return func() {
		require.NoError(t, in.Close())
		require.NoError(t, c.Wait())
	}
}

// chatter sends from n other programs to an address until the returned function is called: other
// programs, and some that know the protocol but not the secret. Each comes again when it is refused
// away. chatter returns when each has talked once.
func chatter(address string, n int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work, first sync.WaitGroup
	first.Add(n)
	opening := append([]byte(protocol), make([]byte, 32+32)...) // with a public key, and a wrong ticket
	opening[len(protocol)] = 9
	for i := range n {
		work.Go(func() {
			talked := sync.OnceFunc(first.Done)
			defer talked()
			for ctx.Err() == nil {
				var dialer net.Dialer
				c, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					return
				}
				hangUp := context.AfterFunc(ctx, func() { _ = c.Close() })
				switch i % 4 {
				case 0:
					_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
				case 1:
					_, _ = c.Write(bytes.Repeat([]byte{0xff}, 4096))
				case 2:
					_, _ = c.Write(slices.Concat(opening, make([]byte, 4096)))
				case 3:
					_, _ = c.Write(opening) // and waits for the end of the time limit
				}
				talked()
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				hangUp()
				timer := time.NewTimer(20 * time.Millisecond)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
			}
		})
	}
	first.Wait()
	return func() {
		cancel()
		work.Wait()
	}
}

// joinAll joins a job of four ranks whose rank 0 listens already, and returns how long that took.
func joinAll(t *testing.T, disturb func(address string)) time.Duration {
	ctx := within(t, patient)
	ln, address := listener(t)
	place := func(rank int) Place {
		return Place{Rank: rank, Size: 4, Address: address, Secret: "known to the ranks", Job: "training"}
	}
	hub := make(chan error, 1)
	groups := make([]*Group, 4)
	go func() {
		var err error
		groups[0], err = Join(ctx, place(0), GroupConfig{Listener: ln})
		hub <- err
	}()
	disturb(address)
	began := time.Now()
	var work sync.WaitGroup
	for rank := 1; rank < 4; rank++ {
		work.Go(func() {
			var err error
			groups[rank], err = Join(ctx, place(rank), GroupConfig{})
			assert.NoError(t, err)
		})
	}
	work.Wait()
	require.NoError(t, <-hub)
	took := time.Since(began)
	for rank, g := range groups {
		work.Go(func() {
			got, err := AllGather(ctx, g, rank)
			assert.NoError(t, err)
			assert.Equal(t, []int{0, 1, 2, 3}, got)
		})
	}
	work.Wait()
	for _, g := range groups {
		g.Close()
	}
	return took
}

// Strangers, however many and whatever they do, neither delay a job nor enter it. A job that waits for one of them
// waits until its handshake has taken too long, so a small part of that time bounds the joins; the strangers use the same
// CPUs, and so do other programs, so a join among them is not as fast as an undisturbed one.
func TestRendezvousUnderAttack(t *testing.T) {
	silent, talking, joins := 2000, 500, 5
	if testing.Short() {
		silent, talking, joins = 700, 50, 3
	}
	calm, took := make([]time.Duration, joins), make([]time.Duration, joins)
	for i := range joins {
		calm[i] = joinAll(t, func(string) {})
		leave := func() {}
		took[i] = joinAll(t, func(address string) {
			leave = besiege(t, address, silent, talking)
			for _, outsider := range []Place{{Rank: 1, Size: 4}, {Rank: 1, Size: 99}} {
				outsider.Address, outsider.Job = address, "training"
				_, err := Join(within(t, patient), outsider, GroupConfig{})
				require.ErrorIs(t, err, ErrStranger, "the name of the job is no secret")
			}
		})
		leave()
	}
	slices.Sort(calm)
	slices.Sort(took)
	t.Logf("joined in %v undisturbed, in %v among %d silent and %d sending programs", calm, took, silent, talking)
	require.Less(t, took[joins/2], handshake.Limit/4, "strangers delay a job")
}

// Ranks without a secret use the loopback only, unless Place.Open is set.
func TestNoSecret(t *testing.T) {
	for _, address := range []string{"192.0.2.1:9", ":9", "0.0.0.0:9", "name.invalid:9"} {
		for rank := range 2 {
			_, err := Join(within(t, patient), Place{Rank: rank, Size: 2, Address: address}, GroupConfig{})
			require.ErrorIs(t, err, ErrNoSecret, address)
			require.ErrorContains(t, err, EnvSecret)
		}
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", port)
	_, err = Join(within(t, patient), Place{Size: 2, Address: address}, GroupConfig{Listener: ln})
	require.ErrorIs(t, err, ErrNoSecret, "the listener counts, not the name of the place")

	ln, err = net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	_, port, err = net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	address = net.JoinHostPort("0.0.0.0", port)
	_, errs := rendezvous(t, within(t, patient), []Place{
		{Size: 2, Address: address, Open: true}, {Rank: 1, Size: 2, Address: address, Open: true},
	}, GroupConfig{Listener: ln})
	require.Equal(t, []error{nil, nil}, errs)
}

// tap forwards one connection to an address, changes what flows to it, and records both directions.
type tap struct {
	address string
	heard   chan []byte
}

func newTap(t *testing.T, to string, change func(b []byte)) tap {
	ln, address := listener(t)
	x := tap{address: address, heard: make(chan []byte, 2)}
	go func() {
		from, err := ln.Accept()
		if err != nil {
			return
		}
		onward, err := net.Dial("tcp", to)
		if !assert.NoError(t, err) {
			return
		}
		pass := func(dst, src net.Conn, change func([]byte)) {
			var all bytes.Buffer
			b := make([]byte, 4096)
			for {
				n, err := src.Read(b)
				all.Write(b[:n])
				change(b[:n])
				_, writeErr := dst.Write(b[:n])
				if err != nil || writeErr != nil {
					break
				}
			}
			_ = dst.Close()
			x.heard <- all.Bytes()
		}
		go pass(onward, from, change)
		go pass(from, onward, func([]byte) {})
	}()
	return x
}

// Whoever listens on the way learns nothing of what the ranks exchange, such as a root info, and
// whoever changes it is noticed.
func TestExchangeIsSealed(t *testing.T) {
	const text = "a root info, which would let its reader take part"
	changed := make(chan struct{})
	for name, change := range map[string]func(b []byte){
		"read": func([]byte) {},
		"changed": func(b []byte) {
			select {
			case <-changed:
				if len(b) > 0 {
					b[len(b)-1] ^= 1
				}
			default:
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, patient)
			ln, address := listener(t)
			x := newTap(t, address, change)
			groups, errs := rendezvous(t, ctx, []Place{
				{Size: 2, Address: address, Secret: "s"}, {Rank: 1, Size: 2, Address: x.address, Secret: "s"},
			}, GroupConfig{Listener: ln})
			require.Equal(t, []error{nil, nil}, errs)
			if name == "changed" {
				close(changed)
			}
			var work sync.WaitGroup
			got, failures := make([][]string, 2), make([]error, 2)
			for rank, g := range groups {
				work.Go(func() {
					got[rank], failures[rank] = AllGather(ctx, g, text)
					if failures[rank] != nil {
						g.Close()
					}
				})
			}
			work.Wait()
			if name == "changed" {
				require.ErrorIs(t, failures[0], ErrStranger)
				require.ErrorIs(t, failures[0], handshake.ErrForged)
				require.Error(t, failures[1])
				return
			}
			require.Equal(t, []error{nil, nil}, failures)
			require.Equal(t, [][]string{{text, text}, {text, text}}, got)
			for _, g := range groups {
				g.Close()
			}
			for range 2 {
				require.NotContains(t, string(<-x.heard), "root info")
			}
		})
	}
}
