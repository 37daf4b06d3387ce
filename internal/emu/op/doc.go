// Package op provides the building blocks of the emulator's operators: the call and its arguments,
// tensors, scalars, executors, and the checks and views that several families use.
//
// An operator is one Prepare function: it reads the arguments by the names of the C
// declaration, refuses what CANN refuses (with CANN's code and a text that names operator,
// argument and shapes), and returns the Run that computes on the stream:
//
//	var Table = op.Table{"Silu": silu}
//
//	func silu(c *op.Call) (op.Run, error) {
//		self, out := c.Tensor("self"), c.Tensor("out")
//		c.Same(self, out)
//		if err := c.Err(); err != nil {
//			return nil, err
//		}
//		return func(*op.Exec) error { return kernel.Unary(kernel.Silu, out.View(), self.View()) }, nil
//	}
//
// The package contains no operators. They are in internal/emu/ops, one folder for each family of
// abi.FamilyOf. A family imports no other family, with these exceptions:
//
//   - communication imports matmul: its operators are a product and a collective in one;
//   - communication and moe import normalization: some of their operators end in AddRmsNorm.
//
// Code that two families need belongs here, or in package kernel if it is arithmetic. Package nn is
// the library that joins the tables and implements the C functions, optest is the harness of the
// families' tests, and pointwise defines element-wise operators.
package op
