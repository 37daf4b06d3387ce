package model_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// TestLoadReadsParts: each rank reads its part of a hub folder, with a tenth more at most, and gets
// the same weights as a rank that has all.
func TestLoadReadsParts(t *testing.T) {
	for _, kind := range []string{"qwen3_moe", "qwen3_5_text"} {
		cfg := model.Config{
			ModelType: kind, VocabSize: 512, HiddenSize: 256, IntermediateSize: 512, Layers: 2, Heads: 8, KVHeads: 2, HeadDim: 64,
			RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, Experts: 4, ExpertsPerToken: 2, MoEIntermediate: 64, NormTopK: true,
			PartialRotary: 0.25, LayerTypes: model.HybridLayers(2, 2), LinearTaps: 4,
			LinearKeyHeads: 2, LinearValueHeads: 4, LinearKeyDim: 64, LinearValueDim: 128,
		}
		folder, whole := filepath.Join(t.TempDir(), "model"), map[string][]float32{}
		onRanks(t, 1, model.Layout{}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, _ *model.Ranks) (err error) {
			m, err := model.New(st, reg, cfg, aclnn.Float32)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			if err := m.Init(ctx, 3); err != nil {
				return err
			}
			for _, p := range m.Parameters() {
				if whole[p.Name], err = m.Get(ctx, p); err != nil {
					return err
				}
			}
			return m.Export(ctx, folder, "", aclnn.Float32, nil)
		})
		for name, s := range map[string]spread{
			"alone": {ranks: 1}, "tp": {ranks: 2, layout: world.Layout{TP: 2}, sequence: true}, "ep": {ranks: 2, layout: world.Layout{EP: 2}},
			"ep and etp": {ranks: 4, layout: world.Layout{EP: 2, ExpertTP: 2}}, "etp, fsdp and nz": {ranks: 4, layout: world.Layout{ExpertTP: 2}, shard: true, nz: true},
			"pp": {ranks: 2, layout: world.Layout{PP: 2}}, "fsdp": {ranks: 4, shard: true}, "tp and fsdp": {ranks: 4, layout: world.Layout{TP: 2}, sequence: true, shard: true},
			// Of the four experts a rank has two, a half, or parts that begin and end inside a row.
			"fsdp and nz": {ranks: 2, shard: true, nz: true}, "halves and nz": {ranks: 8, shard: true, nz: true}, "pieces and nz": {ranks: 5, shard: true, nz: true},
		} {
			if kind != "qwen3_moe" && (s.layout.EP > 1 || s.layout.ExpertTP > 1 || s.nz) {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
					par := ranks.Parallel
					par.Sequence, par.Shard = s.sequence, s.shard
					cfg := cfg
					cfg.GroupedNZ = s.nz
					m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, par)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					f, err := safetensors.Open(folder)
					if err != nil {
						return err
					}
					defer closing(&err, f)
					if err := m.LoadFile(ctx, f); err != nil {
						return err
					}
					part := 0
					for _, p := range m.Parameters() {
						values, err := m.Get(ctx, p)
						if err != nil {
							return err
						}
						assert.Equal(t, p.Part(whole[p.Name]), values, p.Name)
						shards := 1
						if s.shard {
							shards = ranks.Parts
						}
						if s.shard && strings.Contains(p.Name, ".experts.") {
							shards = s.ranks / max(s.layout.ExpertTP, 1) // experts are not divided over -tp
						}
						part += 4 * len(values) / shards
					}
					require.NotZero(t, part)
					limit := 1.1
					if s.layout.ExpertTP > 1 && s.shard { // parts of rows of 64 elements are read with what is between them
						limit = 1.2
					}
					assert.LessOrEqual(t, float64(f.BytesRead()), limit*float64(part), "for a part of %d bytes", part)
					assert.GreaterOrEqual(t, f.BytesRead(), int64(part)*9/10, "for a part of %d bytes", part)
					return nil
				})
			})
		}
	}
}
