package service

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
	"github.com/goascend/cann/ops/setup"
)

// Remember writes the keys of some tokens, of 16 features each, into slots of a new cache, and returns the cache.
func Remember(ctx context.Context, st *acl.Stream, reg *ops.Registry, keys []float32, slots []int32, places int64) ([]float32, error) {
	dec, err := decode.New(reg)
	if err != nil {
		return nil, err
	}
	cache := make([]float32, places*16)
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		k, at := s.Tensor(aclnn.Float32, int64(len(slots)), 1, 16), s.Tensor(aclnn.Int32, int64(len(slots)))
		kc, vc := s.Tensor(aclnn.Float32, 1, places, 16), s.Tensor(aclnn.Float32, 1, places, 16)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, k, keys) })
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, at, slots) })
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, kc, cache) })
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, vc, cache) })
		s.Do(func() error {
			return dec.Write().Run(ctx, st, &decode.WriteArgs{Keys: k, Values: k, KeyCache: kc, ValueCache: vc, Slots: at})
		})
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, cache, kc) })
	})
	return cache, err
}

// Works says what stands against a job with gated delta nets.
func Works(d setup.Delta) error {
	_, err := d.Check()
	return err
}
