package header

import (
	_ "embed"
	"testing"
	"testing/fstest"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// custom imitates the headers that generators of operator packages write, with all peculiarities
// found so far.
//
//go:embed testdata/aclnn_slice_nz.h
var custom string

func TestParseHeader(t *testing.T) {
	found, err := parseHeader("a.h", custom)
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
	ops, err := Operators(table, fstest.MapFS{
		"include/aclnn_slice_nz.h": {Data: []byte(custom)},
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
		_, err := Operators(table, fstest.MapFS{"a.h": {Data: []byte(text)}}, "libcust_opapi")
		assert.ErrorContains(t, err, want)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(custom)
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
