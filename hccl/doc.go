// Package hccl provides communicators and collectives of tensors (libhccl).
//
//	place, err := world.Detect()                       // package hccl/world: the rank of this process
//	all, err := world.Join(ctx, place, world.GroupConfig{})
//	defer all.Close()
//
//	c, err := hccl.Join(ctx, st, all, hccl.Config{})   // one per rank and device
//	err = c.AllReduce(st, grad, grad, hccl.Sum)        // queued on the stream
//	pair, err := c.Sub([]int{0, 1}, hccl.Config{})     // of some ranks, without a message
//
// Join takes its ranks from one of three sources: a host group, a RootInfo, or a rank table. JoinAll
// makes the communicator of several devices of one process. For the axes of a mesh,
// world.NewMembers makes communicators when they are first requested.
//
// Collectives take contiguous tensors and count in elements; arguments that do not fit are refused
// before HCCL is called. The failure of a peer is reported by the stream's next Synchronize and by
// AsyncError. With Comm.Track a world.Watchdog can observe the progress of a rank.
//
// A graph (acl.Stream.Capture) may contain collectives. All ranks capture the same ones after they
// have run once, replay them as often, and close the graph before the communicator. Only some
// machines match the collectives of a replay with collectives that another rank queues one by one:
// replay on all ranks, or on none.
//
// HcclCommRegCommStateCallback of CANN 9.2.0-beta.1 has no function here: HCCL calls what it registers, for the rest of
// the process, only after Comm.Resume and Comm.Close, whose results say the same to the program that calls them.
//
// One process per device is the usual arrangement, and the one that other programs use. Several
// devices in one process work too. HCCL takes no default stream.
//
// Ranks, launchers, rank tables, host groups and meshes do not need HCCL; they are in package
// hccl/world.
package hccl
