package qwen

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Parameter is a weight with its gradient: on several ranks this rank's part. In bf16 training
// Value is the bf16 copy that the layers read and Master the float32 weight that the optimiser
// keeps; otherwise both are one tensor.
type Parameter struct {
	Name   string // as in Hugging Face's checkpoints
	Value  *aclnn.Tensor
	Master *aclnn.Tensor
	Grad   *aclnn.Tensor // float32

	shape  []int64 // of the whole weight
	spread spread
	heads  bool // it serves this rank's heads, not its rows

	stack *Parameter // the weight that this one is rows of
	row   int64      // the first of them

	start func(*rand.Rand) float32 // its values before training; nil is a normal distribution
}

// spread says along which dimension ranks divide a weight, and this rank's part.
type spread struct {
	axis        int
	part, parts int64 // parts is 0 when every rank has it all
	experts     bool  // divided over the ranks of experts, not those of tensors
}

// Shape is the shape of the whole weight.
func (p *Parameter) Shape() []int64 { return p.shape }

// local is the shape of this rank's part.
func (p *Parameter) local() []int64 {
	shape := append([]int64(nil), p.shape...)
	if p.spread.parts > 0 {
		shape[p.spread.axis] /= p.spread.parts
	}
	return shape
}

// Part cuts this rank's part out of the values of the whole weight.
func (p *Parameter) Part(values []float32) []float32 {
	if p.spread.parts == 0 {
		return values
	}
	block := count(p.shape[p.spread.axis:]) / p.spread.parts
	var part []float32
	for at := p.spread.part * block; at < int64(len(values)); at += p.spread.parts * block {
		part = append(part, values[at:at+block]...)
	}
	return part
}

// count is the number of elements of a shape.
func count(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// unit is the weights of a layer, or of what comes before or after the layers.
type unit []*Parameter

// parameters describes the weights of a model, in the order of the checkpoint; a storage then
// gives them memory.
type parameters struct {
	tensor, expert spread       // how this rank's parts are cut
	all            []*Parameter // by name
	units          []unit       // those with memory of their own
}

// begin starts a new unit.
func (ps *parameters) begin() { ps.units = append(ps.units, nil) }

// own adds a weight with memory of its own.
func (ps *parameters) own(p *Parameter) *Parameter {
	last := &ps.units[len(ps.units)-1]
	*last = append(*last, p)
	return p
}

func (ps *parameters) named(p *Parameter) *Parameter {
	ps.all = append(ps.all, p)
	return p
}

// add makes a weight that every rank has.
func (ps *parameters) add(name string, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape}))
}

// addSplit makes a weight that the tensor-parallel ranks divide along an axis.
func (ps *parameters) addSplit(name string, axis int, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape, spread: ps.tensor.along(axis)}))
}

// addExperts makes a weight of which the ranks have some experts each, [experts, …].
func (ps *parameters) addExperts(name string, shape ...int64) *Parameter {
	return ps.named(ps.own(&Parameter{Name: name, shape: shape, spread: ps.expert}))
}

// addVector makes a weight of one dimension whose values before training come from start.
func (ps *parameters) addVector(name string, size int64, start func(*rand.Rand) float32) *Parameter {
	p := ps.add(name, size)
	p.start = start
	return p
}

func (s spread) along(axis int) spread {
	s.axis = axis
	return s
}

func one(*rand.Rand) float32  { return 1 }
func zero(*rand.Rand) float32 { return 0 }

// addStacked makes one weight whose rows are two weights of the checkpoint, each of them split
// by rows, so that one product computes both.
func (ps *parameters) addStacked(first, second string, rows, columns int64) *Parameter {
	whole := ps.own(&Parameter{Name: first + "+", shape: []int64{2 * rows, columns}, spread: ps.tensor})
	for i, name := range []string{first, second} {
		p := ps.named(&Parameter{Name: name, shape: []int64{rows, columns}, spread: ps.tensor, stack: whole})
		p.row = int64(i) * p.local()[0]
	}
	return whole
}

// initial gives a weight its value before training.
func (p *Parameter) initial(rng *rand.Rand, deviation float64) []float32 {
	values := make([]float32, count(p.shape))
	for i := range values {
		if p.start != nil {
			values[i] = p.start(rng)
			continue
		}
		values[i] = float32(deviation * rng.NormFloat64())
	}
	return values
}

func (p *Parameter) String() string { return fmt.Sprintf("%s%v", p.Name, p.shape) }

// memory makes tensors and frees them together.
type memory struct {
	st    *acl.Stream
	owned []*aclnn.Tensor
}

func (m *memory) tensor(dt aclnn.DType, shape ...int64) (*aclnn.Tensor, error) {
	t, err := aclnn.New(m.st, dt, shape...)
	if err == nil {
		m.owned = append(m.owned, t)
	}
	return t, err
}

// zeros is a tensor of zeros.
func (m *memory) zeros(dt aclnn.DType, shape ...int64) (*aclnn.Tensor, error) {
	t, err := m.tensor(dt, shape...)
	if err == nil && t.Len() > 0 {
		err = aclnn.InplaceZero(m.st, aclnn.InplaceZeroParams{SelfRef: t})
	}
	return t, err
}

func (m *memory) close() error {
	var err error
	for _, t := range m.owned {
		err = errors.Join(err, t.Close())
	}
	m.owned = nil
	return err
}
