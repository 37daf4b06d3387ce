package model

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/ops/autograd"
)

// Parameter is a weight with its gradient; on several ranks it is this rank's part. In bfloat16
// training Value is the bfloat16 copy that the layers read and Master the float32 weight that the
// optimiser updates; otherwise both are the same tensor.
type Parameter struct {
	Name string // as in Hugging Face's checkpoints
	// Var holds Value and Grad, which is float32 and nil for a frozen weight.
	*autograd.Var
	Master *aclnn.Tensor

	shape      []int64 // of the whole weight
	spread     spread
	heads      bool // this rank's gradient is of its heads or columns only, not of its rows
	linear     bool // the weight of a linear layer, to which an adapter may add
	expert     bool // a weight of experts, [experts, out, in], likewise
	tied       bool // the first and the last stage of a pipeline each have this weight
	constant   bool // has no gradient: training leaves it as it is
	absorbed   bool // read as it is by attention to latents
	transposed bool // kept as [experts, in, out]

	quantized *quantized // in place of Value, or nil
	deferred  bool       // has memory only after replicated.hold

	stack *Parameter // the weight that contains this one as rows
	row   int64      // the first of these rows

	start func(*rand.Rand) float32 // initial values; nil means a normal distribution
}

// spread says how the ranks divide a weight, and which part this rank has. Of is 0 if every rank has all of an axis.
type spread struct {
	checkpoint.Cut
	inner   checkpoint.Cut // of experts: the shards of each
	experts bool           // divided over expert-parallel instead of tensor-parallel ranks
}

// Shape returns the shape of the whole weight.
func (p *Parameter) Shape() []int64 { return p.shape }

// coded reports whether the device has codes in place of the weight.
func (p *Parameter) coded() bool {
	return p.quantized != nil || p.stack != nil && p.stack.quantized != nil
}

// vector reports whether a weight is a norm's scale, a bias or the like.
func (p *Parameter) vector() bool { return len(p.shape) == 1 }

// local returns the shape of this rank's part.
func (p *Parameter) local() []int64 { return p.part("").Local() }

// part returns this rank's part of the weight, or of a tensor of its optimiser state, in a checkpoint.
func (p *Parameter) part(prefix string) checkpoint.Part {
	part := checkpoint.Part{Name: prefix + p.Name, Shape: p.shape}
	if p.spread.Of > 1 {
		part.Cut = p.spread.Cut
	}
	if p.spread.inner.Of > 1 {
		part.Inner = p.spread.inner
	}
	return part
}

// Part selects this rank's part from the values of the whole weight.
func (p *Parameter) Part(values []float32) []float32 { return p.part("").Select(values) }

// count returns the number of elements of a shape.
func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// unit holds the weights of one layer, of the embedding, or of the head.
type unit []*Parameter

// parameters describes the weights of a model in the order of the checkpoint; a storage allocates
// their memory.
type parameters struct {
	tensor, expert spread       // how this rank's parts are cut
	all            []*Parameter // by name
	units          []unit       // weights with their own memory
}

// begin starts a new unit.
func (ps *parameters) begin() { ps.units = append(ps.units, nil) }

// own adds a weight with its own memory.
func (ps *parameters) own(p *Parameter) *Parameter {
	last := &ps.units[len(ps.units)-1]
	*last = append(*last, p)
	return p
}

func (ps *parameters) named(p *Parameter) *Parameter {
	ps.all = append(ps.all, p)
	return p
}

// add makes a weight that is whole on every rank.
func (ps *parameters) add(name string, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape}))
}

// addSplit makes a weight that the tensor-parallel ranks divide along an axis.
func (ps *parameters) addSplit(name string, axis int, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape, spread: ps.tensor.along(axis)}))
}

// addBlocks makes a weight of blocks of rows, each of which the tensor-parallel ranks divide.
func (ps *parameters) addBlocks(name string, blocks []int64, shape ...int64) *Parameter {
	p := ps.addSplit(name, 0, shape...)
	p.spread.Blocks = blocks
	return p
}

// addExperts makes a weight [experts, …] whose experts are divided over the ranks.
func (ps *parameters) addExperts(name string, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape, spread: ps.expert, expert: true}))
}

// sharded says along which axis the ranks that share an expert divide its weight, or the blocks of it.
func (p *Parameter) sharded(axis int, blocks ...int64) *Parameter {
	p.spread.inner.Axis, p.spread.inner.Blocks = axis, blocks
	return p
}

// addVector makes a one-dimensional weight whose initial values come from start.
func (ps *parameters) addVector(name string, size int64, start func(*rand.Rand) float32) *Parameter {
	p := ps.add(name, size)
	p.start = start
	return p
}

// addHeads is addVector for a vector with one element per head, which the tensor-parallel ranks
// divide.
func (ps *parameters) addHeads(name string, size int64, start func(*rand.Rand) float32) *Parameter {
	p := ps.addVector(name, size, start)
	p.spread = ps.tensor.along(0)
	return p
}

func (s spread) along(axis int) spread {
	s.Axis = axis
	return s
}

func one(*rand.Rand) float32  { return 1 }
func zero(*rand.Rand) float32 { return 0 }

// addStacked makes one weight from the rows of two weights of the checkpoint, so that one product
// computes both. Each of them is split by rows.
func (ps *parameters) addStacked(first, second string, rows, columns int64) *Parameter {
	whole := ps.own(&Parameter{Name: first + "+", shape: []int64{2 * rows, columns}, spread: ps.tensor})
	for i, name := range []string{first, second} {
		p := ps.named(&Parameter{Name: name, shape: []int64{rows, columns}, spread: ps.tensor, stack: whole, linear: true})
		p.row = int64(i) * p.local()[0]
	}
	return whole
}

// linear makes a linear layer of a weight.
func (ps *parameters) linear(w *Parameter) linear {
	w.linear = true
	return linear{weight: w}
}

// initial returns the initial values of this rank's part of a weight. The values of the whole weight depend on the seed and the weight's name
// only; a rank never holds all of them, because eight ranks of a process would hold eight vocabularies.
func (p *Parameter) initial(seed uint64, deviation float64) []float32 {
	name := fnv.New64a()
	_, _ = name.Write([]byte(p.Name))
	rng := rand.New(rand.NewPCG(seed, name.Sum64()))
	return p.part("").Draw(func() float32 {
		if p.start != nil {
			return p.start(rng)
		}
		return float32(deviation * rng.NormFloat64())
	})
}

func (p *Parameter) String() string { return fmt.Sprintf("%s%v", p.Name, p.shape) }

// zeros makes a tensor of zeros that the scope owns.
func zeros(s *aclnn.Scope, dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	t := s.Tensor(dt, shape...)
	if t.Len() > 0 {
		s.Zero(t)
	}
	return t
}
