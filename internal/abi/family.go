package abi

import "strings"

// Family groups operators by what they compute. The files of the bindings follow it.
type Family string

// Families of operators.
const (
	Foreach       Family = "foreach"
	Attention     Family = "attention"
	MoE           Family = "moe"
	Communication Family = "communication"
	Quantization  Family = "quantization"
	MatMul        Family = "matmul"
	Recurrent     Family = "recurrent"
	Optimizer     Family = "optimizer"
	Loss          Family = "loss"
	Normalization Family = "normalization"
	Convolution   Family = "convolution"
	Pooling       Family = "pooling"
	Resampling    Family = "resampling"
	Random        Family = "random"
	LinearAlgebra Family = "linalg"
	Activation    Family = "activation"
	Reduction     Family = "reduction"
	Index         Family = "index"
	Layout        Family = "layout"
	Comparison    Family = "comparison"
	Elementwise   Family = "elementwise"
)

// rules are tried in order; the first rule with a word that occurs in the name decides. A word that
// starts with "^" must begin the name, one that ends with "$" must end it. Operators that match no
// rule are elementwise. A quantised product, norm, convolution or optimizer belongs to the family
// of its floating-point form; the family quantization contains the conversions themselves, and
// conversions that follow an activation.
var rules = []struct {
	family Family
	words  string
}{
	{Optimizer, "NonFiniteCheck"},
	{Foreach, "^Foreach"},
	{Recurrent, "GRU LSTM Lstm DeltaRule Kda ChunkBwd ChunkFwd WyRepr RecomputeWU ChunkLocalCumsum ExpSegsum"},
	{MoE, "^Moe DistributeBarrier ElasticReceivable"},
	{Communication, "AllReduce AllGather ReduceScatter AlltoAll AttentionToFFN FFNToAttention AttentionWorker FfnWorker BandwidthTest"},
	{Attention, "Attention Attn Rope RotaryPos MlaProlog NsaCompress AdvanceStep KvCache Kvcache RescaleQkv RotaryMul LightningIndexer SparseFlashMla BSASelectBlockMask MsaIndexScore Compressor MlaPreprocess IndexerQuantCache KvCompress ScatterPaCache StemOam"},
	{Layout, "TransMatmulWeight UnfoldGrad Slice ^Diag ^Tril ^Triu InplaceTri FillDiagonal"},
	{MatMul, "MatMul Matmul ^Mm$ ^Mv$ ^Dot$ ^Ger$ ^Gemm$ Addmm Addmv Addbmm Baddbmm Addr$ AddrV2$ Einsum MatMat AddLora ^FFN GroupedBias"},
	{Normalization, "Norm&Quant"},
	{Convolution, "QuantConv"},
	{Optimizer, "^Apply&Quant"},
	{Index, "QuantScatter"},
	{Quantization, "Quant Dequant INT4Pack"},
	{Random, "Random Dropout Bernoulli Multinomial Randperm Uniform InplaceNormal NormalFloat NormalTensor TopKTopP SimThread"},
	{Optimizer, "^Apply AmpUpdate Adamw FusedSgd FusedEma SilentCheck"},
	{Loss, "Loss CrossEntropy KlDiv OnlineMaxSum"},
	{Index, "Embedding RepeatInterleave Jagged"},
	{Reduction, "^Norm$ VectorNorm"},
	{LinearAlgebra, "Linalg ^Qr$ ^Svd$ ^Inverse$ det$ Triangular Cdist Pdist Rfft Stft Trace$ Chamfer"},
	{Normalization, "Norm Renorm ^Mhc"},
	{Convolution, "Conv Im2col Unfold"},
	{Pooling, "Pool Unpool"},
	{Resampling, "Upsample Resize GridSampler AffineGrid RoiAlign NonMaxSuppression BlendImages BackgroundReplace Mrgba ^Iou$ ^CIoU$ Rasterizer ThreeInterpolate"},
	{Elementwise, "AddRelu MaskedScale ^Maximum ^Minimum ^MaxN$ ^MinN$ ^Sum$ ^SumV2$"},
	{Activation, "Relu Prelu Fatrelu Gelu Elu Selu Silu Swish SwiGlu Swiglu Glu Sigmoid Softmax Softplus Softshrink Softsign Hard Mish TanhBackward Threshold Shrink Celu Sinkhorn Modulate ^Scale$"},
	{Comparison, "EqScalar EqTensor ^Equal$ Ge&Scalar$ Gt&Scalar$ Le&Scalar$ Lt&Scalar$ Ne&Scalar$ GeTensor GtTensor LeTensor LtTensor NeTensor ^Is Logical Signbit Approximate Heaviside PrecisionCompare"},
	{Index, "^Index Coalesce InplaceIndex Gather Scatter Take Put Masked OneHot SearchSorted Bucketize Nonzero Where"},
	{Reduction, "^Mean ^Max ^Min Amax Amin ArgMax ArgMin ^Prod ^Any$ ^All$ ^Std ^Var Median Kthvalue Topk Sort Argsort Unique Cum LogSumExp Reduce Bincount Histc"},
	{Layout, "Copy Cast Cat$ Stack Split Permute Expand Repeat Flip Roll Flatten Pad Transpose Shuffle Zero One$ Fill Arange Range Linspace LogSpace Eye DimMap SignBits Hans"},
}

// Family returns the operator's family.
func (o *Operator) Family() Family { return FamilyOf(o.Name) }

// FamilyOf returns the family of an operator, decided by words of its name.
func FamilyOf(name string) Family {
	for _, r := range rules {
		if anyWord(name, r.words) {
			return r.family
		}
	}
	return Elementwise
}

func anyWord(name, words string) bool {
	for word := range strings.FieldsSeq(words) {
		if matchWord(name, word) {
			return true
		}
	}
	return false
}

// matchWord reports whether one word matches; "a&b" needs both parts.
func matchWord(name, word string) bool {
	for part := range strings.SplitSeq(word, "&") {
		front, back := strings.HasPrefix(part, "^"), strings.HasSuffix(part, "$")
		part = strings.TrimSuffix(strings.TrimPrefix(part, "^"), "$")
		switch {
		case front && back && name != part,
			front && !strings.HasPrefix(name, part),
			back && !strings.HasSuffix(name, part),
			!strings.Contains(name, part):
			return false
		}
	}
	return true
}
