package model

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// storage keeps the weights of a model, either whole on every rank that computes with them or in
// shards. Units are open while layers read them.
type storage interface {
	trained
	// open opens units. next lists those that are opened next, if that is known: they may be gathered beside the kernels.
	open(p *pass, units, next []int)
	close(p *pass, units []int)

	slots() []slot
	slotOf(w *Parameter) int // of a weight that has its own memory
	updated() error          // the optimiser has updated the slots
	// read and write copy this rank's part of a parameter, or of its optimiser state, to and from
	// the host; of returns the tensor of a slot that contains it. write asks for those elements of
	// the part that this rank keeps. publish then copies the master weights to those that layers
	// read.
	read(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor) ([]float32, error)
	write(ctx context.Context, q *Parameter, of func(slot int) *aclnn.Tensor, values source) error
	publish(q *Parameter) error
	Close() error
}

// trained has the gradients of weights.
type trained interface {
	parameters() []*parameters // whose gradients they are
	// begin gives the parameters of the open unit gradient tensors. ready says that all work on a
	// unit's gradients in this step has been queued, finish says so for all units.
	begin(p *pass, u int)
	ready(p *pass, u int)
	finish(p *pass) error
	restart() error // after a failed step
}

// source returns the elements [lo, hi) of this rank's part of a parameter.
type source func(lo, hi int64) ([]float32, error)

// known are elements in memory.
func known(values []float32) source {
	return func(lo, hi int64) ([]float32, error) { return values[lo:hi], nil }
}

// slot is a group of weights that the optimiser updates in one call.
type slot struct {
	master, grad *aclnn.Tensor // float32; if frozen, of the model's dtype and nil
	copy         *aclnn.Tensor // master in the dtype of the model, nil for float32
	copies       int           // number of ranks that have the same slot
	vectors      bool          // the weights have one dimension
	constant     bool          // they have no gradient; that of biases of experts is their load
}

// Set sets the values of a weight, in row-major order; each rank takes its part of them.
func (m *Model) Set(ctx context.Context, q *Parameter, values []float32) error {
	if int64(len(values)) != count(q.shape) {
		return fmt.Errorf("model: %d values for %v", len(values), q)
	}
	if q.coded() {
		return errQuantized
	}
	return put(ctx, m.store, q, q.Part(values))
}

// put writes this rank's part of a weight, and what layers read of it.
func put(ctx context.Context, s storage, q *Parameter, part []float32) error {
	if err := s.write(ctx, q, masters(s), known(part)); err != nil {
		return fmt.Errorf("model: %v: %w", q, err)
	}
	return s.publish(q)
}

// Get returns this rank's part of a weight. If weights are sharded, all ranks with a shard call it.
func (m *Model) Get(ctx context.Context, q *Parameter) ([]float32, error) {
	if q.coded() {
		return nil, errQuantized
	}
	return m.store.read(ctx, q, masters(m.store))
}

// toDevice writes values to a tensor of any floating-point dtype.
func toDevice(ctx context.Context, st *acl.Stream, t *aclnn.Tensor, values []float32) error {
	if t.DType() == aclnn.Float32 {
		return aclnn.CopyToDevice(ctx, st, t, values)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		wide := s.Tensor(aclnn.Float32, t.Shape()...)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, wide, values) })
		aclnn.Launch(s, aclnn.Cast, aclnn.CastParams{Self: wide, Dtype: t.DType(), Out: t})
	})
}

// fromDevice reads the values of such a tensor.
func fromDevice(ctx context.Context, st *acl.Stream, values []float32, t *aclnn.Tensor) error {
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		wide := s.Cast(t, aclnn.Float32)
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, values, wide) })
	})
}

// masters returns the masters of a storage by slot.
func masters(s storage) func(slot int) *aclnn.Tensor {
	return func(slot int) *aclnn.Tensor { return s.slots()[slot].master }
}
