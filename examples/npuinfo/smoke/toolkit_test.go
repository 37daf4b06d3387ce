package smoke

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToolkit reads a made-up operator package in CANN's form.
func TestToolkit(t *testing.T) {
	k := ReadToolkit([]string{"testdata/opp/built-in", "testdata/none"}, "Ascend910B2")
	require.Empty(t, k.Problems)
	require.Equal(t, 9, k.Kernels)
	require.Equal(t, "ascend910b", k.Chip)
	require.Len(t, k.Folders, 1)
	for text, want := range map[string]struct {
		outlook Outlook
		reason  string
	}{
		"Sort(self:float32)":                 {Ready, ""},
		"Sort(self:int64)":                   {AICPU, "Sort of int64 is on the AI CPU alone"},
		"Sort(self:int8)":                    {Refuses, "Sort has no kernel for Sort(self:int8)"},
		"RmsNorm(x:bfloat16 gamma:bfloat16)": {Refuses, "RmsNorm has no kernel"},
		"RmsNorm(x:float32 gamma:float32)":   {Ready, ""},
		"MoeTokenUnpermuteGrad(permutedTokens:bfloat16 unpermutedTokensGrad:bfloat16 sortedIndices:int64 probsOptional:bfloat16)": {Ready, ""},
		"MoeTokenUnpermuteGrad(permutedTokens:bfloat16 unpermutedTokensGrad:bfloat16 sortedIndices:int32 probsOptional:float32)":  {Refuses, "has no kernel"},
		"GroupedMatmulV5(x:bfloat16 weight:bfloat16)": {Ready, ""},
		"GroupedMatmulV4(x:float32 weight:float32)":   {Refuses, "GroupedMatmul has no kernel"},
		"InplaceCopy(selfRef:bfloat16 src:bfloat16)":  {Ready, ""},
		"InplaceCopy(selfRef:int64 src:int64)":        {Refuses, "ViewCopy has no kernel"},
		"Softmax(self:float32)":                       {Absent, "there is no configuration of SoftmaxV2"},
		"Zorp(self:float32)":                          {Unknown, "nothing is known of the kernels of aclnnZorp"},
	} {
		c, ok := parseCall(text)
		require.True(t, ok)
		outlook, reason := k.Ask(c)
		require.Equal(t, want.outlook, outlook, text)
		require.Contains(t, reason, want.reason, text)
	}
	foreseen := k.Foresee(Needs{"sort|int64|a": {"Sort(self:int64)", "Sort(self:float32)"}})
	require.Equal(t, []Forecast{{"sort|int64|a", "Sort(self:int64)", AICPU, "Sort of int64 is on the AI CPU alone"}}, foreseen)
}

// TestToolkitPackages checks that a custom package comes before CANN's own, and that a file that cannot
// be read costs only its operator.
func TestToolkitPackages(t *testing.T) {
	custom := t.TempDir()
	config := filepath.Join(custom, "op_impl", "ai_core", "tbe", "kernel", "config", "ascend910b")
	require.NoError(t, os.MkdirAll(config, 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(config, name+".json"), []byte(text), 0o600))
	}
	write("sort", `{"binList":[{"inputs":[{"name":"x","dtype":"int64"}],"binInfo":{"jsonFilePath":"a/Sort_1.json"}}]}`)
	write("fill", `{"binList":[{"inputs":[{"name":"dims","dtype":"int64"},{"name":"value","dtype":"float32"}],"binInfo":{"jsonFilePath":"a/Fill_1.json"}}]}`)
	write("bad", `{`)
	write("worse", `{"binList":[{"inputs":[],"binInfo":{}}]}`)
	k := ReadToolkit([]string{custom, "testdata/opp/built-in"}, "Ascend910B1")
	require.Len(t, k.Problems, 2)
	c, _ := parseCall("Sort(self:int64)")
	outlook, _ := k.Ask(c)
	require.Equal(t, Ready, outlook, "the custom package has it")
	for text, want := range map[string]Outlook{"InplaceFillScalar(selfRef:float32)": Ready, "InplaceFillScalar(selfRef:int64)": Refuses} {
		c, _ := parseCall(text)
		outlook, _ := k.Ask(c)
		require.Equal(t, want, outlook, "the dtype of a fill is that of its value")
	}
	require.Len(t, k.Folders, 2)

	opp := t.TempDir()
	for _, dir := range []string{"built-in", "vendors/me/op_impl"} {
		require.NoError(t, os.MkdirAll(filepath.Join(opp, dir), 0o700))
	}
	t.Setenv("ASCEND_CUSTOM_OPP_PATH", custom+":")
	t.Setenv("ASCEND_OPP_PATH", opp)
	require.Equal(t, []string{custom, filepath.Join(opp, "vendors/me"), filepath.Join(opp, "built-in")}, OperatorFolders())
	for soc, want := range map[string]string{"Ascend910_9391": "ascend910_93", "Ascend910B4-1": "ascend910b", "Ascend310P3": "ascend310p", "Ascend910A": "ascend910", "New": "new"} {
		require.Equal(t, want, chipFolder(soc))
	}
}
