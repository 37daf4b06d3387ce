package meter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops/parallel"
)

var (
	_ parallel.Communicator         = (*meter.Comm)(nil)
	_ parallel.PeerCommunicator     = (*meter.Comm)(nil)
	_ parallel.ExchangeCommunicator = (*meter.Comm)(nil)
)

// rank is one of several in this process.
type rank struct {
	*world.Group
	st    *acl.Stream
	comm  *meter.Comm
	meter *meter.Meter
	x     *aclnn.Tensor
}

// each runs body on every rank.
func each(t *testing.T, ranks int, body func(ctx context.Context, r *rank) error) {
	rt := acltest.Open(t)
	groups, err := world.LocalGroups(t.Context(), ranks, world.GroupConfig{})
	require.NoError(t, err)
	require.NoError(t, job.Each(t.Context(), groups, func(ctx context.Context, g *world.Group) (err error) {
		dev, err := rt.Device(g.Rank())
		if err != nil {
			return err
		}
		defer job.Close(&err, dev)
		st, err := dev.NewStream(acl.StreamFast())
		if err != nil {
			return err
		}
		defer job.Close(&err, st)
		c, err := hccl.Join(ctx, st, g, hccl.Config{})
		if err != nil {
			return err
		}
		defer job.Close(&err, c)
		m, err := meter.New(st)
		if err != nil {
			return err
		}
		defer job.Close(&err, m)
		x, err := aclnn.New(st, aclnn.Float32, 4*int64(ranks))
		if err != nil {
			return err
		}
		defer job.Close(&err, x)
		if err := aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: x}); err != nil {
			return err
		}
		return errors.Join(body(ctx, &rank{g, st, m.Comm(c), m, x}), st.Synchronize(ctx))
	}))
}

// late queues work on rank 1 that takes a while, after the others have queued what waits for it.
func (r *rank) late(others *sync.WaitGroup, d time.Duration) error {
	if d == 0 || r.Rank() != 1 {
		return nil
	}
	return r.st.HostFunc(func() {
		others.Wait()
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
	})
}

// TestWaiting: a rank that is late spends the time in its own work, and the others in waiting for it, in
// collectives of the stream and in those beside it.
func TestWaiting(t *testing.T) {
	const delay, ranks = 400 * time.Millisecond, 3 // pauses of a busy machine are shorter than half of the delay
	for _, aside := range []bool{false, true} {
		t.Run(fmt.Sprint("aside ", aside), func(t *testing.T) {
			var times []meter.Times
			var took []meter.Step
			var others sync.WaitGroup
			others.Add(ranks - 1)
			each(t, ranks, func(ctx context.Context, r *rank) error {
				var board meter.Board
				side := r.st
				if aside {
					var err error
					if side, err = r.st.Device().NewStream(); err != nil {
						return err
					}
					defer side.Close()
				}
				step := func(delay time.Duration) error {
					began := time.Now()
					err := errors.Join(r.meter.Begin(), r.late(&others, delay))
					at, failed := r.st.Record()
					if err = errors.Join(err, failed); err != nil {
						return err
					}
					defer at.Close()
					if err := errors.Join(side.Wait(at), r.comm.AllReduce(side, r.x, r.x, hccl.Sum)); err != nil {
						return err
					}
					if delay > 0 && r.Rank() != 1 {
						others.Done()
					}
					done, err := side.Record()
					if err != nil {
						return err
					}
					defer done.Close()
					if err := r.meter.Join(func() error { return r.st.Wait(done) }); err != nil {
						return err
					}
					own, err := r.meter.End(ctx, began)
					if err != nil {
						return err
					}
					all, err := world.Gather(ctx, r.Group, 0, own)
					if err == nil && r.Rank() == 0 {
						times, took = board.Split(all), all
					}
					return err
				}
				for range 10 { // the least time of the collective becomes known
					if err := step(0); err != nil {
						return err
					}
				}
				return step(delay)
			})
			require.Len(t, times, ranks)
			for i, s := range times {
				t.Logf("rank %d: %+v of %v", i, s, took[i].Took)
				assert.InDelta(t, took[i].Took.Seconds(), s.Kernels+s.Communication+s.Waiting, 1e-3)
				if i == 1 {
					assert.GreaterOrEqual(t, s.Kernels, 0.9*delay.Seconds(), "the work that was late")
				} else {
					assert.GreaterOrEqual(t, s.Waiting, 0.5*delay.Seconds(), "for rank 1")
				}
			}
		})
	}
}

// TestCalls: every kind of call is counted with its size, and events are used again.
func TestCalls(t *testing.T) {
	const ranks = 2
	each(t, ranks, func(ctx context.Context, r *rank) error {
		y, err := aclnn.New(r.st, aclnn.Float32, 8)
		if err != nil {
			return err
		}
		defer y.Close()
		half, blocks := y.Narrow(0, 0, 4), hccl.Packed(4, 4)
		peer := 1 - r.Rank()
		for step := range 3 {
			if err := r.meter.Begin(); err != nil {
				return err
			}
			for range 2 {
				if err := errors.Join(
					r.comm.AllReduce(r.st, r.x, y, hccl.Sum),
					r.comm.AllGather(r.st, half, r.x),
					r.comm.ReduceScatter(r.st, r.x, half, hccl.Sum),
					r.comm.AllToAll(r.st, r.x, y),
					r.comm.AllToAllV(r.st, r.x, blocks, y, blocks),
					r.comm.Exchange(r.st, hccl.SendTo(peer, r.x), hccl.RecvFrom(peer, y)),
				); err != nil {
					return err
				}
			}
			s, err := r.meter.End(ctx, time.Now())
			if err != nil {
				return err
			}
			got := map[meter.Call]int{}
			for _, c := range s.Calls {
				got[c.Call] = c.Count
				assert.LessOrEqual(t, 2*c.Least, c.Total)
				assert.LessOrEqual(t, c.Total, s.Device)
			}
			want := map[meter.Call]int{}
			for name, bytes := range map[string]int{"all-reduce": 32, "all-gather": 16, "reduce-scatter": 32, "all-to-all": 32, "all-to-all-v": 64, "exchange": 64} {
				want[meter.Call{Name: name, Bytes: bytes, Ranks: ranks}] = 2
			}
			assert.Equal(t, want, got)
			if step > 0 {
				assert.LessOrEqual(t, acl.Live()[acl.KindEvent], ranks*(2+2*12), "of both ranks")
			}
		}
		return nil
	})
}

// TestCapture: what a graph records has no times.
func TestCapture(t *testing.T) {
	each(t, 2, func(ctx context.Context, r *rank) error {
		call := func() error { return r.comm.AllReduce(r.st, r.x, r.x, hccl.Sum) }
		if err := errors.Join(r.meter.Begin(), call()); err != nil {
			return err
		}
		g, err := r.st.Capture(ctx, acl.CaptureThreadLocal, call)
		if err != nil {
			return err
		}
		err = g.Replay(r.st)
		s, failed := r.meter.End(ctx, time.Now())
		if err = errors.Join(err, failed); err == nil {
			require.Len(t, s.Calls, 1)
			assert.Equal(t, 1, s.Calls[0].Count)
		}
		return errors.Join(err, g.Close())
	})
}

// TestFailedCall: the error of a call is the caller's, and the meter goes on.
func TestFailedCall(t *testing.T) {
	each(t, 2, func(ctx context.Context, r *rank) error {
		require.NoError(t, r.meter.Begin())
		require.ErrorIs(t, r.comm.AllReduce(r.st, nil, r.x, hccl.Sum), acl.ErrInvalidArgument)
		require.ErrorIs(t, r.comm.Exchange(r.st, hccl.Message{}), acl.ErrInvalidArgument)
		require.ErrorIs(t, r.comm.AllReduce(nil, r.x, r.x, hccl.Sum), acl.ErrInvalidArgument)
		s, err := r.meter.End(ctx, time.Now())
		require.Empty(t, s.Calls)
		return err
	})
	var none *meter.Meter
	require.NoError(t, none.Begin())
	require.ErrorIs(t, none.Join(func() error { return acl.ErrBusy }), acl.ErrBusy)
	s, err := none.End(t.Context(), time.Now().Add(-time.Second))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Took, time.Second)
	require.Zero(t, s.Device)
	require.NoError(t, none.Close())
}

// TestSplit checks the arithmetic: the least time of any rank and step is that of communication.
func TestSplit(t *testing.T) {
	const ms = time.Millisecond
	reduce, bucket := meter.Call{Name: "all-reduce", Bytes: 8, Ranks: 2}, meter.Call{Name: "all-reduce", Bytes: 8, Ranks: 2, Aside: true}
	join := meter.Call{Name: "join"}
	var b meter.Board
	got := b.Split([]meter.Step{
		{Took: 100 * ms, Device: 90 * ms, Calls: []meter.Tally{{reduce, 2, 30 * ms, 10 * ms}, {bucket, 1, 20 * ms, 20 * ms}, {join, 1, 8 * ms, 8 * ms}}},
		{Took: 100 * ms, Device: 95 * ms, Calls: []meter.Tally{{reduce, 2, 10 * ms, 4 * ms}, {bucket, 1, 5 * ms, 5 * ms}}},
	})
	for i, want := range []meter.Times{{Kernels: .052, Communication: .008 + .002, Waiting: .038}, {Kernels: .085, Communication: .008, Waiting: .007}} {
		assert.InDelta(t, want.Kernels, got[i].Kernels, 1e-9)
		assert.InDelta(t, want.Communication, got[i].Communication, 1e-9)
		assert.InDelta(t, want.Waiting, got[i].Waiting, 1e-9)
	}
	mean := meter.Mean(got)
	assert.InDelta(t, 0.1, mean.Kernels+mean.Communication+mean.Waiting, 1e-9)
	got = b.Split([]meter.Step{{Took: 20 * ms, Device: 20 * ms, Calls: []meter.Tally{{reduce, 1, 10 * ms, 10 * ms}}}})
	assert.InDelta(t, .004, got[0].Communication, 1e-9, "the earlier step had a shorter one")
	assert.Empty(t, b.Split(nil))
	assert.Zero(t, meter.Mean(nil))
}

// TestSlowest names the rank that the others wait for.
func TestSlowest(t *testing.T) {
	rank, longer := meter.Slowest([]meter.Times{{Kernels: 1}, {Kernels: 1.5, Waiting: 9}, {Kernels: 2}})
	assert.Equal(t, 2, rank)
	assert.InDelta(t, 0.6, longer, 1e-12)
	rank, longer = meter.Slowest([]meter.Times{{Kernels: 1}, {Kernels: 1}})
	assert.Zero(t, rank)
	assert.Zero(t, longer)
}
