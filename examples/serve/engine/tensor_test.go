package engine_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestTensorGolden: a model on two devices gives the tokens that transformers generates.
func TestTensorGolden(t *testing.T) {
	folders, err := os.ReadDir(folder(t, ""))
	require.NoError(t, err)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			want := expectedOf(t, f.Name())
			if len(want.Greedy) == 0 {
				t.Skip("the folder has no greedy tokens")
			}
			e := open(t, f.Name(), engine.Options{Blocks: 8, BlockSize: 16, Tensor: 2})
			g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
			require.NoError(t, err)
			got, err := collect(g)
			require.NoError(t, err)
			require.Equal(t, want.Greedy, got)
		})
	}
}

// TestTensorEmbedding: the vectors of texts do not depend on the number of devices.
func TestTensorEmbedding(t *testing.T) {
	text := expectedOf(t, "qwen3_moe").Prompt
	var first []float32
	for _, n := range []int{1, 2} {
		v, err := open(t, "qwen3_moe", engine.Options{Blocks: 8, BlockSize: 16, Tensor: n}).Embed(t.Context(), text)
		require.NoError(t, err)
		if first == nil {
			first = v
		}
		require.InDeltaSlice(t, first, v, 1e-5)
	}
}

// TestTensorFaults: TestFaults holds on two devices, either of which fails.
func TestTensorFaults(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:1%=507015;aclnnRmsNormGetWorkspaceSize:0.3%=561000", func(t *testing.T) {
		serveFaults(t, engine.Options{Blocks: 20, BlockSize: 8, Sequences: 4, Tensor: 2}, 4)
	})
}

// TestTensorRefusals: what cannot be divided is refused, and nothing stays open.
func TestTensorRefusals(t *testing.T) {
	rt := acltest.Open(t)
	qwen3 := load(folder(t, "qwen3"), aclnn.Float32)
	_, err := engine.Open(t.Context(), rt, 0, qwen3, engine.Options{Tensor: 3})
	require.ErrorContains(t, err, "not a multiple of the 3 tensor-parallel ranks")
	_, err = engine.Open(t.Context(), rt, 7, qwen3, engine.Options{Tensor: 2})
	require.ErrorContains(t, err, "device 8")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = engine.Open(ended, rt, 0, qwen3, engine.Options{Tensor: 2})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, acl.Live()[acl.KindStream])
}
