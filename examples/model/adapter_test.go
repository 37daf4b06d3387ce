package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// adapterRun is a recorded training of two adapters over one base.
type adapterRun struct {
	name      string
	folder    string // of PEFT's folders a and b
	config    model.Config
	lora      model.LoRA
	steps     int
	optimizer model.AdamW
	losses    map[string][]float64
	norms     map[string][]float64
	tensors   *safetensors.File
}

var adapterModels = []string{"qwen3", "qwen3_moe", "qwen3_5"}

func openAdapterRun(t *testing.T, name string) *adapterRun {
	dir, err := golden.Dir()
	require.NoError(t, err)
	dir = filepath.Join(dir, "lora")
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	require.NoError(t, err)
	var file struct {
		Config    json.RawMessage
		R         int
		Alpha     float64  `json:"lora_alpha"`
		Targets   []string `json:"target_modules"`
		Steps     int
		Losses    map[string][]float64
		Norms     map[string][]float64 `json:"grad_norms"`
		Optimizer struct {
			LR    float64
			Betas []float64
			Eps   float64
			Decay float64 `json:"weight_decay"`
			Clip  float64 `json:"clip_grad_norm"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	r := &adapterRun{name: name, folder: filepath.Join(dir, name+"_peft"), steps: file.Steps, losses: file.Losses, norms: file.Norms}
	r.lora = model.LoRA{Rank: file.R, Alpha: file.Alpha, Targets: file.Targets}
	o := file.Optimizer
	r.optimizer = model.AdamW{LR: o.LR, Beta1: o.Betas[0], Beta2: o.Betas[1], Epsilon: o.Eps, WeightDecay: o.Decay, MaxNorm: o.Clip}
	r.config, err = model.ParseConfig(file.Config)
	require.NoError(t, err)
	r.config.Frozen = true
	r.tensors, err = safetensors.Open(filepath.Join(dir, name+".safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.tensors.Close()) })
	return r
}

func (r *adapterRun) values(t *testing.T, name string) []float32 {
	x, err := r.tensors.Tensor(name)
	require.NoError(t, err)
	values, err := safetensors.Values[float32](x)
	require.NoError(t, err)
	return values
}

// base makes the model with its frozen weights.
func (r *adapterRun) base(t *testing.T, st *acl.Stream, reg *ops.Registry, dt aclnn.DType, par model.Parallel) *model.Model {
	m, err := model.NewParallel(st, reg, r.config, dt, par)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	for _, p := range m.Parameters() {
		require.Nil(t, p.Grad, "a frozen weight has no gradient")
		require.NoError(t, m.Set(t.Context(), p, r.values(t, "base/"+r.baseName(p.Name))))
	}
	return m
}

// baseName is the name of a weight of the base in the file, where PEFT has wrapped adapted layers.
func (r *adapterRun) baseName(name string) string {
	for _, n := range r.tensors.Names() {
		if strings.HasPrefix(n, "base/") && strings.ReplaceAll(n, "base_layer.", "") == "base/"+name {
			return strings.TrimPrefix(n, "base/")
		}
	}
	return name
}

// adapter makes one of the adapters with its initial weights, and its optimiser.
func (r *adapterRun) adapter(t *testing.T, m *model.Model, which string) (*model.Adapter, *model.Optimizer) {
	a, err := model.NewAdapter(t.Context(), m, r.lora, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	for _, p := range a.Parameters() {
		require.NoError(t, a.Set(t.Context(), p, r.values(t, which+"/init/"+p.Name)))
	}
	o, err := a.NewOptimizer(r.optimizer)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return a, o
}

func (r *adapterRun) batch(t *testing.T, which string, step int) model.Batch {
	x, err := r.tensors.Tensor("ids")
	require.NoError(t, err)
	ids, err := safetensors.Values[int32](x)
	require.NoError(t, err)
	rows, length := x.Shape[2], x.Shape[3]
	if which == "b" {
		step += x.Shape[1]
	}
	ids = ids[step*rows*length:][:rows*length]
	b := model.Batch{Size: rows, Length: length, Inputs: ids}
	for i := range ids {
		label := int32(-100)
		if (i+1)%length != 0 {
			label = ids[i+1]
		}
		b.Labels = append(b.Labels, label)
	}
	return b
}

// train makes one step of an adapter.
func (r *adapterRun) train(t *testing.T, m *model.Model, a *model.Adapter, o *model.Optimizer, which string, step int, first func()) (loss, norm float64) {
	require.NoError(t, m.Use(a))
	loss, err := m.Gradients(t.Context(), r.batch(t, which, step))
	require.NoError(t, err)
	if step == 0 && first != nil {
		first()
	}
	norm, err = o.Step(t.Context())
	require.NoError(t, err)
	return loss, norm
}

func adapterValues(t *testing.T, a *model.Adapter) map[string][]float32 {
	all := map[string][]float32{}
	for _, p := range a.Parameters() {
		values, err := a.Get(t.Context(), p)
		require.NoError(t, err)
		all[p.Name] = values
	}
	return all
}

// TestGoldenAdapters repeats PEFT's training of two adapters in turns over one base: losses,
// gradients of the first step, weights after the last, and a base that stays as it was.
func TestGoldenAdapters(t *testing.T) {
	for _, name := range adapterModels {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			r := openAdapterRun(t, name)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			before := baseValues(t, m)
			adapters, optimizers := map[string]*model.Adapter{}, map[string]*model.Optimizer{}
			for _, which := range []string{"a", "b"} {
				adapters[which], optimizers[which] = r.adapter(t, m, which)
			}
			for step := range r.steps {
				for _, which := range []string{"a", "b"} {
					a := adapters[which]
					loss, norm := r.train(t, m, a, optimizers[which], which, step, func() {
						for _, p := range a.Parameters() {
							require.NoError(t, golden.CheckRMS(download(t, st, p.Grad), r.values(t, which+"/grad0/"+p.Name), 2e-6), p.Name)
						}
					})
					require.InDelta(t, r.losses[which][step], loss, 1e-6, "loss of step %d of %s", step, which)
					require.InEpsilon(t, r.norms[which][step], norm, 1e-5, "norm of step %d of %s", step, which)
				}
			}
			require.Equal(t, before, baseValues(t, m))
			for which, a := range adapters {
				for name, got := range adapterValues(t, a) {
					require.NoError(t, within(got, r.values(t, which+"/final/"+name), 1e-5), name)
				}
			}
			for which, a := range adapters { // apart from each other, from the start
				alone, o := r.adapter(t, m, which)
				for step := range r.steps {
					r.train(t, m, alone, o, which, step, nil)
				}
				require.Equal(t, adapterValues(t, a), adapterValues(t, alone), "adapter %s alone", which)
			}
		})
	}
}

// within checks the root of the mean square of the differences.
func within(got, want []float32, limit float64) error {
	sum := 0.0
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		sum += d * d
	}
	if rms := math.Sqrt(sum / float64(len(want))); len(got) != len(want) || rms > limit {
		return fmt.Errorf("%d and %d values differ by %g", len(got), len(want), rms)
	}
	return nil
}

func baseValues(t *testing.T, m *model.Model) (all [][]float32) {
	for _, p := range m.Parameters() {
		values, err := m.Get(t.Context(), p)
		require.NoError(t, err)
		all = append(all, values)
	}
	return all
}

// TestPEFTFolders reads the folders that PEFT has written and writes them again.
func TestPEFTFolders(t *testing.T) {
	for _, name := range adapterModels {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			r := openAdapterRun(t, name)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			for _, which := range []string{"a", "b"} {
				folder := filepath.Join(r.folder, which)
				a, err := model.LoadAdapter(t.Context(), m, folder, 1)
				require.NoError(t, err)
				defer func() { require.NoError(t, a.Close()) }()
				for name, got := range adapterValues(t, a) {
					require.Equal(t, r.values(t, which+"/final/"+name), got, name)
				}
				copied := filepath.Join(t.TempDir(), which)
				require.NoError(t, a.Save(t.Context(), copied, "", nil))
				again, err := model.LoadAdapter(t.Context(), m, copied, 2)
				require.NoError(t, err)
				defer func() { require.NoError(t, again.Close()) }()
				require.Equal(t, adapterValues(t, a), adapterValues(t, again))
				requireSamePEFT(t, folder, copied)
			}
		})
	}
}

// requireSamePEFT compares the names and shapes of the tensors, and the configurations.
func requireSamePEFT(t *testing.T, want, got string) {
	config := func(folder string) (c map[string]any) {
		text, err := os.ReadFile(filepath.Join(folder, "adapter_config.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &c))
		return c
	}
	require.Equal(t, config(want), config(got))
	list := func(folder string) (all []string) {
		f, err := safetensors.Open(filepath.Join(folder, "adapter_model.safetensors"))
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		require.Equal(t, "pt", f.Metadata()["format"])
		for _, name := range f.Names() {
			x, err := f.Tensor(name)
			require.NoError(t, err)
			all = append(all, name+fmt.Sprint(x.Shape))
		}
		return all
	}
	require.Equal(t, list(want), list(got))
}

// TestMergedAdapterComputesTheSame: with an adapter in its weights a model has the logits that it
// had with the adapter beside them, and without it the old ones.
func TestMergedAdapterComputesTheSame(t *testing.T) {
	for _, name := range adapterModels {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			r := openAdapterRun(t, name)
			m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
			logits := func() []float32 {
				values, err := m.Logits(t.Context(), r.batch(t, "a", 0))
				require.NoError(t, err)
				return values
			}
			plain := logits()
			a, err := model.LoadAdapter(t.Context(), m, filepath.Join(r.folder, "a"), 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			require.NoError(t, m.Use(a))
			adapted := logits()
			require.Error(t, golden.CheckRMS(adapted, plain, 1e-3), "the adapter changes nothing")
			require.NoError(t, a.Merge(t.Context()))
			require.NoError(t, golden.CheckRMS(logits(), adapted, 2e-6))
			require.NoError(t, a.Unmerge(t.Context()))
			require.NoError(t, golden.CheckRMS(logits(), plain, 2e-6))
		})
	}
}

// TestAdapterRefusals checks what cannot be adapted, and configurations that would be misread.
func TestAdapterRefusals(t *testing.T) {
	st, reg := setUp(t)
	r := openAdapterRun(t, "qwen3")
	m := r.base(t, st, reg, aclnn.Float32, model.Parallel{})
	_, err := model.NewOptimizer(m, r.optimizer)
	require.ErrorContains(t, err, "frozen")
	_, err = m.Gradients(t.Context(), r.batch(t, "a", 0))
	require.ErrorContains(t, err, "frozen")
	for text, lora := range map[string]model.LoRA{
		"rank 0":                       {Targets: []string{"q_proj"}},
		"dropout 1":                    {Rank: 4, Dropout: 1, Targets: []string{"q_proj"}},
		"needs targets":                {Rank: 4},
		`"norm" is not a linear layer`: {Rank: 4, Targets: []string{"q_proj", "norm"}},
		"it has down_proj, gate_proj, k_proj, lm_head": {Rank: 4, Targets: []string{"embed_tokens"}},
		"selects no layer":        {Rank: 4, Pattern: "q_proj"},
		"missing closing":         {Rank: 4, Pattern: "(q_proj"},
		"takes longer than 500ms": {Rank: 4, Targets: []string{"q_proj"}, Alphas: slices.Repeat(model.Overrides{{Layers: "(?=(.+)+$)(?!x)" + strings.Repeat("(.*)*", 30) + "z", Value: 1}}, 500)},
	} {
		_, err := model.NewAdapter(t.Context(), m, lora, 1)
		require.ErrorContains(t, err, text)
	}
	for text, change := range map[string]string{
		"use_dora is true": `"use_dora": true`, "is a weight of experts, and this model has none": `"target_parameters": ["mlp.experts.gate_up_proj"]`, "bias": `"bias": "all"`,
		"target_parameters has 10001 names": `"target_parameters": ["x"` + strings.Repeat(`,"x"`, 10_000) + `]`,
		"init_lora_weights":                 `"init_lora_weights": "pissa"`, "IA3": `"peft_type": "IA3"`, "has shape [8 64]": `"r": 4`,
		"modules_to_save": `"modules_to_save": ["lm_head"]`, "layer_replication": `"layer_replication": [[0,2]]`, "new_kind is 7": `"new_kind": 7`,
	} {
		dir := t.TempDir()
		text0, err := os.ReadFile(filepath.Join(r.folder, "a", "adapter_config.json"))
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(text0, &config))
		require.NoError(t, json.Unmarshal([]byte("{"+change+"}"), &config))
		text1, err := json.Marshal(config)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), text1, 0o600))
		weights, err := os.ReadFile(filepath.Join(r.folder, "a", "adapter_model.safetensors"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), weights, 0o600))
		_, err = model.LoadAdapter(t.Context(), m, dir, 1)
		require.ErrorContains(t, err, text)
	}
	trainable, _ := newModel(t, st, reg, "qwen3", aclnn.Float32)
	_, err = model.NewAdapter(t.Context(), trainable, model.LoRA{Rank: 4, Targets: []string{"q_proj"}}, 1)
	require.ErrorContains(t, err, "Frozen")
}

// TestAdapterTargets checks which layers options select, and with which rank and scale.
func TestAdapterTargets(t *testing.T) {
	st, reg := setUp(t)
	m := openAdapterRun(t, "qwen3_5").base(t, st, reg, aclnn.Float32, model.Parallel{})
	for _, c := range []struct {
		lora model.LoRA
		want []string // names of A, and its rank
	}{
		{model.LoRA{Rank: 2, Pattern: `.*\.1\..*(q|k)_proj`, ExcludePattern: ".*k_proj"}, []string{"model.layers.1.self_attn.q_proj 2"}},
		{model.LoRA{Rank: 2, Pattern: `model\.language_model\.layers\.1\..*v_proj`}, []string{"model.layers.1.self_attn.v_proj 2"}},
		{model.LoRA{Rank: 2, Targets: []string{"down_proj"}, Layers: []int{0}}, []string{"model.layers.0.mlp.down_proj 2"}},
		{model.LoRA{Rank: 2, Targets: []string{"mlp.up_proj", "lm_head"}, Exclude: []string{"model.layers.0.mlp.up_proj"}}, []string{"model.layers.1.mlp.up_proj 2", "lm_head 2"}},
		{model.LoRA{Rank: 2, Targets: []string{"o_proj", "k_proj"}, Ranks: model.Overrides{{Layers: "layers.1.self_attn.o_proj", Value: 6}, {Layers: "o_proj", Value: 4}}}, []string{"model.layers.1.self_attn.k_proj 2", "model.layers.1.self_attn.o_proj 6"}},
		{model.LoRA{Rank: 2, Targets: []string{"o_proj", "k_proj"}, Ranks: model.Overrides{{Layers: "o_proj", Value: 4}, {Layers: "layers.1.self_attn.o_proj", Value: 6}}}, []string{"model.layers.1.self_attn.k_proj 2", "model.layers.1.self_attn.o_proj 4"}},
		{model.LoRA{Rank: 2, Pattern: `^(model(?=\.).*\.1\.(?!mlp).*(q_proj))$`}, []string{"model.layers.1.self_attn.q_proj 2"}},
		{model.LoRA{Rank: 2, Targets: []string{"k_proj", "model.layers.1.self_attn.o_proj"}, Layers: []int{0}}, []string{"model.layers.1.self_attn.o_proj 2"}},
	} {
		c.lora.Alpha = 1
		a, err := model.NewAdapter(t.Context(), m, c.lora, 1)
		require.NoError(t, err)
		var got []string
		for _, p := range a.Parameters() {
			if name, ok := strings.CutSuffix(p.Name, ".lora_A.weight"); ok {
				got = append(got, fmt.Sprint(strings.TrimPrefix(name, "base_model.model."), " ", p.Shape()[0]))
			}
		}
		require.Equal(t, c.want, got)
		require.NoError(t, a.Close())
	}
	a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 2, Alpha: 1, Targets: []string{model.AllLinear}}, 1)
	require.NoError(t, err)
	require.Len(t, a.Parameters(), 2*(5+3+4+3), "all of a delta net, of attention, and of two feed-forward layers")
	require.False(t, slices.ContainsFunc(a.Parameters(), func(p *model.Parameter) bool { return strings.Contains(p.Name, "lm_head") }))
	require.NoError(t, a.Close())
}
