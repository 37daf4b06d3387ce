package qwen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// Model is a Qwen3, Qwen3-Next or Qwen3.5 model on one stream. It serves one goroutine at a time.
type Model struct {
	Config Config

	st     *acl.Stream
	reg    *ops.Registry
	dt     aclnn.DType
	params parameters
	rope   ropeTable

	embedding *Parameter
	layers    []layer
	finalNorm norm
	head      linear // the embedding itself when tied
}

// New makes a model whose weights have no values yet: call Init or Load. dt is the dtype of
// weights and activations, Float32 or BFloat16; with BFloat16 the optimiser keeps float32
// weights beside.
func New(st *acl.Stream, reg *ops.Registry, cfg Config, dt aclnn.DType) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if dt != aclnn.Float32 && dt != aclnn.BFloat16 {
		return nil, fmt.Errorf("qwen: dtype %v; use float32 or bfloat16", dt)
	}
	m := &Model{Config: cfg, st: st, reg: reg, dt: dt, params: parameters{st: st, dt: dt}}
	ps := &m.params
	h, v := int64(cfg.HiddenSize), int64(cfg.VocabSize)
	m.embedding = ps.add("model.embed_tokens.weight", v, h)
	for i := range cfg.Layers {
		m.layers = append(m.layers, newLayer(ps, cfg, i))
	}
	m.finalNorm = newNorm(ps, cfg, "model.norm.weight", h)
	m.head = linear{m.embedding}
	if !cfg.TieWordEmbeddings {
		m.head = linear{ps.add("lm_head.weight", v, h)}
	}
	if ps.err != nil {
		return nil, errors.Join(ps.err, m.Close())
	}
	return m, nil
}

// Close frees the weights; activations are gone already.
func (m *Model) Close() error { return errors.Join(m.params.close(), m.rope.close()) }

// Parameters lists the weights in the order of the checkpoint.
func (m *Model) Parameters() []*Parameter { return m.params.all }

// Init gives the weights random values, the same for the same seed.
func (m *Model) Init(ctx context.Context, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, p := range m.params.all {
		if err := m.Set(ctx, p, p.initial(rng, m.Config.InitializerRange)); err != nil {
			return err
		}
	}
	return nil
}

// Set gives a weight its values, in row-major order.
func (m *Model) Set(ctx context.Context, p *Parameter, values []float32) error {
	if err := aclnn.CopyToDevice(ctx, m.st, p.Master, values); err != nil {
		return fmt.Errorf("qwen: %v: %w", p, err)
	}
	if p.Master == p.Value {
		return nil
	}
	return aclnn.Cast(m.st, aclnn.CastParams{Self: p.Master, Dtype: p.Value.DType(), Out: p.Value})
}

// Batch is a step's data: token ids and labels, [size, length] in row-major order. The
// label at a position is what follows it; a negative label is ignored.
type Batch struct {
	Size, Length int
	Inputs       []int32
	Labels       []int32
	// Lengths are the valid tokens of each row, which stand first; nil when all are valid.
	Lengths []int64
}

func (b Batch) validate(vocab int) error {
	n := b.Size * b.Length
	if n == 0 || len(b.Inputs) != n || len(b.Labels) != n || b.Lengths != nil && len(b.Lengths) != b.Size {
		return fmt.Errorf("qwen: a batch of %d x %d has %d inputs, %d labels and %d lengths", b.Size, b.Length, len(b.Inputs), len(b.Labels), len(b.Lengths))
	}
	for row, l := range b.Lengths {
		if l < 0 || l > int64(b.Length) {
			return fmt.Errorf("qwen: row %d has %d valid tokens of %d", row, l, b.Length)
		}
	}
	for i := range n {
		if id := b.Inputs[i]; id < 0 || int(id) >= vocab {
			return fmt.Errorf("qwen: input %d is %d; the vocabulary has %d tokens", i, id, vocab)
		}
		if label := b.Labels[i]; int(label) >= vocab {
			return fmt.Errorf("qwen: label %d is %d; the vocabulary has %d tokens", i, label, vocab)
		}
	}
	return nil
}

const ignored = -100

// inputs is what every layer sees of a batch.
type inputs struct {
	batch, length int64
	ids, labels   *aclnn.Tensor
	mask          mask.Mask
	valid         *aclnn.Tensor // [tokens, 1], 1 for tokens and 0 for padding; nil without padding
	rope          rotation
	scale         float64
}

func (m *Model) inputs(p *pass, b Batch) (*inputs, error) {
	if err := b.validate(m.Config.VocabSize); err != nil {
		return nil, err
	}
	in := &inputs{batch: int64(b.Size), length: int64(b.Length), scale: 1 / math.Sqrt(float64(m.Config.HeadDim)), mask: mask.Causal{}}
	if b.Lengths != nil {
		in.mask = mask.Padding{Lengths: b.Lengths, Causal: true}
	}
	labels := make([]int32, len(b.Labels))
	for i, l := range b.Labels {
		labels[i] = max(l, ignored)
		if l < 0 {
			labels[i] = ignored
		}
	}
	in.ids, in.labels = p.tensor(aclnn.Int32, in.batch*in.length), p.tensor(aclnn.Int32, in.batch*in.length)
	if p.err != nil {
		return nil, p.err
	}
	if err := aclnn.CopyToDevice(p.ctx, p.st, in.ids, b.Inputs); err != nil {
		return nil, err
	}
	if err := aclnn.CopyToDevice(p.ctx, p.st, in.labels, labels); err != nil {
		return nil, err
	}
	var err error
	if b.Lengths != nil {
		if in.valid, err = p.valid(b); err != nil {
			return nil, err
		}
	}
	in.rope, err = m.rope.get(p.ctx, m.st, m.Config, m.dt, in.length)
	return in, err
}

// state is what a forward pass leaves for the backward pass.
type state struct {
	embedded *aclnn.Tensor
	layers   []layerState
	final    normState
	normed   *aclnn.Tensor
	logits   *aclnn.Tensor
}

func (m *Model) forward(p *pass, in *inputs) *state {
	s := &state{}
	s.embedded = p.tensor(m.dt, in.batch*in.length, int64(m.Config.HiddenSize))
	run(p, m.reg.Embedding, &ops.EmbeddingArgs{Weight: m.embedding.Value, IDs: in.ids, Out: s.embedded})
	x := s.embedded
	for _, l := range m.layers {
		if p.err != nil {
			break
		}
		var ls layerState
		x, ls = l.forward(p, x, in)
		s.layers = append(s.layers, ls)
		if e, ok := ls.fed.(interface{ routing() routed }); ok {
			p.balance.layers = append(p.balance.layers, e.routing())
		}
	}
	s.normed, s.final = m.finalNorm.forward(p, x)
	s.logits = m.head.forward(p, s.normed)
	return s
}

// backward writes the gradient of every weight, given that of the logits.
func (m *Model) backward(p *pass, in *inputs, s *state, dLogits *aclnn.Tensor) {
	dx := m.finalNorm.backward(p, s.final, m.head.backward(p, s.normed, dLogits))
	for i := len(m.layers) - 1; i >= 0; i-- {
		dx = m.layers[i].backward(p, s.layers[i], in, dx)
	}
	// A tied head has written its share of the gradient already.
	run(p, m.reg.EmbeddingGrad, &ops.EmbeddingGradArgs{
		DOut: dx, IDs: in.ids, DWeight: m.embedding.Grad, Accumulate: m.Config.TieWordEmbeddings,
	})
}

// Gradients runs forward and backward on a batch: every parameter's Grad is then that of
// the loss, which it returns: the mean cross-entropy over the labels that count, and for
// experts that of their balance if the configuration asks for it.
func (m *Model) Gradients(ctx context.Context, b Batch) (loss float64, err error) {
	p := &pass{ctx: ctx, st: m.st, reg: m.reg, dt: m.dt}
	defer func() { err = errors.Join(err, p.close()) }()
	in, err := m.inputs(p, b)
	if err != nil {
		return 0, err
	}
	s := m.forward(p, in)
	if p.err != nil {
		return 0, p.err
	}
	lossTensor, dLogits := p.tensor(aclnn.Float32, 1), p.like(s.logits)
	logProb := p.tensor(s.logits.DType(), s.logits.Shape()...)
	args := ops.CrossEntropyArgs{Logits: s.logits, Labels: in.labels, IgnoreIndex: ignored, Loss: lossTensor, LogProb: logProb}
	run(p, m.reg.CrossEntropy, &args)
	p.balance.scale = m.Config.balanceScale()
	p.balance.add(p, lossTensor)
	run(p, m.reg.CrossEntropyGrad, &ops.CrossEntropyGradArgs{CrossEntropyArgs: args, DLogits: dLogits})
	m.backward(p, in, s, dLogits)
	if p.err != nil {
		return 0, p.err
	}
	return readScalar(ctx, m.st, lossTensor)
}

// Logits runs the forward pass and returns the logits, [size, length, vocabulary].
func (m *Model) Logits(ctx context.Context, b Batch) (logits []float32, err error) {
	p := &pass{ctx: ctx, st: m.st, reg: m.reg, dt: m.dt}
	defer func() { err = errors.Join(err, p.close()) }()
	in, err := m.inputs(p, b)
	if err != nil {
		return nil, err
	}
	s := m.forward(p, in)
	out := p.tensor(aclnn.Float32, s.logits.Shape()...)
	launch(p, aclnn.Cast, aclnn.CastParams{Self: s.logits, Dtype: aclnn.Float32, Out: out})
	if p.err != nil {
		return nil, p.err
	}
	logits = make([]float32, out.Len())
	return logits, aclnn.CopyFromDevice(ctx, m.st, logits, out)
}

// readScalar waits for the stream and reads one float32.
func readScalar(ctx context.Context, st *acl.Stream, t *aclnn.Tensor) (float64, error) {
	var v [1]float32
	err := aclnn.CopyFromDevice(ctx, st, v[:], t)
	return float64(v[0]), err
}
