package qwen

import (
	"context"
	"fmt"

	"github.com/goascend/cann/aclnn"
)

// storage keeps the weights of a model: whole on every rank that computes with them, or in
// shards. A unit is open while layers read it.
type storage interface {
	open(p *pass, u int)
	close(p *pass, u int)
	// begin gives the open unit's parameters gradients to write; ready says that all that
	// goes into them in this step has been queued, finish that this is so for all units.
	begin(p *pass, u int)
	ready(p *pass, u int)
	finish() error
	restart() error // after a step that failed

	slots() []slot
	// read and write copy this rank's part of a parameter, or what the optimiser keeps of it,
	// to and from the host: of is the tensor of a slot that has it. publish then makes master
	// weights those that layers read.
	read(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor) ([]float32, error)
	write(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor, values []float32) error
	publish(q *Parameter) error
	Close() error
}

// slot is what the optimiser updates at once.
type slot struct {
	master, grad *aclnn.Tensor // float32
	copy         *aclnn.Tensor // of master in the dtype of the model, nil when it is float32
	copies       int           // ranks that have the same
}

// Set gives a weight its values, in row-major order; each rank takes its part of them.
func (m *Model) Set(ctx context.Context, q *Parameter, values []float32) error {
	if int64(len(values)) != count(q.shape) {
		return fmt.Errorf("qwen: %d values for %v", len(values), q)
	}
	if err := m.store.write(ctx, q, m.master, q.Part(values)); err != nil {
		return fmt.Errorf("qwen: %v: %w", q, err)
	}
	return m.store.publish(q)
}

// Get returns this rank's part of a weight; of shards, all ranks that have one call it.
func (m *Model) Get(ctx context.Context, q *Parameter) ([]float32, error) {
	return m.store.read(ctx, q, m.master)
}

func (m *Model) master(slot int) *aclnn.Tensor { return m.store.slots()[slot].master }
