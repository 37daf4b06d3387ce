package aclnn

// What the letters of an attention layout mean: batch, sequence, heads, head dimension; H is
// heads times head dimension, T the tokens of all sequences, one after the other. The
// parameter inputLayout.
const (
	LayoutBSH  = "BSH"
	LayoutSBH  = "SBH"
	LayoutBSND = "BSND"
	LayoutBNSD = "BNSD"
	LayoutTND  = "TND" // the forms for packed sequences take no other

	// LayoutBNSDBSND reads BNSD and writes BSND; operators for inference only.
	LayoutBNSDBSND = "BNSD_BSND"
)

// Which keys a query sees: the parameter sparseMode. Without a mask tensor it has no effect
// in the forward operators. A mask element of 1 hides. "Compressed" masks are one 2048×2048
// tensor, 1 above the diagonal, for sequences of any length. Package ops/mask chooses.
const (
	SparseDense             = 0 // the mask given, within preTokens and nextTokens
	SparseAll               = 1 // the mask given, whatever preTokens and nextTokens are
	SparseCausal            = 2 // key ≤ query, both counted from the start; compressed
	SparseCausalEnd         = 3 // key ≤ query, both counted from the end; compressed
	SparseBand              = 4 // preTokens before the query to nextTokens behind, counted from the end; compressed
	SparsePrefix            = 5 // SparseCausalEnd and the first keys of each sequence; the mask given says both
	SparsePrefixCompressed  = 6 // the same, with the mask of 3072×2048
	SparseCausalEndThenBand = 7 // packed sequences: SparseBand for the last one, SparseCausalEnd for the others; compressed
	SparseBandThenCausal    = 8 // packed sequences: SparseBand for the first one, SparseCausal for the others; compressed
)

// How the bias pse enters the scores: the parameter pseType.
const (
	PseAfterScale  = 0 // scale·QKᵀ + pse
	PseBeforeScale = 1 // scale·(QKᵀ + pse); what operators without the parameter do
	PseSlope       = 2 // pse holds slopes: scale·QKᵀ − slope·|distance|
	PseSlopeRoot   = 3 // pse holds slopes: scale·QKᵀ − slope·√|distance|
)

// The parameter innerPrecise. The operators for training compute in float32 whatever it is
// and know InnerZeroHiddenRows only; those for inference add it to one of the other two.
const (
	InnerHighPrecision   = 0
	InnerHighPerformance = 1
	InnerZeroHiddenRows  = 2 // a query that sees no key gives zeros, not the mean of the values
)

// How rotary position embeddings pair the elements of a head of D elements: the parameter
// mode of RotaryPositionEmbedding. An Atlas A2 (910B) takes all four and computes RotaryHalf for the
// last two; other chips compute what they say.
const (
	RotaryHalf           = 0 // i with i + D/2
	RotaryInterleave     = 1 // 2i with 2i + 1
	RotaryQuarter        = 2 // as RotaryHalf in each half
	RotaryInterleaveHalf = 3 // 2i with 2i + 1, the results as two halves
)

// The layouts of queries and keys that ApplyRotaryPosEmb rotates in place: its parameter
// layout.
const (
	RotaryLayoutBSND = 1
	RotaryLayoutSBND = 2
	RotaryLayoutBNSD = 3
	RotaryLayoutTND  = 4
)
