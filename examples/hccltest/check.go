package main

import (
	"context"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl"
)

// value returns element i of the data that a rank sends: small integers, so that every dtype holds
// their combinations over the ranks exactly.
func value(p *operation, reduce hccl.ReduceOp, ranks, rank int, i int64) float32 {
	switch {
	case p.reduces && reduce == hccl.Prod && i%int64(ranks) == int64(rank):
		return 2
	case p.reduces && reduce == hccl.Prod:
		return 1
	case p.reduces:
		return float32((int64(rank)+i)%2 + 1)
	}
	return float32((31*int64(rank) + i) % 100)
}

// combined returns the combination of element i over all ranks.
func combined(p *operation, reduce hccl.ReduceOp, ranks int, i int64) float32 {
	sum := value(p, reduce, ranks, 0, i)
	for r := 1; r < ranks; r++ {
		switch v := value(p, reduce, ranks, r, i); reduce {
		case hccl.Sum:
			sum += v
		case hccl.Prod:
			sum *= v
		case hccl.Max:
			sum = max(sum, v)
		case hccl.Min:
			sum = min(sum, v)
		}
	}
	return sum
}

// want returns element i of the data that this rank must receive.
func (c *call) want(p *operation, i int64) float32 {
	rank, element := p.source(c, i)
	if p.reduces {
		return combined(p, c.reduce, c.Size(), element)
	}
	return value(p, c.reduce, c.Size(), rank, element)
}

// upload makes a tensor of n elements from the values of element, converted on the device.
func (c *call) upload(ctx context.Context, dt aclnn.DType, n int64, element func(i int64) float32) (x *aclnn.Tensor, err error) {
	values := make([]float32, n)
	for i := range values {
		values[i] = element(int64(i))
	}
	single, err := aclnn.New(c.st, aclnn.Float32, n)
	if err != nil {
		return nil, err
	}
	defer job.Close(&err, single)
	if x, err = aclnn.New(c.st, dt, n); err != nil {
		return nil, err
	}
	if n > 0 {
		if err = aclnn.CopyToDevice(ctx, c.st, single, values); err == nil {
			err = aclnn.Cast(c.st, aclnn.CastParams{Self: single, Dtype: dt, Out: x})
		}
		if err == nil {
			err = c.st.Synchronize(ctx)
		}
	}
	if err != nil {
		job.Close(&err, x)
	}
	return x, err
}

// verify compares the received data and describes the first wrong element.
func (c *call) verify(ctx context.Context, p *operation) (wrong string, err error) {
	x := c.recv
	if p.name == "broadcast" && c.Rank() == c.root {
		x = c.send
	}
	if !p.defined(c) || x.Len() == 0 {
		return "", nil
	}
	single, err := aclnn.New(c.st, aclnn.Float32, x.Len())
	if err != nil {
		return "", err
	}
	defer job.Close(&err, single)
	if err := aclnn.Cast(c.st, aclnn.CastParams{Self: x, Dtype: aclnn.Float32, Out: single}); err != nil {
		return "", err
	}
	got := make([]float32, x.Len())
	if err := aclnn.CopyFromDevice(ctx, c.st, got, single); err != nil {
		return "", err
	}
	for i, g := range got {
		if w := c.want(p, int64(i)); g != w {
			return fmt.Sprintf("rank %d: element %d is %v, not %v", c.Rank(), i, g, w), nil
		}
	}
	return "", nil
}
