package golden

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Training is one recorded training run: a few optimiser steps of a small model.
//
// Its tensors: Sub("init") and Sub("final") hold the weights before and after, Sub("grad0")
// the gradients of the first step before clipping; ids and labels are [Steps, Batch, Seq] with
// labels not yet shifted and -100 ignored, attention_mask is [Batch, Seq] with 1 for a valid
// token, logits0 are the first step's [Batch, Seq, vocabulary].
type Training struct {
	Name         string
	Architecture string // such as Qwen3ForCausalLM
	Config       Config
	Batch, Seq   int
	Steps        int
	Lengths      []int     // valid tokens of each sequence; nil when none is padded
	Losses       []float64 // one per step: mean over the targets
	GradNorms    []float64 // one per step: before clipping
	Optimizer    Optimizer
	Tensors
}

// Optimizer is the AdamW the run used.
type Optimizer struct {
	Name         string     `json:"name"`
	LR           float64    `json:"lr"`
	Betas        [2]float64 `json:"betas"`
	Eps          float64    `json:"eps"`
	WeightDecay  float64    `json:"weight_decay"`
	ClipGradNorm float64    `json:"clip_grad_norm"`
}

// Config holds the fields of a Hugging Face config.json that the recorded models need; a field
// that a model does not have is zero. Raw is the whole text.
type Config struct {
	Raw                json.RawMessage `json:"-"`
	ModelType          string          `json:"model_type"`
	VocabSize          int             `json:"vocab_size"`
	HiddenSize         int             `json:"hidden_size"`
	IntermediateSize   int             `json:"intermediate_size"`
	Layers             int             `json:"num_hidden_layers"`
	LayerTypes         []string        `json:"layer_types"` // nil: full attention in each
	Heads              int             `json:"num_attention_heads"`
	KVHeads            int             `json:"num_key_value_heads"`
	HeadDim            int             `json:"head_dim"`
	RMSNormEps         float64         `json:"rms_norm_eps"`
	TieWordEmbeddings  bool            `json:"tie_word_embeddings"`
	Rope               Rope            `json:"rope_parameters"`
	Experts            int             `json:"num_experts"`
	ExpertsPerToken    int             `json:"num_experts_per_tok"`
	NormTopK           bool            `json:"norm_topk_prob"`
	MoEIntermediate    int             `json:"moe_intermediate_size"`
	SharedIntermediate int             `json:"shared_expert_intermediate_size"`
	ConvKernel         int             `json:"linear_conv_kernel_dim"`
	LinearKeyHeadDim   int             `json:"linear_key_head_dim"`
	LinearValueHeadDim int             `json:"linear_value_head_dim"`
	LinearKeyHeads     int             `json:"linear_num_key_heads"`
	LinearValueHeads   int             `json:"linear_num_value_heads"`
}

// Rope is the rotary position embedding; with a PartialFactor of 0 all of a head is rotated.
type Rope struct {
	Theta         float64 `json:"rope_theta"`
	PartialFactor float64 `json:"partial_rotary_factor"`
}

// Models lists the names of the training runs of an architecture, such as Qwen3ForCausalLM. If
// there is none the test fails, or is skipped when CANN_GOLDEN_DIR names another set.
func Models(t testing.TB, architecture string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(mustDir(t), "*.json"))
	var names []string
	for _, file := range need(t, files, err) {
		if filepath.Base(file) == casesFile {
			continue
		}
		text, err := os.ReadFile(file)
		run, err := parseTraining(need(t, text, err))
		if err != nil {
			t.Fatalf("golden: %s: %v", file, err)
		}
		if run.Architecture == architecture {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
		}
	}
	if len(names) == 0 {
		none(t, fmt.Sprintf("no training run of %q", architecture))
	}
	return names
}

// Model loads a training run by name, bound to t. An unknown name, or a record whose parts
// contradict each other, fails the test.
func Model(t testing.TB, name string) *Training {
	t.Helper()
	path := filepath.Join(mustDir(t), name)
	text, err := os.ReadFile(path + ".json")
	run, err := parseTraining(need(t, text, err))
	if err != nil {
		t.Fatalf("golden: %s.json: %v", path, err)
	}
	run.Name = name
	run.Tensors = openTensors(t, path+".safetensors")
	tokens := []int{run.Steps, run.Batch, run.Seq}
	for tensor, want := range map[string][]int{"ids": tokens, "labels": tokens, "attention_mask": tokens[1:]} {
		if got := run.Shape(tensor); !slices.Equal(got, want) {
			t.Fatalf("golden: %s: %s is %v, steps, batch and sequence make %v", name, tensor, got, want)
		}
	}
	return run
}

func parseTraining(text []byte) (*Training, error) {
	var record struct {
		Model     string          `json:"model"`
		Config    json.RawMessage `json:"config"`
		B         int             `json:"B"`
		S         int             `json:"S"`
		Steps     int             `json:"steps"`
		Lengths   []int           `json:"lengths"`
		Losses    []float64       `json:"losses"`
		GradNorms []float64       `json:"grad_norms"`
		Optimizer Optimizer       `json:"optimizer"`
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, err
	}
	run := &Training{
		Architecture: record.Model, Config: Config{Raw: record.Config},
		Batch: record.B, Seq: record.S, Steps: record.Steps, Lengths: record.Lengths,
		Losses: record.Losses, GradNorms: record.GradNorms, Optimizer: record.Optimizer,
	}
	switch {
	case run.Architecture == "" || len(record.Config) == 0:
		return nil, fmt.Errorf("model or config is missing")
	case run.Steps < 1 || run.Batch < 1 || run.Seq < 1:
		return nil, fmt.Errorf("steps %d, B %d and S %d must be positive", run.Steps, run.Batch, run.Seq)
	case len(run.Losses) != run.Steps || len(run.GradNorms) != run.Steps:
		return nil, fmt.Errorf("%d losses and %d gradient norms for %d steps", len(run.Losses), len(run.GradNorms), run.Steps)
	case run.Lengths != nil && len(run.Lengths) != run.Batch:
		return nil, fmt.Errorf("%d lengths for a batch of %d", len(run.Lengths), run.Batch)
	}
	// Mixtral-like configurations count the experts under another name.
	aliases := struct {
		LocalExperts int `json:"num_local_experts"`
	}{}
	for _, fields := range []any{&run.Config, &aliases} {
		if err := json.Unmarshal(record.Config, fields); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	run.Config.Experts = max(run.Config.Experts, aliases.LocalExperts)
	return run, nil
}
