package abi

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load(t testing.TB) *Table {
	t.Helper()
	table, err := Load()
	require.NoError(t, err)
	return table
}

func TestTableHoldsTheWholeInterface(t *testing.T) {
	table := load(t)
	assert.Len(t, table.Operators, 1213)
	assert.Len(t, table.Functions, 1023)
	assert.Len(t, table.Symbols(), 2*1213+1023)
	assert.True(t, slices.IsSortedFunc(table.Operators, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) }))
	assert.True(t, slices.IsSorted(table.Symbols()))
	assert.Equal(t, len(table.Symbols()), len(slices.Compact(table.Symbols())), "two functions with one name")
	custom := 0
	for _, o := range table.Operators {
		if o.Since() == Custom {
			custom++
			assert.Equal(t, "libcust_opapi", o.Library, o.Name)
		}
	}
	assert.Equal(t, 18, custom)
}

func TestOperator(t *testing.T) {
	table := load(t)
	for name, want := range map[string]struct {
		symbol, since, library string
		family                 Family
		params                 []Param
	}{
		"Add": {"aclnnAdd", V81RC1, "libopapi", Elementwise, []Param{
			{Name: "self", Type: "const aclTensor *", Class: Tensor},
			{Name: "other", Type: "const aclTensor *", Class: Tensor},
			{Name: "alpha", Type: "const aclScalar *", Class: Scalar},
			{Name: "out", Type: "aclTensor *", Class: Tensor, Use: Written},
		}},
		"Stft": {"aclStft", V81RC1, "libopapi", LinearAlgebra, []Param{
			{Name: "self", Type: "const aclTensor *", Class: Tensor},
			{Name: "windowOptional", Type: "const aclTensor *", Class: Tensor, Optional: true},
			{Name: "out", Type: "aclTensor *", Class: Tensor, Use: Written},
			{Name: "nFft", Type: "int64_t", Class: Int},
			{Name: "hopLength", Type: "int64_t", Class: Int},
			{Name: "winLength", Type: "int64_t", Class: Int},
			{Name: "normalized", Type: "bool", Class: Bool},
			{Name: "onesided", Type: "bool", Class: Bool},
			{Name: "returnComplex", Type: "bool", Class: Bool},
		}},
		"InplaceZero": {"aclnnInplaceZero", V81RC1, "libopapi", Layout, []Param{
			{Name: "selfRef", Type: "aclTensor *", Class: Tensor, Use: Updated},
		}},
	} {
		o, ok := table.Operator(name)
		require.True(t, ok, name)
		assert.Equal(t, want.symbol, o.Symbol)
		assert.Equal(t, want.since, o.Since(), name)
		assert.Equal(t, want.library, o.Library, name)
		assert.Equal(t, want.family, o.Family(), name)
		assert.Equal(t, want.params, o.Params, name)
	}
	_, ok := table.Operator("aclnnAdd")
	assert.False(t, ok, "operators go by the name without prefix")
}

func TestPhases(t *testing.T) {
	o, ok := load(t).Operator("FlashAttentionScore")
	require.True(t, ok)
	prepare, execute := o.Phases()
	assert.Equal(t, "aclnnFlashAttentionScoreGetWorkspaceSize", prepare.Name)
	assert.Len(t, prepare.Params, 22)
	assert.Equal(t, "aclOpExecutor **", prepare.Params[21].Type)
	assert.Equal(t, "aclnnFlashAttentionScore", execute.Name)
	assert.Len(t, execute.Params, 4)
	assert.Len(t, o.Params, 20, "phases must not share memory with the operator")
}

// A function with only one phase is not an operator, since it cannot be launched.
func TestLoneFirstPhaseIsAFunction(t *testing.T) {
	table := load(t)
	f, ok := table.Function("aclnnInnerFusedInferAttentionScoreTensorGetWorkspaceSize")
	require.True(t, ok)
	assert.Len(t, f.Params, 51, "the longest signature of CANN")
	_, ok = table.Operator("InnerFusedInferAttentionScoreTensor")
	assert.False(t, ok)
}

func TestAtGivesTheSignatureOfAVersion(t *testing.T) {
	o, ok := load(t).Operator("AddRmsNorm")
	require.True(t, ok)
	old, ok := o.At(V81RC1)
	require.True(t, ok)
	assert.Equal(t, "const aclTensor *", old[4].Type)
	now, ok := o.At(Unreleased)
	require.True(t, ok)
	assert.Equal(t, "aclTensor *", now[4].Type)
	_, ok = o.At(Custom)
	assert.False(t, ok)
}

func TestClass(t *testing.T) {
	table := load(t)
	for ctype, want := range map[string]Class{
		"const aclTensor *": Tensor, "aclTensorList *": TensorList, "const aclScalarList *": ScalarList,
		"char *": String, "const char *": String, "const char **": Pointer, "int8_t": Int, "size_t": Uint,
		"aclDataType": DType, "aclrtMemcpyKind": Enum, "aclopEngineType": Enum, "bool": Bool, "double": Double,
		"float": Float, "aclrtStream": Pointer, "HcclComm": Pointer, "HcclComm *": Pointer, "aclError": Int,
		"aclFloat16": Uint, "dim3": ByValue, "HcclConfigValue": ByValue, "aclmdlRICondTaskParams": ByValue,
		"int64_t ( *)[2]": Pointer, "aclrtCallback": FuncPtr, "int32_t ( *)(const acldumpChunk *, int32_t)": FuncPtr,
	} {
		got, err := table.Class(ctype)
		require.NoError(t, err, ctype)
		assert.Equal(t, want, got, ctype)
	}
	for _, ctype := range []string{"aclTensor", "struct nobody", "long double", ""} {
		_, err := table.Class(ctype)
		assert.ErrorContains(t, err, "neither basic, enum, record nor typedef", ctype)
	}
}

func TestConstants(t *testing.T) {
	table := load(t)
	find := func(name string) Constant {
		i := slices.IndexFunc(table.Constants, func(c Constant) bool { return c.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return table.Constants[i]
	}
	assert.Equal(t, "27", find("ACL_BF16").Value)
	assert.Equal(t, "aclDataType", find("ACL_BF16").Enum)
	assert.Equal(t, Constant{Name: "ACL_MINOR_VERSION", Value: "17", Older: []Value{{[]string{V81RC1}, "13"}, {[]string{V850}, "16"}}, Versions: Releases()}, find("ACL_MINOR_VERSION"))
	assert.Equal(t, "18446744073709551614", find("ACL_UNKNOWN_RANK").Value)
	assert.Equal(t, 107002, ACL_ERROR_RT_CONTEXT_NULL)
	assert.Equal(t, 161001, ACLNN_ERR_PARAM_NULLPTR)
	assert.EqualValues(t, uint64(18446744073709551614), uint64(ACL_UNKNOWN_RANK))
	for _, c := range table.Constants {
		assert.False(t, strings.HasPrefix(c.Name, "_"), "%s belongs to the C library", c.Name)
	}
}

func TestFamilies(t *testing.T) {
	for name, want := range map[string]Family{
		"FlashAttentionScoreGradV2": Attention, "RotaryPositionEmbedding": Attention, "ForeachNorm": Foreach,
		"GroupedMatmulV5": MatMul, "Mm": MatMul, "AddRmsNorm": Normalization, "AddRmsNormQuant": Normalization, "QuantMatmulV4": MatMul,
		"DynamicQuant":  Quantization,
		"ReduceScatter": Communication, "MatmulReduceScatter": Communication, "ScatterReduce": Index,
		"SwiGluGrad": Activation, "CrossEntropyLoss": Loss, "ApplyAdamWV2": Optimizer, "ApplyTopKTopP": Random,
		"EmbeddingDenseBackward": Index, "MoeGatingTopKSoftmax": MoE, "Permute": Layout, "ReduceSum": Reduction,
		"Muls": Elementwise, "LtScalar": Comparison, "InplaceGeTensor": Comparison, "Maximum": Elementwise,
		"MaxDim": Reduction, "Norm": Reduction, "ChunkGatedDeltaRuleFwdH": Recurrent, "SomethingNew": Elementwise,
	} {
		assert.Equal(t, want, FamilyOf(name), name)
	}
}
