package aclnn

import "github.com/goascend/cann/internal/abi"

// Which dimension of x the groups of a grouped product divide: the parameter groupType. CANN
// has no product whose N is divided (1).
const (
	GroupNone = -1 // none: lists of independent products
	GroupM    = 0  // rows of x: each group has a weight and gives rows of the result
	GroupK    = 2  // the dimension that is summed over: each group gives a matrix, as gradients of weights
)

// What the list of a grouped product holds: the parameter groupListType.
const (
	GroupListCumsum = 0 // where each group ends
	GroupListCount  = 1 // the size of each group
	GroupListSparse = 2 // pairs of group and size, groups of size zero last
)

// Whether a grouped product writes a tensor per group or one for all: the parameter
// splitItem.
const (
	SplitOutputs = 0 // CANN takes 1 alike
	OneOutput    = 3 // CANN takes 2 alike
)

// The activation that a grouped product applies to its result: the parameter actType
// (GMMActType). Only quantised products take one.
const (
	ActNone        = abi.GMM_ACT_TYPE_NONE
	ActRelu        = abi.GMM_ACT_TYPE_RELU
	ActGeluTanh    = abi.GMM_ACT_TYPE_GELU_TANH
	ActGeluErrFunc = abi.GMM_ACT_TYPE_GELU_ERR_FUNC // in the enum, but refused
	ActFastGelu    = abi.GMM_ACT_TYPE_FAST_GELU
	ActSilu        = abi.GMM_ACT_TYPE_SILU
)

// What becomes of tokens when an expert gets more than its share: the parameter dropPadMode
// of MoeInitRoutingV2 and the operators after it.
const (
	DropNone = 0 // experts take all their tokens
	DropPad  = 1 // each expert has room for expertCapacity tokens; those beyond are dropped
)

// MoeFinalizeRoutingV2 also reads from dropPadMode how expandedRowIdx counts choice k of
// token i: as k·tokens + i (DropNone and DropPad, after MoeInitRouting), or as i·choices + k
// (these two, after MoeInitRoutingV2).
const (
	DropNoneByToken = 2
	DropPadByToken  = 3
)

// What a routing says of the tokens of each expert: the parameter expertTokensNumType of
// MoeInitRoutingV3, and expertTokenNumsType of MoeDistributeDispatch (the first two).
const (
	ExpertTokensCumsum = 0 // where each expert's tokens end
	ExpertTokensCount  = 1
	ExpertTokensPairs  = 2 // pairs of expert and count
)

// What expandedRowIdx holds: the parameter rowIdxType of MoeInitRoutingV3.
const (
	RowIndexPlaces  = 0 // for each choice of a token, its row among the sorted ones
	RowIndexChoices = 1 // for each sorted row, the choice that it is
)

// How a routing quantises rows: the parameter quantMode of MoeInitRoutingV3 and
// MoeInitRoutingQuantV2. (MoeDistributeDispatch counts otherwise: 0 is none, 2 dynamic.)
const (
	QuantNone    = -1
	QuantStatic  = 0 // with the scale given
	QuantDynamic = 1 // with a scale for each row, which is returned
)

// StreamMode is the only value that the parameter streamMode of products fused with
// collectives may have.
const StreamMode = 1
