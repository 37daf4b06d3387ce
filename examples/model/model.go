package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

// Model is a language model or an encoder, or this rank's part of it, on one stream. It is not safe for concurrent
// use.
type Model struct {
	Config Config

	st     *acl.Stream
	reg    *ops.Registry
	dt     aclnn.DType
	par    Parallel
	tp     *parallel.TensorParallel
	cp     *parallel.ContextParallel
	heads  *parallel.Ulysses
	ep     *parallel.ExpertParallel
	params parameters
	store  storage
	pipe   *parallel.Pipeline
	rope   ropeTable
	feed   *feed // of a Trainer during its step
	detect bool  // DetectAnomalies
	scale  lossScale
	memory Memory
	// offload is that of memory, or nil.
	offload *autograd.Offload
	copied  int64 // bytes, by copies of weights
	peaks   Peaks
	// biasRate is that of BalanceExperts. side is for exchanges of tokens beside shared experts, or nil.
	biasRate float64
	side     *acl.Stream
	headSide *acl.Stream // of the exchanges of heads, or nil
	overflow overflow
	// adapter is the one in use, nil for none.
	adapter *Adapter
	multi   *multiAdapter // adapters of UseEach instead, or nil
	// quantized holds the weights that Quantize has made.
	quantized aclnn.Scope
	kept      map[string]int // numbers of weights, see Kept
	factors   []float64      // of the values of sequences in the step; nil otherwise

	// In a pipeline stage, only the parts that it has are set.
	embedding *Parameter
	layers    []layer
	ends      []int // of the layers of each chunk
	finalNorm norm
	predictor *predictor // or nil
	ended     bool       // the model ends here
	head      linear     // the embedding itself if tied, or in a pipeline a copy of it; without a weight of an encoder that is no classifier
	tables    encoderTables
}

// New makes a model on one device. Its weights are not initialised: call Init or Load. dt is the
// dtype of weights and activations, Float32, BFloat16 or Float16; with 16 bits the optimiser also
// keeps float32 weights, and with Float16 the loss is scaled up in the backward pass (LossScale).
func New(st *acl.Stream, reg *ops.Registry, cfg Config, dt aclnn.DType) (*Model, error) {
	return NewParallel(st, reg, cfg, dt, Parallel{})
}

// NewParallel makes a rank's part of a model that is distributed over several ranks. All ranks make
// the same calls of the model and its optimiser, in the same order. From then on reg chooses
// kernels for this parallelism.
func NewParallel(st *acl.Stream, reg *ops.Registry, cfg Config, dt aclnn.DType, par Parallel) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if dt != aclnn.Float32 && dt != aclnn.BFloat16 && dt != aclnn.Float16 {
		return nil, fmt.Errorf("model: dtype %v; use float32, bfloat16 or float16", dt)
	}
	if par.NeedsSequence(cfg) && !par.Sequence && par.Experts == nil {
		par.Experts = par.Tensor
	}
	if err := par.check(cfg); err != nil {
		return nil, err
	}
	m := &Model{
		Config: cfg, st: st, reg: reg, dt: dt, par: par, scale: newLossScale(dt),
		tp:    parallel.NewTensorParallel(reg, par.Tensor, par.Sequence),
		heads: parallel.NewUlysses(par.Heads, mask.Contiguous),
	}
	var err error
	if m.ep, err = parallel.NewExpertParallel(par.Experts, int(par.expertTP())); err != nil {
		return nil, err
	}
	schedule, err := par.schedule()
	if err != nil {
		return nil, err
	}
	if m.pipe, err = parallel.NewPipeline(par.Pipeline, schedule); err != nil {
		return nil, err
	}
	if m.cp, err = parallel.NewContextParallel(st, reg, par.Context, par.split(cfg)); err != nil {
		return nil, err
	}
	reg.SetParallel(par.signature())
	m.params.tensor, m.params.expert = par.spreads()
	if cfg.Encoder() {
		m.buildEncoder()
	} else {
		m.build()
	}
	if err := m.checkKept(); err != nil {
		return nil, errors.Join(err, m.cp.Close())
	}
	if cfg.KeepCodes { // Load finds out which of them have codes
		for _, w := range m.codable() {
			w.deferred = true
		}
	}
	if par.Shard || par.DistributedOptimizer {
		m.store, err = newSharded(st, reg, &m.params, cfg, dt, &m.par)
	} else {
		m.store, err = newReplicated(st, &m.params, dt, &m.par, cfg.Frozen)
	}
	if err != nil {
		return nil, errors.Join(err, m.cp.Close())
	}
	if cfg.family().shared && par.ExpertCapacity > 0 && m.ep.Size() > 1 {
		m.side, err = st.Device().NewStream()
	}
	if err == nil && m.heads.Size() > 1 {
		m.headSide, err = st.Device().NewStream()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// build describes the layers. The first unit of weights is the embedding and the last the head,
// even if this stage lacks them.
func (m *Model) build() {
	cfg, ps := m.Config, &m.params
	h, v := int64(cfg.HiddenSize), int64(cfg.VocabSize)
	at, stages := m.par.stage()
	ps.begin()
	if at == 0 {
		m.embedding = ps.addSplit("model.embed_tokens.weight", 0, v, h)
		m.embedding.tied = cfg.TieWordEmbeddings && !cfg.Score && stages > 1
	}
	for chunk := range m.par.chunks() {
		from, to := m.par.layers(cfg.Layers, chunk)
		for i := from; i < to; i++ {
			ps.begin()
			m.layers = append(m.layers, newLayer(ps, cfg, i, layerPrefix(i)))
		}
		m.ends = append(m.ends, len(m.layers))
	}
	ps.begin()
	if at+1 < stages {
		return
	}
	m.finalNorm, m.ended = newNorm(ps, cfg, "model.norm.weight", h), true
	switch {
	case cfg.Score:
		m.head = linear{weight: ps.add("score.weight", 1, h)}
	case !cfg.TieWordEmbeddings:
		m.head = ps.linear(ps.addSplit("lm_head.weight", 0, v, h))
	case m.first():
		m.head = linear{weight: m.embedding}
	default: // a copy, which step.tie keeps the same as that of the first stage
		m.head = linear{weight: ps.addSplit("model.embed_tokens.weight", 0, v, h)}
		m.head.weight.tied = true
	}
	if cfg.Predict {
		ps.begin()
		m.predictor = newPredictor(ps, cfg)
	}
}

// Units of weights.
const embeddingUnit = 0

func layerUnit(i int) int { return i + 1 }

func (m *Model) headUnit() int { return layerUnit(len(m.layers)) }

// chunk returns the range of the layers of a chunk among those of this rank.
func (m *Model) chunk(i int) (from, to int) {
	if i > 0 {
		from = m.ends[i-1]
	}
	return from, m.ends[i]
}

// first and last report whether this rank is an end of the pipeline.
func (m *Model) first() bool { return m.embedding != nil }
func (m *Model) last() bool  { return m.ended }

// starts and finishes report whether a chunk of this rank has the first or the last layer of the model, and with it the embedding or the head.
func (m *Model) starts(chunk int) bool   { return m.first() && chunk == 0 }
func (m *Model) finishes(chunk int) bool { return m.last() && chunk == len(m.ends)-1 }

// alone refuses calls that need the whole model on this device.
func (m *Model) alone(what string) error {
	if n := size(m.par.World); n > 1 {
		return fmt.Errorf("model: %s needs the model on one device, and it is on %d", what, n)
	}
	return nil
}

// together refuses calls that need all ranks to have a part of each layer and all rows.
func (m *Model) together(what string) error {
	if n := size(m.par.World); n != m.tp.Size() || m.tp.Sequence() {
		return fmt.Errorf("model: %s needs the %d ranks of the model to be those of Tensor, without Sequence", what, n)
	}
	return nil
}

func (m *Model) pass(ctx context.Context, o autograd.Options) *pass {
	return &pass{
		Tape: autograd.New(ctx, m.st, m.reg, o), memory: aclnn.Scope{Stream: m.st}, ctx: ctx, reg: m.reg, dt: m.dt, tp: m.tp, cp: m.cp, ulysses: m.heads, headSide: m.headSide, groups: int64(m.par.HeadGroups),
		ep: m.ep, store: m.store, trained: m.trained(), adapter: m.adapter, feed: m.feed, detect: m.detect, copied: &m.copied, recompute: m.memory.Recompute,
	}
}

// CopiedBytes returns how many bytes this rank has read and written so far when it copied weights out of
// gathered shards and brought them into FRACTAL_NZ. Replays of a graph do not count.
func (m *Model) CopiedBytes() int64 { return m.copied }

// Close frees the weights; activations are freed after each pass.
func (m *Model) Close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.closeOffload(), m.store.Close(), m.quantized.Close(), m.rope.close(), m.cp.Close(), m.side.Close(), m.headSide.Close())
}

// Parameters lists the weights of which this rank has a part, in the order of the checkpoint.
func (m *Model) Parameters() []*Parameter { return m.params.all }

// Init sets random weights. The values of a weight depend on the seed and its name only, not on the
// parallelism.
func (m *Model) Init(ctx context.Context, seed uint64) error {
	for _, p := range m.params.all {
		if err := m.init(ctx, p, seed); err != nil {
			return err
		}
	}
	return nil
}

// InitScore is Init for the head of a classifier alone, after Load with Config.NewScore.
func (m *Model) InitScore(ctx context.Context, seed uint64) error {
	if !m.Config.Score || !m.last() {
		return nil
	}
	return m.init(ctx, m.head.weight, seed)
}

func (m *Model) init(ctx context.Context, p *Parameter, seed uint64) error {
	if p.coded() {
		return errQuantized
	}
	return put(ctx, m.store, p, p.initial(seed, m.Config.InitializerRange))
}

// Batch is the data of a step: token ids and labels, [size, length] in row-major order. The label
// at a position is the next token; a negative label is ignored.
type Batch struct {
	Size, Length int
	Inputs       []int32
	Labels       []int32
	// Types are the types of an encoder's tokens, [size, length], such as 1 for those of the second text of a pair; nil stands for 0.
	Types []int32
	// Lengths are the numbers of valid tokens of each row, which come first; nil if all are valid.
	Lengths []int64
	// From is the position of the first token of each sequence, for the rotary embedding: 0 for a text from its start.
	// Attention sees the tokens of the batch alone.
	From int
	// CuSeqLens are the cumulative lengths of sequences packed without padding into the one row of
	// a batch: 0, the ends of all but the last, Length. Nil when each row is one sequence.
	CuSeqLens []int64
	// Targets is the number of counted labels of the step over all ranks, over which the loss is
	// averaged; 0 means those of this batch.
	Targets int
	// Adapters are for GradientsEach the numbers of the samples' adapters in UseEach, from 1 on; 0 stands for
	// none. A sample is a row, or a packed sequence. AdapterTargets are, in place of Targets, the numbers of
	// counted labels by adapter, the first for samples without one; nil means those of this batch.
	Adapters, AdapterTargets []int
	// Numbers gives each sequence its place among the sequences of all ranks, for SequenceValues and SequenceGradients, increasing from
	// 0 on; ranks that share sequences give the same ones.
	Numbers []int
}

// Rows returns n rows of a batch.
func (b Batch) Rows(from, n int) Batch {
	part := b
	part.Size = n
	part.Inputs, part.Labels = b.Inputs[from*b.Length:][:n*b.Length], b.Labels[from*b.Length:][:n*b.Length]
	if b.Types != nil {
		part.Types = b.Types[from*b.Length:][:n*b.Length]
	}
	if b.Lengths != nil {
		part.Lengths = b.Lengths[from:][:n]
	}
	if b.Adapters != nil {
		part.Adapters = b.Adapters[from:][:n]
	}
	if b.Numbers != nil {
		part.Numbers = b.Numbers[from:][:n]
	}
	return part
}

func (b Batch) validate(vocab int) error {
	n := b.Size * b.Length
	if n == 0 || len(b.Inputs) != n || len(b.Labels) != n || b.Lengths != nil && len(b.Lengths) != b.Size || b.Types != nil && len(b.Types) != n {
		return fmt.Errorf("model: a batch of %d x %d has %d inputs, %d labels, %d types and %d lengths", b.Size, b.Length, len(b.Inputs), len(b.Labels), len(b.Types), len(b.Lengths))
	}
	if err := cmp.Or(b.checkPacked(), b.checkAdapters()); err != nil {
		return err
	}
	if b.From < 0 || b.From > mostPositions-b.Length {
		return fmt.Errorf("model: the tokens of a batch begin at position %d; they must be between 0 and %d", b.From, mostPositions)
	}
	for row, l := range b.Lengths {
		if l < 0 || l > int64(b.Length) {
			return fmt.Errorf("model: row %d has %d valid tokens of %d", row, l, b.Length)
		}
	}
	for i := range n {
		if id := b.Inputs[i]; id < 0 || int(id) >= vocab {
			return fmt.Errorf("model: input %d is %d; the vocabulary has %d tokens", i, id, vocab)
		}
		if label := b.Labels[i]; int(label) >= vocab {
			return fmt.Errorf("model: label %d is %d; the vocabulary has %d tokens", i, label, vocab)
		}
	}
	return nil
}

const ignored = -100

// mostPositions is beyond what models are made for. The tables of a batch have rows for all positions up to its last.
const mostPositions = 1 << 24
