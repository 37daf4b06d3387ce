package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Sharded are parameters of which each rank keeps a flat shard. Gather makes whole weights
// for the time of a pass, in FRACTAL_NZ where a grouped product will read them; gradients go
// back to shards. Only the gathered weights are ever in NZ: shards, gradients and what is
// saved are ND, so the optimiser works on Shard like on any flat parameter.
//
//	p, err := ops.NewSharded(st, reg, comm, aclnn.BFloat16, parameters, ops.ShardConfig{Rules: rules})
//	err = p.Load(st, i, whole)                // each rank takes its part
//	err = p.Gather(ctx, st)                   // p.Weight(i)
//	err = p.Release()                         // after the pass that reads them
//	err = p.Reduce(st, gradients, grad)  // grad [total] of this rank
//
// All ranks make the same calls in the same order. comm may be nil for one rank.
type Sharded struct {
	Layout *ShardLayout
	reg    *Registry
	comm   Communicator
	shard  *aclnn.Tensor
	scale  float64
	whole  []*aclnn.Tensor // while gathered
	memory []*aclnn.Tensor // of whole
	moved  int
}

// NewSharded allocates the shard of this rank, zero, from the stream's allocator.
func NewSharded(st *acl.Stream, reg *Registry, comm Communicator, dt aclnn.DType, parameters []ShardedParameter, c ShardConfig) (*Sharded, error) {
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
		err = aclnn.InplaceZero(st, aclnn.InplaceZeroParams{SelfRef: shard})
	}
	if err != nil {
		return nil, errors.Join(err, shard.Close())
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / float64(ranks)
	}
	return &Sharded{Layout: layout, reg: reg, comm: comm, shard: shard, scale: scale}, nil
}

// Shard is what this rank keeps, [total]; the optimiser updates it.
func (p *Sharded) Shard() *aclnn.Tensor { return p.shard }

// Moved is the traffic of the last Gather's copy-out in bytes, read and written.
func (p *Sharded) Moved() int { return p.moved }

// Weight is parameter i while gathered: FRACTAL_NZ or contiguous ND. Before Gather and after
// Release it is nil.
func (p *Sharded) Weight(i int) *aclnn.Tensor {
	if i < 0 || i >= len(p.whole) {
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

// part checks an index and a tensor that is to be the whole parameter.
func (p *Sharded) part(i int, whole *aclnn.Tensor, dtypes ...aclnn.DType) (*ShardPart, error) {
	if i < 0 || i >= len(p.Layout.Parts) {
		return nil, invalid("there is no parameter %d of %d", i, len(p.Layout.Parts))
	}
	part := &p.Layout.Parts[i]
	var c check
	c.tensor(part.Name, whole, dtypes...)
	c.shape(part.Name, whole, part.Shape...)
	return part, c.err
}

// Load puts this rank's part of parameter i into its shard. whole is the parameter in ND; an
// expert weight of a Hugging Face checkpoint, [groups, out, in], comes as its
// Transpose(1, 2), and Gather in ND followed by Transpose(1, 2) gives it back.
func (p *Sharded) Load(st *acl.Stream, i int, whole *aclnn.Tensor) error {
	part, err := p.part(i, whole, floats...)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	lo, hi := part.Owned(p.rank())
	if lo == hi {
		return nil
	}
	return compose(st, func(s *steps) {
		s.store(p.shard.Narrow(0, part.Start, hi-lo), s.dense(whole).Reshape(-1).Narrow(0, lo, hi-lo))
	})
}

// Gather makes all parameters whole, in the storage that their roles ask for.
func (p *Sharded) Gather(ctx context.Context, st *acl.Stream) error { return p.gather(ctx, st, true) }

// GatherND makes all parameters whole in ND: to save them, or for a chip without products of
// FRACTAL_NZ weights.
func (p *Sharded) GatherND(ctx context.Context, st *acl.Stream) error {
	return p.gather(ctx, st, false)
}

func (p *Sharded) gather(ctx context.Context, st *acl.Stream, nz bool) error {
	if err := p.Release(); err != nil {
		return err
	}
	p.moved = 0
	err := compose(st, func(s *steps) {
		all := p.shard.Unsqueeze(0)
		if p.Layout.Ranks > 1 && p.Layout.Total > 0 {
			all = s.tensor(p.shard.DType(), p.Layout.Ranks, p.Layout.Total)
			if s.err == nil {
				s.err = p.comm.AllGather(st, p.shard, all)
			}
		}
		for i := range p.Layout.Parts {
			if s.err == nil {
				s.err = p.copyOut(ctx, st, all, &p.Layout.Parts[i], nz)
			}
		}
	})
	if err != nil {
		return errors.Join(fmt.Errorf("gather: %w", err), p.Release())
	}
	return nil
}

// copyOut makes one parameter whole.
func (p *Sharded) copyOut(ctx context.Context, st *acl.Stream, all *aclnn.Tensor, part *ShardPart, nz bool) error {
	chunk := part.End - part.Start
	memory, err := aclnn.New(st, all.DType(), p.Layout.Ranks*chunk)
	if err != nil {
		return err
	}
	p.memory = append(p.memory, memory)
	whole := memory.Narrow(0, 0, part.Len()).Reshape(part.Shape...)
	if nz && part.NZ(all.DType()) {
		a := SliceToNZArgs{Gathered: all, Start: part.Start, End: part.End, Out: whole.AsNZ()}
		err, whole = p.reg.SliceToNZ.Run(ctx, st, &a), a.Out
		p.moved += a.Moved
	} else if memory.Len() > 0 {
		err = aclnn.InplaceCopy(st, aclnn.InplaceCopyParams{SelfRef: memory.Reshape(p.Layout.Ranks, chunk), Src: all.Narrow(1, part.Start, chunk)})
		p.moved += 2 * memory.Bytes()
	}
	p.whole = append(p.whole, whole)
	return err
}

// Release frees the gathered weights, in stream order.
func (p *Sharded) Release() error {
	var err error
	for _, t := range p.memory {
		err = errors.Join(err, t.Close())
	}
	p.memory, p.whole = nil, nil
	return err
}

// Reduce sums the whole gradients of all ranks, times ShardConfig.Scale, and stores this rank's part of the result
// in grad, [total], like the shard; padding has gradient 0. gradients are ND, one per
// parameter, of the dtype of grad, which may be float32 for 16-bit parameters.
func (p *Sharded) Reduce(st *acl.Stream, gradients []*aclnn.Tensor, grad *aclnn.Tensor) error {
	var c check
	c.tensor("grad", grad, p.shard.DType(), aclnn.Float32)
	c.shape("grad", grad, p.Layout.Total)
	c.contiguous("grad", grad)
	if c.ok() && len(gradients) != len(p.Layout.Parts) {
		c.fail("%d gradients for %d parameters", len(gradients), len(p.Layout.Parts))
	}
	for i, g := range gradients {
		if c.ok() {
			_, c.err = p.part(i, g, grad.DType())
		}
	}
	if c.err != nil || p.Layout.Total == 0 {
		return c.err
	}
	return compose(st, func(s *steps) {
		all := s.tensor(grad.DType(), p.Layout.Ranks, p.Layout.Total)
		s.zero(all)
		for i, g := range gradients {
			p.Layout.Parts[i].copyIn(s, all, g)
		}
		if p.Layout.Ranks == 1 {
			s.store(grad, all.Select(0, 0))
		} else if s.err == nil {
			s.err = p.comm.ReduceScatter(st, all, grad, hccl.Sum)
		}
		if p.scale != 1 {
			s.scale(grad, p.scale)
		}
	})
}

// copyIn puts a whole gradient into the columns of its parameter: whole rows of ranks at once,
// and the part of the rank where it ends.
func (p *ShardPart) copyIn(s *steps, all, whole *aclnn.Tensor) {
	chunk, n := p.End-p.Start, p.Len()
	if n == 0 {
		return
	}
	flat, full := s.dense(whole).Reshape(-1), n/chunk
	columns := all.Narrow(1, p.Start, chunk)
	if full > 0 {
		s.store(columns.Narrow(0, 0, full), flat.Narrow(0, 0, full*chunk).Reshape(full, chunk))
	}
	if rest := n - full*chunk; rest > 0 {
		s.store(columns.Select(0, full).Narrow(0, 0, rest), flat.Narrow(0, full*chunk, rest))
	}
}

// Close frees the shard and what is gathered.
func (p *Sharded) Close() error { return errors.Join(p.Release(), p.shard.Close()) }
