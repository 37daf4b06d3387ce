// Package world detects which rank of a job a process is, connects the ranks over TCP, and
// arranges them in groups and meshes. It does not need HCCL, a device or cgo.
//
//	place, err := world.Detect()                       // torchrun, Open MPI, Slurm, rank table
//	all, err := world.Join(ctx, place, world.GroupConfig{})
//	defer all.Close()
//	losses, err := world.AllGather(ctx, all, loss)     // a value of every rank, at every rank
//	name, err := world.Broadcast(ctx, all, 0, name)    // rank 0's value, at every rank
//
//	mesh, err := world.Layout{TP: 2, PP: 2}.Dense(place.Rank, place.Size)
//	data, err := mesh.Group(ctx, all, "dp", "cp")      // ranks that hold different data
//	dog := world.StartWatchdog(watch, world.WatchdogConfig{OnFault: report})
//
// The package contains Place and the code that detects it (variables of launchers, rank tables,
// pods), host groups with their rendezvous and collectives of Go values, meshes, and the watchdog,
// which compares the progress of the ranks over a host group. Communicators and collectives of
// tensors are in package hccl; NewMembers makes communicators for the axes of a mesh.
//
// Groups carry host data over TCP and never use HCCL, so they work while devices are busy, stuck or
// gone. If a group cannot be formed, the call fails; there is no fallback to another group. A peer
// proves knowledge of the job's secret before this package parses what it sends, and everything after
// that is encrypted and authenticated. Ranks without a secret use the loopback only.
// Every call that waits has a context, and errors name the missing ranks. Groups are not for tensors:
// every byte passes through rank 0.
package world
