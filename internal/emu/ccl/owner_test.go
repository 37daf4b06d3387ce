package ccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

// set makes a device current on the rank's thread.
func (r *rank) set(device int) { r.must("aclrtSetDevice", uint64(device)) }

// TestDeviceOfThread: HCCL finds a communicator for its end only on a thread for which it takes the
// device where it was made. HCCL of 2024 takes the first device that a thread used it for.
func TestDeviceOfThread(t *testing.T) {
	alone := func(r *rank, device int) uint64 { // a communicator of one rank
		r.set(device)
		require.Zero(t, r.join(r.rootInfo(), 0, 1), r.text())
		return r.comm
	}
	for _, remembers := range []bool{false, true} {
		n := newNode(t, patient)
		if remembers {
			ccl.Remember(n.l)
		}
		here, there := newRank(t, n, 0), newRank(t, n, 1)
		first := alone(here, 0)
		second := alone(here, 1)
		live, _ := n.l.Live()
		require.Equal(t, 2, live)

		require.EqualValues(t, 1, there.call("HcclCommDestroy", first), "a thread of device 1")
		require.Contains(t, there.text(), "make and destroy it on a thread that has used HCCL for no other device")
		live, _ = n.l.Live()
		require.Equal(t, 2, live, "what is not found stays")
		if remembers {
			require.EqualValues(t, 1, there.call("HcclCommDestroy", second), "it is kept under device 0")
		} else {
			there.must("HcclCommDestroy", second)
		}

		there.set(0)
		if remembers {
			require.EqualValues(t, 1, there.call("HcclCommDestroy", first), "the thread stays with device 1")
			here.must("HcclCommDestroy", second)
			here.must("HcclCommDestroy", first)
		} else {
			there.must("HcclCommDestroy", first)
		}
		r := &rank{tb: t, n: n, t: new(rt.Thread)}
		require.EqualValues(t, 0, r.call("HcclCommDestroy", 0), "null is nothing")
		here.comm, there.comm = 0, 0
	}
}

// TestOneNameTwice: two ranks of one process have communicators of one name, so that their threads
// must not be of one device for HCCL.
func TestOneNameTwice(t *testing.T) {
	n := newNode(t, patient)
	ccl.Remember(n.l)
	r := newRank(t, n, 0)
	info := r.rootInfo()
	r.set(1)
	require.Zero(t, r.join(info, 0, 1), r.text())
	first := r.comm
	r.set(0)
	require.EqualValues(t, 1, r.join(info, 0, 1))
	require.Contains(t, r.text(), "already has a communicator named")
	r.must("HcclCommDestroy", first)
}

// TestNullStream: HCCL has no default stream.
func TestNullStream(t *testing.T) {
	r := ranks(t, 1, patient)[0]
	p, q := r.upload(ones(4)), r.upload(ones(4))
	counts, places := &[1]uint64{4}, &[1]uint64{0}
	items := &[2]item{{0, 0, p, 1, int32Type, 0}, {1, 0, q, 1, int32Type, 0}}
	for name, args := range map[string][]uint64{
		"HcclAllReduce":      {p, q, 4, int32Type, sum, r.comm, 0},
		"HcclBroadcast":      {p, 4, int32Type, 0, r.comm, 0},
		"HcclReduce":         {p, q, 4, int32Type, sum, 0, r.comm, 0},
		"HcclReduceScatter":  {p, q, 4, int32Type, sum, r.comm, 0},
		"HcclReduceScatterV": {p, address(counts), address(places), q, 4, int32Type, sum, r.comm, 0},
		"HcclScatter":        {p, q, 4, int32Type, 0, r.comm, 0},
		"HcclAllGather":      {p, q, 4, int32Type, r.comm, 0},
		"HcclAllGatherV":     {p, 4, q, address(counts), address(places), int32Type, r.comm, 0},
		"HcclAlltoAll":       {p, 4, int32Type, q, 4, int32Type, r.comm, 0},
		"HcclAlltoAllV":      {p, address(counts), address(places), int32Type, q, address(counts), address(places), int32Type, r.comm, 0},
		"HcclAlltoAllVC":     {p, address(counts), int32Type, q, int32Type, r.comm, 0},
		"HcclSend":           {p, 4, int32Type, 0, r.comm, 0},
		"HcclRecv":           {p, 4, int32Type, 0, r.comm, 0},
		"HcclBatchSendRecv":  {address(&items[0]), 2, r.comm, 0},
		"HcclBarrier":        {r.comm, 0},
	} {
		require.EqualValues(t, 2, r.call(name, args...), name)
		require.Contains(t, r.text(), "stream", name)
	}
	r.must("HcclAllReduce", p, q, 0, int32Type, sum, r.comm, 0) // no elements come first
	r.free(p)
	r.free(q)
}
