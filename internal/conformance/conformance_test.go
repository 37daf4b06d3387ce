package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return dir
}

func TestPrograms(t *testing.T) {
	dir := tree(t, map[string]string{
		"r/math/abs/examples/test_aclnn_abs.cpp":          "// aclnnAddGetWorkspaceSize(\nret = aclnnAbsGetWorkspaceSize (x); aclnnAbsGetWorkspaceSize(y);",
		"r/math/new/examples/arch35/test_aclnn_new.cpp":   "aclnnAbsGetWorkspaceSize(x); aclnnNegGetWorkspaceSize(x);",
		"r/math/new/examples/test_aclnn_unknown.cpp":      "aclnnAbsGetWorkspaceSize(x); aclnnNewerGetWorkspaceSize(x);",
		"r/experimental/abs/examples/test_aclnn_abs.cpp":  "aclnnAbsGetWorkspaceSize(x);",
		"r/math/abs/examples/test_geir_abs.cpp":           "aclnnAbsGetWorkspaceSize(x);",
		"r/math/abs/examples/test_aclnn_nothing.cpp":      "int main() {}",
		"r/math/abs/tests/ut/op_api/test_aclnn_abs.cpp":   "",
		"r/math/abs/tests/ut/op_host/test_abs_tiling.cpp": "",
		"r/experimental/a/tests/ut/op_api/test_aclnn.cpp": "",
	})
	list, err := programsOf(dir, "r", func(name string) bool { return name != "Newer" })
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, []string{"Abs"}, list[0].Operators)
	assert.Equal(t, "Ascend910B1", list[0].chip())
	assert.Equal(t, []string{"Abs", "Neg"}, list[1].Operators)
	assert.Equal(t, "Ascend950", list[1].chip())
	experts := program{Path: "mc2/a/examples/test_aclnn_a.cpp", Operators: []string{"MoeDistributeDispatchV2"}}
	assert.Equal(t, "Ascend910_9391", experts.chip())

	tests, err := suitesOf(dir, "r")
	require.NoError(t, err)
	require.Len(t, tests, 1)
	assert.Equal(t, "math/abs/tests/ut/op_api/test_aclnn_abs.cpp", tests[0].Path)
}

// Cases with errors are blanked where they stand, so that line numbers stay.
func TestLeaveOut(t *testing.T) {
	text := "class a {};\nTEST_F(a, one)\n{\n    l0op::Abs();\n}\nTEST_F(a,\n    two)\n{\n    f(1);\n}\n"
	shorter, names := leaveOut(text, "t.cpp", "/x/t.cpp:4:5: error: l0op was not declared\n/x/other.h:9:1: error: no")
	assert.Equal(t, []string{"a.one"}, names)
	assert.Equal(t, "class a {};\n\n\n\n\nTEST_F(a,\n    two)\n{\n    f(1);\n}\n", shorter)
	_, names = leaveOut(text, "t.cpp", "/x/t.cpp:9:5: error: wrong")
	assert.Equal(t, []string{"a.two"}, names)
	_, names = leaveOut(text, "t.cpp", "/x/t.cpp:1:5: error: wrong")
	assert.Empty(t, names)
}

func TestReadLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := `start s.good
call aclnnAbs Ascend910B1
code 0
end passed Ascend910B1
start s.bad
call aclnnAbs Ascend910B1
code 161002
said EZ1001: Abs: self is odd
wrong Expected equality of these values: 0 and 161002
wrong another
end failed Ascend910B1
start s.later
call aclnnNew Ascend950
code 161002 absent
end failed Ascend950
start s.empty
end passed Ascend910B1
start s.dies
call aclnnAbs Ascend910B1
`
	want := []vendorCase{
		{"s.good", "Abs", "Ascend910B1", 0, passed, "", ""},
		{"s.bad", "Abs", "Ascend910B1", 161002, differs, "EZ1001: Abs: self is odd", "Expected equality of these values: 0 and 161002"},
		{"s.later", "New", "Ascend950", 161002, absent, "", ""}, {"s.empty", "", "", 0, noCall, "", ""}, {"s.dies", "Abs", "Ascend910B1", 0, crashed, "", ""},
	}
	require.NoError(t, os.WriteFile(path, []byte(log), 0o666))
	cases, whole, err := readLog(path)
	require.NoError(t, err)
	assert.False(t, whole)
	assert.Equal(t, want, cases)
	require.NoError(t, os.WriteFile(path, []byte(log+"end failed Ascend910B1\ndone\n"), 0o666))
	cases, whole, err = readLog(path)
	require.NoError(t, err)
	assert.True(t, whole)
	assert.Equal(t, differs, cases[4].Outcome)
}

func TestFirstError(t *testing.T) {
	assert.Equal(t, "x.h: No such file or directory", firstError("a.cpp:1:10: fatal error: x.h: No such file or directory\n"))
	assert.Equal(t, "undefined aclFoo", firstError("ld: a.o: in function main: undefined reference to `aclFoo'"))
	assert.Equal(t, "nothing known", firstError("nothing known\n"))
}

func TestReport(t *testing.T) {
	t.Chdir("../..")
	table, err := abi.Load()
	require.NoError(t, err)
	r := &results{
		Sources: map[string]checkout{"ops-math": {"0123456789ab", 2, 1}, "ops-nn": {"ba9876543210", 1, 3}},
		Programs: map[string]program{
			"ops-math/a/examples/test_aclnn_abs.cpp":       {Repository: "ops-math", Path: "a/examples/test_aclnn_abs.cpp", Operators: []string{"Abs"}, Outcome: ran, Emulator: "111111111111"},
			"ops-nn/a/examples/test_aclnn_odd.cpp":         {Repository: "ops-nn", Path: "a/examples/test_aclnn_odd.cpp", Operators: []string{"Abs"}, Outcome: failed, Emulator: "111111111111"},
			"ops-nn/a/examples/test_aclnn_nll_loss_2d.cpp": {Repository: "ops-nn", Path: "a/examples/test_aclnn_nll_loss_2d.cpp", Operators: []string{"NLLLoss2d"}, Outcome: failed, Emulator: "111111111111"},
		},
		Suites: map[string]suite{"ops-math/a": {Repository: "ops-math", Path: "a", Emulator: "222222222222", Cases: []vendorCase{
			{Name: "s.good", Operator: "Abs", Chip: "Ascend910B1", Outcome: passed}, {Name: "s.bad", Operator: "Abs", Chip: "Ascend910B1", Outcome: differs, Wrong: "aclRet Which is: 0 161002"},
			{Name: "s.refused", Operator: "Abs", Chip: "Ascend310P3", Code: 161002, Outcome: differs, Wrong: "161002 0", Said: "EZ1001: aclnnAbs: self is odd"},
			{Name: "s.ascend950_x", Operator: "Abs", Chip: "Ascend910B1", Outcome: differs, Wrong: "0 161001"},
			{Name: "s.gone", Operator: "NoSuchOperator", Chip: "Ascend910B1", Outcome: crashed},
			{Name: "s.other", Operator: "Abs", Chip: "Ascend310P3", Outcome: passed}, {Name: "s.none", Operator: "Abs", Chip: "Ascend910B1", Code: 161002, Outcome: absent},
		}, LeftOut: []string{"s.left"}, Why: "no such type"}, "ops-nn/b": {Repository: "ops-nn", Path: "b", Emulator: "222222222222", Error: "no such\nthing"}},
	}
	path := filepath.Join(t.TempDir(), "report.md")
	require.NoError(t, r.write(path, table))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(b)
	for _, line := range []string{
		"<!-- Code generated by make conformance. DO NOT EDIT. -->\n",
		"* ops-math at 0123456789ab: 1 of 2 test files and 1 of 1 programs were tried\n* ops-nn at ba9876543210: 1 of 1 test files and 2 of 3 programs were tried\n",
		"The emulator was that of commit 111111111111 and, for what changed, of 222222222222 of this repository.\n",
		"| ops-math | Ascend310P3 | 2 | 1 | 50.0 % | 0 | 0 |\n",
		"| ops-math | Ascend910B1 | 3 | 1 | 33.3 % | 2 | 1 |\n",
		"| ops-nn | Ascend910B1 | 2 | 2 | 0 |\n",
		"Of these 3 call only operators that CANN 8.1.RC1 has, too, and 1 of them ran.\n",
		"Not explained: failed (1):\nodd\n",
		"outside of what they index (1):\nnll_loss_2d\n",
		"The case expects a refusal that the rules taken from the sources do not have (1):\n\n* Abs (910B1): bad; expects 161002, 0 is answered\n",
		"expects it to be accepted (1):\n\n* Abs (310P3): refused; expects 0, 161002 is answered: self is odd\n",
		"so that it ran on the 910B (1):\n\n* Abs (910B1): ascend950_x; expects 161001, 0 is answered\n",
		"* ops-math/a: left: no such type\n* ops-nn/b: no such thing\n",
		"|Abs|1/3|1/2|floats ",
	} {
		assert.True(t, strings.Contains(text, line), "%q is not in\n%s", line, text)
	}
}
