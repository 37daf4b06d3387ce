package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
)

// TestStaysOnAICore checks that no operator of a training or decoding step would leave the AI Core
// of a 910B for the AI CPU, with either version of CANN.
func TestStaysOnAICore(t *testing.T) {
	var composite []string // what runs where CANN lacks the fused operators
	for _, op := range []string{"ATTENTION", "CAUSAL_CONV", "CROSS_ENTROPY", "MOE_PERMUTE", "MOE_UNPERMUTE", "RMS_NORM", "ROPE", "SWIGLU"} {
		composite = append(composite, "CANN_OPS_"+op+"=composite", "CANN_OPS_"+op+"_GRAD=composite")
	}
	composite = append(composite, "CANN_OPS_ADAMW=composite", "CANN_OPS_ADAMW_LIST=separate", "CANN_OPS_MOE_ROUTING=composite",
		"CANN_OPS_ADD_RMS_NORM=separate", "CANN_OPS_DECODE_ATTENTION=gathered", "CANN_OPS_CACHE_WRITE=InplaceIndexCopy")
	for name, variables := range map[string][]string{"newest": nil, "8.1.RC1": {"CANN_EMU_API=8.1.RC1"}, "composite": composite} {
		t.Run(name, func(t *testing.T) {
			acltest.Trace(t, func(t *testing.T) {
				for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.BFloat16} {
					for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
						trainAndDecode(t, name, dt)
					}
				}
			}, func(t *testing.T, calls []acltest.Call) {
				require.Greater(t, len(calls), 1000)
				for _, c := range calls {
					require.Empty(t, c.AICPU, c.Name)
				}
			}, variables...)
		})
	}
}

// trainAndDecode runs a training step, and decodes tokens one by one and as a captured step.
func trainAndDecode(t *testing.T, name string, dt aclnn.DType) {
	st, reg := setUp(t)
	m, run := newModel(t, st, reg, name, dt)
	opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .95, Epsilon: 1e-8, WeightDecay: .1, MaxNorm: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, opt.Close()) }()
	_, err = m.Gradients(t.Context(), batch(run, 0))
	require.NoError(t, err)
	_, err = opt.Step(t.Context())
	require.NoError(t, err)
	cache, err := m.NewCache(1, 8)
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	for range 2 {
		_, err = m.Extend(t.Context(), cache, []int32{1})
		require.NoError(t, err)
	}
	g, err := m.NewPages(model.PageSizes{Blocks: 2, Block: 128, States: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	for from := range 2 {
		pieces := []model.Piece{{Tokens: []int32{1, 2}[from:], From: 2 * from, Blocks: []int32{1}}, {Tokens: []int32{3}, From: from, Blocks: []int32{0}, State: 1}}
		_, err = m.Advance(t.Context(), g, pieces)
		require.NoError(t, err)
	}
	require.NoError(t, g.CopyBlock(1, 0))
	d, err := m.NewDecoder(t.Context(), cache)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for range 2 {
		_, err = d.Next(t.Context(), []int32{2})
		require.NoError(t, err)
	}
}
