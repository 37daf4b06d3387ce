package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// expertLoRA adapts the weights of experts, and those of attention.
var expertLoRA = model.LoRA{
	Rank: 4, Alpha: 6, Targets: []string{"q_proj"}, Parameters: []string{"mlp.experts.gate_up_proj", "experts.down_proj"},
	Ranks: model.Overrides{{Layers: "layers.1.mlp.experts.down_proj", Value: 2}},
}

// random fills an adapter with numbers that depend on the names alone.
func random(ctx context.Context, a *model.Adapter) error {
	for _, p := range a.Parameters() {
		n := p.Shape()[0] * p.Shape()[1]
		rng := rand.New(rand.NewPCG(uint64(len(p.Name)), uint64(n)))
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(0.1 * rng.NormFloat64())
		}
		if err := a.Set(ctx, p, values); err != nil {
			return err
		}
	}
	return nil
}

// expertProduct computes PEFT's change of a stacked weight of n experts by its definition: element (e, o, i) is
// the sum over the rank of B[o, r·n + e]·A[e·rank + r, i].
func expertProduct(a, b []float32, n, rank, out, in int) []float64 {
	change := make([]float64, n*out*in)
	for e := range n {
		for o := range out {
			for r := range rank {
				for i := range in {
					change[(e*out+o)*in+i] += float64(b[(o*rank+r)*n+e]) * float64(a[(e*rank+r)*in+i])
				}
			}
		}
	}
	return change
}

// TestExpertAdapterGradients compares a model with an adapter of its experts with one whose weights have the
// adapter's change in them, by definition and by Merge: the losses are the same, and from the gradient of a
// weight follow those of A and B.
func TestExpertAdapterGradients(t *testing.T) {
	for _, name := range []string{"qwen3_moe", "qwen3_next"} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			st, reg := setUp(t)
			run := golden.Model(t, name)
			cfg, err := model.ParseConfig(run.Config.Raw)
			require.NoError(t, err)
			open := func(frozen bool) *model.Model {
				cfg.Frozen = frozen
				m, err := model.New(st, reg, cfg, aclnn.Float32)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, m.Close()) })
				for _, p := range m.Parameters() {
					require.NoError(t, m.Set(ctx, p, run.Sub("init").Float32(p.Name)))
				}
				return m
			}
			m, whole := open(true), open(false)
			lora := expertLoRA
			lora.Targets = nil
			a, err := model.NewAdapter(ctx, m, lora, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			o, err := a.NewOptimizer(model.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8})
			require.NoError(t, err)
			defer func() { require.NoError(t, o.Close()) }()
			require.NoError(t, random(ctx, a))
			require.NoError(t, m.Use(a))
			values := adapterValues(t, a)
			type layer struct {
				weight         *model.Parameter
				prefix         string
				scale          float64
				n, rank, o, in int
			}
			var layers []layer
			for _, p := range whole.Parameters() {
				if !strings.Contains(p.Name, ".experts.") {
					continue
				}
				module, name, _ := strings.Cut(p.Name, ".experts.")
				l := layer{weight: p, prefix: "base_model.model." + module + ".experts", scale: 6. / 4, n: int(p.Shape()[0]), rank: 4, o: int(p.Shape()[1]), in: int(p.Shape()[2])}
				if name == "gate_up_proj" {
					l.prefix += ".base_layer"
				} else if strings.Contains(p.Name, "layers.1.") {
					l.rank, l.scale = 2, 6./2
				}
				layers = append(layers, l)
				w, err := whole.Get(ctx, p)
				require.NoError(t, err)
				for i, d := range expertProduct(values[l.prefix+".lora_A.weight"], values[l.prefix+".lora_B.weight"], l.n, l.rank, l.o, l.in) {
					w[i] = float32(float64(w[i]) + l.scale*d)
				}
				require.NoError(t, whole.Set(ctx, p, w))
			}
			require.Len(t, layers, 4)
			b := batch(run, 0)
			plain, err := m.Logits(ctx, b)
			require.NoError(t, err)
			want, err := whole.Gradients(ctx, b)
			require.NoError(t, err)
			for range 2 { // the second time gradients are overwritten
				got, err := m.Gradients(ctx, b)
				require.NoError(t, err)
				require.InDelta(t, want, got, 1e-6)
			}
			grads := map[string][]float32{}
			for _, p := range a.Parameters() {
				grads[p.Name] = download(t, st, p.Grad)
			}
			for _, l := range layers {
				dw := download(t, st, l.weight.Grad)
				av, bv := values[l.prefix+".lora_A.weight"], values[l.prefix+".lora_B.weight"]
				da, db := make([]float64, len(av)), make([]float64, len(bv))
				for i, g := range dw {
					e, o, in := i/(l.o*l.in), i/l.in%l.o, i%l.in
					for r := range l.rank {
						da[(e*l.rank+r)*l.in+in] += l.scale * float64(g) * float64(bv[(o*l.rank+r)*l.n+e])
						db[(o*l.rank+r)*l.n+e] += l.scale * float64(g) * float64(av[(e*l.rank+r)*l.in+in])
					}
				}
				require.NoError(t, golden.CheckRMS(grads[l.prefix+".lora_A.weight"], da, 2e-6), l.prefix)
				require.NoError(t, golden.CheckRMS(grads[l.prefix+".lora_B.weight"], db, 2e-6), l.prefix)
			}
			require.NoError(t, a.Merge(ctx))
			merged, err := m.Logits(ctx, b)
			require.NoError(t, err)
			require.NoError(t, golden.CheckRMS(merged, plain, 2e-6))
		})
	}
}

// TestExpertAdapterFolder: an adapter's folder has PEFT's names and shapes, and loads as it was saved. The folder of
// an adapter for one weight has no base_layer in its names.
func TestExpertAdapterFolder(t *testing.T) {
	ctx := t.Context()
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3_moe")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	save := func(lora model.LoRA) (dir string, values map[string][]float32) {
		a, err := model.NewAdapter(ctx, m, lora, 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		require.NoError(t, random(ctx, a))
		dir = t.TempDir()
		require.NoError(t, a.Save(ctx, dir, "base", nil))
		return dir, adapterValues(t, a)
	}
	dir, values := save(expertLoRA)
	again, err := model.LoadAdapter(ctx, m, dir, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	require.Equal(t, values, adapterValues(t, again))
	require.Equal(t, expertLoRA.Parameters, again.Options().Parameters)
	n, h, inner := r.config.Experts, r.config.HiddenSize, r.config.MoEIntermediate
	f, err := safetensors.Open(filepath.Join(dir, "adapter_model.safetensors"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	const layer = "base_model.model.model.layers.0.mlp.experts."
	for name, shape := range map[string][]int{
		layer + "base_layer.lora_A.weight": {4 * n, h}, layer + "base_layer.lora_B.weight": {2 * inner, 4 * n},
		layer + "lora_A.weight": {4 * n, inner}, layer + "lora_B.weight": {h, 4 * n},
		"base_model.model.model.layers.1.mlp.experts.lora_B.weight":      {h, 2 * n},
		"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight": {4, h},
	} {
		x, err := f.Tensor(name)
		require.NoError(t, err)
		require.Equal(t, shape, x.Shape, name)
	}
	require.Len(t, f.Names(), 3*2*r.config.Layers)
	text, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
	require.NoError(t, err)
	var config struct {
		Parameters []string `json:"target_parameters"`
	}
	require.NoError(t, json.Unmarshal(text, &config))
	require.Equal(t, expertLoRA.Parameters, config.Parameters)

	_, alone := save(model.LoRA{Rank: 2, Alpha: 2, Parameters: []string{"gate_up_proj"}})
	require.Contains(t, alone, layer+"lora_A.weight")
	require.Len(t, alone, 2*r.config.Layers)

	for text, lora := range map[string]model.LoRA{
		"no dropout":                   {Rank: 2, Parameters: []string{"gate_up_proj"}, Dropout: 0.1},
		"not a stacked weight":         {Rank: 2, Parameters: []string{"mlp.down_proj"}},
		"needs targets":                {Rank: 2},
		`"w1" is not a stacked weight`: {Rank: 2, Parameters: []string{"gate_up_proj", "w1"}},
	} {
		_, err := model.NewAdapter(ctx, m, lora, 1)
		require.ErrorContains(t, err, text)
	}
	bank, err := m.NewAdapterBank(1, 8)
	require.NoError(t, err)
	defer func() { require.NoError(t, bank.Close()) }()
	require.ErrorContains(t, bank.Load(ctx, 0, dir), "no stacked weights of experts")
}

// TestParallelExpertAdapters: over ranks an adapter of experts trains as on one device.
func TestParallelExpertAdapters(t *testing.T) {
	const steps = 3
	r := openAdapterRun(t, "qwen3_moe")
	var losses []float64
	final := map[string][]float32{}
	for _, s := range []spread{
		{ranks: 1},
		{ranks: 2, layout: world.Layout{EP: 2}},
		{ranks: 2, layout: world.Layout{EP: 2}, shard: true},
		{ranks: 4, layout: world.Layout{EP: 2}, shard: true},
		{ranks: 4, layout: world.Layout{TP: 2, EP: 2}, sequence: true},
		{ranks: 2, layout: world.Layout{PP: 2}, micros: 2},
	} {
		t.Run(s.String(), func(t *testing.T) {
			onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) error {
				fill := func(a *model.Adapter) error { return random(ctx, a) }
				return r.onRank(ctx, t, s, expertLoRA, st, reg, ranks, fill, func(m *model.Model, a *model.Adapter, o *model.Optimizer) error {
					for step := range steps {
						b := repeated(r.batch(t, "a", step), 2)
						rows := b.Size / ranks.Parts
						loss, err := m.Gradients(ctx, b.Rows(ranks.Index*rows, rows))
						if err != nil {
							return err
						}
						if _, err := o.Step(ctx); err != nil {
							return err
						}
						if s.ranks == 1 {
							losses = append(losses, loss)
						} else if math.Abs(loss-losses[step]) > 5e-6 {
							return fmt.Errorf("loss %v of step %d, want %v", loss, step, losses[step])
						}
					}
					for _, p := range a.Parameters() {
						got, err := a.Get(ctx, p)
						if err != nil {
							return err
						}
						if s.ranks == 1 {
							final[p.Name] = got
						} else if err := within(got, p.Part(final[p.Name]), 2e-5); err != nil {
							return fmt.Errorf("%s: %w", p.Name, err)
						}
					}
					return nil
				})
			})
		})
	}
}

// TestAdapterOfClippedExperts: the refusal of adapters of gpt-oss' experts says why there are none, and the one of a misspelt name what there is.
func TestAdapterOfClippedExperts(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		want := map[string]string{
			"gpt_oss": `"mlp.experts.gate_up_proj": adapters of the experts of gpt_oss are not supported, whose weights are [experts, in, out] with biases`, "llama": "is a weight of experts, and this model has none",
			"mixtral": "it has mlp.experts.gate_up_proj and mlp.experts.down_proj",
		}[filepath.Base(k.path)]
		if want == "" {
			t.Skip("of no interest")
		}
		name := "mlp.experts.gate_up_proj"
		if filepath.Base(k.path) == "mixtral" {
			name = "mlp.experts.up_proj"
		}
		st, reg := setUp(t)
		m := k.load(t, st, reg, func(c *model.Config) { c.Frozen = true })
		_, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 4, Alpha: 8, Parameters: []string{name}}, 1)
		require.ErrorContains(t, err, want)
	})
}
