package replicas_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/replicas"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

var limits = engine.Options{Blocks: 32, BlockSize: 16, Sequences: 4}

func ids(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// request asks for 30 tokens, which depend on penalties and on a seed.
func request(seed uint64) engine.Request {
	return engine.Request{Prompt: ids("the quick brown "), MaxTokens: 30, Sampling: sampling.Options{Temperature: 1, TopP: 1, Frequency: 0.5, Seed: seed}}
}

func collect(g *replicas.Generation) (tokens []int32, err error) {
	for {
		t, err := g.Next()
		if err == io.EOF {
			return tokens, nil
		}
		if err != nil {
			return tokens, err
		}
		tokens = append(tokens, t.ID)
	}
}

func submit(t *testing.T, s *replicas.Set, n int) (all []*replicas.Generation) {
	for i := range n {
		g, err := s.Submit(t.Context(), request(uint64(i)))
		require.NoError(t, err)
		all = append(all, g)
	}
	return all
}

func open(t *testing.T, load engine.Load, devices ...int) *replicas.Set {
	s, err := replicas.Open(t.Context(), acltest.Open(t), devices, load, limits)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// alone returns the texts that one engine generates.
func alone(t *testing.T, n int) (texts [][]int32) {
	s, err := replicas.Open(t.Context(), acltest.Open(t), []int{0}, apitest.Load, limits)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, g := range submit(t, s, n) {
		text, err := collect(g)
		require.NoError(t, err)
		require.Len(t, text, 30)
		texts = append(texts, text)
	}
	require.NotEqual(t, texts[0], texts[1])
	return texts
}

// TestReplicas: requests spread over the replicas, and get the texts that one engine gives.
func TestReplicas(t *testing.T) {
	want := alone(t, 6)
	s := open(t, apitest.Load, 0, 1)
	for i, g := range submit(t, s, 6) {
		text, err := collect(g)
		require.NoError(t, err)
		require.Equal(t, want[i], text)
		require.Equal(t, engine.TooLong, g.Reason())
		require.False(t, g.Began().IsZero())
	}
	for _, x := range s.Status() {
		require.True(t, x.Ready)
		require.Equal(t, 3*30, x.Stats.GeneratedTokens, "device %d", x.Device)
	}
	require.Equal(t, 6*30, s.Stats().GeneratedTokens)
	v, err := s.Embed(t.Context(), ids("a"))
	require.NoError(t, err)
	require.NotEmpty(t, v)
	_, err = s.Submit(t.Context(), engine.Request{})
	require.ErrorIs(t, err, engine.ErrRequest)
	require.NoError(t, s.Drain(t.Context()))
	require.ErrorIs(t, s.Ready(), engine.ErrClosed)
	_, err = s.Submit(t.Context(), request(0))
	require.ErrorIs(t, err, engine.ErrClosed)
}

// TestFailover: a device is lost and cannot be opened for a while. Its requests go on with the other one, after
// the tokens that they have, and the device comes back.
func TestFailover(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm@1:100=507054", func(t *testing.T) {
		want := alone(t, 8)
		var broken atomic.Bool
		tried := make(chan struct{}, 1000)
		var opened atomic.Int64
		s := open(t, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
			if opened.Add(1) > 2 {
				tried <- struct{}{}
			}
			if st.Device().ID() == 1 && broken.Load() {
				return nil, errors.New("no device")
			}
			return apitest.Load(ctx, st, reg, par)
		}, 0, 1)
		broken.Store(true)
		for len(tried) == 0 { // until the device is lost
			for i, g := range submit(t, s, 8) {
				text, err := collect(g)
				require.NoError(t, err, "request %d", i)
				require.Equal(t, want[i], text, "request %d", i)
			}
		}
		require.NoError(t, s.Ready(), "the other device serves")
		ready := func() []bool { return []bool{s.Status()[0].Ready, s.Status()[1].Ready} }
		require.Equal(t, []bool{true, false}, ready())
		before := s.Status()[0].Stats.GeneratedTokens
		_, err := collect(submit(t, s, 1)[0])
		require.NoError(t, err)
		require.Equal(t, before+30, s.Status()[0].Stats.GeneratedTokens)
		broken.Store(false)
		require.Eventually(t, func() bool { return slices.Equal(ready(), []bool{true, true}) }, time.Minute, time.Millisecond)
		before = s.Status()[1].Stats.GeneratedTokens
		for _, g := range submit(t, s, 4) {
			_, err := collect(g)
			require.NoError(t, err)
		}
		require.Equal(t, before+2*30, s.Status()[1].Stats.GeneratedTokens, "it is back")
	})
}

// TestLastReplica: without another replica the error of the device is that of the request.
func TestLastReplica(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:40+=507015", func(t *testing.T) {
		s := open(t, apitest.Load, 0)
		_, err := collect(submit(t, s, 1)[0])
		require.ErrorIs(t, err, engine.ErrDevice)
	})
}
