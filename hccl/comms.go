package hccl

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
)

// NewComms makes a communicator for each group of a mesh when it is first asked for; see
// Members. Collectives over different axes may run on different streams.
//
//	comms := hccl.NewComms(mesh, world, st)
//	defer comms.Close()
//	data, err := comms.Of(ctx, "dp", "cp") // nil when these axes have one rank
func NewComms(mesh *Mesh, world *Group, st *acl.Stream) *Members[*Comm] {
	return NewMembers(mesh, world, func(ctx context.Context, name string, ranks []int) (c *Comm, err error) {
		part, err := world.Sub(ctx, "communicator "+name, ranks)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, part.Close()) }()
		return JoinGroup(ctx, st, part, Config{})
	})
}

// JoinGroup makes the communicator of the ranks of a group, which hands the root info round.
// The context bounds the wait as JoinConfig's does.
func JoinGroup(ctx context.Context, st *acl.Stream, g *Group, config Config) (*Comm, error) {
	info, err := g.ShareRootInfo(ctx, 0, func() ([]byte, error) {
		info, err := NewRootInfo(st)
		if err != nil {
			return nil, err
		}
		return info[:], nil
	})
	if err != nil {
		return nil, err
	}
	j := joining{initRootInfo, g.Rank(), g.Size(), nil}
	if config != (Config{}) {
		j.f, j.config = initRootInfoConfig, &config
	}
	return j.root(ctx, st, (*RootInfo)(info))
}
