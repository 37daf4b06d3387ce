package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/ops"
)

// dtypes maps the values of -dtype to the element type of weights and activations.
var dtypes = map[string]aclnn.DType{"fp32": aclnn.Float32, "hf32": aclnn.Float32, "bf16": aclnn.BFloat16, "fp16": aclnn.Float16}

// elementType returns the value of -dtype, and bf16 in place of none: a device multiplies it many times
// as fast as fp32. A processor does not, so the emulator gets fp32.
func (o options) elementType(emulated bool) string {
	switch {
	case o.dtype != "":
		return o.dtype
	case emulated:
		return "fp32"
	}
	return "bf16"
}

// newModel makes the model of the options: that of a checkpoint, whose weights are read later, a
// Hugging Face model, or a new one of the given sizes with the vocabulary of the text.
func newModel(ctx context.Context, o options, set *checkpoint.Set, st *acl.Stream, reg *ops.Registry, par model.Parallel, vocab int) (*model.Model, error) {
	dt, cfg := dtypes[o.dtype], o.sizes(vocab)
	var err error
	load := o.folder() && (set == nil || o.lora.on()) // a checkpoint has the weights that were trained
	switch {
	case load:
		cfg, err = model.ReadConfig(o.model + "/config.json")
	case set != nil:
		cfg, err = model.SavedConfig(set)
	}
	if err != nil {
		return nil, err
	}
	if err := o.chooseHead(&cfg); err != nil {
		return nil, err
	}
	if n := o.simulation.layers; n > 0 {
		cfg = lastLayers(cfg, n)
	}
	if vocab > cfg.VocabSize {
		return nil, fmt.Errorf("the text has token ids up to %d, the model's vocabulary has %d", vocab-1, cfg.VocabSize)
	}
	cfg.GroupedNZ, cfg.Frozen = o.groupedNZ && readsNZ(dt), o.lora.on()
	par.Sequence = par.Sequence || par.NeedsSequence(cfg)
	par.ExpertCapacity = o.capacity.of(cfg, o.layout)
	m, err := model.NewParallel(st, reg, cfg, dt, par)
	if err != nil {
		return nil, err
	}
	m.DetectAnomalies(o.detect)
	if err := m.SetMemory(o.memory); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := m.BalanceExperts(o.biasRate); err != nil {
		return nil, errors.Join(fmt.Errorf("-expert-bias-rate: %w", err), m.Close())
	}
	switch {
	case o.simulation.on(): // computes nothing
	case load:
		if err = m.Load(ctx, o.model); err == nil && cfg.NewScore {
			err = m.InitScore(ctx, o.seed)
		}
	case set == nil:
		err = m.Init(ctx, o.seed)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// readsNZ reports whether this CANN has products of FRACTAL_NZ weights of a dtype. CANN 8.1 has none of float32.
func readsNZ(dt aclnn.DType) bool {
	return dt != aclnn.Float32 || (&aclnn.MatmulWeightNzParams{}).Operator().Available() == nil
}

// sizes is the configuration of a new model.
func (o options) sizes(vocab int) model.Config {
	return model.Config{
		ModelType: o.model, VocabSize: cmp.Or(o.vocab, vocab), HiddenSize: o.hidden, IntermediateSize: o.intermediate, Layers: o.layers,
		Heads: o.heads, KVHeads: o.kvHeads, HeadDim: o.headDim, RMSNormEps: 1e-6, RopeTheta: 10000,
		InitializerRange: 0.02, TieWordEmbeddings: true,
		Experts: o.experts, ExpertsPerToken: o.perToken, MoEIntermediate: o.expertSize, SharedIntermediate: o.expertSize, NormTopK: true, SparseStep: 1,
		RouterLoss: true, RouterLossScale: 0.01,
		// The heads of delta nets have the same sizes as those of attention.
		PartialRotary: 0.25, LayerTypes: model.HybridLayers(o.layers, o.fullInterval), LinearTaps: 4,
		LinearKeyHeads: o.kvHeads, LinearValueHeads: o.heads, LinearKeyDim: o.headDim, LinearValueDim: o.headDim,
		// So are those of latent attention, of which half as many features are rotated besides.
		KVRank: 2 * o.headDim, PlainHeadDim: o.headDim, RotatedHeadDim: o.headDim / 2, ValueHeadDim: o.headDim, RoutedScale: 1,
	}
}
