// Package kernel holds the compute kernels of the emulator: C for the arithmetic, Go for
// checking and for splitting work among threads.
//
// Every C kernel is written once and compiled per CPU variant (portable, AVX2+FMA,
// AVX-512; NEON is the portable build of arm64): variant_*.c set the target and include
// body.h, which collects the kernels into one table. The variants avx512bf16 and amx have matrix
// products and attention of their own, with the dot products of AVX-512 BF16 and VNNI and with the tiles of AMX,
// and else the kernels of AVX-512. On arm64 neondot has products of 8-bit integers with SDOT and UDOT, neonbf16
// has them with SMMLA and UMMLA, those of bfloat16 with BFMMLA and attention with BFDOT; else both have the portable
// kernels.
// The best variant the CPU's feature bits allow is chosen at start; CANN_EMU_CPU overrides it.
//
// Kernels take views of host memory. They know neither devices nor operators, accumulate
// in fp32 (fp64 for float64, int64 for integers), and give the same result for every
// number of threads.
//
// What needs only this package's interface has a package of its own below: bag, chance, ctc, entropy, fractal,
// gating, interpolate, kda, matrix, rounding, segsum, tiny, and order, which works on slices and is used here.
package kernel
