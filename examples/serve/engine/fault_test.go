package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/ops"
)

// TestFaults: while operators fail at random, every request ends with the right tokens or with
// ErrDevice, and the engine serves on.
func TestFaults(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:2%=507015;run/aclnnIndexSelect:0.2%=507015", func(t *testing.T) {
		serveFaults(t, engine.Options{Blocks: 20, BlockSize: 8, Sequences: 4}, 8, acl.ErrKernel)
	})
}

// serveFaults serves rounds of n requests until n have ended well and n with an error, which must be all of errs.
func serveFaults(t *testing.T, o engine.Options, n int, errs ...error) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", o)
	good, bad := 0, 0
	for good < n || bad < n {
		all := make([]*engine.Generation, n)
		for i := range all {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 12, Sampling: greedy})
			require.NoError(t, err)
			all[i] = g
		}
		for _, g := range all {
			got, err := collect(g)
			if err == nil {
				require.Equal(t, want.Greedy[:12], got)
				good++
				continue
			}
			for _, target := range append(errs, engine.ErrDevice) {
				require.ErrorIs(t, err, target)
			}
			require.True(t, slices.Equal(want.Greedy[:len(got)], got), "%v", got)
			bad++
		}
	}
	require.Positive(t, e.Stats().Faults)
	t.Logf("%d requests ended well, %d with an error; %+v", good, bad, e.Stats())
}

// TestRefusedLaunches: requests end when CANN refuses every launch, and the engine lives on.
func TestRefusedLaunches(t *testing.T) {
	acltest.Faults(t, "aclnnRmsNormGetWorkspaceSize:7+=561000", func(t *testing.T) {
		want := expectedOf(t, "qwen3")
		e := open(t, "qwen3", engine.Options{Blocks: 20, BlockSize: 8})
		for range 3 {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: 12, Sampling: greedy})
			require.NoError(t, err)
			_, err = collect(g)
			require.ErrorIs(t, err, engine.ErrDevice)
		}
		require.NoError(t, e.Ready())
	})
}

// TestLostDevice: a device that is lost is closed and opened again, and the requests go on. While it
// cannot be opened, requests end with ErrDevice.
func TestLostDevice(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:40=507054;run/aclnnAddRmsNorm:200=507054", func(t *testing.T) {
		want := expectedOf(t, "qwen3")
		var log bytes.Buffer
		loads, broken, tried := 0, true, make(chan struct{}, 100)
		opening := func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
			if loads++; loads >= 3 && broken {
				tried <- struct{}{}
				broken = loads < 5
				return nil, errors.New("no device")
			}
			return load(folder(t, "qwen3"), aclnn.Float32)(ctx, st, reg, par)
		}
		e, err := engine.Open(t.Context(), acltest.Open(t), 0, opening, engine.Options{Blocks: 20, BlockSize: 8, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		submit := func() ([]int32, error) {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
			if err != nil {
				return nil, err
			}
			return collect(g)
		}
		got, err := submit()
		require.NoError(t, err, "the first failure")
		require.Equal(t, want.Greedy, got)
		for err == nil {
			_, err = submit()
		}
		require.ErrorIs(t, err, engine.ErrDevice)
		<-tried
		for down := e.Ready(); down != nil; down = e.Ready() {
			require.ErrorIs(t, down, engine.ErrDevice)
			_, err := submit()
			if err != nil {
				require.ErrorIs(t, err, engine.ErrDevice)
			}
		}
		got, err = submit()
		require.NoError(t, err, "the device is back")
		require.Equal(t, want.Greedy, got)
		require.NoError(t, e.Close())
		require.Contains(t, log.String(), "the device cannot be opened")
		require.Contains(t, log.String(), "the device is back")
	})
}
