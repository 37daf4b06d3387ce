// Package minifloat reads and writes tensors of floating-point types of at most eight bits, which kernels
// do not compute with, and computes the scales of their blocks. It works in float64, element by
// element, and takes the other types of numbers too, so that an operator needs one way only:
//
//	x, err := minifloat.Read(view)
//	err = minifloat.Write(out, x, minifloat.Even)
package minifloat
