package load_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/load"
)

// memory counts the bytes that the process and the device hold while no request runs.
type memory struct {
	heap       uint64 // bytes that are live
	resident   uint64 // bytes of the process, the emulator's devices included
	goroutines int
	buffers    int // of the device
	device     acl.AllocatorStats
}

func (m memory) String() string {
	return fmt.Sprintf("heap %.2f MB, process %.1f MB, %d goroutines; device: %d buffers, %.2f MB in use of %.2f MB",
		float64(m.heap)/1e6, float64(m.resident)/1e6, m.goroutines, m.buffers, float64(m.device.InUse)/1e6, float64(m.device.Reserved)/1e6)
}

// measured returns a function that measures the memory.
func measured(t *testing.T, to load.Target) func() memory {
	dev, err := acltest.Open(t).Device(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return func() memory {
		to.Client.CloseIdleConnections()
		for range 3 { // what a pool holds goes with the second collection
			runtime.GC()
		}
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		m := memory{heap: s.HeapAlloc, goroutines: runtime.NumGoroutine(), buffers: acl.Live()[acl.KindBuffer], device: dev.Allocator().Stats()}
		text, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		_, resident, _ := bytes.Cut(text, []byte("VmRSS:"))
		_, err = fmt.Sscan(string(resident), &m.resident)
		require.NoError(t, err)
		m.resident *= 1 << 10
		return m
	}
}

// varied asks for random continuations of random texts: all requests differ, in their lengths too.
func varied(to load.Target, seed uint64, prompt, answer int) load.Target {
	to.Vary = func(request int) string {
		rng := rand.New(rand.NewPCG(seed, uint64(request)))
		var text strings.Builder
		for range 1 + rng.IntN(prompt) {
			text.WriteByte("the quick brown fox"[rng.IntN(19)])
		}
		return fmt.Sprintf(`{"model":"small","prompt":%q,"max_tokens":%d,"temperature":1,"seed":%d,"stream":true}`, text.String(), 1+rng.IntN(answer), request)
	}
	return to
}

// TestFlatMemory: after a warm-up, which fills what is kept for later requests, memory does not grow with the
// number of requests.
func TestFlatMemory(t *testing.T) {
	const rounds = 3
	for name, c := range map[string]struct {
		vary          func(to load.Target, seed uint64) load.Target
		clients, each int
		slack         uint64 // bytes of the heap
	}{
		"equal":    {func(to load.Target, _ uint64) load.Target { return varied(to, 1, 1, 5) }, 1, 40, 50 << 10},
		"changing": {func(to load.Target, seed uint64) load.Target { return varied(to, seed, 30, 10) }, 8, 15, 700 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			e, to := start(t, engine.Options{Blocks: 24, BlockSize: 16, Sequences: 8, Queue: 8})
			measure := measured(t, to)
			var all []memory
			for seed := range uint64(2 * rounds) {
				r := load.Clients(t.Context(), c.vary(to, seed), c.clients, c.each)
				require.Equal(t, len(r.Results), r.Complete, "%v", r.Other)
				all = append(all, measure())
				t.Log(all[seed])
			}
			most := func(f func(m memory) int) (n int) {
				for _, m := range all[:rounds] {
					n = max(n, f(m))
				}
				return n
			}
			heap := uint64(math.MaxUint64)
			for _, m := range all[rounds:] {
				heap = min(heap, m.heap) // it goes up and down with what is kept, but never back with a leak
			}
			last := all[2*rounds-1]
			require.Less(t, heap, uint64(most(func(m memory) int { return int(m.heap) }))+c.slack)
			require.LessOrEqual(t, last.goroutines, most(func(m memory) int { return m.goroutines })+4)
			require.Equal(t, all[rounds-1].buffers, last.buffers)
			require.Equal(t, all[rounds-1].device.InUse, last.device.InUse)
			require.LessOrEqual(t, last.device.Segments, most(func(m memory) int { return m.device.Segments })+1)
			require.Zero(t, e.Stats().Used)
		})
	}
}

// overload is the time of TestLongOverload.
var overload = flag.Duration("for", 0, "`time` for which TestLongOverload sends requests")

// TestLongOverload sends 120 % of what the server can do, and reports its memory ten times. It is run by hand:
//
//	go test -tags emu -run TestLongOverload -v -timeout 0 ./examples/serve/load -for 10m
func TestLongOverload(t *testing.T) {
	if *overload == 0 {
		t.Skip("it is run by hand, with -for 10m")
	}
	e, to := start(t, engine.Options{Blocks: 64, BlockSize: 16, Sequences: 8, Queue: 16})
	measure := measured(t, to)
	rate := 1.2 * capacity(t, varied(to, 0, 100, 60), 20)
	began, part := time.Now(), *overload/10
	t.Logf("%.1f requests a second; at first: %v", rate, measure())
	for i := range uint64(10) {
		r := load.Open(t.Context(), varied(to, 1+i, 100, 60), rate, int(rate*part.Seconds()), i)
		require.Empty(t, r.Other)
		require.Equal(t, len(r.Results), r.Complete+r.Busy)
		t.Logf("after %v: %v; %v", time.Since(began).Round(time.Second), measure(), r)
	}
	require.Zero(t, e.Stats().Used)
}
