// Package aclnn launches CANN's operators: one Go function per aclnn operator, with a
// parameter struct in the C order, over tensors that are plain descriptors.
//
//	x, err := aclnn.FromSlice(ctx, st, aclnn.BFloat16, []float32{1, 2, 3, 4}, 2, 2)
//	defer x.Close()
//	y, err := aclnn.New(st, aclnn.BFloat16, 2, 2)
//	defer y.Close()
//	err = aclnn.Add(st, aclnn.AddParams{Self: x, Other: x.Transpose(0, 1), Alpha: aclnn.Float(1), Out: y})
//	err = aclnn.Print(ctx, st, y)
//	values, err := aclnn.ToSlice[float32](ctx, st, y)
//
// Operators are queued, not run: the call returns when CANN has accepted the launch, and an
// error of the kernel itself comes from the next Synchronize. Optional tensors are nil
// pointers, absent scalars the zero Scalar, absent arrays nil; output tensors are the
// caller's. Prepare keeps an executor for a call that repeats with other addresses.
//
// Tensors come from and go to slices (FromSlice, ToSlice) and safetensors files (Load, Save),
// with conversion of dtypes; CopyToDevice and CopyFromDevice copy elements as they are. Views
// (Transpose, Narrow, …) share memory; Clone and Contiguous make copies. What the package itself
// refuses matches package acl's errors. Operators on images and volumes get the format that they
// demand, NCL, NCHW or NCDHW, from the number of dimensions; As describes a tensor in another one.
//
// A computation of several launches is written in a Scope, which keeps the first error and
// frees the scratch tensors; Compose runs a function in one.
//
// The package checks nothing that CANN checks: shapes and dtypes come back as CANN's codes,
// with the tensors described in the error. Package ops validates before launching, chooses
// among kernels and knows gradients.
//
// The functions are generated from the ABI table (internal/abi) by internal/tools/npugen, which
// also binds operators of custom packages in the same form. Their comments say what an
// operator computes, which CANN has it, and where its public document is: a repository on
// GitHub and a path in it, which leaves out a file with the operator's C name. Those of the fields say what the Go types do not: which tensors
// are optional or written, how many dimensions they have, and which constants an integer or
// text takes. "The emulator computes" lists the dtypes with which the emulator ran an operator
// and got the results of the same call in Float32 or Float64, tensor by tensor; integers are Int8 to
// Int64 and Uint8 to Uint64. CANN may accept others.
package aclnn
