package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// typesPage is the skeleton of a page with a table that has marks and a cell for two rows, a part for one
// chip, and notes that add, take away and limit types.
const typesPage = `# aclnnLerp
## 产品支持情况
- <term>Ascend 950PR/Ascend 950DT</term>：支持
- <term>Atlas A2 训练系列产品/Atlas A2 推理系列产品</term>：支持
- <term>Atlas 训练系列产品</term>：支持
- <term>Atlas 推理系列产品</term>：不支持
## aclnnLerpGetWorkspaceSize
<table><tr><th>参数名</th><th>描述</th><th>数据类型</th></tr>
<tr><td>self（aclTensor*）</td><td>x</td><td rowspan="2">FLOAT、FLOAT16、BFLOAT16<sup>1</sup>、FLOAT8_E4M3FN<sup>2</sup></td></tr>
<tr><td>end</td><td>y</td></tr>
<tr><td>weight</td><td>z</td><td>INT8、INT32、BOOL</td></tr>
<tr><td>out</td><td>-</td><td>FLOAT</td></tr>
<tr><td>workspaceSize</td><td>-</td><td>-</td></tr></table>

- <term>Atlas 训练系列产品</term>：上表数据类型列中的角标“1”代表该系列不支持的数据类型；end不支持FLOAT16。
<!-- npu="910,910b" id1 -->
- <term>Atlas 训练系列产品</term>、<term>Atlas A2 训练系列产品/Atlas A2 推理系列产品</term>：
  - 上表数据类型列中的角标“2”代表该系列不支持的数据类型
  - 当self为FLOAT时，end不支持FLOAT
<!-- end id1 -->
<!-- npu="950" id2 -->
- <term>Ascend 950PR/Ascend 950DT</term>：weight仅支持INT8、INT32，out额外支持BFLOAT16。
<!-- end id2 -->
- **返回值**
- <term>Ascend 950PR/Ascend 950DT</term>：self不支持FLOAT。
`

func TestDocumentedText(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	text := documentedText(table, sitesOf(table, []checkout{{name: "a/one", files: map[string]string{
		"math/lerp/docs/aclnnLerp.md": typesPage,
		"math/sin/docs/aclnnSin.md": "## 产品支持情况\n| Atlas A2 训练系列产品 | √ |\n## aclnnSinGetWorkspaceSize\n- self（aclTensor*，计算输入）：数据类型支持FLOAT、\n  DOUBLE、\n  FLOAT16。\n" +
			"- out (aclTensor\\*): INT4\n- alpha(aclScalar): INT8\n",
	}}}))
	_, list, _ := strings.Cut(string(text), "names.\n")
	assert.Equal(t, `Lerp self a float32 float16
Lerp self b float32 float16 bfloat16
Lerp self n float32 float16 bfloat16 float8_e4m3fn
Lerp end a float32
Lerp end b float32 float16 bfloat16
Lerp end n float32 float16 bfloat16 float8_e4m3fn
Lerp weight ab int8 int32 bool
Lerp weight n int8 int32
Lerp out ab float32
Lerp out n float32 bfloat16
Sin self b float32 float64 float16
Sin out b int4
`, list)
}
