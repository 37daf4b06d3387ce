package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops/parallel"
)

// Ranks is a rank of a training job, with its communicators.
type Ranks struct {
	Parallel
	// Index is the rank's number among the Parts groups of ranks that have different rows of a
	// batch.
	Index, Parts int
	// Group has the same ranks as World, for data of the host.
	Group *world.Group

	mesh, expertMesh string
	dense, experts   *world.Members[*hccl.Comm]
}

// Join makes the communicators of a layout. All ranks of the group call it at the same time.
// Experts are divided over whole ranks: Layout.ExpertTP is not used.
func Join(ctx context.Context, st *acl.Stream, all *world.Group, layout world.Layout) (*Ranks, error) {
	layout.ExpertTP = 1
	dense, err := layout.Dense(all.Rank(), all.Size())
	if err != nil {
		return nil, err
	}
	experts, err := layout.Expert(all.Rank(), all.Size())
	if err != nil {
		return nil, err
	}
	r := &Ranks{Group: all, mesh: dense.String(), expertMesh: experts.String(), dense: hccl.NewComms(dense, all, st), experts: hccl.NewComms(experts, all, st)}
	if r.Index, err = dense.Index("dp"); err == nil {
		r.Parts, err = dense.Size("dp")
	}
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		to      *parallel.Communicator
		members *world.Members[*hccl.Comm]
		axes    []string
	}{
		{&r.World, r.dense, []string{"tp", "cp", "dp", "pp"}},
		{&r.Tensor, r.dense, []string{"tp"}},
		{&r.Context, r.dense, []string{"cp"}},
		{&r.Data, r.dense, []string{"dp", "cp"}},
		{&r.Experts, r.experts, []string{"ep"}},
		{&r.ExpertData, r.experts, []string{"dp"}},
	} {
		comm, err := c.members.Of(ctx, c.axes...)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if comm != nil {
			*c.to = comm
		}
	}
	stages, err := r.dense.Of(ctx, "pp")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if stages != nil {
		r.Pipeline = stages
	}
	return r, nil
}

// Comms returns the communicators of this rank, for a watchdog.
func (r *Ranks) Comms() []*hccl.Comm { return append(r.dense.Made(), r.experts.Made()...) }

// String returns the mesh, such as "tp2 cp1 dp4 pp1", with that of experts if it differs.
func (r *Ranks) String() string {
	if r.Experts == nil {
		return r.mesh
	}
	return r.mesh + ", experts " + r.expertMesh
}

// Close closes the communicators; work on the streams that used them must have finished.
func (r *Ranks) Close() error { return errors.Join(r.experts.Close(), r.dense.Close()) }
