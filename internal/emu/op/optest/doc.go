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
// For small calls, Run also verifies that the operator accesses its tensors as the sanitizer of the
// runtime assumes. Tests that need streams, handles or C words are in package nn.
package optest
