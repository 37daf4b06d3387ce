package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/tools/npugen/docs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page is the skeleton of a vendor's page: two operators with a table each, one row of
// which has a cell for two rows.
const page = `# aclnnLerp&aclnnInplaceLerp

## aclnnLerpGetWorkspaceSize
<table><thead>
<tr><th>参数名</th><th>输入/输出</th><th>维度(shape)</th></tr></thead><tbody>
<tr><td>self（aclTensor*）</td><td>in</td><td>0-8</td></tr>
<tr><td>end</td><td>in</td><td>与self一致</td></tr>
<tr><td>weight</td><td rowspan="2">in</td><td>(N, C)、(N, C, 1)</td></tr>
<tr><td>out</td><td>1</td></tr>
<tr><td>workspaceSize</td><td>out</td><td>1</td></tr>
</tbody></table>
<table><tr><th>参数名</th><th>维度</th></tr><tr><td>out</td><td>7</td></tr></table>

## aclnnLerp

## aclnnInplaceLerpGetWorkspaceSize
<table><tr><th>参数名</th><th>维度(shape)</th></tr><tr><td>selfRef</td><td>≤8</td></tr></table>
`

func TestPagesText(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	from := []checkout{
		{name: "a/one", commit: "11", files: map[string]string{
			"experimental/math/lerp/docs/aclnnLerp.md":           "",
			"math/lerp/docs/aclnnLerp&aclnnInplaceLerp.md":       page,
			"math/lerp/docs/aclnnLerps.md":                       "",
			"README.md":                                          "aclnnSin",
			"docs/zh/aclnnSin.txt.md":                            "aclnnCos",
			"matmul/t/docs/aclnnTransposeBatchMatMulWeightNZ.md": "",
		}},
		{name: "a/two", commit: "22", files: map[string]string{
			"x/lerp/docs/aclnnLerp.md":   "aclnnSinh",
			"experimental/sin/README.md": "aclnnSin aclnnTan",
			"math/sin/README.md":         "says aclnnSin, too",
			"math/tan/docs/api.md":       "aclnnTan",
		}},
	}
	text := pagesText(table, from, sitesOf(table, from))
	assert.Equal(t, "# The public page of each operator. Made by `npugen pages` from checkouts of the repositories; see docs.go for the grammar.\n\n"+
		"repository\ta/one\t11\nrepository\ta/two\t22\n\n"+
		"page\taclnnInplaceLerp\ta/one\tmath/lerp/docs/aclnnLerp&aclnnInplaceLerp.md\tselfRef:0-8\n"+
		"page\taclnnLerp\ta/one\tmath/lerp/docs/aclnnLerp&aclnnInplaceLerp.md\tself:0-8\tend:as self\tweight:(N,C) or (N,C,1)\n"+
		"page\taclnnLerps\ta/one\tmath/lerp/docs/aclnnLerps.md\n"+
		"page\taclnnSin\ta/two\tmath/sin/README.md\n"+
		"page\taclnnTan\ta/two\tmath/tan/docs/api.md\n"+
		"page\taclnnTransposeBatchMatMulWeightNz\ta/one\tmatmul/t/docs/aclnnTransposeBatchMatMulWeightNZ.md\n", string(text))
	_, err = docs.Parse(table, abi.Text{Name: "pages", Data: string(text)})
	assert.NoError(t, err, "the reader takes what the command writes")
}

// Pages name chips in two forms. A kernel that is defined for a chip wins over the page, and for a 910 so
// do the lists in the source of Sin.
func TestProductsText(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	text := productsText(table, sitesOf(table, []checkout{{name: "a/one", files: map[string]string{
		"math/sin/docs/aclnnSin.md": "# aclnnSin\n## 产品支持情况\n<!-- npu=\"950\" id1 -->\n- <term>Ascend 950PR/Ascend 950DT</term>：支持\n<!-- end id1 -->\n" +
			"- <term>Atlas A3 训练系列产品/Atlas A3 推理系列产品</term>：不支持\n- <term>Atlas A2 训练系列产品/Atlas A2 推理系列产品</term>：不支持\n" +
			"- <term>Atlas 200I/500 A2 推理产品</term>：支持\n- <term>Atlas 训练系列产品</term>：不支持\n## 功能说明\n- <term>Atlas 推理系列产品</term>：不支持\n",
		"math/sin/op_host/sin_def.cpp":    `this->AICore().AddConfig("ascend910_93", a); AddConfig( "ascend310b")`,
		"math/sin/op_host/sin.cpp":        `AddConfig("ascend910b")`,
		"math/ffn/op_host/ffn_def.cpp":    `AddConfig("ascend910b")`,
		"math/ffn/docs/aclnnFFN.md":       "### 产品支持情况\n| 产品 | 是否支持 |\n|:--|:--:|\n| <term>Atlas A2 训练系列产品</term> | √ |\n| <term>Atlas 800I A2 推理产品</term> | × |\n| 昇腾910_95 AI处理器 | × |\n| Atlas 推理系列产品 | x |\n| Atlas 训练系列产品 | x |\n",
		"math/tan/docs/aclnnTan.md":       "# aclnnTan\n",
		"x/docs/aclnnNormalFloatFloat.md": "## 产品支持情况\n| Atlas A2 训练系列产品 | x |\n",
	}}}))
	_, list, _ := strings.Cut(string(text), "kernels beside them.\n")
	assert.Equal(t, "anp FFN\nb Sin\n", list)
}

func TestRankOf(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	o, ok := table.Operator("Add")
	require.True(t, ok)
	for cell, want := range map[string]string{
		"0-8": "0-8", "1～8": "1-8", "2~3维": "2-3", "不超过8维。": "0-8", "≤8": "0-8", "不支持8维以上": "0-8", "小于等于8维": "0-8",
		"0、3、4": "0,3,4", "1或2": "1,2", "3/4维": "3,4", "1维": "1", "1, 2": "1,2", "1、3~7": "1,3-7",
		"(B, N, S, 8)(T, N, 8)": "(B,N,S,8) or (T,N,8)", "（C，）": "(C)", "[BSND]、[TND]": "BSND or TND", "[1]": "(1)", "shape为[N, 2*H]": "(N,2*H)",
		"与self一致": "as self", "shape与other保持一致": "as other", "同“other”的shape一致": "as other",
		"与nobody一致": "", "-": "", "": "", "由mode推导": "", "大于1维": "", "2维（输入3维）或者3维（输入4维）": "", "(m, k)，k支持2048": "", "√": "",
	} {
		assert.Equal(t, want, rankOf(cell, o), cell)
	}
}

func TestReadCheckout(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	for name, text := range map[string]string{"a/x&y.md": "text", "top.md": "", "a/x.cpp": "no page", "later.md": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git("add", "a", "top.md")
	git("commit", "-q", "-m", "pages")
	c, err := readCheckout("o/r", dir, ":(glob)**/*.md")
	require.NoError(t, err)
	assert.Equal(t, "o/r", c.name)
	assert.Len(t, c.commit, 40)
	assert.Equal(t, map[string]string{"a/x&y.md": "text", "top.md": ""}, c.files, "Markdown files of the commit")

	_, err = readCheckout("o/r", t.TempDir(), ".")
	assert.ErrorContains(t, err, "git rev-parse")
	assert.ErrorContains(t, run([]string{"pages"}), "name the checkouts")
	assert.ErrorContains(t, run([]string{"pages", dir}), "is not owner/repository=folder")
}
