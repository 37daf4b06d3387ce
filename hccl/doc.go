// Package hccl provides communicators and collectives of tensors (libhccl).
//
//	place, err := world.Detect()                       // package hccl/world: which rank this is
//	all, err := world.Join(ctx, place, world.GroupConfig{})
//	defer all.Close()
//
//	c, err := hccl.JoinGroup(ctx, st, all, hccl.Config{}) // one per rank and device
//	err = c.AllReduce(st, grad, grad, hccl.Sum)        // queued on the stream
//	pair, err := c.Sub([]int{0, 1}, hccl.Config{})     // of some ranks, without a message
//
//	mesh, err := world.Layout{TP: 2, PP: 2}.Dense(place.Rank, place.Size)
//	comms := hccl.NewComms(mesh, all, st)              // communicators, made when first asked for
//	data, err := comms.Of(ctx, "dp", "cp")
//
// Collectives take contiguous tensors and count in elements; arguments that do not fit are refused
// before HCCL is called. The failure of a peer is reported by the stream's next Synchronize and by
// AsyncError. With Comm.Track a world.Watchdog can observe the progress of a rank.
//
// A graph (acl.Stream.Capture) may contain collectives. All ranks capture the same ones after they
// have run once, replay them as often, and close the graph before the communicator. A rank that
// replays meets a rank that queues the same collectives one by one on some machines only; let all
// do the same.
//
// One process per device is the usual way, and the one that programs of others take. Several
// devices in one process work too: HCCL keeps its communicators by the device of the calling
// thread, and older versions never notice that it changes, so this package makes and destroys
// communicators on threads that it starts for each of these calls. HCCL takes no default stream.
//
// Ranks, launchers, rank tables, host groups and meshes do not need HCCL; they are in package
// hccl/world.
package hccl
