// Package block has the C headers of register blocks: the micro-kernels of matrix products and the packing of operands
// for them. Packages gemm and attention include them; there is nothing for Go.
//
// A new unit of a CPU that multiplies small matrices gets a header here, beside amx.h, which defines NAME(micro), and a
// variant_*.c in both packages.
package block

import "embed"

// Go compiles the packages that include these headers again when their text, a part of this package, changes.
//
//go:embed *.h
var _ embed.FS
