package hccl

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl/world"
)

// NewComms makes a communicator for each group of a mesh when it is first requested; see
// world.Members. all is the host group of the ranks of the mesh. Collectives over different axes
// may run on different streams.
//
//	comms := hccl.NewComms(mesh, all, st)
//	defer comms.Close()
//	data, err := comms.Of(ctx, "dp", "cp") // nil when these axes have one rank
func NewComms(mesh *world.Mesh, all *world.Group, st *acl.Stream) *world.Members[*Comm] {
	return world.NewMembers(mesh, all, func(ctx context.Context, name string, ranks []int) (c *Comm, err error) {
		part, err := all.Sub(ctx, "communicator "+name, ranks)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, part.Close()) }()
		return JoinGroup(ctx, st, part, Config{})
	})
}

// JoinGroup makes a communicator of the ranks of a host group, which carries the root info. The
// context bounds the wait as in JoinConfig.
func JoinGroup(ctx context.Context, st *acl.Stream, g *world.Group, config Config) (*Comm, error) {
	if g == nil {
		return nil, failed(fnHcclCommInitRootInfo.Name(), 0, 0, invalid("the group is nil"))
	}
	info, err := world.Share(ctx, g, 0, func() ([]byte, error) {
		info, err := NewRootInfo(st)
		if err != nil {
			return nil, err
		}
		return info[:], nil
	})
	if err != nil {
		return nil, err
	}
	j := joining{fnHcclCommInitRootInfo, g.Rank(), g.Size(), nil}
	if config != (Config{}) {
		j.f, j.config = fnHcclCommInitRootInfoConfig, &config
	}
	return j.root(ctx, st, (*RootInfo)(info))
}
