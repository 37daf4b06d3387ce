// Package emu emulates operators of your own packages in tests and CI, where their kernels cannot run.
// It exists with the tag emu only, on Linux with cgo, so the files that import it carry a build
// constraint. What it registers is found as the symbols of a custom package are, and called through the
// same C functions as CANN's operators, by the binding that aclnn/bind made from the package's header:
//
//	//go:build emu && linux && cgo
//
//	func init() {
//		err := emu.Register(&myops.ScaleParams{}, func(c *emu.Call) (emu.Run, error) {
//			x, out, factor := c.Tensor("x"), c.Tensor("out"), c.Float("factor")
//			if !slices.Equal(x.Shape(), out.Shape()) {
//				return nil, fmt.Errorf("x is %v and out is %v; their shapes must be equal", x, out)
//			}
//			return func(workspace []byte) error {
//				values, err := emu.Load[float32](x)
//				if err != nil {
//					return err
//				}
//				for i := range values {
//					values[i] *= float32(factor)
//				}
//				return emu.Store(out, values)
//			}, nil
//		})
//		if err != nil {
//			panic(err)
//		}
//	}
//
// The function is phase one: it checks the arguments and asks for workspace. The Run that it returns is
// phase two, which works on the stream; what it returns is an asynchronous fault. The emulator's trace,
// sanitizers, dumps, graphs and CANN_EMU_FAULTS know the operator as they know CANN's.
//
// Programs in other languages, which load the emulator as a shared library, cannot register operators:
// that library has a Go runtime of its own. The package has no operators, and nothing of it is part of a
// program for a device.
package emu
