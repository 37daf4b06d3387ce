// Package nn is the emulated aclnn: it joins the operators of all families to one library and
// implements the C functions of libnnopbase and libopapi.
//
// The library creates tensors, scalars, lists and executors behind handles, converts the words of
// phase one to arguments, and queues phase two on a stream:
//
//	l := nn.New(runtime)
//	l.Functions()["aclCreateTensor"](thread, words)
//	l.Prepare(thread, id, words)                              // phase one
//	l.Execute(thread, id, workspace, size, executor, stream)  // phase two
//
// Operators are in internal/emu/ops, their building blocks in package op, the arithmetic in package
// kernel, and the C types in package export. This package also has functions that compute but are
// not operators, such as weight sizes, packed scales and aclrtReduceAsync.
package nn
