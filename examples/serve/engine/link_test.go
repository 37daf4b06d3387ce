package engine_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/freeport"
)

// envFollow is set in processes that follow: the hub folder, and the address where the rendezvous is.
const envFollow = "ENGINE_TEST_FOLLOW"

// join joins a rank of two processes.
func join(t *testing.T, rank int, address string) *world.Group {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := world.Join(ctx, world.Place{Rank: rank, Size: 2, LocalRank: rank, LocalSize: 2, Device: rank, Address: address, Launcher: "test"}, world.GroupConfig{})
	require.NoError(t, err)
	return g
}

// linked are the options of both ranks.
func linked(g *world.Group) engine.Options {
	return engine.Options{Blocks: 60, BlockSize: 8, Sequences: 4, Graph: true, Adapters: 1, Group: g}
}

// TestFollower is the body of the second process.
func TestFollower(t *testing.T) {
	name, address, ok := strings.Cut(os.Getenv(envFollow), " ")
	if !ok {
		t.Skip("it is run by TestProcesses")
	}
	rt, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	require.NoError(t, engine.Follow(t.Context(), rt, 1, load(folder(t, name), aclnn.Float32), linked(join(t, 1, address))))
	require.NoError(t, rt.Close())
}

// begin opens an engine whose second rank is another process.
func begin(t *testing.T, name string) (e *engine.Engine, other *exec.Cmd) {
	address := freeport.Free(t)
	other = exec.Command(os.Args[0], "-test.run=^TestFollower$")
	other.Env = append(os.Environ(), envFollow+"="+name+" "+address)
	other.Stdout, other.Stderr = t.Output(), t.Output()
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill() })
	e, err := engine.Open(t.Context(), acltest.Open(t), 0, load(folder(t, name), aclnn.Float32), linked(join(t, 0, address)))
	require.NoError(t, err)
	return e, other
}

// TestProcesses: a model in two processes gives the golden tokens, with an adapter too, and both end well. When
// one is killed, every request ends with an error that says what to do, and so does the engine.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("processes")
	}
	acltest.Need(t)
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next"} {
		t.Run(name, func(t *testing.T) {
			want := expectedOf(t, name)
			folders, adapted := makeAdapters(t, name, [][]int32{want.Prompt}, 10)
			e, other := begin(t, name)
			require.ErrorIs(t, e.LoadAdapter(t.Context(), "one", t.TempDir()), engine.ErrAdapter)
			require.NoError(t, e.LoadAdapter(t.Context(), "one", folders[1]))
			var all []*engine.Generation
			for i := range 6 {
				r := engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy}
				if i == 3 {
					r.Adapter, r.MaxTokens = "one", 10
				}
				g, err := e.Submit(t.Context(), r)
				require.NoError(t, err)
				all = append(all, g)
			}
			for i, g := range all {
				got, err := collect(g)
				require.NoError(t, err)
				if i == 3 {
					require.Equal(t, adapted[1][0], got)
				} else {
					require.Equal(t, want.Greedy, got)
				}
			}
			require.Positive(t, e.Stats().Replays)
			require.NoError(t, e.Close())
			require.NoError(t, other.Wait())
		})
	}
	t.Run("killed", func(t *testing.T) {
		want := expectedOf(t, "qwen3")
		e, other := begin(t, "qwen3")
		var all []*engine.Generation
		for range 8 {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 400, Sampling: greedy})
			require.NoError(t, err)
			all = append(all, g)
		}
		_, err := all[0].Next()
		require.NoError(t, err)
		require.NoError(t, other.Process.Kill())
		_ = other.Wait()
		for _, g := range all {
			_, err := collect(g)
			require.ErrorIs(t, err, engine.ErrDevice)
			require.ErrorIs(t, err, engine.ErrRank)
		}
		<-e.Done()
		require.ErrorIs(t, e.Ready(), engine.ErrRank)
		_, err = e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, Sampling: greedy})
		require.ErrorIs(t, err, engine.ErrRank)
		_ = e.Close() // it may say again what failed

		e, other = begin(t, "qwen3")
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
		require.NoError(t, err)
		got, err := collect(g)
		require.NoError(t, err)
		require.Equal(t, want.Greedy, got, "after the ranks are started again")
		require.NoError(t, e.Close())
		require.NoError(t, other.Wait())
	})
}

// TestFailedRank: an operator that fails on one of the ranks ends every request and both ranks, and nothing hangs.
func TestFailedRank(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:60=507015", func(t *testing.T) {
		groups, err := world.LocalGroups(t.Context(), 2, world.GroupConfig{})
		require.NoError(t, err)
		rt, want, followed := acltest.Open(t), expectedOf(t, "qwen3"), make(chan error, 1)
		model := load(folder(t, "qwen3"), aclnn.Float32)
		eager := func(rank int) engine.Options { // faults are of launches
			o := linked(groups[rank])
			o.Graph = false
			return o
		}
		go func() { followed <- engine.Follow(t.Context(), rt, 1, model, eager(1)) }()
		e, err := engine.Open(t.Context(), rt, 0, model, eager(0))
		require.NoError(t, err)
		for {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 40, Sampling: greedy})
			if err == nil {
				_, err = collect(g)
			}
			if err != nil {
				require.ErrorIs(t, err, engine.ErrDevice)
				require.ErrorIs(t, err, engine.ErrRank)
				break
			}
		}
		<-e.Done()
		_ = e.Close() // it may say again what failed
		require.Error(t, <-followed)
	})
}
