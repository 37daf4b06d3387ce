// Package autograd records a computation on a tape while it runs, and computes its gradients from the tape. A program
// that uses it writes forward passes only, and gets gradient checkpointing (recomputation of activations) by block.
//
//	t := autograd.New(ctx, st, reg, autograd.Options{})
//	h := t.RMSNorm(x, norm, 1e-6)
//	h = t.Checkpoint("block", func() *autograd.Var { return block(t, h) }) // computed again in the backward pass
//	loss := t.CrossEntropy(t.Linear(h, head, nil), labels, -100)
//	err := t.Backward(loss)
//	err = errors.Join(err, t.Close())
//
// A Var is a tensor and how it was made. Parameters are variables that a program makes once with
// NewParameter, with the tensor that receives the gradient; Input makes one without gradient. The methods of a Tape
// are the differentiable operators of packages ops and ops/parallel. Each launches what a direct call of the
// operator launches, and nothing else; Record adds an operator of the program's own. Derive makes a variable of a view or a function of a
// parameter, whose gradient kernels write directly to that of the parameter. Around runs functions of the program before and after a part, forward and
// backward, so that weights exist only while they are read (NewOpenedParameter).
//
// # Coming from PyTorch
//
//	PyTorch                                 here
//	x = torch.nn.functional.linear(x, w)    x = t.Linear(x, w, nil)
//	with torch.no_grad():                   autograd.Options{NoGrad: true}
//	loss.backward()                         t.Backward(loss)
//	w.grad is None, or is added to          w.Grad is overwritten, or added to with Options.Accumulate
//	w.requires_grad_(False)                 NewParameter(value, nil)
//	x.detach()                              t.Detach(x)
//	torch.utils.checkpoint.checkpoint       t.Checkpoint
//	torch.autograd.Function                 t.Record
//	save_on_cpu                             Options.Offload, for what checkpoints read
//	register_post_accumulate_grad_hook      Options.Complete
//	torch.autograd.backward(outputs, grads) t.BackwardFrom
//
// # Memory
//
// The tape owns what it computes. A value is freed, in stream order, when its block has ended and no operator needs it
// for the backward pass any more: Block groups a computation, such as a layer, and ends with its results; the whole tape
// is a block that ends with Close. In the backward pass each value and each gradient is freed after its last
// use. With NoGrad nothing is kept, so an evaluation holds one block at a time.
//
// # Errors
//
// The first error stays on the tape. After it nothing is launched, variables have no values, and Backward and
// Close return it with the operator and the blocks in which it happened. So a forward pass needs no checks.
//
// A tape serves one goroutine and one stream. It queues work like package ops; the operators that copy a
// mask or wait for counts use the context given to New. It is captured by graphs as direct calls are.
package autograd
