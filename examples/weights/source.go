package weights

import (
	"context"
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
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/ops"
)

// Source says where a model comes from.
type Source struct {
	Folder string // of a Hugging Face model or of trainstep's checkpoints; empty: train a small model
	DType  aclnn.DType
	// Strict refuses what a folder has that is left out and might matter. Without it a warning says so.
	Strict bool
	// Adapter is a PEFT folder whose products are added to the weights of the folder; empty for none.
	Adapter string
	// Quantize makes the weights of linear layers int8, see model.Model.Quantize. KeepCodes leaves those of a quantised folder as they are, see
	// model.Config.KeepCodes.
	Quantize, KeepCodes bool
	// Int8Cache keeps keys and values in int8, see model.Config.Int8Cache.
	Int8Cache bool
	// Scores reads a classifier too, for model.Model.Scores.
	Scores bool
	// Answers, if it is set, makes a language model a classifier: the tokens no and yes, see model.Model.ScoreAnswers.
	Answers *[2]int32
	// Predict reads a layer that predicts one token further, if the folder has one.
	Predict bool
	// Parallel divides the model over ranks, which all make it. A model that is trained is trained whole by each.
	Parallel model.Parallel

	// Of a model to train.
	Type  string // of model.ModelTypes
	Steps int
	Seed  uint64
	Text  []byte // its bytes are the tokens
}

// Bytes is the vocabulary size of models whose tokens are bytes.
const Bytes = 256

// Model loads the model, or trains it. It writes to report what it does.
func (s Source) Model(ctx context.Context, st *acl.Stream, reg *ops.Registry, report io.Writer) (*model.Model, error) {
	if w := s.Parallel.World; w != nil && w.Rank() > 0 {
		report = io.Discard
	}
	m, err := s.whole(ctx, st, reg, report)
	if err != nil || !s.Quantize {
		return m, err
	}
	saved, err := m.Quantize(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	_, err = fmt.Fprintf(report, "int8 weights save %.1f MB\n", float64(saved)/1e6)
	return m, err
}

// whole gets the model with the weights that it has.
func (s Source) whole(ctx context.Context, st *acl.Stream, reg *ops.Registry, report io.Writer) (*model.Model, error) {
	if s.Folder == "" {
		return s.trained(ctx, st, reg, report)
	}
	if _, err := os.Stat(s.Folder); err != nil {
		return nil, fmt.Errorf("-model: %w; it is a checkpoint of trainstep or a folder with a Hugging Face model of type %s; -type trains a new model",
			err, strings.Join(model.ModelTypes(), ", "))
	}
	if checkpoint.Find(s.Folder) {
		return s.restore(ctx, st, reg)
	}
	if err := s.Inspect(report); err != nil {
		return nil, err
	}
	cfg, err := model.ReadConfig(filepath.Join(s.Folder, "config.json"))
	if err != nil {
		return nil, err
	}
	if cfg.Score && !s.Scores {
		return nil, fmt.Errorf("%s has a classifier, whose head gives a score and no tokens: serve answers with scores, and trainstep -loss reward trains and evaluates it", s.Folder)
	}
	if s.Answers != nil {
		if !cfg.Generates() {
			return nil, fmt.Errorf("%s has a model of type %s without a head for tokens, which answers nothing", s.Folder, cfg.ModelType)
		}
		cfg.Score, cfg.NewScore = true, true
	}
	cfg.Frozen, cfg.KeepCodes, cfg.Int8Cache = true, s.KeepCodes, s.Int8Cache
	if s.Predict {
		if cfg.Predict, err = cfg.HasPredictor(s.Folder); err != nil {
			return nil, err
		}
	}
	m, err := model.NewParallel(st, reg, cfg, s.DType, s.Parallel)
	if err != nil {
		return nil, err
	}
	if q := cfg.Quantization; q != nil && !s.KeepCodes {
		if _, err := fmt.Fprintf(report, "weights of %s (%s) are dequantised to %v\n", s.Folder, q.Method, s.DType); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	err = m.Load(ctx, s.Folder)
	if err == nil && s.Answers != nil {
		err = m.ScoreAnswers(ctx, s.Folder, s.Answers[0], s.Answers[1])
	}
	if err == nil {
		err = tellUnread(ctx, m, s.Folder, report)
	}
	for _, line := range m.Kept() {
		_, failure := fmt.Fprintln(report, line)
		err = errors.Join(err, failure)
	}
	if err == nil {
		err = s.adapt(ctx, m)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Inspect says to report what the folder has that is left out and might matter, see hub.Check. With Strict that is an error.
func (s Source) Inspect(report io.Writer) error {
	warnings, err := hub.Check(s.Folder)
	if err != nil {
		return err
	}
	if s.Strict && len(warnings) > 0 {
		return fmt.Errorf("-strict: %s", strings.Join(warnings, "; "))
	}
	for _, w := range warnings {
		if _, err := fmt.Fprintln(report, "warning:", w); err != nil {
			return err
		}
	}
	return nil
}

// restore reads a model from a checkpoint of trainstep, whatever ranks wrote it.
func (s Source) restore(ctx context.Context, st *acl.Stream, reg *ops.Registry) (m *model.Model, err error) {
	set, err := checkpoint.Open(s.Folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	for _, p := range set.Tensors() {
		if strings.HasPrefix(p.Name, "base_model.") {
			return nil, fmt.Errorf("%s is a checkpoint of an adapter, not of a model: write its folder with trainstep -export, and give the model's folder as -model and that one as -adapter", s.Folder)
		}
	}
	cfg, err := model.SavedConfig(set)
	if err != nil {
		return nil, err
	}
	cfg.Frozen, cfg.Int8Cache = true, s.Int8Cache
	if m, err = model.NewParallel(st, reg, cfg, s.DType, s.Parallel); err != nil {
		return nil, err
	}
	if err = m.LoadCheckpoint(ctx, set); err == nil {
		err = s.adapt(ctx, m)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// adapt adds the adapter to the weights.
func (s Source) adapt(ctx context.Context, m *model.Model) error {
	if s.Adapter == "" {
		return nil
	}
	a, err := model.LoadAdapter(ctx, m, s.Adapter, 0)
	if err != nil {
		return err
	}
	return errors.Join(a.Merge(ctx), a.Close())
}

// tellUnread says which parts of a folder the model does not use, such as a vision tower.
func tellUnread(ctx context.Context, m *model.Model, folder string, report io.Writer) error {
	parts, err := m.Unread(ctx, folder)
	if err == nil && len(parts) > 0 {
		_, err = fmt.Fprintf(report, "left out of %s: %s\n", folder, strings.Join(parts, ", "))
	}
	return err
}

// Ends reads which tokens end a text: eos_token_id of generation_config.json, or else of config.json. It is a
// token, a list of tokens, or null. Trained models and checkpoints have none.
func (s Source) Ends() ([]int32, error) {
	if s.Folder == "" {
		return nil, nil
	}
	type config struct {
		EOS  json.RawMessage `json:"eos_token_id"`
		Text struct {
			EOS json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	var generation, whole config
	if _, err := hub.Decode(s.Folder, "generation_config.json", hub.GenerationConfig, &generation); err != nil {
		return nil, err
	}
	text, err := budget.ReadFile(filepath.Join(s.Folder, "config.json"), model.MostConfig)
	if err == nil {
		err = json.Unmarshal(text, &whole)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: config.json: %w", s.Folder, err)
	}
	for _, eos := range []json.RawMessage{generation.EOS, whole.EOS, whole.Text.EOS} {
		ends, err := parseEnds(eos)
		if err != nil {
			return nil, fmt.Errorf("%s: generation_config.json or config.json: eos_token_id: %w", s.Folder, err)
		}
		if ends != nil {
			return ends, nil
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

// Sizes of the training.
const (
	rows, length = 8, 64
)

// trained trains a model, and freezes it if its weights are then changed: divided, or quantised.
func (s Source) trained(ctx context.Context, st *acl.Stream, reg *ops.Registry, report io.Writer) (m *model.Model, err error) {
	whole, err := s.train(ctx, st, reg, report)
	if err != nil || s.Parallel.World == nil && !s.Quantize {
		return whole, err
	}
	defer func() { err = errors.Join(err, whole.Close()) }()
	cfg := whole.Config
	cfg.Frozen = true
	if m, err = model.NewParallel(st, reg, cfg, s.DType, s.Parallel); err != nil {
		return nil, err
	}
	for i, w := range whole.Parameters() {
		values, err := whole.Get(ctx, w)
		if err == nil {
			err = m.Set(ctx, m.Parameters()[i], values)
		}
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// train makes a small model of bytes and trains it on the text.
func (s Source) train(ctx context.Context, st *acl.Stream, reg *ops.Registry, report io.Writer) (*model.Model, error) {
	cfg := model.Config{
		ModelType: s.Type, VocabSize: Bytes, HiddenSize: 128, IntermediateSize: 256, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32,
		RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02, TieWordEmbeddings: true,
		Experts: 4, ExpertsPerToken: 2, MoEIntermediate: 128, SharedIntermediate: 128, NormTopK: true,
		PartialRotary: 0.25, LayerTypes: model.HybridLayers(2, 2), LinearTaps: 4,
		LinearKeyHeads: 2, LinearValueHeads: 4, LinearKeyDim: 32, LinearValueDim: 32,
		KVRank: 64, PlainHeadDim: 32, RotatedHeadDim: 16, ValueHeadDim: 32, RoutedScale: 1, Int8Cache: s.Int8Cache,
	}
	m, err := model.New(st, reg, cfg, s.DType)
	if err != nil {
		return nil, err
	}
	if err := s.learn(ctx, m, report); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// learn trains a new model on random windows of a text.
func (s Source) learn(ctx context.Context, m *model.Model, report io.Writer) (err error) {
	if len(s.Text) <= length {
		return fmt.Errorf("weights: a text of %d bytes; training needs more than %d", len(s.Text), length)
	}
	if err := m.Init(ctx, s.Seed); err != nil {
		return err
	}
	opt, err := model.NewOptimizer(m, model.AdamW{LR: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	for step := range s.Steps {
		b := model.Batch{Size: rows, Length: length}
		for range rows {
			at := rng.IntN(len(s.Text) - length)
			for i := range length {
				b.Inputs, b.Labels = append(b.Inputs, int32(s.Text[at+i])), append(b.Labels, int32(s.Text[at+i+1]))
			}
		}
		loss, err := m.Gradients(ctx, b)
		if err != nil {
			return err
		}
		if _, err := opt.Step(ctx); err != nil {
			return err
		}
		if n := step + 1; n%20 == 0 || n == s.Steps {
			fmt.Fprintf(report, "training: step %d/%d, loss %.3f\n", n, s.Steps, loss)
		}
	}
	return nil
}
