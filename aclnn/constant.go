package aclnn

import "github.com/goascend/cann/internal/abi"

// The constants of this file name the numbers and texts that CANN's documents list for
// parameters whose C type is a plain integer or a string. They are untyped, because C gives
// the same choice several widths. Element types and storage formats are DType and Format.

// How a matrix product treats its operands: the parameter cubeMathType.
const (
	CubeKeepDType              = 0 // multiplies in the operands' dtype
	CubeAllowFP32DownPrecision = 1 // float32 may be cut to HF32 (11 bits of fraction); 16-bit operands stay
	CubeUseFP16                = 2 // operands are converted to float16; refused for bfloat16
	CubeUseHF32                = 3 // float32 operands are cut to HF32
	CubeUseFP32Add             = 4 // sums long float32 products in groups; CANN after 8.1 only
)

// What a loss does with the losses of its elements: the integer parameter reduction. (The
// cross-entropy operators take the texts "none", "mean" and "sum".)
const (
	ReductionNone = abi.None // keeps them
	ReductionMean = abi.Mean
	ReductionSum  = abi.Sum
)

// Which formula of Gelu is computed: the integer parameter approximate.
const (
	GeluErf  = 0 // exact
	GeluTanh = 1 // the approximation by tanh
)

// How a quotient is rounded: the parameter mode of DivMod and its relatives.
const (
	DivTrue  = 0 // not rounded
	DivTrunc = 1 // towards zero
	DivFloor = 2 // down
)

// How values are rounded to integers: the text parameter roundMode.
const (
	RoundRint  = "rint"  // to nearest, halves to even
	RoundRound = "round" // to nearest
	RoundFloor = "floor"
	RoundCeil  = "ceil"
	RoundTrunc = "trunc"
)

// How a value between elements is computed: the parameter interpolationMode of
// GridSampler2D and GridSampler3D.
const (
	InterpolationBilinear = 0 // trilinear in three dimensions
	InterpolationNearest  = 1
	InterpolationBicubic  = 2 // in two dimensions only
)

// What is read outside of an image: the parameter paddingMode of GridSampler2D and
// GridSampler3D.
const (
	PaddingZeros      = 0
	PaddingBorder     = 1
	PaddingReflection = 2
)

// How rows of a bag become one: the parameter mode of EmbeddingBag.
const (
	BagSum  = 0
	BagMean = 1
	BagMax  = 2
)

// What happens to an element that is scattered to: the parameter reduce of Scatter (the
// first three) and of ScatterReduce.
const (
	ScatterReplace  = 0
	ScatterSum      = 1
	ScatterMultiply = 2
	ScatterMax      = 3
	ScatterMin      = 4
	ScatterMean     = 5
)

// Which factors Qr computes: the parameter mode of LinalgQr.
const (
	QrReduced  = 0
	QrComplete = 1
	QrOnlyR    = 2
)
