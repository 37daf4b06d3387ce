// Package gemm has matrix products: [Gemm] over batches, FRACTAL_NZ storage and sums over a batch, products with quantised
// operands, quantisation, and triangular systems.
//
// tile.h divides a product into blocks that caches hold, in the style of GotoBLAS, and is included once for each computation
// type (body.h: float32, float64, and integers of 32 and 64 bits). The micro-kernels and the packing of operands are in package
// block. A new element type is a line in SOURCES or TARGETS of f32.h or body.h with its conversions in pack.h; a new matrix
// unit is a variant_*.c here and a header in block. An element is summed in the same order on every path, as the comment of
// micro.h describes; TestGemmOfFewRows and TestGemmCells watch that.
package gemm
