// Package optest is the test harness of the operators: tensors in C memory that detect writes
// outside their bounds, calls of operators by C parameter name, the ranks of a group in one
// process, reference definitions in float64, and the survey of element types.
//
// The tests of a family state in TestMain which operators they call:
//
//	func TestMain(m *testing.M) { optest.Main(m, abi.Activation, Table) }
//
//	func TestSilu(t *testing.T) {
//		x, y := optest.Tensor(t, dtype.Float32, []int64{3}, -1, 0, 2), optest.Tensor(t, dtype.Float32, []int64{3})
//		optest.Run(t, "Silu", optest.Args{"self": x, "out": y})
//		optest.Refused(t, op.NullPointer, "Silu", optest.Args{"self": x}, "out is null")
//	}
//
// The survey finds the element types of an operator. Tests record valid calls, of each combination of
// types the shortest one; SurveyElementTypes runs them again with other types in one tensor and in
// all tensors of one type. The operator computes with a type if phase one accepts it, the operator
// reads or writes the tensor, and phase two computes the same values as the emulator itself in float32,
// float64 or the type of the recorded call. Whether these are right, the tests decide that recorded it. A type that phase one accepts and phase two does not compute fails the test. The
// types are listed in testdata/zz_types.txt of the family, and from there in the comments of package
// aclnn and in the list of operators. An operator without such a type fails the test too, unless
// the test gives the reason:
//
//	cd internal/emu/ops/moe && go test -record   # after new operators or tests: record their calls
//	go generate ./internal/emu/ops/moe           # after changed checks: run the survey again
//	make generate                                # for all families, and the documents
//
// For small calls, Run also verifies that the operator accesses its tensors as the sanitizer of the
// runtime assumes. Tests that need streams, handles or C words are in package nn.
package optest
