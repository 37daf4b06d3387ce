package load_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/load"
	"github.com/goascend/cann/examples/serve/replicas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// start starts a server and returns its engine, and requests for 40 tokens.
func start(t *testing.T, o engine.Options) (*replicas.Set, load.Target) {
	s := apitest.Start(t, o, nil)
	return s.Engine, load.Target{
		URL: s.URL + "/v1/completions", Client: s.HTTP,
		Body: `{"model":"small","prompt":"the quick brown","max_tokens":40,"temperature":0,"logprobs":0,"stream":true}`,
	}
}

// TestClients measures how much more 16 clients get than one, since they share the passes of the model.
func TestClients(t *testing.T) {
	e, to := start(t, engine.Options{Blocks: 64, BlockSize: 16, Sequences: 16})
	load.Clients(t.Context(), to, 1, 1)
	one := load.Clients(t.Context(), to, 1, 8)
	before := e.Stats()
	many := load.Clients(t.Context(), to, 16, 4)
	after := e.Stats()
	for _, r := range []load.Report{one, many} {
		t.Log(r)
		require.Empty(t, r.Other)
		require.Equal(t, len(r.Results), r.Complete)
		require.Equal(t, 41*len(r.Results), r.Tokens, "an event for each token, and one for the end")
	}
	t.Logf("16 clients get %.1f times the tokens of one", many.Rate()/one.Rate())
	// Steps do not depend on what else the machine does meanwhile, as times do.
	require.Greater(t, after.GeneratedTokens-before.GeneratedTokens, 6*(after.Steps-before.Steps), "tokens of six steps of one client")
	require.Zero(t, e.Stats().Used)
}

// TestOverload: beyond what the server can do, requests get status 429 at once and the others are answered
// to their end.
func TestOverload(t *testing.T) {
	_, to := start(t, engine.Options{Blocks: 24, BlockSize: 16, Sequences: 8, Queue: 8})
	rate := capacity(t, to, 4)
	for busy := 0; busy == 0; { // the machine may have been slower before
		rate *= 3
		require.Less(t, rate, 1e6)
		busy = load.Open(t.Context(), to, rate, 100, 1).Busy
	}
	r := load.Open(t.Context(), to, rate, 200, 2)
	t.Log(r)
	require.Empty(t, r.Other)
	require.Positive(t, r.Busy)
	require.Equal(t, len(r.Results), r.Complete+r.Busy)
}

// capacity returns how many requests a second are answered when eight clients ask without pause, each so often.
func capacity(t *testing.T, to load.Target, each int) float64 {
	r := load.Clients(t.Context(), to, 8, each)
	require.Equal(t, len(r.Results), r.Complete)
	return float64(r.Complete) / r.Took.Seconds()
}

// TestVanish: clients that leave in the middle of their answers, or before these begin, leave no blocks in use.
func TestVanish(t *testing.T) {
	e, to := start(t, engine.Options{Blocks: 24, BlockSize: 16, Sequences: 8, Queue: 100})
	rng := rand.New(rand.NewPCG(5, 6))
	done := make(chan load.Report)
	const n = 30
	for range n {
		leaving := to
		leaving.Leave = 1 + rng.IntN(30)
		go func() { done <- load.Clients(t.Context(), leaving, 1, 2) }()
	}
	left := 0
	for range n {
		r := <-done
		require.Empty(t, r.Other)
		left += r.Left
	}
	require.Positive(t, left)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.NotEmpty(t, load.Clients(soon, to, 20, 1).Results)
	require.Eventually(t, func() bool { s := e.Stats(); return s.Used+s.Running+s.Waiting == 0 }, time.Minute, time.Millisecond)
}
