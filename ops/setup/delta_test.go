package setup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops"
)

// Valid setups, which the tests modify.
func workingSetups() map[DeltaStack]Delta {
	all := map[DeltaStack]Delta{}
	for _, stack := range []DeltaStack{DeltaOps, DeltaMegatron, DeltaWrapped, DeltaTransformers} {
		all[stack] = Delta{
			Stack: stack, KeyHeads: 16, ValueHeads: 32, Megatron: "0.16.0", MindSpeed: "core_r0.16.0", FLA: true, FlashAttention: true,
			PaddingMask: true, Positions: true, SequenceSplit: true, SoC: "Ascend910B1",
		}
	}
	return all
}

func TestDeltaSetup(t *testing.T) {
	for stack, s := range workingSetups() {
		advice, err := s.Check()
		require.NoError(t, err, "stack %v", stack)
		require.Empty(t, advice, "stack %v", stack)
	}
	tested := map[string]bool{}
	for _, c := range []struct {
		rule   string
		stack  DeltaStack
		spoil  func(s *Delta)
		remedy string
		advice bool
	}{
		{"C1", DeltaMegatron, func(s *Delta) { s.Megatron = "0.15.3" }, "USE_MCORE_GDN=0", false},
		{"C1", DeltaMegatron, func(s *Delta) { s.Megatron = "" }, "USE_MCORE_GDN=0", false},
		{"C2", DeltaMegatron, func(s *Delta) { s.MindSpeed = "core_r0.15.3" }, "USE_MCORE_GDN=0", false},
		{"C3", DeltaWrapped, func(s *Delta) { s.Packed = true }, "without packing", false},
		{"C4", DeltaWrapped, func(s *Delta) { s.Parallel.Context = 2 }, "context parallelism to 1", false},
		{"C5", DeltaWrapped, func(s *Delta) { s.Parallel.Tensor = 2 }, "Megatron-core's layer", true},
		{"C6", DeltaWrapped, func(s *Delta) { s.PaddingMask = false }, "padding-free", false},
		{"C7", DeltaMegatron, func(s *Delta) { s.Packed, s.FLA = true, false }, "install flash-linear-attention", false},
		{"C8", DeltaMegatron, func(s *Delta) { s.Packed, s.Deterministic = true, true }, "without determinism", false},
		{"C9", DeltaMegatron, func(s *Delta) { s.Inference = true }, "decode with transformers", false},
		{"C10", DeltaMegatron, func(s *Delta) { s.Parallel.Context = 2 }, "MindSpeed", false},
		{"C11", DeltaTransformers, func(s *Delta) { s.Parallel.Sequence = 3 }, "divides both", false},
		{"C11", DeltaOps, func(s *Delta) { s.Parallel.Sequence = 3 }, "divides both", false},
		{"C11", DeltaOps, func(s *Delta) { s.Parallel.Sequence = 64 }, "divides both", false},
		{"C11", DeltaMegatron, func(s *Delta) { s.Parallel.Tensor = 32 }, "divides both", false},
		{"C12", DeltaTransformers, func(s *Delta) { s.RingRanks = 2 }, "divides key and value heads", false},
		{"C13", DeltaTransformers, func(s *Delta) { s.Parallel.Sequence, s.Cache = 2, true }, "without sequence parallelism", false},
		{"C14", DeltaTransformers, func(s *Delta) { s.Packed, s.FLA = true, false }, "install flash-linear-attention", false},
		{"C15", DeltaTransformers, func(s *Delta) { s.Packed, s.Positions = true, false }, "position ids", false},
		{"C16", DeltaTransformers, func(s *Delta) { s.Packed, s.FlashAttention = true, false }, "use flash attention", false},
		{"C20", DeltaOps, func(s *Delta) { s.ChunkOperator = true }, "custom package", false},
		{"C23", DeltaMegatron, func(s *Delta) { s.Packed, s.SoC = true, "Ascend950PR" }, "one sequence after another", true},
		{"C25", DeltaMegatron, func(s *Delta) { s.Experts, s.Parallel.Tensor, s.SequenceSplit = true, 2, false }, "sequence_parallel", true},
		{"C11", DeltaOps, func(s *Delta) { s.Parallel.Tensor = 64 }, "divides both", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := workingSetups()[c.stack]
			c.spoil(&s)
			advice, err := s.Check()
			tested[c.rule] = true
			if c.advice {
				require.NoError(t, err)
				require.Len(t, advice, 1)
				require.Equal(t, c.rule, advice[0].Rule)
				require.Contains(t, advice[0].Remedy, c.remedy)
				return
			}
			require.Empty(t, advice)
			var refusal *ops.Refusal
			require.True(t, errors.As(err, &refusal), "%v", err)
			require.Equal(t, c.rule, refusal.Rule)
			require.Contains(t, refusal.Remedy, c.remedy)
			require.NotEmpty(t, refusal.Reason)
			require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 1, "no other rule: %v", err)
		})
	}
	for _, c := range deltaCapabilities {
		require.True(t, tested[c.rule], "%s has no test", c.rule)
	}

	// If there are more ranks than key heads, ranks share them where package ops does the
	// exchange.
	s := workingSetups()[DeltaOps]
	s.Parallel.Sequence = 32
	_, err := s.Check()
	require.NoError(t, err)

	// Several faults are reported together.
	s = workingSetups()[DeltaWrapped]
	s.Packed, s.Parallel.Context = true, 4
	_, err = s.Check()
	require.ErrorContains(t, err, "C3: packed sequences")
	require.ErrorContains(t, err, "C4: a rank's part")
}

func TestVersionFrom(t *testing.T) {
	for version, want := range map[string]bool{
		"0.16.0": true, "0.16": true, "v0.16.1": true, "core_r0.16.0": true, "0.17.0rc1": true, "1.0": true, "core_v0.16.0": true,
		"0.15.3": false, "core_r0.15.3": false, "": false, "16": false, "main": false, "0.x": false, "0.16rc1": true,
	} {
		require.Equal(t, want, versionFrom(version, 0, 16), version)
	}
}
