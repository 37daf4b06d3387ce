// Package nn is the emulated aclnn: tensors, scalars and lists, executors, the two-phase
// call, and the operators.
//
// An operator is one Prepare function: it reads the arguments by the names of the C
// declaration, refuses what CANN refuses (with CANN's code and a text that names operator,
// argument and shapes), and returns the Run that computes on the stream:
//
//	func silu(c *Call) (Run, error) {
//		self, out := c.Tensor("self"), c.Tensor("out")
//		c.Same(self, out)
//		if err := c.Err(); err != nil {
//			return nil, err
//		}
//		return func(*Exec) error { return kernel.Unary(kernel.Silu, out.View(), self.View()) }, nil
//	}
//
// Tables beside the functions name them (see register.go). The package does no arithmetic
// itself, that is package kernel, and it has no C types, that is package export.
package nn
