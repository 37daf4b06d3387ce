package parallel

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
)

// Sharded holds parameters of which each rank keeps a flat shard. Gather assembles whole weights
// for the duration of a pass, in FRACTAL_NZ where a grouped product reads them; Reduce sums
// gradients into shards. Only gathered weights are in FRACTAL_NZ: shards, gradients and checkpoints
// are ND, so an optimiser can update Shard like any flat parameter.
//
//	p, err := parallel.NewSharded(st, reg, comm, aclnn.BFloat16, parameters, parallel.ShardConfig{Rules: rules})
//	err = p.Load(st, i, whole)                // each rank takes its part
//	err = p.Gather(ctx, st)                   // p.Weight(i)
//	err = p.Release()                         // after the pass that reads them
//	err = p.Reduce(st, gradients, grad)  // grad [total] of this rank
//
// All ranks make the same calls in the same order. comm may be nil for one rank.
type Sharded struct {
	layout  *ShardLayout
	reg     *ops.Registry
	comm    Communicator
	shard   *aclnn.Tensor
	scale   float64
	whole   []*aclnn.Tensor // nil unless gathered
	memory  []*aclnn.Tensor // the memory of whole
	traffic int
}

// NewSharded allocates this rank's shard from the stream's allocator and fills it with zeros.
func NewSharded(st *acl.Stream, reg *ops.Registry, comm Communicator, dt aclnn.DType, parameters []ShardedParameter, c ShardConfig) (*Sharded, error) {
	ranks := 1
	if comm != nil {
		ranks = comm.Size()
	}
	layout, err := NewShardLayout(ranks, parameters, c)
	if err != nil {
		return nil, err
	}
	shard, err := aclnn.New(st, dt, layout.Total)
	if err != nil {
		return nil, err
	}
	if layout.Total > 0 {
		err = aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: shard})
	}
	if err != nil {
		return nil, errors.Join(err, shard.Close())
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / float64(ranks)
	}
	return &Sharded{layout: layout, reg: reg, comm: comm, shard: shard, scale: scale}, nil
}

// made returns an error if NewSharded did not make the shards.
func (p *Sharded) made() error {
	if p == nil || p.layout == nil {
		return check.Invalid("the shards were not made; use NewSharded")
	}
	return nil
}

// Layout returns where the parameters lie in the shards.
func (p *Sharded) Layout() *ShardLayout {
	if p == nil {
		return nil
	}
	return p.layout
}

// Shard returns this rank's shard, [total]; the optimiser updates it.
func (p *Sharded) Shard() *aclnn.Tensor {
	if p == nil {
		return nil
	}
	return p.shard
}

// Traffic returns how many bytes the last Gather read and wrote when it copied weights out of the
// gathered shards.
func (p *Sharded) Traffic() int {
	if p == nil {
		return 0
	}
	return p.traffic
}

// Weight returns parameter i while it is gathered, in FRACTAL_NZ or contiguous ND. It returns nil
// before Gather and after Release.
func (p *Sharded) Weight(i int) *aclnn.Tensor {
	if p == nil || i < 0 || i >= len(p.whole) {
		return nil
	}
	return p.whole[i]
}

func (p *Sharded) rank() int64 {
	if p.comm == nil {
		return 0
	}
	return int64(p.comm.Rank())
}

// part checks the index of a parameter and a tensor that must have the parameter's shape.
func (p *Sharded) part(i int, whole *aclnn.Tensor, dtypes ...aclnn.DType) (*ShardPart, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(p.layout.Parts) {
		return nil, check.Invalid("there is no parameter %d of %d", i, len(p.layout.Parts))
	}
	part := &p.layout.Parts[i]
	var c check.Args
	c.Tensor(part.Name, whole, dtypes...)
	c.Shape(part.Name, whole, part.Shape...)
	return part, c.Err
}

// Load stores this rank's part of parameter i in its shard. whole is the parameter in ND. For an
// expert weight of a Hugging Face checkpoint, [groups, out, in], pass its Transpose(1, 2); after
// GatherND, Transpose(1, 2) restores the checkpoint's layout.
func (p *Sharded) Load(st *acl.Stream, i int, whole *aclnn.Tensor) error {
	part, err := p.part(i, whole, check.Floats...)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	lo, hi := part.Owned(p.rank())
	if lo == hi {
		return nil
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		s.Copy(p.shard.Narrow(0, part.Start, hi-lo), s.Contiguous(whole).Reshape(-1).Narrow(0, lo, hi-lo))
	})
}

// Gather assembles all parameters, each in the format that its role asks for. Of one rank, weights in ND are views of the shard.
func (p *Sharded) Gather(ctx context.Context, st *acl.Stream) error { return p.gather(ctx, st, true) }

// GatherND assembles all parameters in ND, to save them or for a chip without products of
// FRACTAL_NZ weights.
func (p *Sharded) GatherND(ctx context.Context, st *acl.Stream) error {
	return p.gather(ctx, st, false)
}

func (p *Sharded) gather(ctx context.Context, st *acl.Stream, nz bool) error {
	if err := p.made(); err != nil {
		return err
	}
	if err := p.Release(); err != nil {
		return err
	}
	err := aclnn.Compose(st, func(s *aclnn.Scope) {
		all := p.alone()
		if all == nil {
			all = s.Tensor(p.shard.DType(), p.layout.Ranks, p.layout.Total)
			s.Do(func() error { return p.comm.AllGather(st, p.shard, all) })
		}
		s.Do(func() error { return p.assemble(ctx, st, all, nz) })
	})
	if err != nil {
		return errors.Join(fmt.Errorf("gather: %w", err), p.Release())
	}
	return nil
}

// alone returns the matrix of all shards if there is nothing to exchange, else nil.
func (p *Sharded) alone() *aclnn.Tensor {
	if p.layout.Ranks > 1 && p.layout.Total > 0 {
		return nil
	}
	return p.shard.Unsqueeze(0)
}

// assemble makes all parameters of the matrix of all shards.
func (p *Sharded) assemble(ctx context.Context, st *acl.Stream, all *aclnn.Tensor, nz bool) error {
	p.traffic = 0
	for i := range p.layout.Parts {
		if err := p.copyOut(ctx, st, all, &p.layout.Parts[i], nz); err != nil {
			return err
		}
	}
	return nil
}

// copyOut assembles one parameter from the gathered shards.
func (p *Sharded) copyOut(ctx context.Context, st *acl.Stream, all *aclnn.Tensor, part *ShardPart, nz bool) error {
	chunk := part.End - part.Start
	if p.layout.Ranks == 1 && !(nz && part.NZ(all.DType())) {
		whole := p.shard.Narrow(0, part.Start, part.Len()).Reshape(part.Shape...)
		p.whole = append(p.whole, whole)
		return whole.Err()
	}
	memory, err := aclnn.New(st, all.DType(), p.layout.Ranks*chunk)
	if err != nil {
		return err
	}
	p.memory = append(p.memory, memory)
	whole := memory.Narrow(0, 0, part.Len()).Reshape(part.Shape...)
	if nz && part.NZ(all.DType()) {
		a := ops.SliceToNZArgs{Gathered: all, Start: part.Start, End: part.End, Out: whole.AsNZ()}
		err, whole = p.reg.SliceToNZ().Run(ctx, st, &a), a.Out
		p.traffic += a.Traffic(p.reg.SliceToNZ().Explain(&a).Kernel)
	} else if memory.Len() > 0 {
		err = aclnn.InplaceCopy(st, aclnn.InplaceCopyParams{Self: memory.Reshape(p.layout.Ranks, chunk), Src: all.Narrow(1, part.Start, chunk)})
		p.traffic += 2 * memory.Bytes()
	}
	p.whole = append(p.whole, whole)
	return err
}

// Release frees the gathered weights, in stream order.
func (p *Sharded) Release() error {
	if err := p.made(); err != nil {
		return err
	}
	var err error
	for _, t := range p.memory {
		err = errors.Join(err, t.Close())
	}
	p.memory, p.whole = nil, nil
	return err
}

// Reduce sums the gradients of all ranks, multiplies them by ShardConfig.Scale, and stores this
// rank's part of the result in grad, [total], laid out like the shard; padding has gradient 0.
// gradients are ND, one per parameter, of the dtype of grad, which may be float32 for 16-bit
// parameters.
func (p *Sharded) Reduce(st *acl.Stream, gradients []*aclnn.Tensor, grad *aclnn.Tensor) error {
	if err := p.reducible(gradients, grad); err != nil || p.layout.Total == 0 {
		return err
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		all := s.Tensor(grad.DType(), p.layout.Ranks, p.layout.Total)
		p.fill(s, all, gradients)
		p.reduce(s, all, grad)
	})
}

// reducible checks the arguments of Reduce.
func (p *Sharded) reducible(gradients []*aclnn.Tensor, grad *aclnn.Tensor) error {
	if err := p.made(); err != nil {
		return err
	}
	var c check.Args
	c.Tensor("grad", grad, p.shard.DType(), aclnn.Float32)
	c.Shape("grad", grad, p.layout.Total)
	c.Contiguous("grad", grad)
	if c.OK() && len(gradients) != len(p.layout.Parts) {
		c.Fail("%d gradients for %d parameters", len(gradients), len(p.layout.Parts))
	}
	for i, g := range gradients {
		if c.OK() {
			_, c.Err = p.part(i, g, grad.DType())
		}
	}
	return c.Err
}

// fill arranges whole gradients as the matrix of all shards.
func (p *Sharded) fill(s *aclnn.Scope, all *aclnn.Tensor, gradients []*aclnn.Tensor) {
	s.Zero(all)
	for i, g := range gradients {
		p.layout.Parts[i].copyIn(s, all, g)
	}
}

// reduce sums the matrices of the ranks and stores this rank's row in grad.
func (p *Sharded) reduce(s *aclnn.Scope, all, grad *aclnn.Tensor) {
	if p.layout.Ranks == 1 {
		s.Copy(grad, all.Select(0, 0))
	} else {
		s.Do(func() error { return p.comm.ReduceScatter(s.Stream, all, grad, hccl.Sum) })
	}
	if p.scale != 1 {
		scale(s, grad, p.scale)
	}
}

// copyIn copies a whole gradient into the columns of its parameter: first the ranks whose part is
// full in one copy, then the part of the rank in which the gradient ends.
func (p *ShardPart) copyIn(s *aclnn.Scope, all, whole *aclnn.Tensor) {
	chunk, n := p.End-p.Start, p.Len()
	if n == 0 {
		return
	}
	flat, full := s.Contiguous(whole).Reshape(-1), n/chunk
	columns := all.Narrow(1, p.Start, chunk)
	if full > 0 {
		s.Copy(columns.Narrow(0, 0, full), flat.Narrow(0, 0, full*chunk).Reshape(full, chunk))
	}
	if rest := n - full*chunk; rest > 0 {
		s.Copy(columns.Select(0, full).Narrow(0, 0, rest), flat.Narrow(0, full*chunk, rest))
	}
}

// Close frees the shard and the gathered weights.
func (p *Sharded) Close() error {
	if p.made() != nil {
		return nil
	}
	return errors.Join(p.Release(), p.shard.Close())
}
