// Package parallel distributes the operators of package ops over the ranks of a job. TensorParallel splits
// layers by width, ContextParallel (ring attention) and Ulysses by position, ExpertParallel by expert, and Pipeline splits models
// by depth. Gradients sums the gradients of data-parallel ranks in buckets; Sharded keeps
// parameters, gradients and optimiser state in shards.
//
//	tp := parallel.NewTensorParallel(reg, comm, true) // comm of the tensor-parallel ranks
//	err := tp.ColumnLinear(ctx, st, &ops.LinearArgs{X: x, Weight: w, Out: hidden})
//	err = tp.RowLinear(ctx, st, &ops.LinearArgs{X: active, Weight: v, Out: out})
//
// Every type takes a Communicator for its group of ranks, such as *hccl.Comm; nil stands for a
// group of one, in which nothing is exchanged. The meshes of package hccl/world list which ranks a
// group has. All ranks of a group make the same calls in the same order. Work is queued on the
// stream; only ExpertParallel.Plan waits.
//
// The package contains no model and chooses no kernels: each rank computes its share with the
// operators of its ops.Registry, whose SetParallel gives kernels the way in which the work is split.
package parallel
