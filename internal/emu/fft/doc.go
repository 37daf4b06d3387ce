// Package fft emulates libcann_ops_fft, CANN's library of Fourier transforms (ops-fft).
//
//	l := fft.New(runtime)
//	for name, f := range l.Functions() { … } // C name -> function over 64-bit words
//
// As in the library, plans take and return host memory: a transform copies its numbers to the device, queues on the
// stream of the plan, and waits. Which lengths a chip transforms, and the codes of those that it does not, follow the
// sources at 5cf8752. Transforms in three dimensions and those of doubles are declared there and return
// ACLFFT_NOT_IMPLEMENTED, and so do the functions without a body: versions, properties, work areas, sizes and strides.
package fft
