package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const fooBar = `#define LIST_INPUT(NAME) \
	this->Input(#NAME) \
		.ParamType(DYNAMIC);
constexpr uint32_t SECOND = 2;
class FooBar : public OpDef {
	explicit FooBar(const char *name) : OpDef(name) {
		this->Input("x_in").ParamType(REQUIRED).DataType({ge::DT_FLOAT16}); // this->Input("comment");
		LIST_INPUT(many)
		this->Input("mask").ParamType(OPTIONAL).DataType({ge::DT_BOOL}).ValueDepend(OPTIONAL);
		this->Input("sizes").ParamType(REQUIRED).DataType(gen.Get("kinds")).ValueDepend(REQUIRED);
		this->Input("state").ParamType(REQUIRED);
		this->Input("factor").Scalar().ParamType(REQUIRED);
		this->Output("state").ParamType(REQUIRED);
		this->Output("y").ParamType(REQUIRED);
		this->Output("out").ParamType(REQUIRED);
		this->Attr("eps").AttrType(OPTIONAL).Float(1e-6);
		this->Attr("eps").AttrType(REQUIRED).Float();
		this->Attr("mode").AttrType(OPTIONAL).String("a");
		this->Attr("axes").AttrType(OPTIONAL).Version(SECOND).ListInt({1, 2});
		OpAICoreConfig chip;
		chip.Input("other").ParamType(REQUIRED);
	}
	const std::vector<ge::DataType> kinds = {ge::DT_INT64};
};
OP_ADD(FooBar);
`

// A header is generated for each version of an operator whose kind is aclnn, unless the sources declare the function.
func TestGeneratedHeaders(t *testing.T) {
	headers, err := generatedHeaders(map[string]string{
		"a/foo_bar/op_host/CMakeLists.txt":   "# OPTYPE gone ACLNNTYPE aclnn\nadd_modules_sources(OPTYPE foo_bar inner lacking ACLNNTYPE aclnn aclnn_inner aclnn)",
		"a/foo_bar/op_host/foo_bar_def.cpp":  fooBar,
		"a/inner/op_host/inner_def.cpp":      "class Inner : public OpDef {}; OP_ADD(Inner);",
		"b/written/op_host/CMakeLists.txt":   "add_modules_sources(OPTYPE written ACLNNTYPE aclnn)",
		"b/written/op_host/written_def.cpp":  `class Written : public OpDef { this->Input("x"); }; OP_ADD(Written);`,
		"b/written/op_api/aclnn_by_hand.h":   "aclnnStatus aclnnWrittenGetWorkspaceSize(int64_t n);",
		"scripts/template/x/foo_bar_def.cpp": "no definition",
	})
	require.NoError(t, err)
	tail := ", uint64_t *workspaceSize, aclOpExecutor **executor);\n"
	first := "const aclTensor *xIn, const aclTensorList *many, const aclBoolArray *maskOptional, const aclIntArray *sizes, aclTensor *stateRef, " +
		"const aclScalar *factor, double eps, char *modeOptional"
	results := ", const aclTensor *yOut, const aclTensor *out"
	phaseTwo := "(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);\n"
	assert.Equal(t, map[string]string{
		"aclnn_foo_bar.h":    "aclnnStatus aclnnFooBarGetWorkspaceSize(" + first + results + tail + "aclnnStatus aclnnFooBar" + phaseTwo,
		"aclnn_foo_bar_v2.h": "aclnnStatus aclnnFooBarV2GetWorkspaceSize(" + first + ", const aclIntArray *axesOptional" + results + tail + "aclnnStatus aclnnFooBarV2" + phaseTwo,
	}, headers)
}

func TestGeneratedHeadersRefuse(t *testing.T) {
	for text, want := range map[string]string{
		`class A : public OpDef {};`:                                                     "it registers 0 operators",
		`class A : public OpDef {}; OP_ADD(B);`:                                          "it has no class B",
		`class A : public OpDef {}; OP_ADD(A);`:                                          "it has no parameters",
		`class A : public OpDef { this->Attr("n").Odd(3); }; OP_ADD(A);`:                 "the type of the attribute n is not understood",
		`class A : public OpDef { this->Attr("n").Version(X).Int(); }; OP_ADD(A);`:       `version "X" is not a number`,
		`class A : public OpDef { this->Input("n").ValueDepend(OPTIONAL); }; OP_ADD(A);`: "no element type",
		"#define M(x) N(x)\n#define N(x) M(x)\nM(1)\n":                                   "its macros are nested more than 8 deep",
	} {
		_, err := generatedHeaders(map[string]string{"a/CMakeLists.txt": "f(OPTYPE a ACLNNTYPE aclnn)", "a/a_def.cpp": text})
		assert.ErrorContains(t, err, "the definition of a: ", text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestInstalledHeaders(t *testing.T) {
	headers, err := installedHeaders(map[string]string{
		"include/external/acl/acl_rt.h":             "aclError aclrtX(void);",
		"msprof/include/external/acl/acl_rt.h":      "aclError aclrtOld(void);",
		"include/external/acl/acl_rt_impl.h":        "aclError aclrtXImpl(void);",
		"include/nnopbase/aclnn/aclnn_base.h":       "aclnnStatus aclnnInit(const char *path);",
		"include/hccl/hccl_comm.h":                  "HcclResult HcclX(void);",
		"include/hcomm_res.h":                       "HcclResult HcommX(void);",
		"math/x/op_api/aclnn_x.h":                   "aclnnStatus aclnnXGetWorkspaceSize(int64_t n);",
		"math/x/op_host/op_api/aclnn_x.h":           "/* moved */ aclnnStatus aclnnXGetWorkspaceSize(int64_t n);",
		"math/x/op_api/x_base.h":                    "aclnnStatus aclnnXBaseGetWorkspaceSize(int64_t n);",
		"math/x/tests/ut/op_api/stub/aclnn_other.h": "aclnnStatus aclnnOtherGetWorkspaceSize(int64_t n);",
	})
	require.NoError(t, err)
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"acl/acl_rt.h", "aclnn/aclnn_base.h", "hccl/hccl_comm.h", "hcomm/hcomm_res.h", "aclnnop/aclnn_x.h"}, names)
	_, err = installedHeaders(map[string]string{"a/aclnn_x.h": "aclnnStatus aclnnXGetWorkspaceSize(int64_t n);", "b/aclnn_x.h": "aclnnStatus aclnnXGetWorkspaceSize(double n);"})
	assert.ErrorContains(t, err, "two headers are installed as aclnnop/aclnn_x.h: aclnnXGetWorkspaceSize has the parameters (int64_t) and (double)")
}
