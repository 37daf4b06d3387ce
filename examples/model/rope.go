package model

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// ropeTable keeps the cosines and sines of the rotary embedding for the longest sequence
// seen, [1, length, 1, rotated features]; the two features of a pair have the same. Where layers with a window
// have a rotation of their own, its features follow.
type ropeTable struct {
	length   int64
	regime   int64 // see Rope.regime
	cos, sin *aclnn.Tensor
}

// whole returns the tables of a batch, in which every sequence is whole.
func (r *ropeTable) whole(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, b Batch) (rotation, error) {
	longest := int64(b.Length)
	if b.CuSeqLens != nil {
		longest = 0
		for i, end := range b.CuSeqLens[1:] {
			longest = max(longest, end-b.CuSeqLens[i])
		}
	}
	return r.grow(ctx, st, c, dt, 0, int64(b.Length), c.Rope.regime(c, longest))
}

// get returns the tables of length positions, starting at from, of sequences that grow with a cache. They have at most
// Config.longest tokens, so that the keys in the cache stay as they are.
func (r *ropeTable) get(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, from, length int64) (rotation, error) {
	return r.grow(ctx, st, c, dt, from, length, 0)
}

func (r *ropeTable) grow(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, from, length, regime int64) (rotation, error) {
	if end := from + length; end > r.length || regime != r.regime {
		// Double the length at least, so that a sequence that grows token by token rarely needs a
		// new table.
		if err := r.make(ctx, st, c, dt, max(end, 2*min(r.length, end)), regime); err != nil {
			return rotation{}, err
		}
	}
	return rotation{cos: r.cos.Narrow(1, from, length), sin: r.sin.Narrow(1, from, length)}, nil
}

func (r *ropeTable) make(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, length, regime int64) error {
	if err := r.close(); err != nil {
		return err
	}
	frequencies, scale := c.Rope.frequencies(c, regime)
	cos, sin := ops.RoPETables(int(length), frequencies, scale, c.neighbours())
	width := 2 * len(frequencies)
	if near := c.near(); c.family().gemma {
		frequencies, scale = near.Rope.frequencies(near, regime)
		nearCos, nearSin := ops.RoPETables(int(length), frequencies, scale, near.neighbours())
		cos, sin = beside(cos, nearCos, width), beside(sin, nearSin, width)
		width *= 2
	}
	for _, table := range []struct {
		to     **aclnn.Tensor
		values []float32
	}{{&r.cos, cos}, {&r.sin, sin}} {
		t, err := upload(ctx, st, dt, table.values, 1, length, 1, int64(width))
		if err != nil {
			return errors.Join(err, r.close())
		}
		*table.to = t
	}
	r.length, r.regime = length, regime
	return nil
}

// beside puts the rows of two tables beside each other.
func beside(first, second []float32, width int) (both []float32) {
	for at := 0; at < len(first); at += width {
		both = append(append(both, first[at:][:width]...), second[at:][:width]...)
	}
	return both
}

func (r *ropeTable) close() error {
	err := errors.Join(r.cos.Close(), r.sin.Close())
	*r = ropeTable{}
	return err
}

// upload makes a tensor of the given dtype from float32 values.
func upload(ctx context.Context, st *acl.Stream, dt aclnn.DType, values []float32, shape ...int64) (*aclnn.Tensor, error) {
	t, err := aclnn.New(st, dt, shape...)
	if err != nil {
		return nil, err
	}
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		wide := t
		if dt != aclnn.Float32 {
			wide = s.Tensor(aclnn.Float32, shape...)
		}
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, wide, values) })
		if wide != t {
			s.Copy(t, wide)
		}
	})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}
