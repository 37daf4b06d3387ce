package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// header imitates the headers that generators of operator packages write, with all peculiarities
// found so far.
const header = `/* aclnnStatus aclnnNotMe(int x); */
#ifndef ACLNN_SLICE_NZ_H_
#define ACLNN_SLICE_NZ_H_ \
    aclnnStatus aclnnNorMe(int x);
#include "aclnn/acl_meta.h"
#ifdef __cplusplus
extern "C" {
#endif
// sizes of the slice
struct Shape { int64_t n; };
__attribute__((visibility("default")))
aclnnStatus aclnnSliceNzGetWorkspaceSize(
    const aclTensor *x,
    aclTensor const *biasOptional, /* may be null */
    const aclIntArray* sizes, int64_t dim, double scale = 1.0,
    char *mode, bool keep_dims, float eps, aclDataType dtype,
    aclTensorList *out,
    uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnSliceNz(void *workspace, uint64_t workspaceSize,
    aclOpExecutor *executor, const aclrtStream stream);
aclnnStatus aclnnHelper(void);
inline aclnnStatus aclnnInline(int a) { return a; }
#ifdef __cplusplus
}
#endif
#endif
`

func TestParseHeader(t *testing.T) {
	found, err := parseHeader("a.h", header)
	require.NoError(t, err)
	require.Len(t, found, 3, "prototypes only: no comment, macro or definition")
	assert.Equal(t, "aclnnSliceNzGetWorkspaceSize", found[0].name)
	assert.Equal(t, "a.h:12", found[0].at)
	assert.Equal(t, []abi.Param{
		{Name: "x", Type: "const aclTensor *"}, {Name: "biasOptional", Type: "const aclTensor *"},
		{Name: "sizes", Type: "const aclIntArray *"}, {Name: "dim", Type: "int64_t"}, {Name: "scale", Type: "double"},
		{Name: "mode", Type: "char *"}, {Name: "keep_dims", Type: "bool"}, {Name: "eps", Type: "float"},
		{Name: "dtype", Type: "aclDataType"}, {Name: "out", Type: "aclTensorList *"},
		{Name: "workspaceSize", Type: "uint64_t *"}, {Name: "executor", Type: "aclOpExecutor **"},
	}, found[0].params)
	assert.Empty(t, found[2].params, "(void) is no parameter")
}

func TestParseHeaderRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"\n/* open":                               "a.h:2: comment does not end",
		"\"open\n":                                "a.h:1: string does not end",
		"\n\naclnnStatus aclnnF(int a; int b);":   "a.h:3: aclnnF: the parameter list does not end",
		"aclnnStatus aclnnF(int);":                "aclnnF: parameter 1: it needs a type and a name",
		"aclnnStatus aclnnF(int a, std::v b);":    `aclnnF: parameter 2: cannot read ":"`,
		"aclnnStatus aclnnF(int a b);":            `parameter 1: unexpected "b" after the name a`,
		"aclnnStatus aclnnF(*a);":                 `parameter 1: unexpected "*"`,
		"aclnnStatus aclnnF(int (*f)(int), x y);": `parameter 1: cannot read "("`,
		"aclnnStatus aclnnF(int a, );":            "parameter 2: it needs a type and a name",
	} {
		_, err := parseHeader("a.h", text)
		assert.ErrorContains(t, err, want, text)
	}
}

func TestHeaderOperators(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	ops, err := headerOperators(table, fstest.MapFS{
		"include/aclnn_slice_nz.h": {Data: []byte(header)},
		"include/notes.txt":        {Data: []byte("aclnnStatus aclnnText(")},
	}, "libcust_opapi")
	require.NoError(t, err)
	require.Len(t, ops, 1)
	assert.Equal(t, "SliceNz", ops[0].Name)
	assert.Len(t, ops[0].Params, 10)
	assert.True(t, ops[0].Params[1].Optional)
	assert.Equal(t, abi.Written, ops[0].Params[9].Use)

	for text, want := range map[string]string{
		"int x;": "declare no operator",
		"aclnnStatus aclnnF(void *w, uint64_t n, aclOpExecutor *e, aclrtStream s);\naclnnStatus aclnnFGetWorkspaceSize(int a);":                                 "a.h:2: aclnnFGetWorkspaceSize does not end in",
		"aclnnStatus aclnnF(void *w, uint64_t n, aclOpExecutor *e, aclrtStream s);\naclnnStatus aclnnFGetWorkspaceSize(Odd a, uint64_t *w, aclOpExecutor **e);": `a.h:2: aclnnF: parameter a: type "Odd"`,
	} {
		_, err := headerOperators(table, fstest.MapFS{"a.h": {Data: []byte(text)}}, "libcust_opapi")
		assert.ErrorContains(t, err, want)
	}
}

// The headers of a package that the table knows must give the same operators as the table.
func TestBindAgreesWithTheTable(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	tree := fstest.MapFS{}
	want := map[string]abi.Operator{}
	for _, o := range table.Operators {
		one, two := o.Phases()
		if tree[o.Header] == nil {
			tree[o.Header] = &fstest.MapFile{}
		}
		text := prototype(one, one.Params) + ";\n" + prototype(two, two.Params) + ";\n"
		tree[o.Header].Data = append(tree[o.Header].Data, text...)
		want[o.Name] = o
	}
	ops, err := headerOperators(table, tree, "libopapi")
	require.NoError(t, err)
	require.Len(t, ops, len(want))
	for _, o := range ops {
		assert.Equal(t, want[o.Name].Params, o.Params, o.Name)
	}
}

func TestRunBindWritesAPackage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "aclnn_slice_nz.h"), []byte(header), 0o644))
	out := filepath.Join(dir, "zz_myops.go")
	require.NoError(t, run([]string{"bind", "-headers", dir, "-package", "myops", "-out", out}))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/zz_myops.go.golden")
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func FuzzParseHeader(f *testing.F) {
	f.Add(header)
	f.Add("aclnnStatus f(int a[2], b);")
	f.Add("#define x \\\n\\")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseHeader("a.h", text)
		if err != nil {
			assert.ErrorContains(t, err, "a.h:")
		}
		for _, d := range found {
			for _, p := range d.params {
				require.NotEmpty(t, p.Name)
				require.NotEmpty(t, p.Type)
			}
		}
	})
}

// TestExample: the example of a custom operator has the binding that its header gives.
func TestExample(t *testing.T) {
	dir, out := filepath.Join("..", "..", "..", "examples", "customop", "rowscale"), filepath.Join(t.TempDir(), "zz_rowscale.go")
	require.NoError(t, runBind([]string{"-headers", dir, "-package", "rowscale", "-out", out}))
	want, err := os.ReadFile(out)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "zz_rowscale.go"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate in %s", dir)
}
