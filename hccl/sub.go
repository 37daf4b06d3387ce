package hccl

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"unsafe"
)

// Sub makes a communicator of some ranks of this one without exchanging messages
// (HcclCreateSubCommConfig). Rank i of it is ranks[i] of this one. All its members make the same
// call; other ranks need not call. Two communicators of the same ranks need different names in
// their configuration. A communicator made by Sub cannot be divided again.
func (c *Comm) Sub(ranks []int, config Config) (*Comm, error) {
	refuse := func(err error) (*Comm, error) {
		return nil, failed(fnHcclCreateSubCommConfig.Name(), c.Rank(), c.Size(), err)
	}
	if err := c.usable(); err != nil {
		return refuse(err)
	}
	rank := slices.Index(ranks, c.rank)
	if rank < 0 {
		return refuse(invalid("rank %d is not one of %v, so it has no part in this communicator", c.rank, ranks))
	}
	ids := make([]uint32, len(ranks))
	for i, r := range ranks {
		if r < 0 || r >= c.size || slices.Index(ranks, r) != i {
			return refuse(invalid("ranks %v are not distinct numbers from 0 to %d", ranks, c.size-1))
		}
		ids[i] = uint32(r)
	}
	encoded, err := config.encode(c.device.Runtime().SoC())
	if err != nil {
		return refuse(err)
	}
	var sub hcclComm
	err = c.do(fnHcclCreateSubCommConfig, func() (err error) {
		parent := c.handle
		sub, err = hcclCreateSubCommConfig(c.context, &parent, uint32(len(ids)), unsafe.SliceData(ids), subID(config.Name, ids), uint32(rank), encoded)
		return err
	})
	if err != nil {
		return nil, err
	}
	return adopt(sub, c.context, c.device)
}

// subID computes an identifier that is equal on all members and differs between communicators. HCCL
// reserves identifiers whose low half is all ones.
func subID(name string, ids []uint32) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	for _, id := range ids {
		_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, id))
	}
	return h.Sum64() &^ (1 << 31)
}
