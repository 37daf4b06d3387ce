// Package ops provides the operators of a model: attention, linear layers, norms, rotary embedding,
// gated activations, losses and the optimiser, with their gradients. Each operator chooses among
// several kernels.
//
//	reg, err := ops.NewRegistry(ops.EnvOf(dev))
//	defer reg.Close()
//	err = reg.RMSNorm().Run(ctx, st, &ops.RMSNormArgs{X: x, Weight: w, Epsilon: 1e-6, Out: y, RStd: r})
//	fmt.Println(reg.Attention().Explain(&args)) // which kernel, and why not the others
//
// Arguments are checked before anything is launched: an operator refuses what the device would refuse,
// and what the device would compute otherwise than meant. A zero field is right or refused, as its
// comment says. Arguments hold inputs and outputs, never results of the call.
//
// A pure function of the environment and of the arguments' key chooses the kernel. A key is a struct of
// package ops/key with dtypes, sizes and which optional arguments are present; only kernels need it.
// Register adds a kernel; Pin fixes one, which is then never replaced silently. The caller provides
// output tensors; scratch tensors come from the stream's caching allocator and return to it in stream
// order.
//
// Fused kernels are preferred. Where a chip, a CANN version or the arguments lack one, a composite
// of simpler operators computes in float32, which costs memory and time. Attention masks are types
// of package mask. Operators queue work and never wait.
//
// Training on several devices is in package ops/parallel, which distributes these operators over
// ranks; Registry.SetParallel only gives kernels the way in which the work is split.
//
// Package ops/autograd records these operators on a tape and computes gradients from it; a program that calls forward and
// backward operators itself needs this package alone.
package ops
