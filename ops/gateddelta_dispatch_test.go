package ops_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
)

// smallDelta is a problem of two heads that each kernel in float32 takes.
func smallDelta(b *opstest.Bench, tokens int64) ops.GatedDeltaArgs {
	in := func(seed uint64, shape ...int64) *aclnn.Tensor {
		x, _ := b.Input(aclnn.Float32, seed, shape...)
		return x
	}
	return ops.GatedDeltaArgs{
		Query: in(1, 1, tokens, 2, 8), Key: in(2, 1, tokens, 2, 8), Value: in(3, 1, tokens, 2, 8), Decay: in(4, 1, tokens, 2), Beta: in(5, 1, tokens, 2),
		Scale: 0.3, Normalize: true, Out: b.Empty(aclnn.Float32, 1, tokens, 2, 8),
	}
}

// TestPinnedDeltaRule reproduces a sequence-parallel path that reinstalled its own kernel on every
// forward pass: the pinned kernel runs each time, and attempts to replace it are refused. A changed
// Parallel makes the choice anew, once, and logs it.
func TestPinnedDeltaRule(t *testing.T) {
	b := opstest.New(t)
	core, logs := observer.New(zap.InfoLevel)
	reg, err := ops.NewRegistry(ops.EnvOf(b.Stream.Device()), ops.WithLogger(slog.New(zapslog.NewHandler(core))))
	require.NoError(t, err)
	defer func() { require.NoError(t, reg.Close()) }()
	ran := 0
	require.NoError(t, reg.GatedDelta().Register(ops.Kernel[ops.GatedDeltaArgs, key.GatedDelta]{
		Name: "own",
		Run:  func(context.Context, *acl.Stream, *ops.GatedDeltaArgs) error { ran++; return nil },
	}))
	require.NoError(t, reg.GatedDelta().Pin("own"))
	generic := ops.Kernel[ops.GatedDeltaArgs, key.GatedDelta]{
		Name: "own",
		Run: func(context.Context, *acl.Stream, *ops.GatedDeltaArgs) error {
			return errors.New("the generic kernel ran")
		},
	}
	a := smallDelta(b, 5)
	const forwards = 1000
	for _, sequence := range []int{1, 4} {
		reg.SetParallel(ops.Parallel{Sequence: sequence})
		for range forwards {
			require.ErrorIs(t, reg.GatedDelta().Register(generic), ops.ErrPinned)
			require.ErrorIs(t, reg.GatedDelta().Pin("chunk"), ops.ErrPinned)
			require.NoError(t, reg.GatedDelta().Run(t.Context(), b.Stream, &a))
		}
		lines := logs.TakeAll()
		require.Len(t, lines, 1, "one decision for a signature of the ranks")
		require.Contains(t, lines[0].ContextMap()["decision"], "gated_delta: own (pinned)")
	}
	require.Equal(t, 2*forwards, ran)
}

// TestDeltaRuleRefusals checks that a pinned kernel names the rule by which it refuses arguments.
func TestDeltaRuleRefusals(t *testing.T) {
	b := opstest.New(t)
	refused := func(err error, rule string) {
		t.Helper()
		require.ErrorIs(t, err, ops.ErrNoKernel)
		var refusal *ops.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, rule, refusal.Rule)
		require.Contains(t, refusal.Remedy, "the composite")
	}
	a := smallDelta(b, 5)
	require.NoError(t, b.GatedDelta().Pin(native))
	refused(b.GatedDelta().Run(t.Context(), b.Stream, &a), "C18")

	x, gates := b.Empty(aclnn.BFloat16, 1, 5, 2, 128), b.Empty(aclnn.Float32, 1, 5, 2)
	states := b.Empty(aclnn.Float32, 1, 2, 128, 128)
	grad := ops.GatedDeltaGradArgs{
		GatedDeltaArgs: ops.GatedDeltaArgs{Query: x, Key: x, Value: x, Decay: gates, Beta: gates, Out: x, Scale: 1},
		DOut:           x, DQuery: x, DKey: x, DValue: x, DDecay: gates, DBeta: gates, DFinalState: states,
	}
	require.NoError(t, b.GatedDeltaGrad().Pin(native))
	refused(b.GatedDeltaGrad().Run(t.Context(), b.Stream, &grad), "C17")

	nine := ops.GatedDeltaArgs{
		Query: b.Empty(aclnn.BFloat16, 1, 9, 2, 8), Key: b.Empty(aclnn.BFloat16, 1, 9, 2, 8), Value: b.Empty(aclnn.BFloat16, 1, 9, 2, 8),
		Decay: b.Empty(aclnn.Float32, 1, 9, 2), Beta: b.Empty(aclnn.Float32, 1, 9, 2), Out: b.Empty(aclnn.BFloat16, 1, 9, 2, 8), Scale: 1,
	}
	require.NoError(t, b.GatedDelta().Unpin())
	require.NoError(t, b.GatedDelta().Pin(decode))
	few := nine
	few.Query, few.Key, few.Value, few.Out = nine.Query.Narrow(1, 0, 8), nine.Key.Narrow(1, 0, 8), nine.Value.Narrow(1, 0, 8), nine.Out.Narrow(1, 0, 8)
	few.Decay, few.Beta = nine.Decay.Narrow(1, 0, 8), nine.Beta.Narrow(1, 0, 8)
	require.Equal(t, decode, b.GatedDelta().Explain(&few).Kernel)
	refused(b.GatedDelta().Run(t.Context(), b.Stream, &a), "C22")    // float32
	refused(b.GatedDelta().Run(t.Context(), b.Stream, &nine), "C22") // a token too many
	nine.CuSeqLens = []int64{0, 1, 9}
	refused(b.GatedDelta().Run(t.Context(), b.Stream, &nine), "C22")

	old, err := ops.NewRegistry(ops.Env{SoC: "Ascend310P3"})
	require.NoError(t, err)
	require.NoError(t, old.GatedDelta().Pin(native))
	refused(old.GatedDelta().Run(t.Context(), b.Stream, &grad.GatedDeltaArgs), "C19")
}
