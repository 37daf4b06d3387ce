package ccl_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is an emulated machine of one process.
type node struct {
	l *ccl.Library
	f map[string]rt.Func
}

func newNode(tb testing.TB, limits ccl.Timeouts) *node {
	r := rt.NewMachine(rt.Config{Devices: 8, Memory: 64 << 20, SoC: "Ascend910B1"})
	n := &node{l: ccl.NewWithTimeouts(r, limits), f: r.Functions()}
	for name, f := range n.l.Functions() {
		n.f[name] = f
	}
	tb.Cleanup(func() {
		comms, _ := n.l.Live()
		require.Zero(tb, comms, "communicators left")
		require.Zero(tb, n.f["aclFinalize"](new(rt.Thread), nil))
	})
	return n
}

var patient = ccl.Timeouts{Connect: 20 * time.Second, Execute: 20 * time.Second}

// rank is one rank's thread, stream and communicator.
type rank struct {
	tb     testing.TB
	n      *node
	t      *rt.Thread
	id     int
	comm   uint64
	stream uint64
}

func (r *rank) call(name string, args ...uint64) int32 { return int32(r.n.f[name](r.t, args)) }

func (r *rank) must(name string, args ...uint64) {
	r.tb.Helper()
	code := r.call(name, args...)
	require.Zero(r.tb, code, "rank %d %s: %s", r.id, name, r.text())
}

func (r *rank) text() string {
	if p := r.t.TakeText(); p != 0 {
		return rt.CString(p)
	}
	return ""
}

var escaped unsafe.Pointer

// address is a Go variable's address as an argument.
func address[T any](v *T) uint64 {
	atomic.StorePointer(&escaped, unsafe.Pointer(v))
	return uint64(uintptr(unsafe.Pointer(v)))
}

func newRank(tb testing.TB, n *node, device int) *rank {
	r := &rank{tb: tb, n: n, t: new(rt.Thread), id: device}
	r.must("aclrtSetDevice", uint64(device))
	stream := new(uint64)
	r.must("aclrtCreateStream", address(stream))
	r.stream = *stream
	return r
}

func (r *rank) close() { r.must("HcclCommDestroy", r.comm) }

func (r *rank) sync() int32 { return r.call("aclrtSynchronizeStream", r.stream) }

// upload makes device memory with the bytes.
func (r *rank) upload(b []byte) uint64 {
	p := new(uint64)
	r.must("aclrtMalloc", address(p), uint64(max(len(b), 1)), 0)
	if len(b) > 0 {
		r.must("aclrtMemcpy", *p, uint64(len(b)), address(&b[0]), uint64(len(b)), 1)
	}
	return *p
}

func (r *rank) download(p uint64, n int) []byte {
	b := make([]byte, n)
	if n > 0 {
		r.must("aclrtMemcpy", address(&b[0]), uint64(n), p, uint64(n), 2)
	}
	return b
}

func (r *rank) free(p uint64) { r.must("aclrtFree", p) }

// ranks are n ranks in one process, made by HcclCommInitAll.
func ranks(tb testing.TB, n int, limits ccl.Timeouts) []*rank {
	m := newNode(tb, limits)
	all := make([]*rank, n)
	devices, comms := make([]int32, n), make([]uint64, n)
	for i := range all {
		all[i] = newRank(tb, m, i)
		devices[i] = int32(i)
	}
	all[0].must("HcclCommInitAll", uint64(n), address(&devices[0]), address(&comms[0]))
	for i, r := range all {
		r.comm = comms[i]
		tb.Cleanup(r.close)
	}
	return all
}

// apart are n ranks in as many emulated processes, which talk over TCP.
func apart(tb testing.TB, n int, limits ccl.Timeouts) []*rank {
	all := make([]*rank, n)
	for i := range all {
		all[i] = newRank(tb, newNode(tb, limits), i)
	}
	var info [4108]byte
	all[0].must("HcclGetRootInfo", address(&info))
	each(all, func(r *rank) {
		copied := info
		comm := new(uint64)
		r.must("HcclCommInitRootInfo", uint64(n), address(&copied), uint64(r.id), address(comm))
		r.comm = *comm
	})
	tb.Cleanup(func() { each(all, (*rank).close) })
	return all
}

// each runs f for all ranks at the same time.
func each(all []*rank, f func(*rank)) {
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() { f(r) })
	}
	wg.Wait()
}

// worlds are the ways ranks are connected.
var worlds = map[string]func(testing.TB, int, ccl.Timeouts) []*rank{"one process": ranks, "processes": apart}

const int32Type, sum = 2, 0

func words(n int, f func(i int) int32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(f(i)))
	}
	return b
}

// Every collective moves and combines what its definition says, for every number of ranks,
// count, and way to be connected.
func TestCollectives(t *testing.T) {
	for world, make := range worlds {
		for _, n := range []int{1, 2, 3, 4, 8} {
			if world == "processes" && n == 8 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", world, n), func(t *testing.T) {
				all := make(t, n, patient)
				for _, count := range []int{0, 1, 7, 4099, 16384} {
					each(all, func(r *rank) { r.checkAll(n, count) })
				}
			})
		}
	}
}

// value is element i of rank r.
func value(r, i int) int32 { return int32((r+1)*(i%1000+1) + i) }

// total is the sum of element i over the ranks.
func total(n, i int) (s int32) {
	for r := range n {
		s += value(r, i)
	}
	return s
}

func (r *rank) checkAll(n, count int) {
	c, root := uint64(count), n-1
	mine := words(count, func(i int) int32 { return value(r.id, i) })
	blocks := words(n*count, func(i int) int32 { return value(r.id, i) })
	// run makes buffers, calls, and compares what was received with want; in place when
	// recv is nil.
	run := func(name string, send, recv []byte, want []byte, call func(s, d uint64) int32) {
		s := r.upload(send)
		d := s
		if recv != nil {
			d = r.upload(recv)
		}
		require.Zero(r.tb, call(s, d), "%s: %s", name, r.text())
		require.Zero(r.tb, r.sync(), "%s: %s", name, r.text())
		if want != nil {
			require.Equal(r.tb, want, r.download(d, len(want)), "%s rank %d of %d, count %d", name, r.id, n, count)
		}
		r.free(s)
		if recv != nil {
			r.free(d)
		}
	}
	room := func(elements int) []byte { return make([]byte, 4*elements) }
	sums := words(count, func(i int) int32 { return total(n, i) })
	reduce := func(s, d uint64) int32 { return r.call("HcclAllReduce", s, d, c, int32Type, sum, r.comm, r.stream) }
	run("AllReduce", mine, room(count), sums, reduce)
	run("AllReduce in place", mine, nil, sums, reduce)
	var want []byte
	if r.id == root {
		want = sums
	}
	run("Reduce", mine, room(count), want, func(s, d uint64) int32 {
		return r.call("HcclReduce", s, d, c, int32Type, sum, uint64(root), r.comm, r.stream)
	})
	scattered := words(count, func(i int) int32 { return total(n, r.id*count+i) })
	scatter := func(s, d uint64) int32 {
		return r.call("HcclReduceScatter", s, d, c, int32Type, sum, r.comm, r.stream)
	}
	run("ReduceScatter", blocks, room(count), scattered, scatter)
	run("ReduceScatter in place", blocks, nil, scattered, scatter)
	run("Broadcast", mine, nil, words(count, func(i int) int32 { return value(root, i) }), func(s, _ uint64) int32 {
		return r.call("HcclBroadcast", s, c, int32Type, uint64(root), r.comm, r.stream)
	})
	run("Scatter", blocks, room(count), words(count, func(i int) int32 { return value(root, r.id*count+i) }), func(s, d uint64) int32 {
		return r.call("HcclScatter", s, d, c, int32Type, uint64(root), r.comm, r.stream)
	})
	gathered := words(n*count, func(i int) int32 { return value(i/max(count, 1), i%max(count, 1)) })
	run("AllGather", mine, room(n*count), gathered, func(s, d uint64) int32 {
		return r.call("HcclAllGather", s, d, c, int32Type, r.comm, r.stream)
	})
	run("AlltoAll", blocks, room(n*count), words(n*count, func(i int) int32 {
		return value(i/max(count, 1), r.id*count+i%max(count, 1))
	}), func(s, d uint64) int32 {
		return r.call("HcclAlltoAll", s, c, int32Type, d, c, int32Type, r.comm, r.stream)
	})
	next, last := (r.id+1)%n, (r.id+n-1)%n
	if n > 1 && count > 0 {
		run("Send and Recv", mine, room(count), words(count, func(i int) int32 { return value(last, i) }), func(s, d uint64) int32 {
			type item struct {
				kind, _ int32
				buf     uint64
				count   uint64
				dtype   int32
				peer    uint32
			}
			items := []item{{1, 0, d, c, int32Type, uint32(last)}, {0, 0, s, c, int32Type, uint32(next)}}
			return r.call("HcclBatchSendRecv", address(&items[0]), 2, r.comm, r.stream)
		})
	}
	require.Zero(r.tb, r.call("HcclBarrier", r.comm, r.stream), r.text())
	require.Zero(r.tb, r.sync())
}

// Ranks that disagree all get an error that says how, and the library makes a new
// communicator afterwards.
func TestMismatch(t *testing.T) {
	for world, make := range worlds {
		t.Run(world, func(t *testing.T) {
			all := make(t, 3, patient)
			each(all, func(r *rank) {
				p := r.upload(words(8, func(int) int32 { return 1 }))
				count := uint64(8)
				if r.id == 1 {
					count = 7
				}
				// A rank that comes after the others have failed is refused at once.
				if r.call("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream) == 0 {
					require.NotZero(r.tb, r.sync())
				}
				require.Contains(r.tb, r.text(), "EI0005")
				code := new(int32)
				r.must("HcclGetCommAsyncError", r.comm, address(code))
				require.EqualValues(r.tb, 21, *code)
				require.EqualValues(r.tb, 21, r.call("HcclBarrier", r.comm, r.stream), "a failed communicator stays failed")
				r.free(p)
			})
		})
	}
}

// A rank that skips a collective costs the others the timeout, not for ever.
func TestSkippedCollective(t *testing.T) {
	for world, make := range worlds {
		t.Run(world, func(t *testing.T) {
			all := make(t, 3, ccl.Timeouts{Connect: 20 * time.Second, Execute: 200 * time.Millisecond})
			each(all[:2], func(r *rank) {
				if r.call("HcclBarrier", r.comm, r.stream) == 0 {
					require.NotZero(r.tb, r.sync())
				}
				require.Contains(r.tb, r.text(), "EI0002")
			})
		})
	}
}

// Ranks that do not come are named; strangers are not heard.
func TestMissingRank(t *testing.T) {
	n := newNode(t, ccl.Timeouts{Connect: 300 * time.Millisecond, Execute: time.Second})
	r := newRank(t, n, 0)
	var info [4108]byte
	r.must("HcclGetRootInfo", address(&info))
	comm := new(uint64)
	require.EqualValues(t, 9, r.call("HcclCommInitRootInfo", 3, address(&info), 0, address(comm)))
	require.Contains(t, r.text(), "ranks 1, 2 of 3")
	forged := info
	forged[9] ^= 1
	require.NotZero(t, r.call("HcclCommInitRootInfo", 1, address(&forged), 0, address(comm)))
}
