package op

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/random"
)

// Generator reads the seed and the offset, which are numbers or one-element tensors. Call the
// result in Run.
func (c *Call) Generator() func() (random.Philox, error) {
	offset := uint64(c.Int("offset"))
	if !c.Has("seedTensor") {
		seed := uint64(c.Int("seed"))
		return func() (random.Philox, error) { return random.Philox{Seed: seed, Offset: offset}, nil }
	}
	seed, base := c.Tensor("seedTensor"), c.Tensor("offsetTensor")
	for _, t := range []*Tensor{seed, base} {
		c.DType(t, dtype.Int64, dtype.Uint64)
		if t.Len() != 1 {
			c.Invalid("%v must have one element", t)
		}
	}
	return func() (random.Philox, error) {
		s, err := elementwise.Indices(whole(seed))
		if err != nil {
			return random.Philox{}, err
		}
		o, err := elementwise.Indices(whole(base))
		if err != nil {
			return random.Philox{}, err
		}
		return random.Philox{Seed: uint64(s[0]), Offset: uint64(o[0]) + offset}, nil
	}
}

// whole returns a tensor of 64-bit integers as one of int64, which has the same bits.
func whole(t *Tensor) kernel.View {
	v := t.View()
	v.DType = dtype.Int64
	return v
}
