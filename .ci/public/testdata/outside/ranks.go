package service

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops/parallel"
)

// Sum adds up the values of all ranks: on every rank come the sum, and the rank of the largest
// value of the first element.
func Sum(ctx context.Context, st *acl.Stream, group *world.Group, values []float32) (sum []float32, largest int, err error) {
	comm, err := hccl.Join(ctx, st, group, hccl.Config{})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, comm.Close()) }()
	sum = make([]float32, len(values))
	err = aclnn.Compose(st, func(s *aclnn.Scope) {
		t := s.Tensor(aclnn.Float32, int64(len(values)))
		s.Do(func() error { return aclnn.CopyToDevice(ctx, st, t, values) })
		s.Do(func() error { return parallel.Sum(comm)(st, t) })
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, sum, t) })
	})
	if err != nil {
		return nil, 0, err
	}
	all, err := world.AllGather(ctx, group, values[0])
	for rank, v := range all {
		if v > all[largest] {
			largest = rank
		}
	}
	return sum, largest, err
}
