// Package fft computes Fourier transforms on a device with CANN's ops-fft (libcann_ops_fft), a library that is built from
// its sources (it is in no release) for the Ascend 910B and 950.
//
//	p, err := fft.Plan1D(st, fft.ComplexToComplex, 1000, 1, fft.Rows)
//	if err != nil { … }
//	defer p.Close()
//	err = p.ComplexToComplex(ctx, spectrum, signal, fft.Forward)
//
// The library takes and returns host memory: a transform copies its numbers to the device, runs on the plan's stream, copies
// them back, and returns when they are there. Sums are not scaled: a transform forward and back multiplies by the length.
//
// A chip has kernels for some lengths only, and the library reports others with an error when it is called, or computes
// something else. Plan1D and Plan2D refuse what a chip has no kernel for, with the lengths that it has:
//
//	                 910B                                      950
//	complex          up to 256; powers of two up to 2^27       above 256, prime factors up to 47
//	complex columns  powers of two from 256 to 262144          none
//	real to complex  up to 1024                                up to 4096; above, prime factors up to 47
//	complex to real  up to 1024                                above 1024, prime factors up to 47
//	2D complex       32, 64 or 128 by 32, 64 or 128            none
//
// Double precision and three dimensions are declared in the library's header and have no kernels.
package fft
