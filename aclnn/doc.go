// Package aclnn launches CANN's operators: one Go function per aclnn operator, with a
// parameter struct in the C order, over tensors that are plain descriptors.
//
//	x, err := aclnn.New(st, aclnn.Float32, 4, 8)
//	y, err := aclnn.New(st, aclnn.Float32, 4, 8)
//	defer x.Close()
//	defer y.Close()
//	err = aclnn.Add(st, aclnn.AddParams{Self: x, Other: x, Alpha: aclnn.Float(1), Out: y})
//	err = st.Synchronize(ctx)
//
// Operators are queued, not run: the call returns when CANN has accepted the launch, and an
// error of the kernel itself comes from the next Synchronize. Optional tensors are nil
// pointers, absent scalars the zero Scalar, absent arrays nil; output tensors are the
// caller's. Prepare keeps an executor for a call that repeats with other addresses.
//
// The package checks nothing that CANN checks: shapes and dtypes come back as CANN's codes,
// with the tensors described in the error. Package ops validates before launching, chooses
// among kernels and knows gradients.
//
// The functions are generated from the ABI table (internal/abi) by internal/npugen, which
// also binds operators of custom packages in the same form.
package aclnn
