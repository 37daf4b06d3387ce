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
		info, err := part.ShareRootInfo(ctx, 0, func() ([]byte, error) {
			info, err := NewRootInfo(st)
			if err != nil {
				return nil, err
			}
			return info[:], nil
		})
		if err != nil {
			return nil, err
		}
		return Join(st, (*RootInfo)(info), part.Rank(), part.Size())
	})
}
