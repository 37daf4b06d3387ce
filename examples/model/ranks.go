package model

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/meter"
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

	mesh, expertMesh string // without the axis of replicas
	replicas         int
	dense, experts   *world.Members[*hccl.Comm]
	beside           *world.Members[*hccl.Comm] // of the exchanges beside the kernels, if the ranks are those of exchanges between kernels
	places           map[string][]int
}

// Layout describes how a model is distributed over ranks. Each expert is on ExpertTP ranks, and 0 stands for 1, not for TP.
type Layout struct {
	world.Layout
	// Ulysses is how many of the CP ranks that share a sequence exchange positions for heads (Parallel.Heads), 1 when 0; the others
	// pass keys, values and states on (Parallel.Context).
	Ulysses int
	// Replicas is the number of groups of ranks that each have all shards of the weights, 1 when 0, and unless Parallel.Shard is
	// set.
	Replicas int
}

// Join makes the communicators of a layout. All ranks of the group call it at the same time.
func Join(ctx context.Context, st *acl.Stream, all *world.Group, layout Layout) (*Ranks, error) {
	layout.ExpertTP = max(layout.ExpertTP, 1)
	replicas := max(layout.Replicas, 1)
	dense, err := layout.Dense(all.Rank(), all.Size())
	if err != nil {
		return nil, err
	}
	experts, err := layout.Expert(all.Rank(), all.Size())
	if err != nil {
		return nil, err
	}
	r := &Ranks{Group: all, mesh: dense.String(), expertMesh: experts.String(), replicas: replicas, places: map[string][]int{}}
	r.ExpertTP = layout.ExpertTP
	for _, mesh := range []**world.Mesh{&dense, &experts} {
		if *mesh, err = divided(*mesh, all.Size(), "dp", "dp", "replica", replicas); err != nil {
			return nil, err
		}
	}
	if ulysses := max(layout.Ulysses, 1); max(layout.CP, 1)%ulysses != 0 {
		return nil, fmt.Errorf("model: %d ranks share a sequence, which is not a multiple of the %d that exchange heads", max(layout.CP, 1), ulysses)
	} else if dense, err = divided(dense, all.Size(), "cp", "ulysses", "cp", max(layout.CP, 1)/ulysses); err != nil {
		return nil, err
	}
	join := func(ctx context.Context, g *world.Group) (*hccl.Comm, error) {
		return hccl.Join(ctx, st, g, hccl.Config{})
	}
	r.dense, r.experts = world.NewMembers(dense, all, join), world.NewMembers(experts, all, join)
	// A communicator serves one stream at a time. If all ranks share each sequence, gradients go between the same ranks as keys or heads do.
	r.beside = r.dense
	if ulysses := max(layout.Ulysses, 1); r.shareSequences(dense) && (ulysses == 1 || ulysses == layout.CP) {
		r.beside = world.NewMembers(dense, all, join)
	}
	if r.Index, err = dense.Index("dp", "replica"); err == nil {
		r.Parts, err = dense.Size("dp", "replica")
	}
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		to      *parallel.Communicator
		members *world.Members[*hccl.Comm]
		mesh    *world.Mesh
		axes    []string
	}{
		{&r.World, r.dense, dense, []string{"tp", "ulysses", "cp", "dp", "replica", "pp"}},
		{&r.Tensor, r.dense, dense, []string{"tp"}},
		{&r.Context, r.dense, dense, []string{"cp"}},
		{&r.Heads, r.dense, dense, []string{"ulysses"}},
		{&r.Data, r.beside, dense, []string{"dp", "ulysses", "cp", "replica"}},
		{&r.Shards, r.beside, dense, []string{"dp", "ulysses", "cp"}},
		{&r.Replicas, r.dense, dense, []string{"replica"}},
		{&r.Experts, r.experts, experts, []string{"tp", "ep"}},
		{&r.ExpertData, r.experts, experts, []string{"dp", "replica"}},
		{&r.ExpertShards, r.experts, experts, []string{"dp"}},
		{&r.ExpertReplicas, r.experts, experts, []string{"replica"}},
	} {
		comm, err := c.members.Of(ctx, c.axes...)
		if err == nil {
			err = r.placed(comm, c.mesh, c.axes...)
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if comm != nil {
			*c.to = comm
		}
	}
	stages, err := r.dense.Of(ctx, "pp")
	if err == nil {
		err = r.placed(stages, dense, "pp")
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if stages != nil {
		r.Pipeline = stages
	}
	return r, nil
}

// shareSequences reports whether all ranks share each sequence, and are several.
func (r *Ranks) shareSequences(mesh *world.Mesh) bool {
	data, err := mesh.Size("dp", "replica")
	sequence, missing := mesh.Size("ulysses", "cp")
	return err == nil && missing == nil && data == 1 && sequence > 1
}

// placed notes the ranks of a communicator.
func (r *Ranks) placed(c *hccl.Comm, mesh *world.Mesh, axes ...string) error {
	if c == nil {
		return nil
	}
	name, err := c.Name()
	if err == nil {
		r.places[name], err = mesh.Ranks(axes...)
	}
	return err
}

// Places returns the ranks of each communicator, by its name (HcclGetCommName).
func (r *Ranks) Places() map[string][]int { return maps.Clone(r.places) }

// Measure lets a meter take the times of the collectives of models that are made from now on.
func (r *Ranks) Measure(m *meter.Meter) {
	r.Meter = m
	for _, c := range []*parallel.Communicator{
		&r.World, &r.Tensor, &r.Context, &r.Heads, &r.Data, &r.Shards, &r.Replicas, &r.Experts, &r.ExpertData, &r.ExpertShards, &r.ExpertReplicas,
	} {
		if comm, ok := (*c).(*hccl.Comm); ok {
			*c = m.Comm(comm)
		}
	}
	if comm, ok := r.Pipeline.(*hccl.Comm); ok {
		r.Pipeline = m.Comm(comm)
	}
}

// divided divides an axis of a mesh in two, the first of which varies faster.
func divided(mesh *world.Mesh, ranks int, axis, faster, slower string, size int) (*world.Mesh, error) {
	var axes []world.Axis
	for _, a := range mesh.Axes() {
		if a.Name != axis {
			axes = append(axes, a)
			continue
		}
		if size < 1 || a.Size%size != 0 {
			return nil, fmt.Errorf("model: %d ranks of %s (%v) are not a multiple of %s %d", a.Size, axis, mesh, slower, size)
		}
		axes = append(axes, world.Axis{Name: faster, Size: a.Size / size}, world.Axis{Name: slower, Size: size})
	}
	return world.NewMesh(mesh.Rank(), ranks, axes...)
}

// Comms returns the communicators of this rank, for a watchdog.
func (r *Ranks) Comms() []*hccl.Comm {
	all := append(r.dense.Made(), r.experts.Made()...)
	if r.beside != r.dense {
		all = append(all, r.beside.Made()...)
	}
	return all
}

// String returns the mesh, such as "tp2 cp1 dp4 pp1", with that of experts if it differs, and the
// replicas if there are several.
func (r *Ranks) String() string {
	s := r.mesh
	if r.Experts != nil {
		s += ", experts " + r.expertMesh
	}
	if r.replicas > 1 {
		s += fmt.Sprintf(", %d replicas", r.replicas)
	}
	return s
}

// Close closes the communicators; work on the streams that used them must have finished.
func (r *Ranks) Close() error {
	return errors.Join(r.experts.Close(), r.beside.Close(), r.dense.Close())
}
