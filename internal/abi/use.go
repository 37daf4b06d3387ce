package abi

import (
	"slices"
	"strings"
	"sync"
)

// Use is whether an operator reads or writes a tensor or a list of tensors.
type Use uint8

// Uses of a tensor. Parameters of other classes are always read.
const (
	Read    Use = iota
	Written     // without being read: an output
	Updated     // read and written, in place
)

// exception is a tensor whose use follows neither from its name nor from const, with the operators
// that it applies to; "*" means all operators.
type exception struct {
	param, operators string
	use              Use
}

var exceptions = []exception{
	// Inputs without const.
	{"counter", "BatchNormElemtBackward", Read},
	{"dstRank", "ElasticReceivableTest", Read},
	{"keyScale", "ScatterPaKvCacheWithKScale", Read},
	{"labels", "SoftmaxCrossEntropyWithLogits", Read},
	{"mean", "BatchNormElemt", Read},
	{"invstd", "BatchNormElemt", Read},
	{"totalWeight", "NLLLoss2dBackward", Read},
	{"w", "GroupedMatmulFinalizeRouting", Read},
	{"weight", "QuantizedBatchNorm", Read},
	{"bias", "QuantizedBatchNorm", Read},
	{"x2", "GroupedMatmulFinalizeRoutingV2 GroupedMatmulFinalizeRoutingV3 GroupedMatmulFinalizeRoutingWeightNzV2", Read},
	// Inputs that have the name of the output that they were, or belong to.
	{"attentionOut", "BlockSparseAttentionGrad NsaSelectedAttentionGrad", Read},
	{"curAttnOut", "RingAttentionUpdate RingAttentionUpdateV2", Read},
	{"dOut", "SparseFlashAttentionGrad SparseFlashMlaGrad", Read},
	{"gradOut", "*", Read},
	{"hOut", "MhcPost MhcPostBackward", Read},
	{"normOut", "MhcPreSinkhornBackward MhcSinkhornBackward", Read},
	{"offsetOut", "DeformableConv2dBackward", Read},
	{"localOut", "AttentionUpdate", Read},
	{"out", "SparseFlashAttentionGrad SparseFlashMlaGrad", Read},
	{"prevAttnOut", "RingAttentionUpdate RingAttentionUpdateV2", Read},
	{"sumOut", "MhcPreSinkhornBackward MhcSinkhornBackward", Read},
	{"timeOut", "DistributeBarrierV2", Read},
	// Arguments that only order calls.
	{"xRef", "DistributeBarrier DistributeBarrierV2", Read},
	// Outputs with const.
	{"actualTokenNum", "FfnWorkerBatching", Written},
	{"amax", "GroupedQuantMax QuantMax", Written},
	{"cmpSoftmaxL1NormOptional", "SparseFlashMlaGrad", Written},
	{"dKeyIndex", "DenseLightningIndexerGradKLLoss SparseLightningIndexerGradKLLoss", Written},
	{"dQueryIndex", "DenseLightningIndexerGradKLLoss SparseLightningIndexerGradKLLoss", Written},
	{"dWeights", "DenseLightningIndexerGradKLLoss SparseLightningIndexerGradKLLoss", Written},
	{"dk", "DenseLightningIndexerKLLossGrad SparseLightningIndexerKLLossGrad", Written},
	{"dq", "DenseLightningIndexerKLLossGrad SparseLightningIndexerKLLossGrad", Written},
	{"dw", "DenseLightningIndexerKLLossGrad SparseLightningIndexerKLLossGrad", Written},
	{"dst_out", "ViewCopy", Written},
	{"dx", "AtanGrad", Written},
	{"dynamicScale", "FfnWorkerBatching", Written},
	{"expertOffsets", "FfnWorkerBatching", Written},
	{"finalState", "ChunkGatedDeltaRule RecurrentKda", Written},
	{"gradAlpha", "MhcPreBackward MhcPreSinkhornBackward", Written},
	{"gradBias", "MhcPreBackward MhcPreSinkhornBackward", Written},
	{"gradEncoderKey", "NormRopeConcatBackward", Written},
	{"gradEncoderQuery", "NormRopeConcatBackward", Written},
	{"gradEncoderValue", "NormRopeConcatBackward", Written},
	{"gradGamma", "MhcPreBackward", Written},
	{"gradKey", "NormRopeConcatBackward", Written},
	{"gradNormAddedKeyBias", "NormRopeConcatBackward", Written},
	{"gradNormAddedKeyWeight", "NormRopeConcatBackward", Written},
	{"gradNormAddedQueryBias", "NormRopeConcatBackward", Written},
	{"gradNormAddedQueryWeight", "NormRopeConcatBackward", Written},
	{"gradNormKeyBias", "NormRopeConcatBackward", Written},
	{"gradNormKeyWeight", "NormRopeConcatBackward", Written},
	{"gradNormQueryBias", "NormRopeConcatBackward", Written},
	{"gradNormQueryWeight", "NormRopeConcatBackward", Written},
	{"gradPhi", "MhcPreBackward MhcPreSinkhornBackward", Written},
	{"gradQuery", "NormRopeConcatBackward", Written},
	{"gradValue", "NormRopeConcatBackward", Written},
	{"gradX", "MhcPreBackward MhcPreSinkhornBackward", Written},
	{"gradIn", "UnfoldGrad", Written},
	{"gradInput", "GeluBackward", Written},
	{"grad_input", "ModulateBackward", Written},
	{"grad_scale", "ModulateBackward", Written},
	{"grad_shift", "ModulateBackward", Written},
	{"groupList", "FfnWorkerBatching", Written},
	{"kFlat", "StemOamPrepPagedKv", Written},
	{"kOutBeforeQuant", "QkvRmsNormRopeCache", Written},
	{"keyOutput", "NormRopeConcat", Written},
	{"logitsIdx", "TopKTopPSampleV2", Written},
	{"logitsSelectIdx", "TopKTopPSample TopKTopPSampleV2", Written},
	{"logitsSortMasked", "TopKTopPSampleV2", Written},
	{"logitsTopKPSelect", "TopKTopPSample TopKTopPSampleV2", Written},
	{"loss", "DenseLightningIndexerGradKLLoss LightningIndexerKLLoss SparseLightningIndexerGradKLLoss", Written},
	{"metaData", "FlashAttnMetadata MixedQuantSparseFlashMlaMetadata QuantFlashAttnMetadata QuantSparseFlashMlaMetadata SparseFlashMlaGradMetadata SparseFlashMlaMetadata", Written},
	{"metadata", "DenseLightningIndexerKLLossGradMetadata DenseLightningIndexerSoftmaxLseV2Metadata LightningIndexerV2Metadata QuantLightningIndexerV2Metadata " +
		"SparseFlashMlaSoftmaxL1NormMetadata SparseLightningIndexerKLLossGradMetadata", Written},
	{"microBatchIds", "FfnWorkerBatching", Written},
	{"mmYOptional", "QuantGroupedMatMulAlltoAllv QuantGroupedMatMulAlltoAllvV2", Written},
	{"mxscale", "GroupedDynamicMxQuant GroupedDynamicMxQuantV2", Written},
	{"noise", "RReluWithNoise InplaceRReluWithNoise", Written}, // the drawn numbers
	{"nextLayerId", "AttentionWorkerCombine", Written},
	{"normAddedKeyMean", "NormRopeConcat", Written},
	{"normAddedKeyRstd", "NormRopeConcat", Written},
	{"normAddedQueryMean", "NormRopeConcat", Written},
	{"normAddedQueryRstd", "NormRopeConcat", Written},
	{"normKeyMean", "NormRopeConcat", Written},
	{"normKeyRstd", "NormRopeConcat", Written},
	{"normQueryMean", "NormRopeConcat", Written},
	{"normQueryRstd", "NormRopeConcat", Written},
	{"oriSoftmaxL1NormOptional", "SparseFlashMlaGrad", Written},
	{"outScaleOptional", "GeluQuant", Written},
	{"output", "AllGatherMatmul AlltoAllMatmul AlltoAllMatmulV2 AlltoAllQuantMatmul AlltoAllQuantMatmulV2 MatmulAllReduce MatmulAllReduceV2 MatmulAllReduceV3 " +
		"MatmulAlltoAll MatmulAlltoAllV2 MatmulReduceScatter NsaCompressAttentionInfer QuantMatmulAllReduce QuantMatmulAllReduceV2 QuantMatmulAllReduceV3 " +
		"QuantMatmulAllReduceV4 QuantMatmulAllReduceV5 QuantMatmulAlltoAll QuantMatmulAlltoAllV2 WeightQuantMatmulAllReduce WeightQuantMatmulAllReduceV2", Written},
	{"qOutBeforeQuant", "QkvRmsNormRopeCache", Written},
	{"queryOutput", "NormRopeConcat", Written},
	{"result", "LogSpace", Written},
	{"scale1", "MxToBlockMxQuant", Written},
	{"scale2", "MxToBlockMxQuant", Written},
	{"score", "MsaIndexScore", Written},
	{"sessionIds", "FfnWorkerBatching", Written},
	{"softmaxL1Norm", "SparseFlashMlaSoftmaxL1Norm", Written},
	{"softmaxLseOptional", "FlashAttn QuantFlashAttn RainFusionAttention", Written},
	{"softmaxMax", "SparseFlashAttention SparseFlashAttentionV2", Written},
	{"softmaxSum", "SparseFlashAttention SparseFlashAttentionV2", Written},
	{"sparseIndices", "LightningIndexerV2", Written},
	{"sparseValues", "LightningIndexerV2", Written},
	{"softmaxLse", "FusedInferAttentionScore FusedInferAttentionScoreV2 FusedInferAttentionScoreV3 FusedInferAttentionScoreV4 FusedInferAttentionScoreV5 InnerFusedInferAttentionScore", Written},
	{"tokenIds", "FfnWorkerBatching", Written},
	{"topKOutput", "NsaCompressAttentionInfer", Written},
	{"updatedGrowthTracker", "AmpUpdateScale", Written},
	{"updatedScale", "AmpUpdateScale", Written},
	{"vBias", "StemOamPrepPagedKv", Written},
	{"vOutBeforeQuant", "QkvRmsNormRopeCache", Written},
	{"valueOutput", "NormRopeConcat", Written},
	{"x_grad", "AcosGrad", Written},
	{"y", "AntiMxQuant AscendAntiQuant AscendQuant AscendQuantV3 AttentionWorkerCombine DataFormatDimMap FFN FFNV2 FFNV3 FfnWorkerBatching FusedMatmul GeluQuant GroupedDynamicMxQuant " +
		"GroupedDynamicMxQuantV2 GroupedMatMulAllReduce GroupedMatmul GroupedMatmulV2 GroupedMatmulV3 GroupedQuantMax MatmulAllReduceAddRmsNorm MatmulEmuSplitWeight MxToBlockMxQuant QuantGroupedMatMulAlltoAllv QuantGroupedMatMulAlltoAllvV2 " +
		"QuantMatmulAllReduceAddRmsNorm QuantMax WeightQuantBatchMatmulNz WeightQuantBatchMatmulV2 WeightQuantBatchMatmulV3 WeightQuantMatmulAllReduceAddRmsNorm", Written},
	{"z", "AcosGradV2 MulNoNan Xlog1py", Written},
	// Updated tensors whose names do not end with Ref.
	{"inputPositions", "AdvanceStep", Written},
	{"inputPositions", "AdvanceStepV2", Updated},
	{"inputTokens", "AdvanceStep AdvanceStepV2", Written},
	{"convStates", "CausalConv1d FusedCausalConv1d InplaceFusedCausalConv1d", Updated},
	{"foundInf", "ForeachNonFiniteCheckAndUnscale", Updated},
	{"mean", "SyncBatchNormGatherStats", Updated},
	{"kCache", "QkvRmsNormRopeCache", Updated},
	{"other", "InplaceAddV3", Updated},
	{"outputCache", "NsaCompressWithCache", Updated},
	{"runningMean", "BatchNorm BatchNormGatherStatsWithCounts", Updated},
	{"runningVar", "BatchNorm BatchNormGatherStatsWithCounts", Updated},
	{"residual", "InplaceMatmulAllReduceAddRmsNorm InplaceQuantMatmulAllReduceAddRmsNorm InplaceWeightQuantMatmulAllReduceAddRmsNorm", Updated},
	{"scaledGrads", "ForeachNonFiniteCheckAndUnscale", Updated},
	{"seqLens", "AdvanceStep AdvanceStepV2", Written},
	{"slotMapping", "AdvanceStep AdvanceStepV2", Written},
	{"vCache", "QkvRmsNormRopeCache", Updated},
	{"var", "ApplyGradientDescent", Updated},
	{"variance", "SyncBatchNormGatherStats", Updated},
	{"x1", "InplaceMatmulAllReduceAddRmsNorm InplaceQuantMatmulAllReduceAddRmsNorm InplaceWeightQuantMatmulAllReduceAddRmsNorm", Read},
}

func (x exception) of(operator string) bool {
	return x.operators == "*" || slices.Contains(strings.Fields(x.operators), operator)
}

// exceptionsOf has the exceptions by the name of their parameter.
var exceptionsOf = sync.OnceValue(func() map[string][]exception {
	by := make(map[string][]exception)
	for _, x := range exceptions {
		by[x.param] = append(by[x.param], x)
	}
	return by
})

// useOf returns the use of parameter i by an operator.
func useOf(symbol string, i int, p Param) Use {
	if p.Class != Tensor && p.Class != TensorList {
		return Read
	}
	operator := nameOf(symbol)
	for _, x := range exceptionsOf()[p.Name] {
		if x.of(operator) {
			return x.use
		}
	}
	return conventional(operator, i, p)
}

// conventional is useOf by CANN's naming conventions alone. Tensors named out or …Out, and tensors
// without const, are outputs. Tensors named …Ref are updated, and so is the first argument of an
// in-place operator.
func conventional(operator string, i int, p Param) Use {
	inplace := strings.HasPrefix(operator, "Inplace") || strings.HasSuffix(operator, "Inplace")
	name := strings.TrimSuffix(p.Name, "Optional")
	switch {
	case strings.HasSuffix(name, "Ref"), inplace && i == 0:
		return Updated
	case name == "out", strings.HasSuffix(name, "Out"), !inplace && !strings.HasPrefix(p.Type, "const "):
		return Written
	}
	return Read
}
