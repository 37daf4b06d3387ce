package abi

import "strings"

// Family groups operators by what they compute; the bindings are filed by it.
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

// rules are tried in order; the first with a word that occurs in the name decides. A word
// that starts with "^" must begin the name, one that ends with "$" must end it. What no
// rule names is elementwise.
var rules = []struct {
	family Family
	words  string
}{
	{Foreach, "^Foreach"},
	{Recurrent, "GRU LSTM Lstm DeltaRule Kda ChunkBwd ChunkFwd WyRepr RecomputeWU ChunkLocalCumsum ExpSegsum"},
	{MoE, "^Moe DistributeBarrier ElasticReceivable"},
	{Communication, "AllReduce AllGather ReduceScatter AlltoAll"},
	{Attention, "Attention Attn Rope RotaryPos MlaProlog NsaCompress RelPosBias AdvanceStep KvCache Kvcache RescaleQkv"},
	{Quantization, "Quant INT4Pack PrecisionCompare"},
	{MatMul, "MatMul Matmul ^Mm$ ^Mv$ ^Dot$ ^Ger$ ^Gemm$ Addmm Addmv Addbmm Baddbmm Addr$ AddrV2$ Einsum MatMat AddLora ^FFN"},
	{Random, "Random Dropout Bernoulli Multinomial Randperm Uniform InplaceNormal NormalFloat NormalTensor TopKTopP SimThread"},
	{Optimizer, "^Apply AmpUpdate Adamw FusedSgd FusedEma SilentCheck"},
	{Loss, "Loss CrossEntropy KlDiv OnlineMaxSum"},
	{Index, "Embedding"},
	{LinearAlgebra, "Linalg ^Qr$ ^Svd$ ^Inverse$ det$ Triangular Cdist Pdist Rfft Stft Trace$ ^Diag Tril Triu Chamfer"},
	{Reduction, "^Norm$"},
	{Normalization, "Norm Renorm"},
	{Convolution, "Conv Im2col Unfold"},
	{Pooling, "Pool Unpool"},
	{Resampling, "Upsample Resize GridSampler AffineGrid RoiAlign NonMaxSuppression BlendImages BackgroundReplace"},
	{Activation, "Relu Gelu Elu Selu Silu Swish SwiGlu Swiglu Glu Sigmoid Softmax Softplus Softshrink Softsign Hard Mish TanhBackward Threshold Shrink Celu Sinkhorn Modulate"},
	{Comparison, "EqScalar EqTensor ^Equal$ Ge&Scalar$ Gt&Scalar$ Le&Scalar$ Lt&Scalar$ Ne&Scalar$ GeTensor GtTensor LeTensor LtTensor NeTensor ^Is Logical Signbit Approximate Heaviside"},
	{Elementwise, "^Maximum ^Minimum ^MaxN$ ^MinN$"},
	{Index, "^Index Coalesce InplaceIndex Gather Scatter Take Put Masked OneHot SearchSorted Bucketize Nonzero Slice Where FillDiagonal"},
	{Reduction, "^Sum ^Mean ^Max ^Min Amax Amin ArgMax ArgMin ^Prod ^Any$ ^All$ ^Std ^Var Median Kthvalue Topk Sort Argsort Unique Cum LogSumExp Reduce Bincount Histc"},
	{Layout, "Copy Cast Cat$ Stack Split Permute Expand Repeat Flip Roll Flatten Pad Transpose Shuffle Zero One$ Fill Arange Range Linspace LogSpace Eye Complex Real DimMap SignBits Hans"},
}

// FamilyOf files an operator by words of its name.
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

// matchWord tests one word; "a&b" needs both.
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
