// Package ops is what a model needs: attention, linear layers, norms, rotary embedding,
// gated activations, losses, the optimiser, each with its gradient beside it, each
// dispatched among kernels.
//
//	reg, err := ops.NewRegistry(ops.EnvOf(dev))
//	defer reg.Close()
//	err = reg.RMSNorm.Run(ctx, st, &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: y, RStd: r})
//	fmt.Println(reg.Attention.Explain(&args)) // which kernel, and why not the others
//
// Arguments are checked before anything is launched. The kernel is chosen by a pure
// function of the environment and the signature of the arguments; Pin fixes it, and then
// nothing replaces it silently. Outputs are the caller's tensors; scratch tensors come from
// the stream's caching allocator and return to it in stream order.
//
// Fused kernels are preferred; composites of simpler operators stand in where a chip, a CANN
// version or the arguments lack them, compute in float32, and cost memory and time. Masks of
// attention are a type (package mask). Operators queue work and never wait.
//
// Training on several devices: TensorParallel (with sequence parallelism and the vocabulary
// split), ContextParallel, Ulysses, Pipeline, and Gradients for data parallelism. They take a
// Communicator, one per group of ranks; package hccl has meshes that say which ranks these are.
//
// The package keeps no autograd tape and no module tree: examples/trainstep shows how a
// model strings forward and backward together.
package ops
