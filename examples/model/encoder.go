package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/ops/autograd"
)

// encoder holds the properties in which the types of encoders differ: BERT (arXiv:1810.04805) and those that followed it.
type encoder struct {
	// prefix stands before the names of the tensors of a model with a head.
	prefix string
	// padded positions count from the one behind pad_token_id, and are pad_token_id itself for such a token.
	padded bool
	// dense and score are the names of the two layers of a classifier's head.
	dense, score string
}

var (
	bert    = encoder{prefix: "bert.", dense: "pooler.dense", score: "classifier"}
	roberta = encoder{prefix: "roberta.", padded: true, dense: "classifier.dense", score: "classifier.out_proj"}
)

// Encoder reports whether every token sees those behind it, so that the model makes embeddings and scores of texts and generates none.
func (c Config) Encoder() bool { return c.family().encoder != nil }

// Generates reports whether the model continues texts: it is no encoder, and its head no classifier's.
func (c Config) Generates() bool { return !c.Encoder() && !c.Score }

// kind names a model that generates nothing, for errors.
func (c Config) kind() string {
	if c.Score {
		return "a classifier of model_type " + c.ModelType
	}
	return "an encoder of model_type " + c.ModelType
}

var errEncoder = fmt.Errorf("model: an encoder is read by Hidden and Scores alone: it is neither trained nor continues texts: %w", acl.ErrInvalidArgument)

// encoderKeys are the keys of the config.json of an encoder.
func (f family) encoderKeys() []verdict.Key {
	name := strings.TrimSuffix(f.class, "Model")
	padding := verdict.NoEffect("pad_token_id", "texts are packed, not padded")
	if f.encoder.padded {
		padding = verdict.Honour("pad_token_id", "positions count from the one behind this number; default 1")
	}
	keys := []verdict.Key{
		verdict.Honour("model_type", "chooses the family"),
		verdict.Honour("vocab_size", "rows of the embedding"),
		verdict.Honour("hidden_size", "features of a token"),
		verdict.Honour("intermediate_size", "feed-forward size"),
		verdict.Honour("num_hidden_layers", "layers"),
		verdict.Honour("num_attention_heads", "heads"),
		verdict.Honour("max_position_embeddings", "rows of the table of positions"),
		verdict.Honour("type_vocab_size", "rows of the table of token types; default 2"),
		verdict.Honour("layer_norm_eps", "added to the variance of a norm; default 1e-12"),
		verdict.Honour("hidden_act", "activation of feed-forward parts: gelu, which is the default, gelu_new or gelu_pytorch_tanh, which are the same"),
		verdict.Honour("initializer_range", "standard deviation of the weights of a new model; default 0.02"),
		padding,
		verdict.Refuse("architectures", "only the model without a head and a classifier with one label are read", `["`+f.class+`"]`, `["`+name+classifier+`"]`),
		verdict.Honour("quantization_config", "form of the weights, which are dequantised, or kept with -quant kept; see its tables"),
		verdict.Honour("sentence_transformers.activation_fn", rawScores),
		verdict.Honour("sbert_ce_default_activation_function", rawScores),
		verdict.NoEffect("sentence_transformers.version", "who wrote the file"),
		verdict.Refuse("position_embedding_type", "positions are added to the embedding", `"absolute"`),
		verdict.Refuse("is_decoder", "every token sees all", "false"),
		verdict.Refuse("is_encoder_decoder", "there is no decoder", "false"),
		verdict.Refuse("add_cross_attention", "there is no decoder", "false"),
		verdict.Refuse("cross_attention_hidden_size", "there is no decoder"),
		verdict.Refuse("pruned_heads", "every layer has all its heads", "{}"),
		verdict.Refuse("auto_map", "the folder brings Python code of its own, which may compute something else", "{}"),
		verdict.NoEffect("tie_word_embeddings", "no head predicts tokens"),
	}
	keys = append(keys, verdict.Each("hidden_dropout_prob attention_probs_dropout_prob classifier_dropout", verdict.NoEffect("", "dropout is for training, and encoders are not trained"))...)
	keys = append(keys, verdict.Each("directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type output_past", verdict.NoEffect("", "of older programs; transformers does not read them"))...)
	for _, k := range plainKeys {
		if !slices.ContainsFunc(keys, func(own verdict.Key) bool { return own.Name == k.Name }) {
			keys = append(keys, k)
		}
	}
	return keys
}

const rawScores = "of a classifier: torch.nn.modules.linear.Identity leaves scores as they are, torch.nn.modules.activation.Sigmoid, the default, makes them lie between 0 and 1; others are refused"

// parseEncoder reads the config.json of an encoder.
func parseEncoder(kind string, text []byte) (Config, error) {
	c := Config{InitializerRange: 0.02}
	var more struct {
		Epsilon    *float64 `json:"layer_norm_eps"`
		Types      *int     `json:"type_vocab_size"`
		Padding    *int     `json:"pad_token_id"`
		Scores     string   `json:"sbert_ce_default_activation_function"`
		CrossCoder struct {
			Scores string `json:"activation_fn"`
		} `json:"sentence_transformers"`
		labels
	}
	if _, err := ConfigTable(kind).Decode(text, &c, &more); err != nil {
		return c, err
	}
	or := func(value *int, usual int) int {
		if value == nil {
			return usual
		}
		return *value
	}
	c.TokenTypes, c.RMSNormEps = or(more.Types, 2), 1e-12
	if more.Epsilon != nil {
		c.RMSNormEps = *more.Epsilon
	}
	if c.family().encoder.padded {
		c.PadToken = or(more.Padding, 1)
		c.MaxPositions -= c.PadToken + 1
	}
	if c.KVHeads = c.Heads; c.Heads > 0 {
		c.HeadDim = c.HiddenSize / c.Heads
	}
	switch c.Activation {
	case "":
		c.Activation = "gelu"
	case "gelu_new":
		c.Activation = "gelu_pytorch_tanh"
	}
	if a, b := more.Scores, more.CrossCoder.Scores; a != "" && b != "" && a != b {
		return c, fmt.Errorf("config.json: the activation of scores is %.100q and %.100q; leave out sbert_ce_default_activation_function or sentence_transformers", a, b)
	}
	switch name := cmp.Or(more.CrossCoder.Scores, more.Scores); name {
	case "", "torch.nn.modules.activation.Sigmoid":
	case "torch.nn.modules.linear.Identity":
		c.RawScores = true
	default:
		return c, fmt.Errorf("config.json: the activation of scores is %.100q; use torch.nn.modules.linear.Identity or torch.nn.modules.activation.Sigmoid", name)
	}
	return c, c.parseLabels(more.labels)
}

// validateEncoder checks the fields of an encoder.
func (c Config) validateEncoder() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"intermediate_size", c.IntermediateSize}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"max_position_embeddings, less those up to pad_token_id,", c.MaxPositions}, {"type_vocab_size", c.TokenTypes},
	} {
		if f.value <= 0 {
			return fmt.Errorf("model: %s is %d; it must be positive", f.name, f.value)
		}
	}
	switch {
	case c.Layers > maxLayers:
		return fmt.Errorf("model: num_hidden_layers is %d; more than %d are not supported", c.Layers, maxLayers)
	case c.MaxPositions > mostPositions || c.TokenTypes > mostPositions:
		return fmt.Errorf("model: max_position_embeddings %d and type_vocab_size %d; more than %d are not supported", c.MaxPositions, c.TokenTypes, mostPositions)
	case c.HiddenSize%c.Heads != 0 || c.HeadDim != c.HiddenSize/c.Heads || c.KVHeads != c.Heads:
		return fmt.Errorf("model: %d attention heads do not divide hidden_size %d", c.Heads, c.HiddenSize)
	case c.Activation != "gelu" && c.Activation != "gelu_pytorch_tanh":
		return fmt.Errorf("model: hidden_act is %.80q; feed-forward parts of encoders have gelu, gelu_new or gelu_pytorch_tanh", c.Activation)
	case c.PadToken < 0 || c.PadToken >= c.VocabSize:
		return fmt.Errorf("model: pad_token_id is %d; the vocabulary has %d tokens", c.PadToken, c.VocabSize)
	case !(c.RMSNormEps > 0):
		return fmt.Errorf("model: layer_norm_eps %g must be positive", c.RMSNormEps)
	}
	return nil
}

// encoderParameters returns the number of weights of an encoder.
func (c Config) encoderParameters() int {
	h := c.HiddenSize
	n := (c.VocabSize+c.positionRows()+c.TokenTypes)*h + 2*h
	n += c.Layers * (4*h*(h+1) + 2*h*c.IntermediateSize + c.IntermediateSize + h + 4*h)
	if c.Score {
		n += h*(h+1) + h + 1
	}
	return n
}

// positionRows is the number of rows of the table of positions.
func (c Config) positionRows() int {
	if c.family().encoder.padded {
		return c.MaxPositions + c.PadToken + 1
	}
	return c.MaxPositions
}

// encoderTables holds the tables of an encoder beside the table of its tokens, and the layer in front of a classifier's head.
type encoderTables struct {
	positions, types *Parameter
	dense            linear
}

// buildEncoder describes the layers of an encoder. Norms stand behind what they normalise, so that each layer begins with the one that ends the layer before.
func (m *Model) buildEncoder() {
	cfg, ps := m.Config, &m.params
	h := int64(cfg.HiddenSize)
	ps.begin()
	m.embedding = ps.addSplit("embeddings.word_embeddings.weight", 0, int64(cfg.VocabSize), h)
	m.tables.positions = ps.add("embeddings.position_embeddings.weight", int64(cfg.positionRows()), h)
	m.tables.types = ps.add("embeddings.token_type_embeddings.weight", int64(cfg.TokenTypes), h)
	before := "embeddings.LayerNorm"
	for i := range cfg.Layers {
		ps.begin()
		prefix := fmt.Sprintf("encoder.layer.%d.", i)
		l := layer{number: i, post: true, mixerNorm: newLayerNorm(ps, cfg, before), mixer: newEncoderAttention(ps, cfg, prefix+"attention.")}
		l.mlpNorm, l.feedForward = newLayerNorm(ps, cfg, prefix+"attention.output.LayerNorm"), newPerceptron(ps, cfg, prefix)
		m.layers = append(m.layers, l)
		before = prefix + "output.LayerNorm"
	}
	m.ends = []int{len(m.layers)}
	ps.begin()
	m.finalNorm, m.ended = newLayerNorm(ps, cfg, before), true
	if cfg.Score {
		e := cfg.family().encoder
		m.tables.dense = linear{ps.add(e.dense+".weight", h, h), ps.addVector(e.dense+".bias", h, zero)}
		m.head = linear{ps.add(e.score+".weight", 1, h), ps.addVector(e.score+".bias", 1, zero)}
	}
}

func newLayerNorm(ps *parameters, c Config, name string) norm {
	h := int64(c.HiddenSize)
	return norm{scale: ps.addVector(name+".weight", h, one), shift: ps.addVector(name+".bias", h, zero), epsilon: c.RMSNormEps}
}

func newEncoderAttention(ps *parameters, c Config, prefix string) attention {
	h, heads := int64(c.HiddenSize), int64(c.Heads)/max(ps.tensor.Of, 1)
	a := attention{heads: heads, kv: heads, dim: int64(c.HeadDim), unrotated: true}
	project := func(name string) linear {
		l := ps.linear(ps.addSplit(prefix+name+".weight", 0, h, h))
		l.bias = ps.addHeads(prefix+name+".bias", h, zero)
		return l
	}
	a.q, a.k, a.v = project("self.query"), project("self.key"), project("self.value")
	a.o = ps.linear(ps.addSplit(prefix+"output.dense.weight", 1, h, h))
	a.outBias = ps.addVector(prefix+"output.dense.bias", h, zero)
	return a
}

// perceptron is a feed-forward part of two layers without a gate.
type perceptron struct {
	up, down linear
	bias     *Parameter // of the sum over the ranks that divide down
	tanh     bool       // of the activation, see Tape.Gelu
}

func newPerceptron(ps *parameters, c Config, prefix string) perceptron {
	h, inner := int64(c.HiddenSize), int64(c.IntermediateSize)
	f := perceptron{tanh: c.Activation == "gelu_pytorch_tanh"}
	f.up = ps.linear(ps.addSplit(prefix+"intermediate.dense.weight", 0, inner, h))
	f.up.bias = ps.addHeads(prefix+"intermediate.dense.bias", inner, zero)
	f.down = ps.linear(ps.addSplit(prefix+"output.dense.weight", 1, h, inner))
	f.bias = ps.addVector(prefix+"output.dense.bias", h, zero)
	return f
}

func (f perceptron) forward(p *pass, x *autograd.Var) (*autograd.Var, *autograd.Routing) {
	y := p.leave(f.down.forward(p, p.Gelu(f.up.forward(p, p.enter(x)), f.tanh)))
	return p.AddBias(y, f.bias.Var), nil
}

// encoderInputs adds what an encoder reads of a batch beside its tokens.
func (m *Model) encoderInputs(p *pass, in *inputs, b Batch) error {
	positions, err := m.Config.positionsOf(b)
	if err != nil {
		return err
	}
	types := b.Types
	if types == nil {
		types = make([]int32, len(b.Inputs))
	}
	for i, t := range types {
		if t < 0 || int(t) >= m.Config.TokenTypes {
			return fmt.Errorf("model: token %d has type %d; type_vocab_size is %d: %w", i, t, m.Config.TokenTypes, acl.ErrInvalidArgument)
		}
	}
	in.positions, in.types = p.tokens(positions), p.tokens(types)
	return p.Err()
}

// positionsOf returns the rows of an encoder's table of positions for the tokens of a batch.
func (c Config) positionsOf(b Batch) (rows []int32, err error) {
	if b.From != 0 {
		return nil, fmt.Errorf("model: a batch of an encoder from position %d; its texts are whole: %w", b.From, acl.ErrInvalidArgument)
	}
	rows = make([]int32, len(b.Inputs))
	for sample := range b.samples() {
		from, to := b.text(sample)
		if to-from > c.MaxPositions {
			return nil, fmt.Errorf("model: a text of %d tokens; the encoder has positions for %d: %w", to-from, c.MaxPositions, acl.ErrInvalidArgument)
		}
		next := int32(0)
		if c.family().encoder.padded {
			next = int32(c.PadToken) + 1
		}
		for i := from; i < to; i++ {
			if c.family().encoder.padded && b.Inputs[i] == int32(c.PadToken) {
				rows[i] = int32(c.PadToken)
				continue
			}
			rows[i] = next
			next++
		}
	}
	return rows, nil
}

// text returns where the tokens of a sample begin and end, without its padding.
func (b Batch) text(i int) (from, to int) {
	if from, to = b.sample(i); b.Lengths != nil {
		to = from + int(b.Lengths[i])
	}
	return from, to
}

// embedEncoder adds rows of the tables of positions and of types to the rows of the tokens.
func (m *Model) embedEncoder(p *pass, in *inputs, x *autograd.Var) *autograd.Var {
	x = p.Add(x, p.Embedding(m.tables.types.Var, p.Input(in.types)))
	return p.Add(x, p.Embedding(m.tables.positions.Var, p.Input(in.positions)))
}

// ScoreAnswers makes a language model that was loaded with Config.NewScore a classifier: a text's score is the logit of the token yes as the next one, less that of the token
// no, so that its sigmoid is the probability of yes among both. folder is that of the model, whose head has the two rows.
func (m *Model) ScoreAnswers(ctx context.Context, folder string, no, yes int32) (err error) {
	if err := m.together("ScoreAnswers"); err != nil {
		return err
	}
	c := m.Config
	if !c.Score || !c.NewScore || c.Encoder() || min(no, yes) < 0 || int(max(no, yes)) >= c.VocabSize || no == yes {
		return fmt.Errorf("model: ScoreAnswers with the tokens %d and %d; it needs a language model with Config.Score and NewScore, and two tokens of its %d: %w", no, yes, c.VocabSize, acl.ErrInvalidArgument)
	}
	f, err := safetensors.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	view, err := c.Quantization.View(f)
	if err != nil {
		return err
	}
	name, h := "lm_head.weight", int64(c.HiddenSize)
	if c.TieWordEmbeddings {
		name = "model.embed_tokens.weight"
	}
	head, err := c.family().hubPieces(view, &Parameter{Name: name, shape: []int64{int64(c.VocabSize), h}})
	if err != nil {
		return err
	}
	row, err := head.values(int64(yes)*h, int64(yes+1)*h)
	if err != nil {
		return err
	}
	other, err := head.values(int64(no)*h, int64(no+1)*h)
	if err != nil {
		return err
	}
	for i := range row {
		row[i] -= other[i]
	}
	return m.Set(ctx, m.head.weight, row)
}

// Scores runs the forward pass of a classifier (Config.Score) and returns the score of each text: a row of the batch, or a packed sequence. It is
// that of the first token of an encoder, and of the last of a decoder, as in transformers, before any activation. The error matches
// acl.ErrInvalidArgument if a text is empty, or longer than an encoder's positions.
func (m *Model) Scores(ctx context.Context, b Batch) (scores []float32, err error) {
	if err := m.together("Scores"); err != nil {
		return nil, err
	}
	if !m.Config.Score || b.Adapters != nil || b.Numbers != nil {
		return nil, fmt.Errorf("model: Scores is for a classifier (Config.Score), and for batches without Adapters and Numbers: %w", acl.ErrInvalidArgument)
	}
	if err := b.validate(m.Config.VocabSize); err != nil {
		return nil, err
	}
	for i := range b.samples() {
		if from, to := b.text(i); from == to {
			return nil, fmt.Errorf("model: text %d of the batch is empty, and has no score: %w", i, acl.ErrInvalidArgument)
		}
	}
	all, err := m.read(ctx, b, false)
	if err != nil {
		return nil, err
	}
	for i := range b.samples() {
		from, to := b.text(i)
		if m.Config.Encoder() {
			scores = append(scores, all[from])
		} else {
			scores = append(scores, all[to-1])
		}
	}
	return scores, nil
}
