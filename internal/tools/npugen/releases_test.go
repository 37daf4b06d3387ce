package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// sources makes a repository with a commit and a tag for each release, and a newest commit.
func sources(t *testing.T, releases []string, of func(release string) map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("init", "-q")
	for _, release := range releases {
		for name, text := range of(release) {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		run("add", ".")
		run("commit", "-q", "--allow-empty", "-m", release)
		if release != abi.Unreleased {
			run("tag", "v"+release)
		}
	}
	return dir
}

// The table gets the releases in which sources have a name, and the forms that they had.
func TestDate(t *testing.T) {
	headers := func(release string) map[string]string {
		text := "typedef struct pair { int a; } pair;\nenum { TOP_LIMIT = 3 };\naclError aclOld(int n);\naclError aclFew();\n"
		switch release {
		case abi.V900:
			text = "typedef struct pair { int a; } pair;\nenum { TOP_LIMIT = 4 };\naclError aclOld(int n);\naclError aclFew(int pid);\naclError aclNew(void);\n"
		case abi.V920Beta1, abi.Unreleased:
			text = "enum { TOP_LIMIT = 4 };\naclError aclFew(int pid);\naclError aclNew(void);\n"
		}
		text += "enum { L1 = 7 };\n"
		if release == abi.V850 || release == abi.Unreleased {
			text += "aclError aclBack(void);\n"
		}
		return map[string]string{
			"include/acl/a.h": text, "tests/include/acl/b.h": "aclError aclTest(void);",
			"op_api/aclnn_bar.h":  "aclnnStatus aclnnBarGetWorkspaceSize(const aclTensor *x" + map[bool]string{true: ", const aclTensor *offset"}[release == abi.V850 || release == abi.V900] + ", uint64_t *workspaceSize, aclOpExecutor **executor);",
			"docs/zh/aclnnFoo.md": "`aclnnStatus aclnnFooGetWorkspaceSize(const aclTensor *x, int64_t n, uint64_t *workspaceSize, aclOpExecutor **executor)`",
		}
	}
	dir := sources(t, []string{abi.V850, abi.V900, abi.V920Beta1, abi.Unreleased}, headers) // no 9.1.0
	all := history{}
	var covered []string
	for _, release := range abi.Releases()[1:] {
		if revision := revisionOf(dir, release); revision != "" {
			d, err := declaredIn(dir, revision)
			require.NoError(t, err)
			all[release], covered = d, append(covered, release)
		}
	}
	require.Equal(t, []string{abi.V850, abi.V900, abi.V920Beta1, abi.Unreleased}, covered)
	assert.NotContains(t, all[abi.V850].Functions, "aclTest")
	for line, want := range map[string][]string{
		"func\t8.1.RC1..\tacl/a.h\taclOld\taclError\tn:int":          {"8.1.RC1..9.0.0 acl/a.h\taclOld\taclError\tn:int"},
		"func\tunreleased\tacl/a.h\taclNew\taclError":                {"9.0.0.. acl/a.h\taclNew\taclError"},
		"func\tunreleased\tacl/a.h\taclFew\taclError\tpid:int":       {"8.5.0 acl/a.h\taclFew\taclError", "9.0.0.. acl/a.h\taclFew\taclError\tpid:int"},
		"const\t8.1.RC1..\t-\tTOP_LIMIT\t4":                          {"8.5.0 -\tTOP_LIMIT\t3", "8.1.RC1,9.0.0.. -\tTOP_LIMIT\t4"},
		"type\t8.1.RC1..\tpair\tint":                                 {"8.1.RC1..9.0.0 pair\tint"},
		"op\t9.0.0..\t\taclnnBar\tx:const aclTensor *":               {"other 8.5.0..9.0.0 \taclnnBar\tx:const aclTensor *\toffset:const aclTensor *", "9.2.0-beta.1.. \taclnnBar\tx:const aclTensor *"},
		"const\t8.1.RC1..\t-\tL1\t1":                                 {"8.1.RC1.. -\tL1\t1"},
		"func\tunreleased\tacl/a.h\taclBack\taclError":               {"8.5.0,unreleased acl/a.h\taclBack\taclError"},
		"op\tunreleased\t\taclnnFoo\tx:const aclTensor *\tn:int64_t": {"8.5.0.. \taclnnFoo\tx:const aclTensor *\tn:int64_t"},
	} {
		f, err := formOf(line)
		require.NoError(t, err)
		e := &entry{forms: []*dated{f}}
		var got []string
		for _, form := range append(all.date(f.key, e, covered), f) {
			kind := ""
			if form.kind == "other" {
				kind = "other "
			}
			got = append(got, kind+abi.VersionText(form.versions)+" "+form.rest)
		}
		assert.Equal(t, want, got, line)
	}
	f, err := formOf("func\t8.1.RC1\tacl/a.h\taclGone\taclError")
	require.NoError(t, err)
	assert.Empty(t, all.date(f.key, &entry{forms: []*dated{f}}, nil))
	assert.Equal(t, []string{abi.V81RC1}, f.versions, "what no sources declare keeps its releases")
}
