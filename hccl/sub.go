package hccl

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"

	"github.com/goascend/cann/cshim"
)

var createSub = cshim.NewFunc(cshim.HCCL, "HcclCreateSubCommConfig")

// Sub makes a communicator of some ranks of this one, without a message: rank i of it is
// ranks[i] of this one. Its members make the same call; the others need not. Two
// communicators of the same ranks need different names in their configuration. A communicator
// made by Sub cannot be divided again (HcclCreateSubCommConfig).
func (c *Comm) Sub(ranks []int, config Config) (*Comm, error) {
	refuse := func(err error) (*Comm, error) { return nil, failed(createSub.Name(), c.rank, c.size, err) }
	rank := slices.Index(ranks, c.rank)
	if rank < 0 {
		return refuse(fmt.Errorf("%w: rank %d is not one of %v, so it has no part in this communicator", ErrArgument, c.rank, ranks))
	}
	ids := make([]uint32, len(ranks))
	for i, r := range ranks {
		if r < 0 || r >= c.size || slices.Index(ranks, r) != i {
			return refuse(fmt.Errorf("%w: ranks %v are not distinct numbers from 0 to %d", ErrArgument, ranks, c.size-1))
		}
		ids[i] = uint32(r)
	}
	encoded, err := config.encode()
	if err != nil {
		return refuse(err)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	call := cshim.Call{
		Args: [cshim.Args]uint64{
			pinned(&pin, []uint64{c.handle}), uint64(len(ids)), pinned(&pin, ids), subID(config.Name, ids), uint64(rank), pinned(&pin, encoded),
		},
		Out: 1 << 6,
	}
	if err := c.do(createSub, &call); err != nil {
		return nil, err
	}
	return adopt(call.Args[6], c.context)
}

// subID is a number that members agree on and that different communicators do not share.
// HCCL has a meaning of its own for low halves that are all ones.
func subID(name string, ids []uint32) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	for _, id := range ids {
		_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, id))
	}
	return h.Sum64() &^ (1 << 31)
}
