package parallel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/internal/check"
)

// ShardStream exchanges shards on a stream of its own, beside the kernels of the stream that reads the weights: it gathers the next weights while a layer computes,
// and reduces the gradients of a layer while the next one computes. The streams wait for each other by events; the host does not wait.
//
//	x, err := parallel.NewShardStream(st)
//	err = x.Gather(ctx, true, layer...)      // layer[i].Weight(j); at once if they were prefetched
//	err = x.Prefetch(next...)                // before the kernels of the layer
//	err = x.Reduce(parallel.ShardGradients{Shards: s, Gradients: gradients, Grad: grad}, …)
//	err = x.Join()                           // before the optimiser
//
// Beside the weights of the layer it holds the shards of all ranks of the one layer that is prefetched, and gradients of the one layer that is reduced, until Join.
// All ranks make the same calls. Between the first call and Join, the communicators of the shards must not be used on other streams. It is not safe for concurrent use.
type ShardStream struct {
	st, side *acl.Stream
	ahead    []*Sharded    // prefetched, or nil
	gathered *aclnn.Tensor // their shards of all ranks, one after another
	full     *acl.Event    // after the gather of ahead
	sums     *aclnn.Tensor // the gradients that are reduced
	reduced  *acl.Event    // after their reduction
	reducing bool          // st has not waited for reduced
	used     bool          // side, since the last Join
}

// ShardGradients are whole gradients of shards, as in Sharded.Reduce. Replicas, if it is set, contains the ranks that have the same shards: the sum is over them too.
// With Accumulate the sum is added to Grad, as gradients of another micro-batch.
type ShardGradients struct {
	Shards     *Sharded
	Gradients  []*aclnn.Tensor
	Grad       *aclnn.Tensor
	Replicas   Communicator
	Accumulate bool
}

// NewShardStream makes a stream for the exchanges of shards whose weights st reads.
func NewShardStream(st *acl.Stream) (*ShardStream, error) {
	if st == nil {
		return nil, fmt.Errorf("shards: %w", check.Invalid("the stream is nil"))
	}
	x, err := &ShardStream{st: st}, error(nil)
	if x.side, err = st.Device().NewStream(); err != nil {
		return nil, err
	}
	for _, e := range []**acl.Event{&x.full, &x.reduced} {
		if *e, err = st.Device().NewEvent(); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return x, nil
}

// Stream returns the stream of the exchanges, for GradientsConfig.Stream of gradients that are exchanged by the same communicator.
func (x *ShardStream) Stream() *acl.Stream {
	if x == nil {
		return nil
	}
	return x.side
}

// made returns an error if NewShardStream did not make x, or for shards that NewSharded did not make.
func (x *ShardStream) made(shards []*Sharded) error {
	if x == nil || x.st == nil {
		return fmt.Errorf("shards: %w", check.Invalid("the stream of shards was not made; use NewShardStream"))
	}
	for _, p := range shards {
		if err := p.made(); err != nil {
			return err
		}
	}
	return nil
}

// room makes a flat tensor have n elements at least.
func (x *ShardStream) room(t **aclnn.Tensor, dt aclnn.DType, n int64) error {
	if *t != nil && (*t).DType() == dt && (*t).Len() >= n {
		return nil
	}
	if err := x.drop(t); err != nil {
		return err
	}
	made, err := aclnn.New(x.st, dt, n)
	if err == nil {
		*t = made
	}
	return err
}

func (x *ShardStream) drop(t **aclnn.Tensor) error {
	if *t == nil {
		return nil
	}
	err := (*t).Close()
	*t = nil
	return err
}

// exchanged returns the shards that are on several ranks.
func exchanged(shards []*Sharded) (several []*Sharded) {
	for _, p := range shards {
		if p.alone() == nil {
			several = append(several, p)
		}
	}
	return several
}

// matrices cuts a flat tensor into the matrices of all shards, [ranks, total] each.
func matrices(flat *aclnn.Tensor, shards []*Sharded) (all []*aclnn.Tensor) {
	at := int64(0)
	for _, p := range shards {
		n := p.layout.Ranks * p.layout.Total
		all = append(all, flat.Narrow(0, at, n).Reshape(p.layout.Ranks, p.layout.Total))
		at += padded(flat.DType(), n)
	}
	return all
}

// matrixElements returns how many elements the matrices of shards have, with the gaps between them.
func matrixElements(dt aclnn.DType, shards []*Sharded) (n int64) {
	for _, p := range shards {
		n += padded(dt, p.layout.Ranks*p.layout.Total)
	}
	return n
}

// Prefetch begins to gather shards of one dtype, for a Gather of the same ones. Others that were prefetched, and not gathered, are forgotten. Without shards it frees
// the memory of the last ones.
func (x *ShardStream) Prefetch(shards ...*Sharded) error {
	if err := x.made(shards); err != nil {
		return err
	}
	x.ahead = nil
	shards = exchanged(shards)
	if len(shards) == 0 {
		return x.drop(&x.gathered)
	}
	dt := shards[0].shard.DType()
	for _, p := range shards {
		if p.shard.DType() != dt {
			return fmt.Errorf("prefetch: %w", check.Invalid("shards of %v and of %v; prefetch those of one dtype", dt, p.shard.DType()))
		}
	}
	err := x.room(&x.gathered, dt, matrixElements(dt, shards))
	if err == nil { // what reads this memory, or writes the shards, is queued
		err = x.side.WaitStream(x.st)
	}
	if err != nil {
		return fmt.Errorf("prefetch: %w", err)
	}
	x.used = true
	for i, all := range matrices(x.gathered, shards) {
		if err := shards[i].comm.AllGather(x.side, shards[i].shard, all); err != nil {
			return fmt.Errorf("prefetch: %w", err)
		}
	}
	x.ahead = shards
	return x.full.Record(x.side)
}

// Gather assembles the parameters of shards, as Sharded.Gather does, or GatherND without nz. Release frees them.
func (x *ShardStream) Gather(ctx context.Context, nz bool, shards ...*Sharded) error {
	if err := x.made(shards); err != nil {
		return err
	}
	for _, p := range shards {
		if err := p.Release(); err != nil {
			return err
		}
	}
	others := exchanged(shards)
	if len(others) > 0 && !slices.Equal(x.ahead, others) {
		if err := x.Prefetch(others...); err != nil {
			return err
		}
	}
	var err error
	var all []*aclnn.Tensor
	if len(others) > 0 {
		x.ahead = nil
		err, all = x.st.Wait(x.full), matrices(x.gathered, others)
	}
	for _, p := range shards {
		from := p.alone()
		if from == nil {
			from, all = all[0], all[1:]
		}
		if err == nil {
			err = p.assemble(ctx, x.st, from, nz)
		}
	}
	if err != nil {
		err = fmt.Errorf("gather: %w", err)
		for _, p := range shards {
			err = errors.Join(err, p.Release())
		}
	}
	return err
}

// Reduce is Sharded.Reduce of gradients of one dtype, of which Grad is complete after Join. The whole gradients may be freed after it.
func (x *ShardStream) Reduce(gradients ...ShardGradients) error {
	var shards []*Sharded
	for _, g := range gradients {
		if err := g.Shards.reducible(g.Gradients, g.Grad); err != nil {
			return err
		}
		if g.Grad.DType() != gradients[0].Grad.DType() {
			return fmt.Errorf("reduce: %w", check.Invalid("gradients of %v and of %v; reduce those of one dtype", gradients[0].Grad.DType(), g.Grad.DType()))
		}
		shards = append(shards, g.Shards)
	}
	if err := x.made(shards); err != nil || len(shards) == 0 {
		return err
	}
	if err := x.reduce(gradients, shards); err != nil {
		return fmt.Errorf("reduce: %w", err)
	}
	return nil
}

func (x *ShardStream) reduce(gradients []ShardGradients, shards []*Sharded) error {
	dt := gradients[0].Grad.DType()
	if err := errors.Join(x.wait(), x.room(&x.sums, dt, matrixElements(dt, shards))); err != nil {
		return err
	}
	all := matrices(x.sums, shards)
	err := aclnn.Compose(x.st, func(s *aclnn.Scope) {
		for i, g := range gradients {
			if all[i].Len() > 0 {
				g.Shards.fill(s, all[i], g.Gradients)
			}
		}
	})
	if err == nil {
		err = x.side.WaitStream(x.st)
	}
	if err != nil {
		return err
	}
	x.used = true
	err = aclnn.Compose(x.side, func(s *aclnn.Scope) {
		for i, g := range gradients {
			if all[i].Len() == 0 {
				continue
			}
			sum := g.Grad
			if g.Accumulate {
				sum = s.Like(g.Grad)
			}
			g.Shards.reduce(s, all[i], sum)
			if g.Replicas != nil {
				s.Do(func() error { return g.Replicas.AllReduce(s.Stream, sum, sum, hccl.Sum) })
			}
			if g.Accumulate {
				add(s, g.Grad, sum, 1)
			}
		}
	})
	if err == nil {
		err = x.reduced.Record(x.side)
	}
	x.reducing = err == nil
	return err
}

// wait makes the stream of the kernels wait for the reduction that is under way.
func (x *ShardStream) wait() error {
	if !x.reducing {
		return nil
	}
	x.reducing = false
	return x.st.Wait(x.reduced)
}

// Join makes the stream that reads the weights wait for all exchanges, and frees the memory that they used. The host does not wait.
func (x *ShardStream) Join() error {
	if err := x.made(nil); err != nil {
		return err
	}
	var err error
	if x.used {
		err = x.st.WaitStream(x.side)
	}
	x.ahead, x.reducing, x.used = nil, false, false
	return errors.Join(err, x.drop(&x.gathered), x.drop(&x.sums))
}

// Close waits for the exchanges and frees their stream.
func (x *ShardStream) Close() error {
	if x == nil || x.st == nil {
		return nil
	}
	errs := []error{x.drop(&x.gathered), x.drop(&x.sums), x.side.Close()}
	for _, e := range []*acl.Event{x.full, x.reduced} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}
