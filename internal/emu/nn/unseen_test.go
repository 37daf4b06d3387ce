package nn

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/op/optest"
)

// overlooked are parameters that no recorded call lets an operator look at, with the reason: operators by patterns of
// path.Match, and parameters.
var overlooked = []struct{ operators, params, reason string }{
	// CANN's pages call these reserved, unused or without effect.
	{"FlashAttention*", "paddingMaskOptional softmaxOutOut softmaxInOptional dpseOut", "reserved"},
	{"MoeDistribute*", "groupTp groupListType tpSendCounts tpSendCountsOptional", "of groups of two kinds, which are no longer supported, and of a reserved list"},
	{"MoeDistributeCombineAddRmsNorm*", "expandScalesOptional", "reserved"},
	{"MoeTokenUnpermute MoeTokenUnpermuteGrad MoeTokenUnpermuteWithEp MoeTokenUnpermuteWithEpGrad", "restoreShapeOptional", "of paddedMode, which is not supported"},
	{"ApplyAdamWQuant", "quantModeOptional", "reserved"},
	{"AddRmsNormQuant AddRmsNormQuantV2", "axis", "values other than -1 have no effect"},
	{"CrossEntropyLoss", "zlossOut lseForZlossOut", "not supported, and not part of the computation"},
	{"LogSigmoidForward", "buffer", "unused"},
	{"LstmBackward", "train outputMask", "the gradient is of training, and the mask is not supported"},
	{"NsaSelectedAttentionInfer", "sparseMode", "reserved"},
	{"SparseLightningIndexerGradKLLoss SparseFlashAttentionGrad LightningIndexerGrad", "deterministic", "sums have one order in any case"},
	{"AlltoAllQuantMatmul AlltoAllQuantMatmulV2", "x1QuantDtype", "of floats of eight bits, on the Ascend950 alone"},
	{"BlockSparseAttentionV3", "dstTypeMax", "of floats of four bits, which are refused"},
	{"Convolution QuantConvolution", "outputPadding", "of transposed convolutions; the recorded ones are not"},
	{"ConvolutionBackward", "outputPadding", "the sizes of the output have it already"},
	{"Rasterizer", "occlusionTruncation", "of a depth prior, which is not supported"},
	{"FusedInferAttentionScoreV5", "qStartIdxOptional kvStartIdxOptional", "of pseType 2 and 3, which are refused"},
	{"SwigluMxQuant", "gluAlpha gluBias", "of swigluMode 1; the recorded calls have 0"},
	{"ScatterPaKvCache", "stridesOptional offsetsOptional", "of scatterModeOptional Nct, which is refused"},

	// How, and how fast, the device computes.
	{"*AllReduce* *ReduceScatter* AllGather*", "commTurn", "in how many pieces ranks send; CANN's pages allow 0 alone, and phase one takes any"},
	{"ApplyAdam ApplyAdamD", "useLocking", "a lock does not change the result"},
	{"DropoutGenMaskV2 DropoutGenMaskV2Tensor", "probDataType", "the type of the numbers that the kernel draws; the bits of a mask do not depend on it"},
	{"GroupedMatmulSwigluQuantV2 GroupedMatmulSwigluQuantWeightNzV2", "tuningConfigOptional", "a hint of how many rows a group has"},
	{"GatherNd", "negativeIndexSupport", "negative indices are always counted from the end"},
	{"IndexAddV2", "mode", "speed"},
	{"IndexPutImpl", "unsafe", "indices are always checked"},
	{"IsInScalarTensor IsInTensorScalar", "assumeUnique", "speed"},
	{"MaskedSoftmaxWithRelPosBias WeightQuantBatchMatmulV3", "innerPrecisionMode innerPrecise", "precision; the emulator has the higher one"},
	{"Sort", "stable", "every order is stable"},
	{"Topk Unique Unique2 UniqueDim", "sorted", "results are always sorted"},
	{"TopKTopPSample TopKTopPSampleV2", "topKGuess", "how many logits the device looks at first"},
	{"BatchNormElemt", "eps", "invstd contains it"},
	{"WeightQuantBatchMatmul", "diagonalMatrix deqOffset deqScale", "with which the device converts weights; antiquantScale and antiquantOffset say the same"},
	{"MoeDistributeCombine", "expandScales", "of hierarchical messages, which the emulator does not count in steps"},
	{"ChunkGatedDeltaRuleBwdDhu", "h0Optional dhtOptional", "the kernel ignores them, see deltaStatesGrad"},
	{"AddLayerNormQuant AddLayerNormQuantV2", "additionalOutput", "xOut must be given in any case, and is written"},

	// Operators look at these in other modes than recorded calls have.
	{"AddLayerNormQuantV2", "y2Out outScales2Out", "of a second set of scales"},
	{"ChunkLocalCumsum", "chunkIndicesOutOptional", "of packed sequences"},
	{"FlashAttentionUnpaddingScoreGradV3 FlashAttentionUnpaddingScoreGradV5", "dqRopeOut dkRopeOut", "of rotated parts"},
	{"FusedInferAttentionScoreV2 FusedInferAttentionScoreV3", "actualSharedPrefixLenOptional", "of a shared prefix"},
	{"KdaGateCumsum", "lowerBound", "of safeGate"},
	{"MaxV2 ReduceLogSum", "noopWithEmptyDims noopWithEmptyAxes", "of reductions without dimensions"},
	{"MlaProlog MlaPrologV2 MlaPrologV3", "dequantScaleXOptional dequantScaleWDqOptional dequantScaleWUqQrOptional dequantScaleWDkvKrOptional dequantScaleQNopeOutOptional tileSize", "of int8"},
	{"MoeDistributeCombineAddRmsNormV2", "oriXOptional constExpertAlpha1Optional constExpertAlpha2Optional constExpertVOptional", "of experts that copy"},
	{"MoeDistributeCombineV2 MoeDistributeCombineV3 MoeDistributeCombineV4", "expandScalesOptional", "of hierarchical messages"},
	{"MoeFinalizeRoutingV2Grad", "expertNum expertCapacity", "of dropPadMode 1"},
	{"MoeInitRoutingV3", "expertCapacity", "of dropPadMode 1"},
	{"MoeInitRoutingQuantV2", "expertTokensBeforeCapacityFlag expertTokensCountOrCumsumOutOptional expertTokensBeforeCapacityOutOptional", "of dropPadMode 1, and of counts"},
	{"MoeTokenUnpermuteWithRoutingMapGrad", "restoreShapeOptional", "of dropAndPad"},
	{"NsaCompressAttention NsaCompressAttentionInfer", "sparseMode", "masks are tensors, which say what is hidden"},
	{"NsaSelectedAttentionInfer", "actualQSeqLenOptional", "of TND"},
	{"QuantLightningIndexerV2", "sparseValuesOut", "of returnValue 1, on the Ascend950 alone"},
	{"RingAttentionUpdate", "actualSeqQlenOptional", "of TND"},
	{"TopKTopPSampleV2", "logitsIdx logitsSortMasked", "of isNeedLogits and isNeedSampleResult"},
}

// TestEveryParameterIsSeen: a parameter at which an operator does not look goes unnoticed, whatever its value.
func TestEveryParameterIsSeen(t *testing.T) {
	calls := recordedCalls(t)
	needed := make([]map[string]bool, len(overlooked))
	for _, name := range slices.Sorted(maps.Keys(implementations)) {
		params, err := optest.Unseen(calls[name])
		require.NoError(t, err)
		for _, param := range params {
			reasons := 0
			for i, o := range overlooked {
				patterns := strings.Fields(o.operators)
				at := slices.IndexFunc(patterns, func(pattern string) bool {
					is, err := path.Match(pattern, name)
					require.NoError(t, err)
					return is
				})
				if at < 0 || !slices.Contains(strings.Fields(o.params), param) {
					continue
				}
				if needed[i] == nil {
					needed[i] = make(map[string]bool)
				}
				needed[i][param], needed[i][patterns[at]] = true, true
				reasons++
			}
			assert.Equal(t, 1, reasons, "reasons why aclnn%s does not look at %s", name, param)
		}
	}
	for i, o := range overlooked {
		for _, word := range strings.Fields(o.operators + " " + o.params) {
			assert.True(t, needed[i][word], "%s of %s, %s, is no exception any more: %s", word, o.operators, o.params, o.reason)
		}
	}
}

// recordedCalls returns the calls that the tests of all families recorded.
func recordedCalls(t *testing.T) map[string][]optest.AcceptedCall {
	files, err := filepath.Glob("../ops/*/testdata/accepted_calls.jsonl")
	require.NoError(t, err)
	calls := make(map[string][]optest.AcceptedCall)
	for _, file := range files {
		of, err := optest.ReadCalls(file)
		require.NoError(t, err)
		maps.Copy(calls, of)
	}
	return calls
}
