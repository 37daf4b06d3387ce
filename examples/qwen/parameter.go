package qwen

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Parameter is a weight with its gradient. In bf16 training Value is the bf16 copy that the
// layers read and Master the float32 weight that the optimiser keeps; otherwise both are
// one tensor.
type Parameter struct {
	Name   string // as in Hugging Face's checkpoints
	Value  *aclnn.Tensor
	Master *aclnn.Tensor
	Grad   *aclnn.Tensor // float32

	start func(*rand.Rand) float32 // its values before training; nil is a normal distribution
}

// Shape is the shape of the weight.
func (p *Parameter) Shape() []int64 { return p.Value.Shape() }

// parameters makes and owns the weights of a model, in the order of the checkpoint.
type parameters struct {
	st    *acl.Stream
	dt    aclnn.DType
	all   []*Parameter
	owned []*aclnn.Tensor
	err   error
}

func (ps *parameters) tensor(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	if ps.err != nil {
		return nil
	}
	t, err := aclnn.New(ps.st, dt, shape...)
	if err != nil {
		ps.err = err
		return nil
	}
	ps.owned = append(ps.owned, t)
	return t
}

// add makes a weight of its own memory.
func (ps *parameters) add(name string, shape ...int64) *Parameter {
	p := ps.unnamed(shape...)
	p.Name = name
	ps.all = append(ps.all, p)
	return p
}

// unnamed makes a weight that is not in the checkpoint under one name.
func (ps *parameters) unnamed(shape ...int64) *Parameter {
	p := &Parameter{Value: ps.tensor(ps.dt, shape...), Grad: ps.tensor(aclnn.Float32, shape...)}
	p.Master = p.Value
	if ps.dt != aclnn.Float32 {
		p.Master = ps.tensor(aclnn.Float32, shape...)
	}
	return p
}

// addVector makes a weight of one dimension whose values before training come from start.
func (ps *parameters) addVector(name string, size int64, start func(*rand.Rand) float32) *Parameter {
	p := ps.add(name, size)
	p.start = start
	return p
}

func one(*rand.Rand) float32  { return 1 }
func zero(*rand.Rand) float32 { return 0 }

// addStacked makes one weight whose rows are two weights of the checkpoint, so that one
// product computes both.
func (ps *parameters) addStacked(first, second string, rows, columns int64) *Parameter {
	whole := ps.unnamed(2*rows, columns)
	if ps.err != nil {
		return whole
	}
	for i, name := range []string{first, second} {
		at := int64(i) * rows
		ps.all = append(ps.all, &Parameter{
			Name: name, Value: whole.Value.Narrow(0, at, rows),
			Master: whole.Master.Narrow(0, at, rows), Grad: whole.Grad.Narrow(0, at, rows),
		})
	}
	return whole
}

func (ps *parameters) close() error {
	var err error
	for _, t := range ps.owned {
		err = errors.Join(err, t.Close())
	}
	ps.owned = nil
	return err
}

// initial gives a weight its value before training.
func (p *Parameter) initial(rng *rand.Rand, deviation float64) []float32 {
	values := make([]float32, p.Value.Len())
	for i := range values {
		if p.start != nil {
			values[i] = p.start(rng)
			continue
		}
		values[i] = float32(deviation * rng.NormFloat64())
	}
	return values
}

func (p *Parameter) String() string { return fmt.Sprintf("%s %v", p.Name, p.Value) }
