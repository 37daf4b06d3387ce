package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/ops/autograd"
)

// predictor is the layer behind the last one that predicts one token further (multi-token prediction, arXiv:2412.19437 section 2.2), from the state
// that the head reads after a token and the embedding of the token after it. Embedding and head are the model's.
type predictor struct {
	embedded, state norm
	join            linear // of both, [hidden, 2·hidden]
	layer           layer
	norm            norm
}

// predictorNames are the names of a predictor's weights.
type predictorNames struct{ embedded, state, join, layer, norm string }

// predictorNames returns the names in folders of DeepSeek and GLM, which number the layer as the one behind the last, and in those of Qwen.
func (c Config) predictorNames() predictorNames {
	if c.family().hybrid {
		return predictorNames{"mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.fc.weight", "mtp.layers.0.", "mtp.norm.weight"}
	}
	prefix := layerPrefix(c.Layers)
	return predictorNames{prefix + "enorm.weight", prefix + "hnorm.weight", prefix + "eh_proj.weight", prefix, prefix + "shared_head.norm.weight"}
}

func newPredictor(ps *parameters, c Config) *predictor {
	h, names := int64(c.HiddenSize), c.predictorNames()
	return &predictor{
		embedded: newNorm(ps, c, names.embedded, h), state: newNorm(ps, c, names.state, h),
		join:  ps.linear(ps.add(names.join, h, 2*h)),
		layer: newLayer(ps, c, c.Layers, names.layer), norm: newNorm(ps, c, names.norm, h),
	}
}

// HasPredictor reports whether a folder has the weights of a layer that predicts one token further, and the model's family has such layers.
// Config.Predict then reads the first one. A layer with an embedding of its own is none.
func (c Config) HasPredictor(path string) (bool, error) {
	if !c.canPredict() {
		return false, nil
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return false, err
	}
	names := f.Names()
	return slices.Contains(names, c.predictorNames().join) && !slices.Contains(names, "mtp.embed_tokens.weight"), f.Close()
}

// canPredict reports whether the model may have layers that predict further tokens. Not all configurations of Qwen name their number.
func (c Config) canPredict() bool {
	return c.family().hybrid || c.family().deepseek && c.NextLayers > 0
}

// validatePredictor refuses a layer that the model cannot have.
func (c Config) validatePredictor() error {
	switch {
	case !c.Predict:
		return nil
	case !c.canPredict():
		return fmt.Errorf("model: Predict needs a layer that predicts a further token; num_nextn_predict_layers is %d, and the type %s", c.NextLayers, c.ModelType)
	case !c.Frozen:
		return errors.New("model: Predict needs Config.Frozen; the layer that predicts a further token is not trained")
	}
	return nil
}

// kept are the states that the head reads after the tokens of the last pass, for Predict.
type kept struct {
	rows   *aclnn.Tensor // [tokens, hidden]
	first  []int         // row of the first token of each piece
	tokens []int         // of each piece
	memory aclnn.Scope
}

// keep makes a pass store its states.
func (g *Pages) keep(in *inputs, pieces []Piece) error {
	if g.m.predictor == nil {
		return nil
	}
	err := g.kept.memory.Close()
	g.kept = kept{memory: aclnn.Scope{Stream: g.m.st}}
	in.kept = g.kept.memory.Tensor(g.m.dt, in.length, int64(g.m.Config.HiddenSize))
	g.kept.take(in.kept, in.first, pieces)
	return errors.Join(err, g.kept.memory.Err())
}

// take says where the states of pieces are.
func (k *kept) take(rows *aclnn.Tensor, first []int, pieces []Piece) {
	k.rows, k.first, k.tokens = rows, first, nil
	for _, x := range pieces {
		k.tokens = append(k.tokens, len(x.Tokens))
	}
}

// Predict reads, after the Advance of some pieces, the tokens that followed theirs: next has for each piece those after its first tokens, one after another, so
// not more than it had; none leaves out the piece. It returns the logits of the token after the last of each, [pieces that have some, vocabulary], from a layer made for that (Config.Predict), which
// keeps keys and values of its own in the blocks of the pieces. The logits are a draft: those of the next Advance decide. Adapters of pieces do not reach this layer. With tensor
// parallelism all ranks make the same calls, and the first rank gets the logits.
func (m *Model) Predict(ctx context.Context, g *Pages, pieces []Piece, next [][]int32) (logits []float32, err error) {
	if m.predictor == nil || g.m != m || g.layers == nil {
		return nil, errors.New("model: Predict needs a model with Config.Predict, and its own pages")
	}
	var some []Piece
	var from []int // rows of the kept states
	for i, tokens := range next {
		if len(next) != len(pieces) || len(g.kept.tokens) != len(pieces) || len(tokens) > g.kept.tokens[i] {
			return nil, fmt.Errorf("model: Predict of %d pieces with tokens for %d; the last Advance had %d, and each is followed by as many tokens as it has or fewer", len(pieces), len(next), len(g.kept.tokens))
		}
		if len(tokens) > 0 {
			x := pieces[i]
			x.Tokens, x.Logits, x.Adapter = tokens, 1, 0
			some, from = append(some, x), append(from, g.kept.first[i])
		}
	}
	if len(some) == 0 {
		return nil, nil
	}
	if err := g.check(some); err != nil {
		return nil, err
	}
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() { err = errors.Join(err, p.Close()) }()
	in, err := g.inputs(p, some)
	if err != nil {
		return nil, err
	}
	rows := make([]int32, in.length)
	for i, x := range some {
		for j := range x.Tokens {
			rows[in.first[i]+j] = int32(from[i] + j)
		}
	}
	out := m.whole(p, m.predictor.forward(m, p, in, p.tokens(rows)).Value)
	if m.tp.Rank() > 0 {
		p.do(func() error { return m.st.Synchronize(ctx) })
		return nil, p.Err()
	}
	return p.read(out), p.Err()
}

func (r *predictor) forward(m *Model, p *pass, in *inputs, rows *aclnn.Tensor) *autograd.Var {
	var state *aclnn.Tensor
	p.queue(func(s *aclnn.Scope) { state = selectRows(s, in.pages.kept.rows, rows) })
	if p.Err() != nil {
		return &autograd.Var{}
	}
	x := r.join.forward(p, p.Join(1, r.embedded.forward(p, m.embed(p, in)), r.state.forward(p, p.Input(state))))
	x, y, _ := r.layer.forward(p, x, nil, in.layer(m.Config.Layers))
	_, normed := r.norm.after(p, in.newest(p, x), in.newest(p, y))
	return m.head.forward(p, p.enter(normed))
}
