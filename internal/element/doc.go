// Package element converts elements of tensors in host memory from one dtype to another, and
// knows which dtype a Go type holds. Packages aclnn and aclnn/safetensors build on it.
//
// Elements are bytes as they lie in memory and in files: little-endian, as on every machine
// that CANN and the emulator run on. Floating-point numbers are only converted to
// floating-point numbers, rounded once to nearest even, and integers only to integers that can
// hold them; nothing is truncated, wrapped or reinterpreted. The package does not handle tensors:
// shapes and strides belong to its users.
//
//	dst := make([]byte, 2*n)
//	err := element.Convert(dst, dtype.BFloat16, element.Bytes(values), element.Of[float32]())
package element
