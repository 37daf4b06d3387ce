package ccl_test

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/graph"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// node is an emulated machine of one process.
type node struct {
	l *ccl.Library
	f map[string]rt.Func
}

func newNode(tb testing.TB, limits ccl.Timeouts) *node {
	return newMachine(tb, limits, sanitize.Config{})
}

// newMachine is newNode with a sanitizer.
func newMachine(tb testing.TB, limits ccl.Timeouts, z sanitize.Config) *node {
	r := rt.NewMachine(rt.Config{Devices: 8, Memory: 256 << 20, SoC: "Ascend910B1", Sanitize: z})
	n := &node{l: ccl.NewWithTimeouts(r, limits), f: r.Functions()}
	maps.Copy(n.f, graph.New(r).Functions())
	maps.Copy(n.f, n.l.Functions())
	tb.Cleanup(func() {
		comms, _ := n.l.Live()
		require.Zero(tb, comms, "communicators left")
		require.Zero(tb, n.f["aclFinalize"](new(rt.Thread), nil))
	})
	return n
}

// watchdog ends a test that hangs. Nothing that works takes as long, however busy the machine is.
const watchdog = 3 * time.Minute

// patient is for ranks none of which is missed.
var patient = ccl.Timeouts{Connect: watchdog, Execute: watchdog}

// rank is one rank's thread, stream and communicator.
type rank struct {
	tb     testing.TB
	n      *node
	t      *rt.Thread
	id     int
	comm   uint64
	stream uint64

	got  []byte // buffer for the result of a check
	lent []byte // host memory of the current copy
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

// escaped keeps variables whose address was passed to a call alive for many later calls, because
// Go does not count an integer address as a reference.
var (
	escaped [4096]unsafe.Pointer
	escapes atomic.Uint64
)

// address returns the address of a Go variable as a call argument.
func address[T any](v *T) uint64 {
	atomic.StorePointer(&escaped[escapes.Add(1)%uint64(len(escaped))], unsafe.Pointer(v))
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

// close destroys the rank's communicator, if it has one.
func (r *rank) close() {
	if r.comm != 0 {
		r.must("HcclCommDestroy", r.comm)
	}
	r.comm = 0
}

func (r *rank) sync() int32 { return r.call("aclrtSynchronizeStream", r.stream) }

// upload allocates device memory and copies the bytes to it.
func (r *rank) upload(b []byte) uint64 {
	p := new(uint64)
	r.must("aclrtMalloc", address(p), uint64(max(len(b), 1)), 0)
	if len(b) > 0 {
		r.must("aclrtMemcpy", *p, uint64(len(b)), r.lend(b), uint64(len(b)), 1)
	}
	return *p
}

// lend returns the address of host memory, which stays valid until the next call of lend. It is
// for large buffers, which escaped would keep alive for too long.
func (r *rank) lend(b []byte) uint64 {
	r.lent = b
	return uint64(uintptr(unsafe.Pointer(&b[0])))
}

func (r *rank) download(p uint64, n int) []byte {
	b := make([]byte, n)
	if n > 0 {
		r.must("aclrtMemcpy", r.lend(b), uint64(n), p, uint64(n), 2)
	}
	return b
}

// available returns the free memory of the rank's device.
func (r *rank) available() uint64 {
	free, total := new(uint64), new(uint64)
	r.must("aclrtGetMemInfo", 1, address(free), address(total))
	return *free
}

func (r *rank) free(p uint64) { r.must("aclrtFree", p) }

// ranks makes n ranks in one process with HcclCommInitAll.
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

// unjoined makes n ranks without a communicator. connection decides whether they share one node or
// have one node each, as processes of one host or as separate hosts.
func unjoined(tb testing.TB, n int, limits ccl.Timeouts, connection string) []*rank {
	all := make([]*rank, n)
	for i := range all {
		if connection == "one process" && i > 0 {
			all[i] = newRank(tb, all[0].n, i)
			continue
		}
		m := newNode(tb, limits)
		if connection == "hosts" {
			ccl.PutOnOwnHost(m.l)
		}
		all[i] = newRank(tb, m, i)
	}
	return all
}

// rootInfo returns a new root info made by the rank.
func (r *rank) rootInfo() *[4108]byte {
	info := new([4108]byte)
	r.must("HcclGetRootInfo", address(info))
	return info
}

// join makes the rank's communicator from a root info.
func (r *rank) join(info *[4108]byte, id, size int) int32 {
	copied, comm := *info, new(uint64)
	code := r.call("HcclCommInitRootInfo", uint64(size), address(&copied), uint64(id), address(comm))
	r.comm = *comm
	return code
}

// joinAll makes a communicator of the given ranks, in their order.
func joinAll(all []*rank) {
	info := all[0].rootInfo()
	for i, r := range all {
		r.id = i
	}
	each(all, func(r *rank) { require.Zero(r.tb, r.join(info, r.id, len(all)), r.text()) })
}

// processes makes n ranks in n emulated processes, which share memory.
func processes(tb testing.TB, n int, limits ccl.Timeouts) []*rank {
	return joined(tb, unjoined(tb, n, limits, "processes"))
}

// hosts makes n ranks on n emulated hosts, which communicate over TCP.
func hosts(tb testing.TB, n int, limits ccl.Timeouts) []*rank {
	return joined(tb, unjoined(tb, n, limits, "hosts"))
}

func joined(tb testing.TB, all []*rank) []*rank {
	joinAll(all)
	tb.Cleanup(func() { each(all, (*rank).close) })
	return all
}

// each runs f concurrently for all ranks.
func each(all []*rank, f func(*rank)) {
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() { f(r) })
	}
	wg.Wait()
}

// worlds holds the constructors of ranks by the kind of connection.
var worlds = map[string]func(testing.TB, int, ccl.Timeouts) []*rank{"one process": ranks, "processes": processes, "hosts": hosts}

const int32Type, sum = 2, 0

func words(n int, f func(i int) int32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(f(i)))
	}
	return b
}

// TestMismatch checks that ranks whose calls differ all get an error with the difference,
// and that a new communicator can be made afterwards.
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
				// A rank that calls after the others have failed is refused at once.
				if r.call("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream) == 0 {
					require.NotZero(r.tb, r.sync())
				}
				text := r.text()
				require.Contains(r.tb, text, "EI0005")
				require.Contains(r.tb, text, "count 8 of int32 sum root 0 phase 0 (32 bytes)")
				require.Contains(r.tb, text, "count 7 of int32 sum root 0 phase 0 (28 bytes)")
				code := new(int32)
				r.must("HcclGetCommAsyncError", r.comm, address(code))
				require.EqualValues(r.tb, 21, *code)
				require.EqualValues(r.tb, 21, r.call("HcclBarrier", r.comm, r.stream), "a failed communicator stays failed")
				r.free(p)
			})
		})
	}
}
