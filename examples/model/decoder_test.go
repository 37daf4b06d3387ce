package model_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestDecoderEqualsEager: replays of a captured step give the bits of the same step launched
// operator by operator, and nearly the logits of Extend, over more places than one graph reads.
func TestDecoderEqualsEager(t *testing.T) {
	const size, tokens = 2, 90
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
			t.Run(name+" "+dt.String(), func(t *testing.T) {
				st, reg := setUp(t)
				m, run := newModel(t, st, reg, name, dt)
				ids, n := run.Int64("ids"), tokens
				if dt == aclnn.BFloat16 || testing.Short() {
					n = 70
				}
				row := func(i int) []int32 { return []int32{int32(ids[i]), int32(ids[len(ids)-1-i])} }
				var prompt []int32
				for k := range size {
					for i := range 3 {
						prompt = append(prompt, row(i)[k])
					}
				}
				decode := func(eager, extend bool) (all [][]float32) {
					cache, err := m.NewCache(size, tokens)
					require.NoError(t, err)
					defer func() { require.NoError(t, cache.Close()) }()
					d, err := m.NewDecoder(t.Context(), cache)
					require.NoError(t, err)
					defer func() { require.NoError(t, d.Close()) }()
					d.Eager = eager
					next := d.Next
					if extend {
						next = func(ctx context.Context, ids []int32) ([]float32, error) { return m.Extend(ctx, cache, ids) }
					}
					for round := range 2 { // the graphs of the first serve the second
						cache.Reset()
						all = all[:0]
						_, err = m.Extend(t.Context(), cache, prompt)
						require.NoError(t, err)
						for i := 3; i < n; i++ {
							logits, err := next(t.Context(), row(i))
							require.NoError(t, err, "round %d, token %d", round, i)
							all = append(all, logits)
						}
					}
					switch {
					case eager || extend:
						require.Zero(t, d.Graphs())
					default:
						require.Equal(t, 2, d.Graphs())
					}
					return all
				}
				want, got, plain := decode(true, false), decode(false, false), decode(false, true)
				limit := 1e-4
				if dt == aclnn.BFloat16 {
					limit = 0.2
				}
				for i := range want {
					require.Equal(t, want[i], got[i], "token %d", i)
					require.LessOrEqual(t, farthest(got[i], plain[i]), limit, "token %d", i)
				}
				require.Zero(t, acl.Live()[acl.KindGraph])
			})
		}
	}
}

// TestDecoderKernels: a step in 16 bits uses CANN's kernels for decoding, and reads no memory that was
// never written: attention multiplies hidden places by zero, which of NaN is NaN.
func TestDecoderKernels(t *testing.T) {
	acltest.Trace(t, func(t *testing.T) {
		st, reg := setUp(t)
		m, _ := newModel(t, st, reg, "qwen3_5", aclnn.BFloat16)
		cache, err := m.NewCache(2, 32)
		require.NoError(t, err)
		defer func() { require.NoError(t, cache.Close()) }()
		d, err := m.NewDecoder(t.Context(), cache)
		require.NoError(t, err)
		defer func() { require.NoError(t, d.Close()) }()
		for range 4 {
			logits, err := d.Next(t.Context(), []int32{1, 2})
			require.NoError(t, err)
			for _, x := range logits {
				require.False(t, math.IsNaN(float64(x)))
			}
		}
	}, func(t *testing.T, calls []acltest.Call) {
		count := map[string]int{}
		for _, c := range calls {
			count[strings.TrimSuffix(c.Name, "GetWorkspaceSize")]++
		}
		require.NotZero(t, count["aclnnFusedInferAttentionScoreV4"], "%v", count)
		require.NotZero(t, count["aclnnScatterPaKvCache"])
		require.NotZero(t, count["aclnnAddRmsNorm"])
		require.Zero(t, count["aclnnFlashAttentionScore"])
	}, "CANN_EMU_SANITIZE=memory")
}

func TestDecoderRefusals(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	other, _ := newModel(t, st, reg, "qwen3_5", aclnn.Float32)
	cache, err := m.NewCache(2, 4)
	require.NoError(t, err)
	_, err = other.NewDecoder(t.Context(), cache)
	require.ErrorContains(t, err, "another model")
	_, err = m.NewDecoder(t.Context(), nil)
	require.Error(t, err)
	d, err := m.NewDecoder(t.Context(), cache)
	require.NoError(t, err)
	_, err = d.Next(t.Context(), []int32{1, 2, 3, 4})
	require.ErrorContains(t, err, "one of each")
	for range 4 {
		_, err = d.Next(t.Context(), []int32{1, 2})
		require.NoError(t, err)
	}
	_, err = d.Next(t.Context(), []int32{1, 2})
	require.ErrorContains(t, err, "4 of 4 tokens")
	require.NoError(t, cache.Close())
	_, err = d.Next(t.Context(), []int32{1, 2})
	require.ErrorContains(t, err, "closed")
	require.NoError(t, d.Close())
	_, err = d.Next(t.Context(), []int32{1, 2})
	require.ErrorContains(t, err, "closed")
}

// hostTime is the time that the host takes to queue a step, while the device does nothing.
func hostTime(t testing.TB, st *acl.Stream, queue func() error) time.Duration {
	gate := make(chan struct{})
	require.NoError(t, st.HostFunc(func() { <-gate }))
	start := time.Now()
	err := queue()
	took := time.Since(start)
	close(gate)
	require.NoError(t, err)
	require.NoError(t, st.Synchronize(t.Context()))
	return took
}

// TestReplaySparesTheHost: queueing a replay takes at most a tenth of the time of the launches.
func TestReplaySparesTheHost(t *testing.T) {
	st, reg := setUp(t)
	m, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	cache, err := m.NewCache(1, 64)
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	d, err := m.NewDecoder(t.Context(), cache)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for range 3 {
		_, err := d.Next(t.Context(), []int32{1})
		require.NoError(t, err)
	}
	requireSpared(t, st, "decode step", func(eager bool) error {
		d.Eager = eager
		return d.Queue(t.Context(), []int32{1})
	})
}

// requireSpared queues steps one by one and as a graph, and compares the least times of the host.
func requireSpared(t testing.TB, st *acl.Stream, what string, queue func(eager bool) error) {
	least := map[bool]time.Duration{}
	for i := range 40 {
		eager := i%2 == 0
		took := hostTime(t, st, func() error { return queue(eager) })
		if least[eager] == 0 || took < least[eager] {
			least[eager] = took
		}
	}
	t.Logf("queueing a %s takes the host %v one by one and %v as a graph", what, least[true], least[false])
	require.LessOrEqual(t, 10*least[false], least[true])
}
