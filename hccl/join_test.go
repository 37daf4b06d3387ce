package hccl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/freeport"
)

// devices opens a stream on each of n devices.
func devices(t *testing.T, n int) []*acl.Stream {
	rt := acltest.Open(t)
	streams := make([]*acl.Stream, n)
	for i := range streams {
		streams[i] = acltest.Stream(t, acltest.Device(t, rt, i))
	}
	return streams
}

// A communicator made with a configuration has its name, and subsets of its ranks form
// communicators of their own, in the order given.
func TestConfigAndParts(t *testing.T) {
	streams := devices(t, 4)
	info, err := hccl.NewRootInfo(streams[0])
	require.NoError(t, err)
	level := 4
	config := hccl.Config{Name: "trainers", Tag: "test", BufferMiB: 2, Determinism: hccl.Deterministic, TrafficClass: &level, ServiceLevel: &level}
	var wg sync.WaitGroup
	for i, st := range streams {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c, err := hccl.Join(ctx, st, hccl.RootInfo{ID: info.ID, Rank: i, Size: len(streams)}, config)
			if !assert.NoError(t, err) {
				return
			}
			name, err := c.Name()
			assert.NoError(t, err)
			assert.Equal(t, "trainers", name)
			assert.Equal(t, []int{i, 4}, []int{c.Rank(), c.Size()})
			ranks := [][]int{{2, 0}, {1, 3}}[i%2]
			part, err := c.Sub(ranks, hccl.Config{})
			if assert.NoError(t, err) {
				m := &member{t: t, st: st, Comm: part}
				assert.Equal(t, i, ranks[part.Rank()])
				out := m.tensor(0, 0)
				assert.NoError(t, part.AllGather(st, m.tensor(int32(i)), out))
				m.equal(out, int32(ranks[0]), int32(ranks[1]))
				_, err = part.Sub([]int{part.Rank()}, hccl.Config{})
				assert.ErrorIs(t, err, acl.ErrInvalidArgument, "a part of a part")
				for _, x := range m.made {
					assert.NoError(t, x.Close())
				}
				_, err = c.Sub(ranks, hccl.Config{})
				assert.ErrorIs(t, err, acl.ErrInvalidArgument, "the same name again")
				assert.NoError(t, part.Close())
			}
			for _, bad := range [][]int{nil, {i, i}, {i, 4}, {(i + 1) % 4}, {i, -1}} {
				_, err = c.Sub(bad, hccl.Config{})
				assert.ErrorIs(t, err, acl.ErrInvalidArgument, "%v", bad)
			}
			assert.NoError(t, c.Close())
			_, err = c.Name()
			assert.ErrorIs(t, err, acl.ErrClosed)
		})
	}
	wg.Wait()
}

// JoinAll, groups of messages and suspension.
func TestJoinAll(t *testing.T) {
	grouped := has(t, "9.0.0")
	streams := devices(t, 2)
	ctx := t.Context()
	comms, err := hccl.JoinAll(ctx, streams...)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Go(func() {
			m := &member{t: t, st: streams[i], Comm: c}
			in, out := m.tensor(0), m.tensor(int32(i))
			// Both ranks send first, which deadlocks outside a group.
			err := hccl.Together(m.st, func() error {
				return errors.Join(c.Send(m.st, out, 1-i), c.Recv(m.st, in, 1-i))
			})
			if !grouped {
				assert.ErrorIs(t, err, acl.ErrNotSupported)
			} else if assert.NoError(t, err) {
				m.equal(in, int32(1-i))
			}
			assert.NoError(t, c.Suspend())
			assert.ErrorIs(t, c.Barrier(m.st), hccl.ErrSuspended)
			assert.NoError(t, c.Resume())
			assert.NoError(t, c.Barrier(m.st))
			assert.NoError(t, m.st.Synchronize(context.Background()))
			for _, x := range m.made {
				assert.NoError(t, x.Close())
			}
			assert.NoError(t, c.Close())
		})
	}
	wg.Wait()
	_, err = hccl.JoinAll(ctx)
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = hccl.JoinAll(ctx, streams[0], streams[0])
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)
}

// Invalid arguments of Join are refused before it waits, and its context ends the wait.
func TestJoinEnds(t *testing.T) {
	streams := devices(t, 2)
	st := streams[0]
	info, err := hccl.NewRootInfo(st)
	require.NoError(t, err)
	ctx := context.Background()
	odd, high := 3, 8
	for name, c := range map[string]hccl.Config{
		"name": {Name: strings.Repeat("n", 128)}, "NUL": {Tag: "a\x00b"}, "buffer": {BufferMiB: -1}, "determinism": {Determinism: 4},
		"expansion": {Expansion: hccl.ExpandOnCCUScheduler + 1}, "traffic": {TrafficClass: &odd}, "level": {ServiceLevel: &high},
	} {
		_, err := hccl.Join(ctx, st, hccl.RootInfo{ID: info.ID, Size: 1}, c)
		assert.ErrorIs(t, err, acl.ErrInvalidArgument, name)
	}
	for mode := hccl.ExpandDefault; mode <= hccl.ExpandOnCCUScheduler; mode++ {
		one, err := hccl.NewRootInfo(st)
		require.NoError(t, err)
		c, err := hccl.Join(ctx, st, hccl.RootInfo{ID: one.ID, Size: 1}, hccl.Config{Expansion: mode})
		require.NoError(t, err, mode)
		assert.NoError(t, c.Close())
	}
	_, err = hccl.Join(ctx, st, info, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument, "no size")
	_, err = hccl.Join(ctx, st, hccl.RootInfo{ID: info.ID, Rank: 1, Size: 1}, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = hccl.Join(ctx, st, hccl.RootInfo{Size: 1}, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument, "no root info")
	_, err = hccl.Join(ctx, st, hccl.Table{}, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = hccl.Join[*world.Group](ctx, st, nil, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)

	gone, cancel := context.WithCancel(ctx)
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = hccl.Join(gone, st, hccl.RootInfo{ID: info.ID, Size: 2}, hccl.Config{})
	assert.ErrorIs(t, err, hccl.ErrJoin)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = hccl.Join(gone, st, hccl.RootInfo{ID: info.ID, Size: 2}, hccl.Config{})
	assert.ErrorIs(t, err, context.Canceled)
	// HCCL still waits for rank 1. When it comes, the communicator of rank 0 is destroyed.
	c, err := hccl.Join(ctx, streams[1], hccl.RootInfo{ID: info.ID, Rank: 1, Size: 2}, hccl.Config{})
	require.NoError(t, err)
	assert.NoError(t, c.Close())
}

// A rank table as the source: the ranks of a table connect in their first collective.
func TestJoinTable(t *testing.T) {
	t.Setenv("HCCL_IF_BASE_PORT", freeport.Number(t, freeport.Free(t)))
	path := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"version":"1.0","status":"completed","server_count":"1","server_list":[
		{"server_id":"a","device":[{"device_id":"0","rank_id":"0"},{"device_id":"1","rank_id":"1"}]}]}`), 0o600))
	streams := devices(t, 2)
	for _, config := range []hccl.Config{{}, {Tag: "test"}} {
		var wg sync.WaitGroup
		for i, st := range streams {
			wg.Go(func() {
				c, err := hccl.Join(context.Background(), st, hccl.Table{Path: path, Rank: i}, config)
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, []int{i, 2}, []int{c.Rank(), c.Size()})
				assert.NoError(t, c.Barrier(st))
				assert.NoError(t, st.Synchronize(context.Background()))
				assert.NoError(t, c.Close())
			})
		}
		wg.Wait()
	}
	_, err := hccl.Join(t.Context(), streams[0], hccl.Table{Path: path, Rank: 1}, hccl.Config{})
	assert.ErrorIs(t, err, hccl.ErrJoin, "the device of another rank")
	_, err = hccl.Join(t.Context(), streams[0], hccl.Table{Path: path, Rank: 2}, hccl.Config{})
	assert.ErrorIs(t, err, acl.ErrInvalidArgument)
}
