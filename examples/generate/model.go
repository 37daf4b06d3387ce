package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/ops"
)

// newModel loads the model of the options, or trains one. ends lists the tokens that end a text.
func newModel(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, report io.Writer) (m *qwen.Model, ends []int32, err error) {
	if o.model == "" {
		m, err = train(ctx, o, st, reg, report)
		return m, nil, err
	}
	if _, err := os.Stat(o.model); err != nil {
		return nil, nil, fmt.Errorf("-model: %w; it is a checkpoint of trainstep or a folder with a Hugging Face model of type %s; -type trains a new model",
			err, strings.Join(qwen.ModelTypes(), ", "))
	}
	if checkpoint.Find(o.model) {
		m, err = restore(ctx, o, st, reg)
		return m, nil, err
	}
	cfg, err := qwen.ReadConfig(filepath.Join(o.model, "config.json"))
	if err == nil {
		ends, err = endsOf(o.model)
	}
	if err != nil {
		return nil, nil, err
	}
	if m, err = qwen.New(st, reg, cfg, dtypes[o.dtype]); err != nil {
		return nil, nil, err
	}
	err = m.Load(ctx, o.model)
	if err == nil {
		err = tellUnread(ctx, m, o.model, report)
	}
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, ends, nil
}

// restore reads a model from a checkpoint of trainstep, whatever ranks wrote it.
func restore(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry) (m *qwen.Model, err error) {
	set, err := checkpoint.Open(o.model)
	if err != nil {
		return nil, err
	}
	defer closing(&err, set)
	cfg, err := qwen.SavedConfig(set)
	if err != nil {
		return nil, err
	}
	if m, err = qwen.New(st, reg, cfg, dtypes[o.dtype]); err != nil {
		return nil, err
	}
	if err := m.LoadCheckpoint(ctx, set); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// tellUnread says which parts of a folder the model does not use, such as a vision tower.
func tellUnread(ctx context.Context, m *qwen.Model, folder string, report io.Writer) error {
	parts, err := m.Unread(ctx, folder)
	if err == nil && len(parts) > 0 {
		_, err = fmt.Fprintf(report, "left out of %s: %s\n", folder, strings.Join(parts, ", "))
	}
	return err
}

// endsOf reads which tokens end a text: eos_token_id of generation_config.json, or else of config.json. It is a
// token, a list of tokens, or null.
func endsOf(folder string) ([]int32, error) {
	for _, name := range []string{"generation_config.json", "config.json"} {
		file := filepath.Join(folder, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var config struct {
			EOS  json.RawMessage `json:"eos_token_id"`
			Text struct {
				EOS json.RawMessage `json:"eos_token_id"`
			} `json:"text_config"`
		}
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, eos := range []json.RawMessage{config.EOS, config.Text.EOS} {
			ends, err := parseEnds(eos)
			if err != nil {
				return nil, fmt.Errorf("%s: eos_token_id: %w", file, err)
			}
			if ends != nil {
				return ends, nil
			}
		}
	}
	return nil, nil
}

func parseEnds(eos json.RawMessage) (ends []int32, err error) {
	var one int32
	switch {
	case len(eos) == 0 || string(eos) == "null":
		return nil, nil
	case json.Unmarshal(eos, &one) == nil:
		return []int32{one}, nil
	}
	return ends, json.Unmarshal(eos, &ends)
}

// own is the text that a model is trained on if none is given: the sources of this program.
//
//go:embed *.go
var own embed.FS

// Sizes of the training.
const (
	rows, length = 8, 64
)

// train makes a small byte-level model and trains it on the sources of this program.
func train(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, report io.Writer) (*qwen.Model, error) {
	text, err := sources()
	if err != nil {
		return nil, err
	}
	cfg := qwen.Config{
		ModelType: o.kind, VocabSize: byteVocab, HiddenSize: 128, IntermediateSize: 256, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32,
		RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, TieWordEmbeddings: true,
		Experts: 4, ExpertsPerToken: 2, MoEIntermediate: 128, SharedIntermediate: 128, NormTopK: true,
		PartialRotary: 0.25, LayerTypes: qwen.HybridLayers(2, 2), LinearTaps: 4,
		LinearKeyHeads: 2, LinearValueHeads: 4, LinearKeyDim: 32, LinearValueDim: 32,
	}
	m, err := qwen.New(st, reg, cfg, dtypes[o.dtype])
	if err != nil {
		return nil, err
	}
	if err := learn(ctx, m, o, text, report); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func sources() (text []byte, err error) {
	names, err := fs.Glob(own, "*.go")
	for _, name := range names {
		b, err := fs.ReadFile(own, name)
		if err != nil {
			return nil, err
		}
		text = append(text, b...)
	}
	return text, err
}

// learn trains a new model on random windows of a text.
func learn(ctx context.Context, m *qwen.Model, o options, text []byte, report io.Writer) (err error) {
	if err := m.Init(ctx, o.sampling.Seed); err != nil {
		return err
	}
	opt, err := qwen.NewOptimizer(m, qwen.AdamW{LR: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	rng := rand.New(rand.NewPCG(o.sampling.Seed, 1))
	for step := range o.trainSteps {
		b := qwen.Batch{Size: rows, Length: length}
		for range rows {
			at := rng.IntN(len(text) - length)
			for i := range length {
				b.Inputs, b.Labels = append(b.Inputs, int32(text[at+i])), append(b.Labels, int32(text[at+i+1]))
			}
		}
		loss, err := m.Gradients(ctx, b)
		if err != nil {
			return err
		}
		if _, err := opt.Step(ctx); err != nil {
			return err
		}
		if n := step + 1; n%20 == 0 || n == o.trainSteps {
			fmt.Fprintf(report, "training: step %d/%d, loss %.3f\n", n, o.trainSteps, loss)
		}
	}
	return nil
}
