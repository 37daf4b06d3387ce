package world

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within returns a context for calls that are expected to succeed.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

const (
	patient = 20 * time.Second
	// short is the timeout of waits that are expected to fail: an eighth of it suffices for rank 0
	// to inform the others, even on a busy machine.
	short = 5 * time.Second
)

// localGroups makes a group whose ranks are goroutines, closed with the test.
func localGroups(t testing.TB, n int, c GroupConfig) []*Group {
	t.Helper()
	groups, err := LocalGroups(within(t, patient), n, c)
	require.NoError(t, err)
	for _, g := range groups {
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
	}
	return groups
}

// onAll runs f for every rank concurrently and returns their errors.
func onAll(groups []*Group, f func(g *Group) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	return errs
}

func requireAll(t testing.TB, errs []error) {
	t.Helper()
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
	}
}

// loss is typical data that ranks gather.
type loss struct {
	Step   int
	Value  float64
	Tags   map[string]int
	Parent *loss
}

func TestObjects(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ctx := within(t, patient)
			groups := localGroups(t, n, GroupConfig{})
			requireAll(t, onAll(groups, func(g *Group) error {
				for call := range 5 {
					v := loss{Step: call, Value: float64(g.Rank()) / 3, Tags: map[string]int{"rank": g.Rank()}}
					if g.Rank() > 0 {
						v.Parent = &loss{Step: -1}
					}
					all, err := AllGather(ctx, g, v)
					if err != nil {
						return err
					}
					for rank, got := range all {
						if got.Step != call || got.Value != float64(rank)/3 || got.Tags["rank"] != rank || (got.Parent != nil) != (rank > 0) {
							return fmt.Errorf("rank %d: %+v", rank, got)
						}
					}
					root := call % n
					some, err := Gather(ctx, g, root, g.Rank()*call)
					if err != nil {
						return err
					}
					if g.Rank() != root && some != nil || g.Rank() == root && (len(some) != n || some[n-1] != (n-1)*call) {
						return fmt.Errorf("gather: %v", some)
					}
					word, err := Broadcast(ctx, g, root, fmt.Sprint("from ", g.Rank()))
					if err != nil || word != fmt.Sprint("from ", root) {
						return fmt.Errorf("broadcast: %q, %w", word, err)
					}
					if err := g.Barrier(ctx); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// Values that encodings may lose: empty, nil, NaN, an interface, an empty slice.
func TestObjectValues(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 2, GroupConfig{})
	requireAll(t, onAll(groups, func(g *Group) error {
		nan, err := AllGather(ctx, g, math.NaN())
		if err != nil || !math.IsNaN(nan[0]) || !math.IsNaN(nan[1]) {
			return fmt.Errorf("%v %w", nan, err)
		}
		var none *int
		pointers, err := AllGather(ctx, g, none)
		if err != nil || pointers[1] != nil {
			return fmt.Errorf("%v %w", pointers, err)
		}
		empty, err := AllGather(ctx, g, []byte{})
		if err != nil || len(empty[0]) != 0 {
			return fmt.Errorf("%v %w", empty, err)
		}
		var mixed any = "text"
		if g.Rank() == 1 {
			mixed = 7
		}
		values, err := AllGather(ctx, g, mixed)
		if err != nil || values[0] != "text" || values[1] != 7 {
			return fmt.Errorf("%v %w", values, err)
		}
		return nil
	}))
}

func TestBarrierWaits(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 3, GroupConfig{})
	gate := make(chan struct{})
	passed := make(chan int, 3)
	done := make(chan []error, 1)
	go func() {
		done <- onAll(groups, func(g *Group) error {
			if g.Rank() == 2 {
				<-gate
			}
			err := g.Barrier(ctx)
			passed <- g.Rank()
			return err
		})
	}()
	select {
	case rank := <-passed:
		t.Errorf("rank %d did not wait", rank)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	requireAll(t, <-done)
}

// A rank that cannot contribute makes the call fail on every rank; the group stays usable.
func TestRankFailed(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 3, GroupConfig{MaxMessage: 1 << 10})
	bad := errors.New("no device")
	for _, c := range []struct {
		name string
		call func(g *Group) error
		want error
		text string
	}{
		{"not encodable", func(g *Group) error {
			var v any
			if g.Rank() == 1 {
				v = func() {}
			}
			_, err := AllGather(ctx, g, v)
			return err
		}, ErrRankFailed, "rank 1: gob"},
		{"too large", func(g *Group) error {
			_, err := AllGather(ctx, g, make([]byte, (g.Rank()/2)*2<<10))
			return err
		}, ErrMessageSize, "rank 2: "},
		{"root info", func(g *Group) error {
			_, err := Share(ctx, g, 2, func() ([]byte, error) { return nil, bad })
			return err
		}, ErrRankFailed, "rank 2: no device"},
		{"root info of rank 0", func(g *Group) error {
			_, err := Share(ctx, g, 0, func() ([]byte, error) { return nil, bad })
			return err
		}, ErrRankFailed, "rank 0: no device"},
		{"part without the caller", func(g *Group) error {
			_, err := g.Sub(ctx, "x", []int{0})
			return err
		}, ErrDisagree, "ranks 1, 2: "},
		{"part with a rank twice", func(g *Group) error {
			_, err := g.Sub(ctx, "x", []int{0, 1, 2, g.Rank()})
			return err
		}, ErrDisagree, "ranks 0-2: "},
		{"parts that overlap", func(g *Group) error {
			_, err := g.Sub(ctx, "x", [][]int{{0, 1}, {0, 1}, {1, 2}}[g.Rank()])
			return err
		}, ErrDisagree, "rank 2 names [1 2], rank 1 names [0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for rank, err := range onAll(groups, c.call) {
				require.ErrorIs(t, err, c.want, "rank %d", rank)
				assert.Contains(t, err.Error(), c.text)
			}
			requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(ctx) }))
		})
	}
	err := onAll(groups, func(g *Group) error { // refused locally, without a message
		_, err := Broadcast(ctx, g, 3, 0)
		return err
	})[1]
	require.ErrorIs(t, err, ErrDisagree)
	err = onAll(groups[2:], func(g *Group) error {
		_, err := Share(canceled(), g, 2, func() ([]byte, error) { return nil, nil })
		return err
	})[0]
	require.ErrorIs(t, err, context.Canceled)
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(ctx) }))
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A failure that breaks a group is reported on every rank and by all later calls.
func TestBrokenGroup(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(ctx context.Context, g *Group) error
		want error
		text string
	}{
		{"a rank left", func(ctx context.Context, g *Group) error {
			if g.Rank() == 2 {
				return g.Close()
			}
			return g.Barrier(ctx)
		}, ErrRankClosed, "rank 2"},
		{"rank 0 left", func(ctx context.Context, g *Group) error {
			if g.Rank() == 0 {
				return g.Close()
			}
			return g.Barrier(ctx)
		}, ErrRankClosed, "rank 0"},
		{"a rank was killed", func(ctx context.Context, g *Group) error {
			if g.Rank() == 2 {
				g.links[0].Close() // without a goodbye
				return g.Close()
			}
			return g.Barrier(ctx)
		}, ErrRankLost, "rank 2"},
		{"another call", func(ctx context.Context, g *Group) error {
			if g.Rank() == 1 {
				_, err := AllGather(ctx, g, 1.5)
				return err
			}
			return g.Barrier(ctx)
		}, ErrOutOfStep, "all-gather of float64"},
		{"another type", func(ctx context.Context, g *Group) error {
			var err error
			if g.Rank() == 1 {
				_, err = AllGather(ctx, g, "x")
			} else {
				_, err = AllGather(ctx, g, 1)
			}
			return err
		}, ErrOutOfStep, "rank 1"},
		{"another root", func(ctx context.Context, g *Group) error {
			_, err := Broadcast(ctx, g, g.Rank()/2, "")
			return err
		}, ErrOutOfStep, "rank 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := within(t, patient)
			groups := localGroups(t, 3, GroupConfig{})
			errs := onAll(groups, func(g *Group) error { return c.call(ctx, g) })
			for rank, err := range errs {
				if err == nil { // this rank closed its group
					err = groups[rank].Barrier(ctx)
					require.ErrorIs(t, err, ErrClosed)
					continue
				}
				require.ErrorIs(t, err, c.want, "rank %d", rank)
				assert.Contains(t, err.Error(), c.text)
				var e *GroupError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, rank, e.Rank)
				assert.Len(t, e.Ranks, 1)
				require.Equal(t, err, groups[rank].Barrier(ctx), "the group is broken")
			}
		})
	}
}

// All other ranks report a missing rank by name before their deadlines.
func TestRanksMissing(t *testing.T) {
	t.Parallel()
	for _, absent := range [][]int{{1}, {2, 4}, {0}} {
		t.Run(fmt.Sprint(absent), func(t *testing.T) {
			t.Parallel()
			groups := localGroups(t, 5, GroupConfig{})
			ctx, cancel := context.WithTimeout(context.Background(), short)
			defer cancel()
			errs := onAll(groups, func(g *Group) error {
				if slices.Contains(absent, g.Rank()) {
					return nil
				}
				return g.Barrier(ctx)
			})
			for rank, err := range errs {
				if slices.Contains(absent, rank) {
					continue
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var e *GroupError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, absent, e.Ranks, "%v", err)
				if absent[0] != 0 {
					require.ErrorIs(t, err, ErrRanksMissing)
				}
			}
		})
	}
}

// The shortest deadline of all ranks applies, even if rank 0 has none.
func TestBudgets(t *testing.T) {
	t.Parallel()
	groups := localGroups(t, 3, GroupConfig{})
	errs := onAll(groups, func(g *Group) error {
		switch g.Rank() {
		case 1:
			ctx, cancel := context.WithTimeout(context.Background(), short)
			defer cancel()
			return g.Barrier(ctx)
		case 2:
			return nil
		}
		return g.Barrier(context.Background())
	})
	require.ErrorIs(t, errs[0], ErrRanksMissing)
	require.ErrorIs(t, errs[1], ErrRanksMissing)
	require.ErrorContains(t, errs[1], "rank 2")
}

// Cancelling on one rank ends the wait of all ranks.
func TestCancel(t *testing.T) {
	for _, impatient := range []int{0, 1} {
		groups := localGroups(t, 3, GroupConfig{})
		started, left := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-started
			cancel()
		}()
		errs := onAll(groups, func(g *Group) error {
			switch g.Rank() {
			case impatient:
				close(started)
				err := g.Barrier(ctx)
				close(left)
				return errors.Join(err, g.Close())
			case 2: // its part would complete the barrier
				<-left
			}
			// Rank 0 may have received all parts before the cancellation.
			if err := g.Barrier(context.Background()); err != nil {
				return err
			}
			return g.Barrier(context.Background())
		})
		require.ErrorIs(t, errs[impatient], context.Canceled)
		for _, err := range errs {
			require.Error(t, err)
		}
	}
}

func TestBusyGroup(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 2, GroupConfig{})
	groups[0].busy.Lock() // like a call in another goroutine
	require.ErrorIs(t, groups[0].Barrier(ctx), ErrBusy)
	groups[0].busy.Unlock()
	requireAll(t, onAll(groups, func(g *Group) error { return g.Barrier(ctx) }))
}

func TestShare(t *testing.T) {
	ctx := within(t, patient)
	info := []byte(strings.Repeat("\x00\xff7", 1370)[:4108])
	groups := localGroups(t, 4, GroupConfig{})
	requireAll(t, onAll(groups, func(g *Group) error {
		got, err := Share(ctx, g, 3, func() ([]byte, error) {
			if g.Rank() != 3 {
				return nil, errors.New("only the root makes it")
			}
			return info, nil
		})
		if err == nil && !slices.Equal(got, info) {
			err = errors.New("other bytes")
		}
		return err
	}))
}

func TestSub(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 6, GroupConfig{})
	lists := [][]int{{0, 3}, {5, 4, 1}, {2}}
	requireAll(t, onAll(groups, func(g *Group) error {
		list := lists[slices.IndexFunc(lists, func(l []int) bool { return slices.Contains(l, g.Rank()) })]
		sub, err := g.Sub(ctx, "part", list)
		if err != nil {
			return err
		}
		defer sub.Close()
		if sub.Size() != len(list) || list[sub.Rank()] != g.Rank() || sub.Name() != "part" {
			return fmt.Errorf("rank %d of %d", sub.Rank(), sub.Size())
		}
		all, err := AllGather(ctx, sub, g.Rank())
		if err != nil || !slices.Equal(all, list) {
			return fmt.Errorf("%v %w", all, err)
		}
		// Split a subgroup again while the parent is in use.
		pair, err := sub.Sub(ctx, "self", []int{sub.Rank()})
		if err != nil {
			return err
		}
		defer pair.Close()
		return errors.Join(pair.Barrier(ctx), g.Barrier(ctx), sub.Barrier(ctx))
	}))
}

func TestLargeObjects(t *testing.T) {
	ctx := within(t, patient)
	groups := localGroups(t, 3, GroupConfig{})
	requireAll(t, onAll(groups, func(g *Group) error {
		v := slices.Repeat([]byte{byte(g.Rank() + 1)}, 4<<20)
		all, err := AllGather(ctx, g, v)
		for rank, b := range all {
			if len(b) != len(v) || b[len(b)-1] != byte(rank+1) {
				return fmt.Errorf("rank %d: %d bytes", rank, len(b))
			}
		}
		return err
	}))
}

func BenchmarkBarrier(b *testing.B) {
	groups := localGroups(b, 8, GroupConfig{})
	b.ReportAllocs()
	requireAll(b, onAll(groups, func(g *Group) error {
		for range b.N {
			if err := g.Barrier(context.Background()); err != nil {
				return err
			}
		}
		return nil
	}))
}
