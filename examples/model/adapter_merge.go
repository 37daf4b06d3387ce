package model

import (
	"context"
	"fmt"

	"github.com/goascend/cann/aclnn"
)

// Merge adds the products to the model's own weights, which then compute what the adapter did, and
// takes the adapter out of use. Unmerge takes them away again, but for rounding. All ranks call it.
func (a *Adapter) Merge(ctx context.Context) error { return a.merge(ctx, 1) }

// Unmerge subtracts what Merge has added.
func (a *Adapter) Unmerge(ctx context.Context) error { return a.merge(ctx, -1) }

func (a *Adapter) merge(ctx context.Context, sign float64) error {
	a.leave()
	for _, u := range a.m.params.units {
		for _, w := range u {
			for _, l := range a.pairs[w] {
				if err := a.mergeLayer(ctx, l, sign); err != nil {
					return fmt.Errorf("model: %v: %w", l.on, err)
				}
			}
		}
	}
	return nil
}

// mergeLayer adds this rank's part of a product, which its parts of A and B give, in float32.
func (a *Adapter) mergeLayer(ctx context.Context, l pair, sign float64) error {
	m := a.m
	if l.on.coded() {
		return errQuantized
	}
	values, err := m.store.read(ctx, l.on, masters(m.store))
	if err != nil {
		return err
	}
	change := make([]float32, len(values))
	err = aclnn.Compose(m.st, func(s *aclnn.Scope) {
		product, first, second := s.Tensor(aclnn.Float32, l.on.local()...), l.b.Master, l.a.Master
		if l.experts > 0 {
			first, second = s.Contiguous(l.outward(first).Transpose(1, 2)), s.Contiguous(l.inward(second).Transpose(1, 2))
		}
		aclnn.Launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: first, Mat2: second, Out: product})
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, s.Stream, change, product) })
	})
	if err != nil {
		return err
	}
	for i := range values {
		values[i] = float32(float64(values[i]) + sign*l.scale*float64(change[i]))
	}
	if err := m.store.write(ctx, l.on, masters(m.store), known(values)); err != nil {
		return err
	}
	return m.store.publish(l.on)
}
