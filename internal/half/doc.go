// Package half holds the two 16-bit floating-point types of NPU tensors and their conversion to
// and from float32. Package aclnn/half is its public face; the emulator uses it, too.
//
//	h := half.Float16FromFloat32(0.1)
//	fmt.Println(h, h.Float32()) // 0.099975586 0.099975586
package half
