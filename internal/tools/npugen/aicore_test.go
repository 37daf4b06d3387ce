package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestAICoreText reads made-up sources in the style of the vendor's.
func TestAICoreText(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	const launches = "  ADD_TO_LAUNCHER_LIST_AICORE(X); ADD_TO_LAUNCHER_LIST_AICPU(X);\n}\n"
	from := []checkout{{name: "o/math", commit: "abc", files: map[string]string{
		"math/sort/op_api/sort.cpp": "static const std::initializer_list<op::DataType> AICORE_DTYPE_SUPPORT_LIST = {\n op::DataType::DT_FLOAT, // DT_INT8\n op::DataType::DT_BF16};\n" +
			"static bool IsAiCoreSupport(const aclTensor* self) {\n}\nconst aclTensor* Sort(const aclTensor* self) {\n" + launches,
		"math/sort/op_api/aclnn_sort.cpp": "aclnnStatus aclnnSortGetWorkspaceSize(const aclTensor* self) {\n l0op::Cast(self); l0op::IsAiCoreSupport(self); l0op::Sort(self);\n}\n",
		"math/exp/op_api/exp.cpp": "static const std::initializer_list<DataType> AICORE_DTYPE_SUPPORT_LIST = {DataType::DT_FLOAT};\n" +
			"static const std::initializer_list<DataType> ASCEND910B_DTYPE_SUPPORT_LIST = {DataType::DT_FLOAT, DataType::DT_BF16};\n" +
			"static const std::initializer_list<DataType> REGBASE_DTYPE_SUPPORT_LIST = {DataType::DT_INT8};\nconst aclTensor* Exp(const aclTensor* self) {\n" + launches,
		"math/exp/op_api/aclnn_exp.cpp": "aclnnStatus aclnnExpGetWorkspaceSize(const aclTensor* self) {\n l0op::Exp(self);\n}\naclnnStatus aclnnInplaceExpGetWorkspaceSize(aclTensor* self) {\n}\n",
		"math/cast/op_api/cast.cpp": "static const std::initializer_list<std::pair<op::DataType, op::DataType>> ASCEND910B_LIST = {\n {op::DataType::DT_FLOAT, op::DataType::DT_BF16}, {op::DataType::DT_INT64, op::DataType::DT_HIFLOAT8}};\n" +
			"const aclTensor* Cast(const aclTensor* self) {\n" + launches,
		"math/cast/op_api/aclnn_cast.cpp":                      "aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor* self) {\n l0op::Cast(self);\n}\n",
		"math/triangular_solve/op_host/op_api/solve.cpp":       "const aclTensor* Solve(const aclTensor* self) {\n ADD_TO_LAUNCHER_LIST_AICPU(X);\n}\n",
		"math/triangular_solve/op_host/op_api/aclnn_solve.cpp": "aclnnStatus aclnnTriangularSolveGetWorkspaceSize(const aclTensor* self) {\n l0op::Contiguous(self); l0op::Solve(self);\n}\n",
		"math/digamma/op_api/digamma.cpp":                      "const aclTensor* Digamma(const aclTensor* self) {\n ADD_TO_LAUNCHER_LIST_AICPU(X);\n}\n",
		"math/digamma/op_api/aclnn_digamma.cpp":                "aclnnStatus aclnnDigammaGetWorkspaceSize(const aclTensor* self) {\n l0op::Other(self); l0op::Digamma(self);\n}\n",
		"math/roll/op_api/roll.cpp":                            "const aclTensor* Roll(const aclTensor* self) {\n" + launches,
		"math/roll/op_api/aclnn_roll.cpp":                      "aclnnStatus aclnnRollGetWorkspaceSize(const aclTensor* self) {\n l0op::Roll(self);\n}\n",
		"math/abs/op_api/tests/aclnn_abs.cpp":                  "aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor* self) {\n l0op::Sort(self);\n}\n",
	}}}
	text := string(aicoreText(table, from))
	for _, line := range []string{
		"repository\to/math\tabc\n",
		"kernel\tSort\tbfloat16,float32\to/math\tmath/sort/op_api/sort.cpp\n",
		"kernel\tCast\tfloat32>bfloat16\to/math\tmath/cast/op_api/cast.cpp\n",
		"kernel\tSolve\t\to/math\tmath/triangular_solve/op_host/op_api/solve.cpp\n",
		"operator\tSort\tSort\n", "operator\tExp\tExp\n", "operator\tInplaceExp\tExp\n", "operator\tCast\tCast\n", "operator\tTriangularSolve\tSolve\n",
	} {
		assert.Contains(t, text, line)
	}
	assert.Regexp(t, "kernel\tExp\tbfloat16,bool,float32,int16,int32,int64,int8,uint16,uint32,uint64,uint8\t", text, "its operators cast integers to float32")
	for _, line := range []string{"operator\tDigamma", "operator\tRoll", "operator\tAbs", "IsAiCoreSupport"} {
		assert.NotContains(t, text, line, "what decides is not known")
	}
	require.ErrorContains(t, runAICore(nil), "name the checkouts")
	require.ErrorContains(t, runAICore([]string{"somewhere"}), "is not owner/repository=folder")
}
