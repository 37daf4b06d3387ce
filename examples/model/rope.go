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
// have a rotation of their own, its features follow. For caches whose sequences may have either rotation of LongRoPE, the rows
// of the other one follow.
type ropeTable struct {
	length   int64
	regime   int64 // see Rope.regime
	cos, sin *aclnn.Tensor
}

// bothRegimes stands for a table with the rows of regime 0, and then those of regime 1.
const bothRegimes = -1

// whole returns the tables of a batch, in which every sequence is whole.
func (r *ropeTable) whole(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, b Batch) (rotation, error) {
	longest := int64(b.Length)
	if b.CuSeqLens != nil {
		longest = 0
		for i, end := range b.CuSeqLens[1:] {
			longest = max(longest, end-b.CuSeqLens[i])
		}
	}
	from := int64(b.From)
	if err := r.grow(ctx, st, c, dt, from+int64(b.Length), c.Rope.regime(c, from+longest)); err != nil {
		return rotation{}, err
	}
	return rotation{r.cos, r.sin}, nil
}

// cached makes the tables of sequences that grow with a cache have so many positions. Where row finds one.
func (r *ropeTable) cached(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, length int64) error {
	regime := int64(0)
	if c.SwitchesAfter() > 0 {
		regime = bothRegimes
	}
	return r.grow(ctx, st, c, dt, length, regime)
}

// row is that of a position in tables that cached has made.
func (r *ropeTable) row(position int64, long bool) int64 {
	if long {
		return r.length + position
	}
	return position
}

func (r *ropeTable) grow(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, length, regime int64) error {
	if length <= r.length && regime == r.regime {
		return nil
	}
	// Double the length at least, so that a sequence that grows token by token rarely needs a
	// new table.
	return r.make(ctx, st, c, dt, max(length, 2*min(r.length, length)), regime)
}

func (r *ropeTable) make(ctx context.Context, st *acl.Stream, c Config, dt aclnn.DType, length, regime int64) error {
	if err := r.close(); err != nil {
		return err
	}
	regimes, rows := []int64{regime}, length
	if regime == bothRegimes {
		regimes, rows = []int64{0, 1}, 2*length
	}
	var cos, sin []float32
	for _, regime := range regimes {
		frequencies, scale := c.Rope.frequencies(c, regime)
		ownCos, ownSin := ops.RoPETables(int(length), frequencies, scale, c.neighbours())
		if near := c.near(); c.family().gemma {
			width := 2 * len(frequencies)
			frequencies, scale = near.Rope.frequencies(near, regime)
			nearCos, nearSin := ops.RoPETables(int(length), frequencies, scale, near.neighbours())
			ownCos, ownSin = beside(ownCos, nearCos, width), beside(ownSin, nearSin, width)
		}
		cos, sin = append(cos, ownCos...), append(sin, ownSin...)
	}
	for _, table := range []struct {
		to     **aclnn.Tensor
		values []float32
	}{{&r.cos, cos}, {&r.sin, sin}} {
		t, err := upload(ctx, st, dt, table.values, 1, rows, 1, int64(len(table.values))/rows)
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
