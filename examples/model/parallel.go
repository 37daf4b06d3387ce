package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
	"github.com/goascend/cann/ops/setup"
)

// Parallel holds the communicators over which a model is distributed. A nil communicator stands for
// one rank; the zero value is a model on one device.
type Parallel struct {
	World parallel.Communicator // all ranks: for the loss and the norm of the gradients
	// Tensor divides heads, the width of feed-forward layers, and the vocabulary. With Sequence its
	// ranks also divide the rows between those layers, which layers of experts require.
	Tensor   parallel.Communicator
	Sequence bool
	// Context divides the positions of each sequence: attention passes keys and values around its ranks, and gated delta
	// nets their states. The split is zig-zag, or contiguous in models with gated delta nets.
	Context parallel.Communicator
	// Heads divides the positions that a rank of Context has once more: attention and gated delta nets exchange
	// positions for heads (Ulysses).
	Heads parallel.Communicator
	// HeadGroups is the number of groups in which the ranks of Heads exchange the heads of attention, so that one group is exchanged beside the attention to
	// another. It divides the key heads of each of these ranks. 0 stands for up to 4, while a group has 1 MiB of queries on each rank.
	HeadGroups int
	// Pipeline divides the layers; each step has MicroBatches micro-batches, 1 when 0. With Chunks, 1 when 0, each rank has so many
	// chunks of consecutive layers, and the schedule is interleaved; with ZeroBubble the gradients of weights fill the time in which ranks would
	// wait (parallel.PipelineSchedule).
	Pipeline             parallel.PeerCommunicator
	MicroBatches, Chunks int
	ZeroBubble           bool
	// Data contains the ranks that have the same weights and different tokens, including those of
	// Context and Heads. With Shard each of them keeps a part of the weights.
	Data  parallel.Communicator
	Shard bool
	// DistributedOptimizer shards over Data what the optimiser needs alone: moments, float32 weights, and gradients after the backward pass. The
	// weights that layers read are whole from their first use in a step until the update, also in pipelines (Megatron's distributed optimiser, ZeRO
	// stages 1 and 2 of arXiv:1910.02054). It is in place of Shard, and for models that are not frozen.
	DistributedOptimizer bool
	// ShardAlign is the number of elements to which each weight's part of a shard is aligned, such as
	// parallel.ShardAlignment; 1 when 0.
	ShardAlign int64
	// ShardRules give weights roles and alignments of their own. Those of experts that are GroupedWeights
	// are kept as [experts, in, out], and gathered in FRACTAL_NZ with Config.GroupedNZ; the others are kept
	// as [experts, out, in] and, with it, cast in each pass. Nil stands for GroupedWeights with
	// Config.GroupedNZ and for none without. A WholeWeight stays whole on each rank, with its moments.
	ShardRules []parallel.ShardRule
	// Replicas, if it is set, contains the ranks of Data that keep the same part, and Shards those
	// that keep the different parts, so that weights are gathered over fewer ranks.
	Replicas, Shards parallel.Communicator
	// Experts divides the experts of a layer, in a model with Tensor and without Sequence over the ranks of
	// Tensor; ExpertData contains the ranks that have the same
	// experts, ExpertReplicas and ExpertShards divide these as Replicas and Shards do Data.
	Experts, ExpertData          parallel.Communicator
	ExpertReplicas, ExpertShards parallel.Communicator
	// ExpertTP is how many consecutive ranks of Experts share each expert (expert tensor parallelism), 1 when 0: each has 1/ExpertTP of its
	// intermediate features, and their results are summed. It divides the number of these ranks and those features. Experts with biases (gpt-oss), and adapters of
	// experts, are refused with more than 1.
	ExpertTP int
	// ExpertCapacity, if it is not 0, lets the ranks of Experts gather each other's tokens in training, in place of sending rows to the ranks of their experts. The host
	// then never waits for numbers of rows, and a Trainer can capture steps. A rank's experts have room for ExpertCapacity, 1 at least, times the rows that they would get
	// of a balanced routing. A step in which they get more is computed once more, with rows that are sent (Overflows); a Trainer has room for all rows that can come. All
	// ranks of Experts must have equally many tokens. Where these are more ranks than a token has experts, gathering moves more bytes than sending. Weights in FRACTAL_NZ
	// that each have their own product, in float32, are sent rows all the same, and evaluation sends them too.
	ExpertCapacity float64
	// Meter, if it is set, measures how long a step waits for the gradients of other ranks.
	Meter *meter.Meter

	exchange *acl.Stream // of the shards of a model, on which the gradients of its adapters are exchanged too, as both may use one communicator
}

// same returns the ranks that have the same weights, if these are not sharded.
func (par *Parallel) same(experts bool) parallel.Communicator {
	if experts {
		return par.ExpertData
	}
	return par.Data
}

// shards returns the ranks over which a weight is sharded, and those that have the same shards.
func (par *Parallel) shards(experts bool) (shards, replicas parallel.Communicator) {
	shards, replicas = par.Shards, par.Replicas
	if experts {
		shards, replicas = par.ExpertShards, par.ExpertReplicas
	}
	if replicas == nil {
		return par.same(experts), nil
	}
	return shards, replicas
}

func size(c interface{ Size() int }) int64 {
	if c == nil {
		return 1
	}
	return int64(c.Size())
}

func index(c interface{ Rank() int }) int64 {
	if c == nil {
		return 0
	}
	return int64(c.Rank())
}

// expertTP returns how many ranks share each expert.
func (par *Parallel) expertTP() int64 { return int64(max(par.ExpertTP, 1)) }

func (par *Parallel) micros() int { return max(par.MicroBatches, 1) }

// stage returns this rank's place in the pipeline and the number of stages.
func (par *Parallel) stage() (at, stages int) {
	return int(index(par.Pipeline)), int(size(par.Pipeline))
}

// chunks returns how many chunks of layers each rank of the pipeline has.
func (par *Parallel) chunks() int { return max(par.Chunks, 1) }

// layers returns the range of the layers of a chunk of this rank, of n layers in all. If the layers do not divide evenly, the
// first stages of the model have one more.
func (par *Parallel) layers(n, chunk int) (from, to int) {
	at, ranks := par.stage()
	at, stages := at+chunk*ranks, ranks*par.chunks()
	cut := func(i int) int { return i*(n/stages) + min(i, n%stages) }
	return cut(at), cut(at + 1)
}

// schedule makes the schedule of the pipeline.
func (par *Parallel) schedule() (*parallel.PipelineSchedule, error) {
	_, ranks := par.stage()
	s, err := parallel.NewPipelineSchedule(ranks, par.micros(), par.chunks(), par.ZeroBubble)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return s, nil
}

// copies returns how many ranks have the same part of a weight.
func (par *Parallel) copies(w *Parameter) int {
	same := size(par.Data)
	switch {
	case w.spread.experts:
		return int(size(par.ExpertData))
	case w.spread.Of == 0:
		same *= size(par.Tensor)
	}
	if w.tied {
		same *= 2
	}
	return int(same)
}

// NeedsSequence reports whether training needs Sequence: with tensor parallelism and experts.
func (par *Parallel) NeedsSequence(c Config) bool {
	return c.family().sparse && size(par.Tensor) > 1
}

var errCounted = errors.New("model: layers of experts under tensor parallelism need sequence parallelism to be trained, or the ranks would count each token several times")

// check refuses parallelism that does not divide the model.
func (par *Parallel) check(c Config) error {
	tp, ep, etp := size(par.Tensor), size(par.Experts), par.expertTP()
	_, stages := par.stage()
	for _, f := range []struct {
		name  string
		value int
	}{
		{"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads}, {"intermediate_size", c.IntermediateSize}, {"vocab_size", c.VocabSize},
	} {
		if int64(f.value)%tp != 0 {
			return fmt.Errorf("model: %s %d is not a multiple of the %d tensor-parallel ranks", f.name, f.value, tp)
		}
	}
	switch {
	case c.Encoder() && (!c.Frozen || size(par.World) != tp || par.Sequence || par.Shard):
		return errors.New("model: an encoder is not trained: it needs Config.Frozen, and is divided over Tensor alone, without Sequence and Shard")
	case c.Score && par.Sequence:
		return errors.New("model: the score of a sequence is computed where its last token is, and sequence parallelism divides the tokens between ranks with the same head; leave it out")
	case par.ExpertTP < 0 || ep%etp != 0:
		return fmt.Errorf("model: ExpertTP is %d; so many of the %d ranks of experts share each expert, which must divide them", par.ExpertTP, ep)
	case c.family().sparse && int64(c.Experts)%(ep/etp) != 0:
		return fmt.Errorf("model: num_experts %d is not a multiple of the %d ranks, or groups of ranks, that have different experts", c.Experts, ep/etp)
	case etp > 1 && c.family().clipped:
		return fmt.Errorf("model: the experts of %s have biases, which %d ranks that share an expert (ExpertTP) would each add; leave ExpertTP 0", c.ModelType, etp)
	case etp > 1 && int64(c.ExpertSize())%etp != 0:
		return fmt.Errorf("model: the %d intermediate features of an expert are not a multiple of the %d ranks that share it (ExpertTP)", c.ExpertSize(), etp)
	case !c.family().sparse && ep > 1:
		return fmt.Errorf("model: %d ranks of experts, and %s has none", ep, c.ModelType)
	case par.NeedsSequence(c) && !par.Sequence && !c.Frozen:
		return errCounted
	case par.NeedsSequence(c) && !par.Sequence && ep != tp:
		return fmt.Errorf("model: the experts are divided over %d ranks and the rest of the model over %d; without sequence parallelism leave Experts nil", ep, tp)
	case par.ExpertCapacity != 0 && !(par.ExpertCapacity >= 1):
		return fmt.Errorf("model: ExpertCapacity is %g; it must be 0, or 1 at least, times the rows of a balanced routing", par.ExpertCapacity)
	case stages*par.chunks() > c.Layers:
		return fmt.Errorf("model: %d stages for %d layers", stages*par.chunks(), c.Layers)
	case par.ZeroBubble && par.Shard:
		return errors.New("model: a zero-bubble schedule would gather the shards once more for the gradients of weights; use 1F1B, or no shards")
	case par.DistributedOptimizer && (par.Shard || c.Frozen):
		return errors.New("model: DistributedOptimizer is for whole weights that are trained: not with Shard, which shards what the optimiser needs too, nor with frozen weights")
	}
	if c.family().hybrid {
		if err := par.checkDelta(c); err != nil {
			return fmt.Errorf("model: gated delta nets of %s: %w", c.ModelType, err)
		}
	}
	return par.checkHeads(c)
}

// checkDelta returns a *ops.Refusal if the operators do not support this parallelism of delta nets.
func (par *Parallel) checkDelta(c Config) error {
	job := setup.Delta{KeyHeads: c.LinearKeyHeads, ValueHeads: c.LinearValueHeads}
	job.Parallel.Tensor = int(size(par.Tensor))
	job.Parallel.Sequence, job.Parallel.Context = int(size(par.Heads)), int(size(par.Context))
	_, err := job.Check()
	return err
}

// signature returns the facts on which the choice of kernels may depend.
func (par *Parallel) signature() ops.Parallel {
	p := ops.Parallel{Tensor: int(size(par.Tensor)), Expert: int(size(par.Experts) / par.expertTP()), Context: int(size(par.Context)), Sequence: int(size(par.Heads))}
	_, p.Pipeline = par.stage()
	return p
}

// checkHeads refuses heads that cannot be divided among the ranks of Ulysses.
func (par *Parallel) checkHeads(c Config) error {
	ranks := int(size(par.Heads))
	tp := int(size(par.Tensor))
	own := max(c.KVHeads/tp/ranks, 1)
	if c.family().latent { // whose keys are computed for each head
		own = c.Heads / tp / ranks
	}
	switch {
	case par.HeadGroups < 0 || par.HeadGroups > 1 && ranks == 1:
		return fmt.Errorf("model: HeadGroups is %d; groups of heads are exchanged by the ranks of Heads, which are %d, so leave it 0", par.HeadGroups, ranks)
	case ranks == 1:
		return nil
	case par.HeadGroups > 0 && own%par.HeadGroups != 0:
		return fmt.Errorf("model: HeadGroups is %d; it must divide the %d key heads that each rank of Heads has", par.HeadGroups, own)
	}
	heads := map[string]int{"num_attention_heads": c.Heads / tp, "num_key_value_heads": c.KVHeads / tp}
	for name, n := range heads {
		shared := strings.Contains(name, "key") // several ranks may share key heads
		if n%ranks != 0 && !(shared && ranks%n == 0) {
			return fmt.Errorf("model: the %d ranks of Ulysses cannot share out the %d heads of %s that each tensor-parallel rank has", ranks, n, name)
		}
	}
	return nil
}

// spreads returns how this rank's parts of weights are cut.
func (par *Parallel) spreads() (tensor, expert spread) {
	if n := size(par.Tensor); n > 1 {
		tensor.Index, tensor.Of = index(par.Tensor), n
	}
	expert = spread{experts: true}
	at, etp := index(par.Experts), par.expertTP()
	if n := size(par.Experts) / etp; n > 1 {
		expert.Index, expert.Of = at/etp, n
	}
	if etp > 1 {
		expert.inner.Index, expert.inner.Of = at%etp, etp
	}
	return tensor, expert
}

// positions returns this rank's ranges of a sequence: of those of its rank of Context its part among the ranks of Heads.
func (par *Parallel) positions(c Config, length int) ([]mask.Range, error) {
	chunks, err := par.split(c).Chunks(int64(length), int(index(par.Context)), int(size(par.Context)))
	if err != nil {
		return nil, err
	}
	held := int64(0)
	for _, r := range chunks {
		held += r.Len()
	}
	parts, err := mask.Contiguous.Chunks(held, int(index(par.Heads)), int(size(par.Heads)))
	if err != nil {
		return nil, err
	}
	var mine []mask.Range
	at := int64(0)
	for _, r := range chunks {
		from, to := max(parts[0].From-at, 0), min(parts[0].To-at, r.Len())
		if from < to {
			mine = append(mine, mask.Range{From: r.From + from, To: r.From + to})
		}
		at += r.Len()
	}
	return mine, nil
}

// split returns how Context divides positions.
func (par *Parallel) split(c Config) mask.Split {
	if c.family().hybrid || size(par.Context) == 1 {
		return mask.Contiguous
	}
	return mask.ZigZag
}
