package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// encoding is a folder of testdata/golden/encoders: texts as tokens, and the embeddings or scores that transformers gives them in float64.
type encoding struct {
	folder     string
	config     model.Config
	IDs, Types [][]int32
	Embeddings [][]float64
	Scores     []float64
}

func openEncoding(t *testing.T, name string) (e encoding) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	e.folder = filepath.Join(dir, "encoders", name)
	text, err := os.ReadFile(filepath.Join(e.folder, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	e.config, err = model.ReadConfig(filepath.Join(e.folder, "config.json"))
	require.NoError(t, err)
	e.config.Frozen = true
	return e
}

func (e encoding) load(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
	m, err := model.NewParallel(st, reg, e.config, aclnn.Float32, par)
	if err != nil {
		return nil, err
	}
	return m, m.Load(ctx, e.folder)
}

// batch makes a batch of some texts: padded rows with so many tokens more than the longest text, or one packed row.
func (e encoding) batch(padding int, packed bool, texts ...int) (b model.Batch) {
	if packed {
		b.CuSeqLens = []int64{0}
	}
	for _, i := range texts {
		b.Length = max(b.Length, len(e.IDs[i])+padding)
	}
	for _, i := range texts {
		types := make([]int32, len(e.IDs[i]))
		if e.Types != nil {
			types = e.Types[i]
		}
		b.Inputs, b.Types = append(b.Inputs, e.IDs[i]...), append(b.Types, types...)
		if packed {
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.Inputs)))
			continue
		}
		b.Lengths = append(b.Lengths, int64(len(e.IDs[i])))
		for range b.Length - len(e.IDs[i]) {
			b.Inputs, b.Types = append(b.Inputs, 7), append(b.Types, 0)
		}
	}
	if b.Size = len(texts); packed {
		b.Size, b.Length = 1, len(b.Inputs)
	}
	if e.Types == nil {
		b.Types = nil
	}
	b.Labels = make([]int32, len(b.Inputs))
	return b
}

// TestEncoders compares embeddings with those of transformers in float64. Padding, packing and the other texts of a batch change nothing.
func TestEncoders(t *testing.T) {
	for _, name := range []string{"bert", "bert_mean", "xlm", "roberta"} {
		t.Run(name, func(t *testing.T) {
			e := openEncoding(t, name)
			st, reg := setUp(t)
			m, err := e.load(t.Context(), st, reg, model.Parallel{})
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			parameters := 0
			for _, p := range m.Parameters() {
				parameters += int(p.Value.Len())
			}
			require.Equal(t, e.config.Parameters(), parameters)
			pool, err := hub.ReadPooling(e.folder)
			require.NoError(t, err)
			h := e.config.HiddenSize
			var states [][]float32
			for i, want := range e.Embeddings {
				one, err := m.Hidden(t.Context(), e.batch(0, false, i))
				require.NoError(t, err)
				require.Len(t, one, len(e.IDs[i])*h)
				states = append(states, one)
				got, length := make([]float64, h), 0.0
				for at, v := range one {
					if pool == hub.Mean || at < h {
						got[at%h] += float64(v)
					}
				}
				for _, v := range got {
					length += v * v
				}
				for k := range got {
					require.InDelta(t, want[k], got[k]/math.Sqrt(length), 1e-6, "text %d", i)
				}
			}
			require.Len(t, e.IDs[len(e.IDs)-1], e.config.MaxPositions, "the last text fills the positions")
			for _, texts := range [][]int{{0, 1, 2, 3, 4, 5}, {2, 0}, {2}} {
				for _, packed := range []bool{false, true} {
					b := e.batch(3, packed, texts...)
					all, err := m.Hidden(t.Context(), b)
					require.NoError(t, err)
					from := 0
					for row, i := range texts {
						if from = int(row) * b.Length; packed {
							from = int(b.CuSeqLens[row])
						}
						require.InDeltaSlice(t, states[i], all[from*h:][:len(states[i])], 1e-6, "text %d of %v, packed %v", i, texts, packed)
					}
				}
			}
		})
	}
}

// TestRerankers compares scores of pairs with those of transformers in float64.
func TestRerankers(t *testing.T) {
	for _, name := range []string{"bert_rerank", "xlm_rerank", "qwen3_rerank"} {
		t.Run(name, func(t *testing.T) {
			e := openEncoding(t, name)
			require.True(t, e.config.Score && !e.config.Generates())
			st, reg := setUp(t)
			m, err := e.load(t.Context(), st, reg, model.Parallel{})
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			for i, want := range e.Scores {
				one, err := m.Scores(t.Context(), e.batch(0, false, i))
				require.NoError(t, err)
				require.Len(t, one, 1)
				require.InDelta(t, want, one[0], 2e-6)
			}
			for _, packed := range []bool{false, true} {
				all, err := m.Scores(t.Context(), e.batch(2, packed, 3, 0, 2, 1))
				require.NoError(t, err)
				for row, i := range []int{3, 0, 2, 1} {
					require.InDelta(t, e.Scores[i], all[row], 2e-6)
				}
			}
			_, err = m.Hidden(t.Context(), e.batch(0, false, 0))
			require.ErrorIs(t, err, acl.ErrInvalidArgument)
			empty := e.batch(1, false, 0, 1)
			empty.Lengths[1] = 0
			_, err = m.Scores(t.Context(), empty)
			require.ErrorContains(t, err, "text 1 of the batch is empty")
		})
	}
}

// TestParallelEncoders divides encoders over two ranks.
func TestParallelEncoders(t *testing.T) {
	for _, name := range []string{"bert", "xlm_rerank"} {
		t.Run(name, func(t *testing.T) {
			e := openEncoding(t, name)
			onRanks(t, 2, model.Layout{Layout: world.Layout{TP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				m, err := e.load(ctx, st, reg, ranks.Parallel)
				if m != nil {
					defer closing(&err, m)
				}
				if err != nil {
					return err
				}
				if e.config.Score {
					scores, err := m.Scores(ctx, e.batch(0, true, 0, 1, 2, 3))
					if err == nil {
						err = within(scores, floats(e.Scores), 2e-6)
					}
					return err
				}
				states, err := m.Hidden(ctx, e.batch(0, false, 5))
				if err != nil {
					return err
				}
				first, length := states[:e.config.HiddenSize], 0.0
				for _, v := range first {
					length += float64(v) * float64(v)
				}
				for i := range first {
					first[i] /= float32(math.Sqrt(length))
				}
				return within(first, floats(e.Embeddings[5]), 1e-6)
			})
		})
	}
}

func floats(values []float64) (out []float32) {
	for _, v := range values {
		out = append(out, float32(v))
	}
	return out
}

// TestEncoderRefusals: what an encoder does not do is refused before anything is launched.
func TestEncoderRefusals(t *testing.T) {
	e := openEncoding(t, "xlm")
	st, reg := setUp(t)
	m, err := e.load(t.Context(), st, reg, model.Parallel{})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	full := e.batch(0, false, 5)
	for text, f := range map[string]func() error{
		"a text of 65 tokens; the encoder has positions for 64": func() error {
			b := full
			b.Lengths, b.Length = nil, full.Length+1
			b.Inputs, b.Labels = append([]int32{5}, full.Inputs...), make([]int32, b.Length)
			_, err := m.Hidden(t.Context(), b)
			return err
		},
		"token 1 has type 1; type_vocab_size is 1": func() error {
			b := full
			b.Types = make([]int32, len(b.Inputs))
			b.Types[1] = 1
			_, err := m.Hidden(t.Context(), b)
			return err
		},
		"from position 3": func() error {
			b := e.batch(0, false, 0)
			b.From = 3
			_, err := m.Hidden(t.Context(), b)
			return err
		},
		"neither trained": func() error { _, err := m.Loss(t.Context(), full); return err },
		"read by Hidden":  func() error { _, err := m.NewPages(model.PageSizes{Blocks: 2, Block: 16, States: 1}); return err },
		"nor continues":   func() error { _, err := m.NewCache(1, 8); return err },
		"Scores alone":    func() error { _, err := m.Logits(t.Context(), full); return err },
		"Scores is for a": func() error { _, err := m.Scores(t.Context(), full); return err },
		"an encoder is":   func() error { return m.Export(t.Context(), t.TempDir(), "", aclnn.Float32, nil) },
	} {
		err := f()
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, acl.ErrInvalidArgument, text)
	}
	cfg := e.config
	cfg.Frozen = false
	_, err = model.New(st, reg, cfg, aclnn.Float32)
	require.ErrorContains(t, err, "needs Config.Frozen")
	for name, want := range map[string]string{"xlm": "an encoder of model_type xlm-roberta", "bert_rerank": "a classifier of model_type bert", "qwen3_rerank": "a classifier of model_type qwen3"} {
		cfg := openEncoding(t, name).config
		cfg.Int8Cache = true
		_, err = model.New(st, reg, cfg, aclnn.BFloat16)
		require.ErrorContains(t, err, "Int8Cache with "+want, name)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
	}
	decoder := openEncoding(t, "qwen3_rerank")
	decoder.Types = [][]int32{make([]int32, len(decoder.IDs[0]))}
	d, err := decoder.load(t.Context(), st, reg, model.Parallel{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	_, err = d.Scores(t.Context(), decoder.batch(0, false, 0))
	require.ErrorContains(t, err, "a batch with Types")
}

// TestScoreActivations: a folder may name the activation of its scores under an old and a new key, and then the same one.
func TestScoreActivations(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(openEncoding(t, "bert_rerank").folder, "config.json"))
	require.NoError(t, err)
	const sigmoid, identity = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
	parse := func(older, newer string) (model.Config, error) {
		var all map[string]any
		require.NoError(t, json.Unmarshal(text, &all))
		delete(all, "sbert_ce_default_activation_function")
		delete(all, "sentence_transformers")
		if older != "" {
			all["sbert_ce_default_activation_function"] = older
		}
		if newer != "" {
			all["sentence_transformers"] = map[string]any{"activation_fn": newer}
		}
		changed, err := json.Marshal(all)
		require.NoError(t, err)
		return model.ParseConfig(changed)
	}
	for _, c := range []struct {
		older, newer string
		raw          bool
	}{{"", "", false}, {sigmoid, "", false}, {"", sigmoid, false}, {identity, "", true}, {"", identity, true}, {sigmoid, sigmoid, false}, {identity, identity, true}} {
		cfg, err := parse(c.older, c.newer)
		require.NoError(t, err, "%v", c)
		require.Equal(t, c.raw, cfg.RawScores, "%v", c)
	}
	for _, c := range [][2]string{{sigmoid, identity}, {identity, sigmoid}, {identity, "torch.nn.modules.activation.Tanh"}} {
		_, err := parse(c[0], c[1])
		require.ErrorContains(t, err, c[0], "%v", c)
		require.ErrorContains(t, err, c[1], "%v", c)
		require.ErrorContains(t, err, "leave out", "%v", c)
	}
	_, err = parse("", "torch.nn.modules.activation.Tanh")
	require.ErrorContains(t, err, "torch.nn.modules.activation.Tanh")
}

// TestScoreAnswers compares the score of two tokens with the difference of their logits, and refuses models and tokens that have none.
func TestScoreAnswers(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := filepath.Join(dir, "hub", "qwen3_moe")
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	cfg.Frozen = true
	st, reg := setUp(t)
	open := func(cfg model.Config) *model.Model {
		m, err := model.New(st, reg, cfg, aclnn.Float32)
		require.NoError(t, err)
		require.NoError(t, m.Load(t.Context(), folder))
		return m
	}
	plain := open(cfg)
	defer func() { require.NoError(t, plain.Close()) }()
	judge := cfg
	judge.Score, judge.NewScore = true, true
	m := open(judge)
	defer func() { require.NoError(t, m.Close()) }()
	for _, c := range []struct {
		m       *model.Model
		no, yes int32
	}{{plain, 1, 2}, {m, 2, 2}, {m, -1, 2}, {m, 1, int32(cfg.VocabSize)}} {
		err := c.m.ScoreAnswers(t.Context(), folder, c.no, c.yes)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
		require.ErrorContains(t, err, "ScoreAnswers with the tokens")
	}
	const no, yes = 3, 5
	require.NoError(t, m.ScoreAnswers(t.Context(), folder, no, yes))
	batch := model.Batch{Size: 1, Length: 4, Inputs: []int32{1, 4, 2, 6}, Labels: make([]int32, 4)}
	scores, err := m.Scores(t.Context(), batch)
	require.NoError(t, err)
	logits, err := plain.Logits(t.Context(), batch)
	require.NoError(t, err)
	last := logits[3*cfg.VocabSize:]
	require.InDelta(t, last[yes]-last[no], scores[0], 1e-5)
}

// TestScoreAnswersOfRanks: ranks that read texts of their own have no scores together, and the call says so.
func TestScoreAnswersOfRanks(t *testing.T) {
	e := openEncoding(t, "qwen3_rerank")
	onRanks(t, 2, model.Layout{Layout: world.Layout{TP: 1}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
		m, err := e.load(ctx, st, reg, ranks.Parallel)
		if m != nil {
			defer closing(&err, m)
		}
		if err != nil {
			return err
		}
		refused := m.ScoreAnswers(ctx, e.folder, 1, 2)
		if refused == nil || !strings.Contains(refused.Error(), "ScoreAnswers needs the 2 ranks of the model to be those of Tensor, without Sequence") {
			return fmt.Errorf("ScoreAnswers of data-parallel ranks: %v", refused)
		}
		return nil
	})
}
