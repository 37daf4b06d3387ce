// Package ops provides the operators of a model: attention, linear layers, norms, rotary embedding,
// gated activations, losses and the optimiser, with their gradients. Each operator chooses among
// several kernels.
//
//	reg, err := ops.NewRegistry(ops.EnvOf(dev))
//	defer reg.Close()
//	err = reg.RMSNorm().Run(ctx, st, &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: y, RStd: r})
//	fmt.Println(reg.Attention().Explain(&args)) // which kernel, and why not the others
//
// Arguments are checked before anything is launched. The kernel is chosen by a pure function of the
// environment and of the arguments' key, a struct such as key.RMSNorm with dtypes, sizes and which
// optional arguments are present. Register adds a kernel; Pin fixes one, which is then never
// replaced silently. The caller provides output tensors; scratch tensors come from the stream's
// caching allocator and return to it in stream order.
//
// Fused kernels are preferred. Where a chip, a CANN version or the arguments lack one, a composite
// of simpler operators computes in float32, which costs memory and time. Attention masks are types
// of package mask. Operators queue work and never wait.
//
// Training on several devices is in package ops/parallel, which distributes these operators over
// ranks; Registry.SetParallel only tells kernels how the work is split.
//
// The package has no autograd and no module tree: examples/trainstep shows how a model calls
// forward and backward operators.
package ops
