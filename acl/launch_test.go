package acl_test

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/bridge"
	"github.com/goascend/cann/internal/dtype"
)

// tensors makes float32 tensors on a stream, closed with the test.
func tensors(t testing.TB, st *acl.Stream, n int, shape ...int64) []*aclnn.Tensor {
	t.Helper()
	out := make([]*aclnn.Tensor, n)
	for i := range out {
		x, err := aclnn.New(st, aclnn.Float32, shape...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, x.Close()) })
		values := make([]float32, x.Len())
		for j := range values {
			values[j] = float32(math.Sin(float64(i*1000 + j)))
		}
		require.NoError(t, aclnn.CopyToDevice(background, st, x, values))
		out[i] = x
	}
	return out
}

func add(st *acl.Stream, x, y, out *aclnn.Tensor) error {
	return aclnn.Add(st, aclnn.AddParams{Self: x, Other: y, Alpha: aclnn.Float(1), Out: out})
}

// attend runs attention forward and backward, whose backward needs a workspace that grows
// with the sequence, and returns a gradient.
func attend(t testing.TB, st *acl.Stream, sequence int64) []float32 {
	t.Helper()
	x := tensors(t, st, 8, 1, sequence, 16)
	stats := tensors(t, st, 2, 1, 2, sequence, 8)
	require.NoError(t, aclnn.FlashAttentionScore(st, aclnn.FlashAttentionScoreParams{
		Query: x[0], Key: x[1], Value: x[2], ScaleValue: 0.3, KeepProb: 1, PreTokens: math.MaxInt32, NextTokens: math.MaxInt32,
		HeadNum: 2, InputLayout: "BSH", SoftmaxMaxOut: stats[0], SoftmaxSumOut: stats[1], AttentionOut: x[3],
	}))
	require.NoError(t, aclnn.FlashAttentionScoreGrad(st, aclnn.FlashAttentionScoreGradParams{
		Query: x[0], KeyIn: x[1], Value: x[2], Dy: x[4], SoftmaxMax: stats[0], SoftmaxSum: stats[1],
		AttentionIn: x[3], ScaleValue: 0.3, KeepProb: 1, PreTokens: math.MaxInt32, NextTokens: math.MaxInt32,
		HeadNum: 2, InputLayout: "BSH", DqOut: x[5], DkOut: x[6], DvOut: x[7],
	}))
	got := make([]float32, x[5].Len())
	require.NoError(t, aclnn.CopyFromDevice(background, st, got, x[5]))
	return got
}

func TestLaunch(t *testing.T) {
	st := openStream(t)
	x := tensors(t, st, 3, 5)
	require.NoError(t, add(st, x[0], x[1], x[2]))
	got := make([]float32, 5)
	require.NoError(t, aclnn.CopyFromDevice(background, st, got, x[2]))
	for i := range got {
		assert.InDelta(t, math.Sin(float64(i))+math.Sin(float64(1000+i)), got[i], 1e-6)
	}
	assert.Equal(t, []string{"aclnnAdd"}, st.Recent())
	wrong := tensors(t, st, 1, 4)[0]
	err := add(st, x[0], wrong, x[2])
	e := requireError(t, err, acl.ErrInvalidArgument, 161002)
	assert.Equal(t, "aclnnAddGetWorkspaceSize", e.Op)
	assert.Equal(t, st.ID(), e.Stream)
	assert.NotEmpty(t, e.Message)
	assert.Len(t, st.Recent(), 1, "what was refused was not launched")
}

// TestWorkspaceGrows: results do not depend on how the workspace came about.
func TestWorkspaceGrows(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	sizes := []int64{1, 3, 64, 300}
	want := make(map[int64][]float32)
	for _, n := range sizes {
		want[n] = attend(t, acltest.Stream(t, dev), n)
	}
	t.Run("in turn", func(t *testing.T) {
		st := acltest.Stream(t, dev)
		for _, n := range append(sizes, 3, 64) {
			require.Equal(t, want[n], attend(t, st, n), "sequence %d", n)
		}
	})
	t.Run("at once", func(t *testing.T) {
		st := acltest.Stream(t, dev)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 4 {
					n := sizes[(g+i)%len(sizes)]
					assert.Equal(t, want[n], attend(t, st, n), "sequence %d", n)
				}
			})
		}
		all.Wait()
	})
}

func TestPreparedOperator(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	x := tensors(t, st, 4, 7)
	ex, err := aclnn.Prepare(st, &aclnn.AddParams{Self: x[0], Other: x[1], Alpha: aclnn.Float(1), Out: x[2]})
	require.NoError(t, err)
	require.NoError(t, ex.Run())
	require.NoError(t, ex.Bind(2, x[3]))
	require.NoError(t, ex.Run())
	first, second := make([]float32, 7), make([]float32, 7)
	require.NoError(t, aclnn.CopyFromDevice(background, st, first, x[2]))
	require.NoError(t, aclnn.CopyFromDevice(background, st, second, x[3]))
	assert.Equal(t, first, second)
	require.NoError(t, ex.Close())
}

// TestPrepareAfterLaunches: phase one finds what the thread has launched before, and CANN refuses to
// repeat what it finds.
func TestPrepareAfterLaunches(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	x := tensors(t, st, 3, 5)
	for range 3 {
		require.NoError(t, add(st, x[0], x[1], x[2]))
		ex, err := aclnn.Prepare(st, &aclnn.AddParams{Self: x[0], Other: x[1], Alpha: aclnn.Float(1), Out: x[2]})
		require.NoError(t, err)
		require.NoError(t, ex.Run())
		require.NoError(t, ex.Close())
	}
	require.NoError(t, st.Synchronize(background))
}

// TestPreparedWithAbsentTensors: CANN counts the places of absent tensors, the caller does not.
func TestPreparedWithAbsentTensors(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	matrix := func(values ...float32) *aclnn.Tensor {
		x, err := aclnn.FromSlice(background, st, aclnn.Float32, values, 2, 2)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, x.Close()) })
		return x
	}
	rows, others := matrix(1, 2, 3, 4), matrix(5, 6, 7, 8)
	first, second := matrix(0, 0, 0, 0), matrix(0, 0, 0, 0)
	order, err := aclnn.FromSlice(background, st, aclnn.Int32, []int32{1, 0}, 2)
	require.NoError(t, err)
	defer func() { assert.NoError(t, order.Close()) }()
	ex, err := aclnn.Prepare(st, &aclnn.MoeTokenUnpermuteParams{PermutedTokens: rows, SortedIndices: order, Out: first})
	require.NoError(t, err)
	require.NoError(t, ex.Run())
	require.NoError(t, ex.Bind(0, others))
	require.NoError(t, ex.Bind(2, second))
	require.NoError(t, ex.Run())
	for x, want := range map[*aclnn.Tensor][]float32{first: {3, 4, 1, 2}, second: {7, 8, 5, 6}} {
		got, err := aclnn.ToSlice[float32](background, st, x)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	buf := malloc(t, st, 64)
	view, err := buf.View(4, 16)
	require.NoError(t, err)
	unaligned, err := aclnn.Wrap(view, aclnn.Float32, 2, 2)
	require.NoError(t, err)
	require.ErrorIs(t, ex.Bind(2, unaligned), acl.ErrInvalidArgument)
	require.NoError(t, ex.Close())
}

// nowhere is an address of the device's memory that is not allocated.
func nowhere(t testing.TB, dev *acl.Device) uint64 {
	t.Helper()
	buf, err := dev.MallocDirect(64, acl.HugeFirst)
	require.NoError(t, err)
	address := buf.Address()
	require.NoError(t, buf.Close())
	return address
}

// launchAtNothing queues an addition to memory that does not exist: a kernel fault.
func launchAtNothing(t testing.TB, st *acl.Stream) error {
	t.Helper()
	return launchAt(t, st, nowhere(t, st.Device()))
}

// launchAt queues an addition to what is at the address.
func launchAt(t testing.TB, st *acl.Stream, nothing uint64) error {
	t.Helper()
	d := cshim.TensorDesc{
		Address: nothing, DType: int16(dtype.Float32), Format: int16(dtype.ND), Rank: 1, StorageRank: 1,
		Dims: [cshim.MaxRank]int64{4}, Strides: [cshim.MaxRank]int64{1}, Storage: [cshim.MaxRank]int64{4},
	}
	var l cshim.Launch
	l.Reset(&cshim.Operator{Symbol: "aclnnAdd"})
	l.Tensor(&d)
	l.Tensor(&d)
	l.Scalar(int32(dtype.Float32), [2]uint64{uint64(math.Float32bits(1))})
	l.Tensor(&d)
	return lent(t, st).Launch(&l)
}

// lent is a stream as package aclnn gets it.
func lent(t testing.TB, st *acl.Stream) bridge.Queue {
	t.Helper()
	s, _, err := bridge.StreamOf(st)
	require.NoError(t, err)
	return s
}

// TestAsynchronousFault: the synchronise that brings a fault out names the operator, and the
// stream works on.
func TestAsynchronousFault(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	buf, before := malloc(t, dev, 4), acltest.Stream(t, dev)
	require.NoError(t, before.Memset(buf, 0, 4))
	require.NoError(t, before.Synchronize(background))
	for name, wait := range map[string]func(*acl.Stream) error{
		"stream": func(st *acl.Stream) error { return st.Synchronize(background) },
		"device": func(*acl.Stream) error { return dev.Synchronize(background) },
		"event": func(st *acl.Stream) error {
			ev, err := st.Record()
			require.NoError(t, err)
			defer func() { require.NoError(t, ev.Close()) }()
			return ev.Synchronize(background)
		},
		"event, cancellable": func(st *acl.Stream) error {
			ev, err := st.Record()
			require.NoError(t, err)
			defer func() { require.NoError(t, ev.Close()) }()
			return ev.Synchronize(t.Context())
		},
		"event before other work": func(st *acl.Stream) error {
			ev, err := st.Record()
			require.NoError(t, err)
			defer func() { require.NoError(t, ev.Close()) }()
			release := hold(t, st)
			require.NoError(t, ev.Synchronize(background), "the stream cannot be asked")
			release()
			return st.Synchronize(background)
		},
		"copy": func(st *acl.Stream) error {
			return acl.CopyFromDevice(background, st, make([]byte, 4), buf)
		},
		"copy, cancellable": func(st *acl.Stream) error {
			return acl.CopyFromDevice(t.Context(), st, make([]byte, 4), buf)
		},
		"query": func(st *acl.Stream) error {
			for done := false; !done; {
				var err error
				done, err = st.Query()
				require.NoError(t, err, "a query does not report it")
			}
			return st.Synchronize(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := acltest.Stream(t, dev)
			x := tensors(t, st, 3, 4)
			require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x[0], Other: x[1], Out: x[2]}))
			require.NoError(t, st.Synchronize(background))
			require.NoError(t, aclnn.Exp(st, aclnn.ExpParams{Self: x[0], Out: x[2]}))
			require.NoError(t, launchAtNothing(t, st))
			require.NoError(t, aclnn.Exp(st, aclnn.ExpParams{Self: x[0], Out: x[2]}))
			err := wait(st)
			require.ErrorIs(t, err, acl.ErrKernel)
			var e *acl.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, []string{"aclnnAdd", "aclnnExp"}, e.Suspects)
			assert.Equal(t, acl.DamageWork, e.Damage())
			assert.Contains(t, err.Error(), "most likely aclnnAdd")
			assert.Contains(t, e.Hint, "ASCEND_LAUNCH_BLOCKING")
			require.NoError(t, st.Synchronize(background), "the fault is reported once")

			require.NoError(t, add(st, x[0], x[1], x[2]))
			require.NoError(t, st.Synchronize(background), "the stream works on")
		})
	}
}

// TestStopOnFailure: the whole context halts and keeps telling why.
func TestStopOnFailure(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	x, err := dev.NewContext()
	require.NoError(t, err)
	st, err := x.NewStream(acl.StreamStopOnFailure())
	require.NoError(t, err)
	other, err := x.NewStream()
	require.NoError(t, err)
	require.NoError(t, launchAtNothing(t, st))
	require.ErrorIs(t, st.Synchronize(background), acl.ErrKernel)
	require.ErrorIs(t, st.Synchronize(background), acl.ErrKernel)
	require.ErrorIs(t, other.Synchronize(background), acl.ErrKernel)
	require.NoError(t, acltest.Stream(t, dev).Synchronize(background), "the primary context is not affected")
	require.ErrorIs(t, st.Close(), acl.ErrKernel)
	require.ErrorIs(t, other.Close(), acl.ErrKernel)
	require.NoError(t, x.Close())
}

// TestLaunchBlocking: the launch itself reports that the operator failed.
func TestLaunchBlocking(t *testing.T) {
	t.Setenv("ASCEND_LAUNCH_BLOCKING", "1")
	st := openStream(t)
	err := launchAtNothing(t, st)
	require.ErrorIs(t, err, acl.ErrKernel)
	var e *acl.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, []string{"aclnnAdd"}, e.Suspects)
	require.NoError(t, st.Synchronize(background))
}

func TestMissingOperator(t *testing.T) {
	st := openStream(t)
	var l cshim.Launch
	l.Reset(&cshim.Operator{Symbol: "aclnnNobodyMadeThis"})
	err := lent(t, st).Launch(&l)
	requireError(t, err, acl.ErrNotSupported, 0)
	var missing *cshim.SymbolError
	require.ErrorAs(t, err, &missing)
	_, err = lent(t, st).Prepare(&l)
	requireError(t, err, acl.ErrNotSupported, 0)
}

// TestLastLaunches: the launches of all open streams are listed in the order of time, those that a
// wait has covered as ended, at most as many as asked for.
func TestLastLaunches(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	one, two := acltest.Stream(t, dev), acltest.Stream(t, dev)
	x := tensors(t, one, 2, 4)
	require.NoError(t, one.Synchronize(background))
	began := time.Now()
	zero := func(st *acl.Stream, x *aclnn.Tensor) {
		require.NoError(t, aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: x}))
	}
	zero(one, x[0])
	require.NoError(t, one.Synchronize(background))
	zero(two, x[1])
	zero(one, x[0])
	last := dev.LastLaunches(3)
	require.Len(t, last, 3)
	for i, want := range []struct {
		st    *acl.Stream
		ended bool
	}{{one, true}, {two, false}, {one, false}} {
		require.Equal(t, want.st.ID(), last[i].Stream)
		require.Equal(t, want.ended, last[i].Ended)
		require.Equal(t, "aclnnInplaceZero", last[i].Operator)
		require.Zero(t, last[i].Device)
		require.WithinRange(t, last[i].At, began.Add(-time.Millisecond), time.Now().Add(time.Millisecond))
	}
	require.Equal(t, last[0].Number+1, last[2].Number)
	require.Empty(t, dev.LastLaunches(0))
	require.NoError(t, two.Synchronize(background))
	for range 1100 {
		zero(one, x[0])
	}
	require.NoError(t, one.Synchronize(background))
	kept := 0
	for _, l := range dev.LastLaunches(10000) {
		if l.Stream == one.ID() {
			kept++
		}
	}
	require.Equal(t, 1024, kept, "of each stream")
}
