// Package hccl is what ranks need to work together: who they are, how they meet, how they are
// grouped, and what holds them up.
//
//	w, err := hccl.DetectWorld()                       // torchrun, Open MPI, Slurm, rank table
//	world, err := hccl.Rendezvous(ctx, w, hccl.GroupConfig{})
//	defer world.Close()
//	info, err := world.ShareRootInfo(ctx, 0, rootInfo) // for HcclCommInitRootInfo
//	losses, err := hccl.AllGatherObject(ctx, world, loss)
//
//	c, err := hccl.Join(st, info, w.Rank, w.Size)      // a communicator, one per rank and device
//	err = c.AllReduce(st, grad, grad, hccl.Sum)        // queued on the stream
//	pair, err := c.Sub([]int{0, 1}, hccl.Config{})     // of some ranks, without a message
//
//	mesh, err := hccl.Layout{TP: 2, PP: 2}.Dense(w.Rank, w.Size)
//	data, err := mesh.Group(ctx, world, "dp", "cp")    // ranks that hold different data
//	tensor := hccl.NewMembers(mesh, world, create)     // communicators, when first asked for
//	dog := hccl.StartWatchdog(watch, hccl.WatchdogConfig{OnFault: report})
//
// Collectives take contiguous tensors and counts in elements; what does not fit is refused
// before HCCL sees it. A failed peer shows at the stream's next Synchronize and in AsyncError.
//
// Groups carry data of the host over TCP and never over HCCL, so they work while devices are
// busy, stuck or gone; a group that cannot be formed is an error, and never another group.
// Peers prove to know the job's secret before anything they send is parsed; nothing is
// encrypted. Every wait takes a context, and errors name the ranks that did not come.
//
// Groups are not for tensors: they send every byte through rank 0.
package hccl
