// Package kernel has what all kernels of the emulator share: views of host memory, the spaces over which they iterate, and
// the choice of the CPU variant. The kernels are in packages below, one for each kind of kernel:
//
//	thread       the pool of threads, and scratch memory
//	elementwise  maps of any number of inputs, copies, conversions
//	rowwise      reductions, scans, softmax, norms, gates, rotary embedding, losses, optimisers; chains of kernels
//	indexing     gather, scatter, selection, sorting, embeddings, weighted sums of rows
//	gemm         matrix products, quantised products, triangular systems
//	attention    flash attention, forward, backward and over caches
//	convolution  windows, pooling, resampling
//	recurrent    LSTM, GRU, the gated delta rule
//	fourier      Fourier transforms of rows
//	block        register blocks in C, which gemm and attention share
//	kerneltest   what tests of kernels need
//
// and ctc, embeddingbag, entropy, fractal, gating, interpolate, kda, matrix, minifloat, order, random, rounding, segsum, which
// are in Go alone but for fractal.
//
// Arithmetic is C, which Go calls after it has checked the operands and divided the work among threads. C is written once,
// in headers with vector types of the width that a variant sets. variant_*.c of a package sets the target and includes
// body.h, which collects the functions in a table (table.h). All packages have the variants portable (SSE2 on amd64, NEON on
// arm64) and avx2; gemm and attention also have avx512, and for 8-bit numbers, with CANN_EMU_FAST=1 for bfloat16 too,
// avx512bf16 and amx. The best variant that the CPU's feature bits allow is chosen at start; CANN_EMU_CPU overrides it. All
// give the same bits but for bfloat16 with CANN_EMU_FAST=1: products and sums are fused with vfma (vector.h), never by the
// compiler, and sums have an order that no width of vectors changes.
//
// The headers of this package are for all packages with C, which find them with -I${SRCDIR}/.. in their c.go.
//
// Kernels know neither devices nor operators, accumulate in float32 (float64 for float64, int64 for integers), and give the
// same result for every number of threads.
package kernel
