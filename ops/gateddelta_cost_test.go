package ops_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// longDelta is a problem of the given length with 8 heads of 128 features.
func longDelta(b *bench, tokens int64) ops.GatedDeltaGradArgs {
	const heads, dim = 8, 128
	in := func(seed uint64) *aclnn.Tensor {
		x, _ := b.input(aclnn.Float32, seed, 1, tokens, heads, dim)
		return x
	}
	gates, _ := b.input(aclnn.Float32, 4, 1, tokens, heads)
	f := func(shape ...int64) *aclnn.Tensor { return b.empty(aclnn.Float32, shape...) }
	a := ops.GatedDeltaGradArgs{
		GatedDeltaArgs: ops.GatedDeltaArgs{
			Query: in(1), Key: in(2), Value: in(3), Decay: f(1, tokens, heads), Beta: f(1, tokens, heads), Scale: 0.09, Normalize: true,
			Out: f(1, tokens, heads, dim),
		},
		DOut: in(5), DQuery: f(1, tokens, heads, dim), DKey: f(1, tokens, heads, dim), DValue: f(1, tokens, heads, dim),
		DDecay: f(1, tokens, heads), DBeta: f(1, tokens, heads),
	}
	require.NoError(b.t, aclnn.Sigmoid(b.st, aclnn.SigmoidParams{Self: gates, Out: a.Beta}))
	require.NoError(b.t, aclnn.Muls(b.st, aclnn.MulsParams{Self: a.Beta, Other: aclnn.Float(-0.1), Out: a.Decay}))
	require.NoError(b.t, b.st.Synchronize(b.t.Context()))
	return a
}

// Memory grows linearly with the length, not quadratically.
func TestGatedDeltaMemory(t *testing.T) {
	b := newBench(t)
	allocator := b.st.Device().Allocator()
	peak := func(tokens int64) float64 {
		a := longDelta(b, tokens)
		allocator.ResetPeaks()
		before := allocator.Stats().PeakInUse
		run(b, b.GatedDelta, &a.GatedDeltaArgs)
		run(b, b.GatedDeltaGrad, &a)
		require.NoError(t, b.st.Synchronize(t.Context()))
		return float64(allocator.Stats().PeakInUse - before)
	}
	small, large := peak(256), peak(1024)
	require.Less(t, large/small, 4.2)
	t.Logf("scratch memory: %.0f bytes for a token and head", large/1024/8)
}

// Chunks turn the recurrence into matrix products, so forward and backward of 4096 tokens take at
// most a fifth of the time.
func TestGatedDeltaSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b := newBench(t)
	const tokens = 4096
	a := longDelta(b, tokens)
	best := func(times int, f func()) time.Duration {
		shortest := time.Hour
		for range times {
			begin := time.Now()
			f()
			require.NoError(t, b.st.Synchronize(t.Context()))
			shortest = min(shortest, time.Since(begin))
		}
		return shortest
	}
	forward := func() { run(b, b.GatedDelta, &a.GatedDeltaArgs) }
	backward := func() { run(b, b.GatedDeltaGrad, &a) }
	chunkForward, chunkBackward := best(3, forward), best(3, backward)
	out, dk := b.read(a.Out), b.read(a.DKey)
	require.NoError(t, b.GatedDelta.Pin("recurrence"))
	require.NoError(t, b.GatedDeltaGrad.Pin("recurrence"))
	tokenForward, tokenBackward := best(1, forward), best(1, backward)
	b.near("out", a.Out, out, 1e-4)
	b.near("dk", a.DKey, dk, 1e-4)
	ratio := (tokenForward + tokenBackward).Seconds() / (chunkForward + chunkBackward).Seconds()
	t.Logf("%d tokens: chunks %v + %v, recurrence %v + %v: %.1f times", tokens, chunkForward, chunkBackward, tokenForward, tokenBackward, ratio)
	require.Greater(t, ratio, 5.)
}
