package qwen

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
)

// Ranks is a rank's place among those that train a model, with its communicators.
type Ranks struct {
	Parallel
	// Index is the rank's number among the Parts that have other rows of a batch.
	Index, Parts int

	mesh, expertMesh string
	dense, experts   *hccl.Members[*hccl.Comm]
}

// Join makes the communicators of a layout. All ranks of the world call it at the same time.
// Experts are divided over whole ranks: Layout.ExpertTP is not used.
func Join(ctx context.Context, st *acl.Stream, world *hccl.Group, layout hccl.Layout) (*Ranks, error) {
	layout.ExpertTP = 1
	dense, err := layout.Dense(world.Rank(), world.Size())
	if err != nil {
		return nil, err
	}
	experts, err := layout.Expert(world.Rank(), world.Size())
	if err != nil {
		return nil, err
	}
	r := &Ranks{mesh: dense.String(), expertMesh: experts.String(), dense: hccl.NewComms(dense, world, st), experts: hccl.NewComms(experts, world, st)}
	if r.Index, err = dense.Index("dp"); err == nil {
		r.Parts, err = dense.Size("dp")
	}
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		to      *ops.Communicator
		members *hccl.Members[*hccl.Comm]
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

// String is the mesh, "tp2 cp1 dp4 pp1", with that of experts if it differs.
func (r *Ranks) String() string {
	if r.Experts == nil {
		return r.mesh
	}
	return r.mesh + ", experts " + r.expertMesh
}

// Close ends the communicators; the streams that used them are done.
func (r *Ranks) Close() error { return errors.Join(r.experts.Close(), r.dense.Close()) }
