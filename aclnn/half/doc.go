// Package half holds the two 16-bit floating-point types of NPU tensors: Float16 (IEEE 754
// binary16) and BFloat16 (the upper half of a binary32), and their conversion to and from
// float32.
//
// It converts and does not calculate: arithmetic happens in float32, and the compute
// kernels of the emulator have conversions of their own in C.
//
// Both are bit patterns, so that a slice of them can be copied to a device as it is, and
// float16 and bfloat16 tensors can be read into one.
//
//	h := half.Float16FromFloat32(0.1)
//	fmt.Println(h, h.Float32()) // 0.099975586 0.099975586
//
//	weights := make([]half.BFloat16, len(master))
//	half.Encode(weights, master) // round to nearest even
//	half.Decode(master, weights) // exact
package half
