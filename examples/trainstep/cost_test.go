package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// TestEstimate: -cost needs no device, prints every form of the experts' weights, and refuses what it has no
// model for.
func TestEstimate(t *testing.T) {
	estimate := func(flags string) (string, error) {
		o, err := parseFlags(strings.Fields(flags), io.Discard)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = run(t.Context(), o, &out)
		return out.String(), err
	}
	out, err := estimate("-cost Ascend910_9391 -fsdp -model ../cost/testdata/qwen3-235b -ranks 512 -batch 512 -seq 32768")
	require.NoError(t, err)
	require.Contains(t, out, "512 × Ascend910_93: 161.0 TFLOP/s of 353.9, 1.60 TB/s memory, 196 GB/s link; 32768 tokens a step on each")
	for _, form := range []string{"nd: 1127.8", "nd, gradients transposed: 1106.2", "nz: 1127.8", "nz by a cast: 1085.4"} {
		require.Contains(t, out, "\n"+form)
	}
	out, err = estimate("-cost Ascend910B2 -fsdp -ranks 8")
	require.NoError(t, err)
	require.NotContains(t, out, "\nnz")
	slow, err := estimate("-cost Ascend910B2,efficiency=0.1 -fsdp -ranks 8")
	require.NoError(t, err)
	require.NotEqual(t, out, slow)
	for flags, want := range map[string]string{
		"-cost Ascend910B2,link=0 -fsdp":        "a positive number",
		"-cost Ascend910B2":                     "need -fsdp",
		"-cost Ascend31 -fsdp":                  "Ascend910B2",
		"-cost Ascend910B2 -fsdp -tp 2":         "leave out -tp",
		"-cost Ascend910B2 -fsdp -ranks 9":      "not a multiple of -ranks",
		"-shard-align 512":                      "need -fsdp",
		"-shard-align -1 -fsdp":                 "must not be negative",
		"-shard-rules a/b=plain":                "need -fsdp",
		"-fsdp -shard-rules down_proj=grouped":  "not a module/weight=role",
		"-fsdp -shard-rules a/b=moe":            "not a module/weight=role",
		"-fsdp -shard-rules a/b=plain:0":        "not a positive number",
		"-lora-experts -model ../cost/testdata": "needs -lora",
	} {
		_, err := estimate(flags)
		require.ErrorContains(t, err, want, flags)
	}
}

// TestReportsCopiedBytes: runs with and without -gmm-nz have the same losses, and report how many bytes they copied; a cast of its
// own moves more.
func TestReportsCopiedBytes(t *testing.T) {
	acltest.Need(t)
	flags := strings.Fields("-model qwen3_moe -experts 4 -expert-size 32 -steps 3 -dtype bf16 -ranks 2 -fsdp")
	copied := func(more ...string) (string, float64) {
		out, loss := trained(t, smallFlags(append(flags, more...)...)...)
		_, after, found := strings.Cut(out, " tokens/s on each device; copies of weights: ")
		require.True(t, found, out)
		return strings.Fields(after)[0], loss
	}
	nd, loss := copied()
	nz, same := copied("-gmm-nz")
	cast, too := copied("-gmm-nz", "-shard-rules", "mlp.experts/*=plain")
	require.Equal(t, []float64{loss, loss}, []float64{same, too})
	require.Equal(t, nd, nz)
	require.NotEqual(t, nd, cast)
	aligned, _ := copied("-shard-align", "4096")
	require.NotEqual(t, nd, aligned)
	transposed, loss2 := copied("-shard-rules", "mlp.experts/*=grouped")
	require.Equal(t, nd, transposed)
	require.Equal(t, loss, loss2)
	some, _ := copied("-shard-rules", "mlp.experts/down_proj=grouped:65536,mlp.experts/*=plain:32")
	require.NotContains(t, []string{nd, aligned}, some)
	for rule, want := range map[string]string{"mlp.expert/*=grouped": "decides for no weight", "self_attn.q_proj/weight=grouped": "weights of experts only"} {
		o, err := parseFlags(smallFlags(append(flags, "-shard-rules", rule)...), io.Discard)
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, io.Discard), want)
	}
}
