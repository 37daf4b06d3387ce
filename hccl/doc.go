// Package hccl is what ranks need to work together: who they are, how they meet, how they are
// grouped, and what holds them up.
//
//	w, err := hccl.DetectWorld()                       // torchrun, Open MPI, Slurm, rank table
//	world, err := hccl.Rendezvous(ctx, w, hccl.GroupConfig{})
//	defer world.Close()
//	info, err := world.ShareRootInfo(ctx, 0, rootInfo) // for HcclCommInitRootInfo
//	losses, err := hccl.AllGatherObject(ctx, world, loss)
//
//	mesh, err := hccl.Layout{TP: 2, PP: 2}.Dense(w.Rank, w.Size)
//	data, err := mesh.Group(ctx, world, "dp", "cp")    // ranks that hold different data
//	tensor := hccl.NewMembers(mesh, world, create)     // communicators, when first asked for
//	dog := hccl.StartWatchdog(watch, hccl.WatchdogConfig{OnFault: report})
//
// Groups carry data of the host over TCP and never over HCCL, so they work while devices are
// busy, stuck or gone; a group that cannot be formed is an error, and never another group.
// Peers prove to know the job's secret before anything they send is parsed; nothing is
// encrypted. Every wait takes a context, and errors name the ranks that did not come.
//
// It is not for tensors: groups send every byte through rank 0.
package hccl
