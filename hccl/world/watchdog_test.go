package world

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"
)

func TestDiagnose(t *testing.T) {
	const minute = time.Minute
	moving := Progress{Seq: 7, Done: 6, Op: "all-reduce"}
	stuck := Progress{Seq: 7, Done: 6, Op: "all-reduce", Since: 2 * minute}
	behind := Progress{Seq: 6, Done: 6, Op: "broadcast"}
	for _, c := range []struct {
		name  string
		at    map[int]Progress
		cause error
		seq   uint64
		ranks []int
		text  string
	}{
		{"moving", map[int]Progress{0: moving, 1: moving}, nil, 0, nil, ""},
		{"late", map[int]Progress{0: moving, 1: behind}, nil, 0, nil, ""},
		{"one has not come", map[int]Progress{0: stuck, 1: behind, 2: stuck}, ErrStalled, 7, []int{1}, "look at rank 1; rank 1 queued 6 (broadcast), ended 6; ranks 0, 2 queued 7 (all-reduce), ended 6"},
		{"one has queued nothing", map[int]Progress{3: {}, 4: stuck}, ErrStalled, 1, []int{3}, "rank 3 queued none"},
		{"all are in it", map[int]Progress{0: stuck, 1: stuck}, ErrStalled, 7, nil, "ranks 0, 1 queued 7"},
		{"different kinds", map[int]Progress{0: moving, 2: {Seq: 7, Done: 6, Op: "barrier"}}, ErrMismatched, 7, []int{0, 2}, "rank 2 queued 7 (barrier)"},
		{"an exchange without its peer", map[int]Progress{
			3: {Rank: 1, Exchanges: 4, Exchanged: 3, Exchange: "HcclSend", Peers: []int{0}, Since: 2 * minute},
			5: {Rank: 0, Exchanges: 2, Exchanged: 2},
			7: {Rank: 2, Exchanges: 3, Exchanged: 3},
		}, ErrStalled, 0, []int{5}, "rank 3 queued none, is in exchange 4 (HcclSend)"},
		{"ended long ago", map[int]Progress{0: {Seq: 7, Done: 7, Since: 2 * minute}}, nil, 0, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := diagnose("dp", c.at, minute)
			if c.cause == nil {
				require.Nil(t, e)
				return
			}
			require.ErrorIs(t, e, c.cause)
			assert.Equal(t, c.seq, e.Seq)
			assert.Equal(t, c.ranks, e.Ranks)
			assert.ErrorContains(t, e, "communicator dp")
			assert.ErrorContains(t, e, c.text)
		})
	}
}

// fakeComm is a communicator whose progress is set by a test.
type fakeComm struct {
	at  atomic.Pointer[Progress]
	err atomic.Pointer[error]
}

func (f *fakeComm) Progress() Progress { return *f.at.Load() }

func (f *fakeComm) AsyncError() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

// faults collects what a watchdog reports.
type faults struct {
	mu   sync.Mutex
	list []error
	come chan struct{} // one token per fault
	logs *observer.ObservedLogs
}

func (f *faults) add(err error) {
	f.mu.Lock()
	f.list = append(f.list, err)
	f.mu.Unlock()
	f.come <- struct{}{}
}

// all returns the faults reported so far.
func (f *faults) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func startWatchdogs(t *testing.T, n int) ([]*Group, []*Watchdog, []*fakeComm, []*faults) {
	t.Helper()
	groups := localGroups(t, n, GroupConfig{Name: "watchdog"})
	var dogs []*Watchdog
	var comms []*fakeComm
	var heard []*faults
	for _, g := range groups {
		core, logs := observer.New(zap.ErrorLevel)
		f := &faults{come: make(chan struct{}, 100), logs: logs}
		w := StartWatchdog(g, WatchdogConfig{Interval: time.Millisecond, Stall: 10 * time.Second, OnFault: f.add}, WithLogger(slog.New(zapslog.NewHandler(core))))
		c := &fakeComm{}
		c.at.Store(&Progress{Comm: "dp", Seq: 3, Done: 3, Op: "barrier"})
		w.Watch(c)
		dogs, comms, heard = append(dogs, w), append(comms, c), append(heard, f)
	}
	return groups, dogs, comms, heard
}

func TestWatchdog(t *testing.T) {
	_, dogs, comms, heard := startWatchdogs(t, 3)
	for _, rank := range []int{0, 2} {
		comms[rank].at.Store(&Progress{Comm: "dp", Seq: 4, Done: 3, Op: "all-reduce", Since: time.Minute})
	}
	for rank, f := range heard {
		<-f.come
		var e *StallError
		require.ErrorAs(t, f.all()[0], &e, "rank %d", rank)
		assert.Equal(t, []int{1}, e.Ranks)
		assert.Equal(t, uint64(4), e.Seq)
	}
	bad := errors.New("error CQE")
	comms[1].err.Store(&bad)
	for rank, f := range heard {
		<-f.come
		require.Len(t, f.all(), 2, "the stall is reported once")
		err := f.all()[1]
		require.ErrorContains(t, err, "error CQE")
		require.Equal(t, rank == 1, errors.Is(err, bad))
	}
	for _, w := range dogs {
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
	}
	for _, f := range heard {
		assert.Len(t, f.all(), 2, "Close is no fault")
		assert.Equal(t, 2, f.logs.Len(), "the logger gets what OnFault gets")
	}
}

func TestWatchdogForgets(t *testing.T) {
	groups := localGroups(t, 2, GroupConfig{})
	stuck := &fakeComm{}
	stuck.at.Store(&Progress{Comm: "x", Seq: 1, Since: time.Hour})
	var dogs []*Watchdog
	for _, g := range groups {
		w := StartWatchdog(g, WatchdogConfig{Interval: time.Hour, OnFault: func(err error) { t.Error(err) }})
		forget := w.Watch(stuck)
		forget()
		dogs = append(dogs, w)
	}
	var wg sync.WaitGroup
	for _, w := range dogs { // concurrently: Close exchanges last messages
		wg.Go(func() { assert.NoError(t, w.Close()) })
	}
	wg.Wait()
}

// When a rank's process ends, the others report it and end their watch.
func TestWatchdogRankLost(t *testing.T) {
	groups, dogs, _, heard := startWatchdogs(t, 3)
	for _, l := range groups[2].links { // without a goodbye, like a killed process
		l.Close()
	}
	for _, f := range heard[:2] {
		<-f.come
		require.ErrorIs(t, f.all()[0], ErrRankLost)
		require.ErrorContains(t, f.all()[0], "rank 2")
	}
	for _, w := range dogs {
		require.NoError(t, w.Close())
	}
}

// TestWatchdogEnds: when a rank's Close gets no answer, because others are busy, it leaves, and so do the others, without
// a report. Rank 2 makes no exchange until the other one has left.
func TestWatchdogEnds(t *testing.T) {
	for _, first := range []int{0, 1} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			groups := localGroups(t, 3, GroupConfig{Name: "watchdog"})
			f := faults{come: make(chan struct{}, 100)}
			config := WatchdogConfig{Interval: time.Millisecond, Stall: 10 * time.Second, OnFault: f.add}
			dogs := []*Watchdog{StartWatchdog(groups[0], config), StartWatchdog(groups[1], config)}
			require.NoError(t, dogs[first].Close())
			late := StartWatchdog(groups[2], config)
			<-late.done
			<-dogs[1-first].done
			require.Empty(t, f.all())
			require.NoError(t, late.Close())
			require.NoError(t, dogs[1-first].Close())
		})
	}
}

// TestWatchdogSilentRank: when a rank stops answering, every other rank names it, the collective that
// it waits in itself, and what the silent rank was last heard to do.
func TestWatchdogSilentRank(t *testing.T) {
	for _, silent := range []int{0, 2} {
		groups := localGroups(t, 3, GroupConfig{Name: "watchdog"})
		heard, hang := make(chan error, 10), make(chan struct{})
		for rank, g := range groups {
			c := &fakeComm{}
			c.at.Store(&Progress{Comm: "dp", Rank: rank, Seq: 4, Done: 3, Op: "all-reduce[10]", Since: time.Millisecond})
			if rank == silent {
				c.at.Store(&Progress{Comm: "dp", Rank: rank, Seq: 3, Done: 3, Op: "broadcast[7]"})
			}
			w := StartWatchdog(g, WatchdogConfig{Interval: 10 * time.Millisecond, Stall: time.Second, OnFault: func(err error) {
				if g.Rank() != silent {
					heard <- err
				}
			}})
			if rank == silent {
				w.Watch(&stopped{fakeComm: c, rounds: 3, hang: hang})
			} else {
				w.Watch(c)
			}
			defer func() { assert.NoError(t, w.Close()) }()
		}
		func() {
			defer close(hang)
			hearSilence(t, heard, silent)
		}()
	}
}

func hearSilence(t *testing.T, heard <-chan error, silent int) {
	for range 2 {
		err := <-heard
		var stall *StallError
		require.ErrorAs(t, err, &stall, "%v", err)
		assert.Equal(t, []int{silent}, stall.Ranks)
		assert.EqualValues(t, 4, stall.Seq)
		assert.ErrorContains(t, err, "queued 4 (all-reduce[10]), ended 3")
		assert.ErrorContains(t, err, "rank "+string(rune('0'+silent))+" queued 3 (broadcast[7]), ended 3")
		var group *GroupError
		assert.ErrorAs(t, err, &group)
	}
}

// stopped is a communicator whose rank hangs after some rounds.
type stopped struct {
	*fakeComm
	rounds int
	hang   chan struct{}
}

func (s *stopped) Progress() Progress {
	if s.rounds--; s.rounds < 0 {
		<-s.hang
	}
	return s.fakeComm.Progress()
}

// TestWatchdogFail: why a rank ends reaches the others, and it ends their watch like any other end.
func TestWatchdogFail(t *testing.T) {
	_, dogs, _, heard := startWatchdogs(t, 3)
	dogs[1].Fail(errors.New("out of memory in step 7"))
	require.NoError(t, dogs[1].Close())
	for _, rank := range []int{0, 2} {
		<-heard[rank].come
		err := heard[rank].all()[0]
		require.ErrorIs(t, err, ErrRankFailed)
		require.ErrorContains(t, err, "rank 1: out of memory in step 7")
		require.NoError(t, dogs[rank].Close())
	}
	require.Empty(t, heard[1].all())
}
