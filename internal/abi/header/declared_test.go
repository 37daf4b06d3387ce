package header

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

const declared = `#define FLAGS (ONE << 4)
#define ONE 0x1U
#define NAME "text"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { RED = -1, GREEN, BLUE = GREEN + 3 } color;
typedef struct pair { int a; int (*f)(int); } pair;
typedef int (*visitor)(void *data);
ACL_FUNC_VISIBILITY aclError aclPaint(const pair *p, color c, ...);
OLD_MESSAGE("use another") __attribute__((visibility("default"))) extern void **aclMany(char *const name, int64_t (*at)[2],
	visitor v, void (*done)(void *, int), uint8_t data[4], const char *const *names, unsigned int = 3, void *);
static inline int hidden(int x) { return aclPaint(0, x); }
int noParameters(void);
int odd(std::vector<int> v);
int ranges(int64_t a[][ONE], int64_t b[2][4]);
int sizes(int64_t a[][ELSEWHERE]);
#ifdef __cplusplus
}
#endif
`

const constants = `static const int32_t UNSET = 0xffffffff;
constexpr uint32_t MOST = 0xffffffffU;
#define BYTES \
	(2 * sizeof(unsigned int))
`

func TestDeclarations(t *testing.T) {
	d, err := Declarations(declared+constants, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"ONE": "1", "RED": "-1", "GREEN": "0", "BLUE": "3", "UNSET": "-1", "MOST": "4294967295", "BYTES": "8"}, d.Constants, "FLAGS refers to a later macro")
	again, err := Declarations(declared+constants, d.Constants)
	require.NoError(t, err)
	assert.Equal(t, "16", again.Constants["FLAGS"])
	assert.Equal(t, map[string]bool{"color": true, "pair": true, "visitor": true}, d.Types)
	require.Len(t, d.Functions, 6)
	assert.Equal(t, Prototype{Ret: "aclError", Params: []abi.Param{{Name: "p", Type: "const pair *"}, {Name: "c", Type: "color"}}, Variadic: true}, d.Functions["aclPaint"])
	many := d.Functions["aclMany"]
	assert.Equal(t, "void **", many.Ret)
	assert.Equal(t, "char *, int64_t ( *)[2], visitor, void ( *)(void *, int), uint8_t *, const char *const *, unsigned int, void *", many.Types())
	assert.Empty(t, d.Functions["noParameters"].Params)
	assert.NotEmpty(t, d.Functions["odd"].Unread)
	assert.Equal(t, "int64_t ( *)[1], int64_t ( *)[4]", again.Functions["ranges"].Types())
	assert.NotEmpty(t, d.Functions["sizes"].Unread, "no header defines the size")
}

func TestCompare(t *testing.T) {
	table, err := abi.Parse(abi.Text{Name: "t", Data: "library\tlibx\tacl/\nconst\t8.1.RC1..\t-\tONE\t1\nconst\t8.1.RC1..\t-\tFLAGS\t16\n" +
		"const\t8.1.RC1\tcolor\tRED\t0\nconst\t8.5.0..\tcolor\tRED\t-1\nconst\t8.1.RC1..\tcolor\tGREEN\t0\nconst\t8.1.RC1..\tcolor\tBLUE\t3\n" +
		"record\t8.1.RC1\tacl/a.h\tstruct\tpair\t4\ta:int@0\nrecord\t8.5.0..\tacl/a.h\tstruct\tpair\t16\ta:int@0\tf:int ( *)(int)@8\n" +
		"type\t8.1.RC1..\tvisitor\tint ( *)(void *)\ntype\t8.1.RC1..\taclError\tint\ntype\t8.1.RC1..\taclGone\tvoid *\n" +
		"func\t8.1.RC1..\tacl/a.h\taclPaint\taclError\tp:pair *\tc:color\t...\nfunc\t9.0.0..\tacl/a.h\taclLater\taclError\n" +
		"outside\tacl/b.h\tkernels\nfunc\t8.1.RC1..\tacl/c.h\taclBare\taclError\noutside\taclBare\tno header\noutside\taclGone\tfor tools\n" +
		"func\t8.1.RC1\tacl/a.h\taclFew\taclError\nfunc\t8.5.0..\tacl/a.h\taclFew\taclError\tn:int\n"})
	require.NoError(t, err)
	tree := fstest.MapFS{
		"include/acl/a.h": {Data: []byte(declared + "aclError aclFew(int n);\naclError aclNew(void);\ntypedef int aclError;\n")},
		"include/acl/b.h": {Data: []byte("aclError aclKernel(void);\nstruct tiling { int n; };\n#define TILES 4\n")},
	}
	c, err := Compare(table, abi.V850, tree)
	require.NoError(t, err)
	assert.Equal(t, Comparison{
		Equal: 10, Kinds: Kinds{2, 5, 2, 1}, Unknown: []string{"aclMany", "aclNew", "noParameters", "odd", "ranges", "sizes"},
		Outside: []Outside{{"TILES", "kernels"}, {"aclBare", "no header"}, {"aclGone", "for tools"}, {"aclKernel", "kernels"}, {"tiling", "kernels"}},
		Headers: []Count{{"acl/a.h", 10, 0, 0, 6, 0}, {"acl/acl.h", 0, 0, 0, 0, 1}, {"acl/b.h", 0, 0, 0, 0, 3}, {"acl/c.h", 0, 0, 0, 0, 1}},
	}, c)
	c, err = Compare(table, abi.V900, tree)
	require.NoError(t, err)
	assert.Equal(t, []string{"aclLater"}, c.Missing)
	assert.Equal(t, Count{"acl/a.h", 10, 1, 0, 6, 0}, c.Headers[0])
	c, err = Compare(table, abi.V81RC1, tree)
	require.NoError(t, err)
	assert.Equal(t, []Difference{{"RED", "0", "-1"}, {"aclFew", "", "int"}, {"pair", "no further field", "int ( *)(int) f at 8"}}, c.Different)
	_, err = Compare(table, "2026-08", tree)
	assert.ErrorContains(t, err, `release "2026-08" is unknown; known are 8.1.RC1`)
	_, err = Compare(table, abi.V850, fstest.MapFS{"other/a.h": {}})
	assert.ErrorContains(t, err, "no folder acl")
}

// Each change of a header's types is a difference of its own, and other spellings of a type are none.
func TestCompareTypes(t *testing.T) {
	const text = "#define LEN 2\nenum kind { KIND_A, KIND_B };\ntypedef void *handle;\ntypedef struct tagInner { uint8_t id; enum kind k; } inner;\n" +
		"typedef struct { inner pairs[LEN][3]; union { uint32_t n; double d; } value; struct { int x, *y; }; handle h; void (*done)(int, void *); char tail[]; } outer;\n" +
		"#pragma pack(push, 1)\nstruct packed { char c; uint64_t n; packed(int i = 0) : c(i), n(0) {} };\n#pragma pack(pop)\nstruct hidden;\nusing opaque = struct hidden *;\nvoid aclUse(outer *o, struct packed *p, opaque q);\n"
	table, err := abi.Parse(abi.Text{Name: "t", Data: "library\tlibx\tacl/\nconst\t8.1.RC1..\t-\tLEN\t2\nconst\t8.1.RC1..\tkind\tKIND_A\t0\nconst\t8.1.RC1..\tkind\tKIND_B\t1\n" +
		"type\t8.1.RC1..\thandle\tvoid *\ntype\t8.1.RC1..\topaque\tstruct hidden *\nrecord\t8.1.RC1..\tacl/a.h\tstruct\tinner\t8\tid:uint8_t@0\tk:kind@4\n" +
		"record\t8.1.RC1..\tacl/a.h\tunion\tvalues\t8\tn:uint32_t@0\td:double@0\nrecord\t8.1.RC1..\tacl/a.h\tstruct\tpoint\t16\tx:int@0\ty:int *@8\n" +
		"record\t8.1.RC1..\tacl/a.h\tstruct\touter\t88\tpairs:inner[2][3]@0\tvalue:values@48\t:point@56\th:void *@72\tdone:void ( *)(int, void *)@80\ttail:char[0]@88\n" +
		"record\t8.1.RC1..\tacl/a.h\tstruct\tpacked\t9\tc:char@0\tn:uint64_t@1\nfunc\t8.1.RC1..\tacl/a.h\taclUse\tvoid\to:outer *\tp:packed *\tq:opaque\n"})
	require.NoError(t, err)
	compare := func(text string) Comparison {
		c, err := Compare(table, abi.V850, fstest.MapFS{"acl/a.h": {Data: []byte(text)}})
		require.NoError(t, err)
		return c
	}
	c := compare(text)
	assert.Empty(t, c.Different)
	assert.Empty(t, c.Missing)
	assert.Empty(t, c.Unknown)
	assert.Equal(t, Kinds{1, 3, 2, 3}, c.Kinds)
	for change, want := range map[string]string{
		"uint8_t id;->uint16_t id;":                     "inner: the table has (uint8_t id at 0), the header (uint16_t id at 0)",
		"uint8_t id;->uint8_t name;":                    "inner: the table has (uint8_t id at 0), the header (uint8_t name at 0)",
		"enum kind k;->":                                "inner: the table has (kind k at 4), the header (no further field)",
		"#define LEN 2->#define LEN 3":                  "LEN: the table has (2), the header (3)",
		"pairs[LEN][3];->pairs[LEN];":                   "outer: the table has (inner[2][3] pairs at 0), the header (inner[2] pairs at 0)",
		"double d; } value->float d; } value":           "outer: the table has (double d at 0), the header (float d at 0)",
		"(int, void *);->(int);":                        "outer: the table has (void ( *)(int, void *) done at 80), the header (void ( *)(int) done at 80)",
		"#pragma pack(push, 1)->":                       "packed: the table has (uint64_t n at 1), the header (uint64_t n at 8)",
		"typedef void *handle->typedef long handle":     "handle: the table has (void *), the header (long)",
		"enum kind {->enum sort {":                      "KIND_A: the table has (of kind), the header (of sort)",
		"opaque = struct hidden *->opaque = int":        "opaque: the table has (struct hidden *), the header (int)",
		"typedef struct { inner->typedef union { inner": "outer: the table has (struct), the header (union)",
		"uint8_t id;->uint8_t id : 4;":                  `inner: the table has (8 bytes), the header (cannot read "uint8_t id:4": bits of a field)`,
		"char c; uint64_t->nowhere c; uint64_t":         `packed: the table has (9 bytes), the header (the size of the type "nowhere" is not known)`,
	} {
		old, new, _ := strings.Cut(change, "->")
		require.Contains(t, text, old)
		c := compare(strings.Replace(text, old, new, 1))
		var got []string
		for _, d := range c.Different {
			got = append(got, d.String())
		}
		assert.Contains(t, got, want, change)
	}
	assert.Equal(t, []string{"handle"}, compare(strings.Replace(text, "typedef void *handle;", "", 1)).Missing)
	assert.Equal(t, []string{"NEW", "later", "more"}, compare(text+"enum { NEW };\ntypedef int later;\nstruct more { int n; };\n").Unknown)
}

// TestReleases compares the table with the headers of each release. CANN_HEADERS_DIR names a folder with a subfolder of headers for each
// release, such as 9.1.0.
func TestReleases(t *testing.T) {
	dir := os.Getenv("CANN_HEADERS_DIR")
	if dir == "" {
		t.Skip("CANN_HEADERS_DIR names no folder with the headers of releases, which npugen headers writes")
	}
	table, err := abi.Load()
	require.NoError(t, err)
	for _, release := range abi.Releases()[1:] {
		t.Run(release, func(t *testing.T) {
			c, err := Compare(table, release, os.DirFS(filepath.Join(dir, release)))
			require.NoError(t, err)
			t.Logf("%d agree: %+v; %d not compared", c.Equal, c.Kinds, len(c.Outside))
			assert.Empty(t, c.Missing)
			assert.Empty(t, c.Different)
			assert.Empty(t, c.Unknown)
		})
	}
}

func FuzzDeclarations(f *testing.F) {
	f.Add(declared)
	f.Add("enum { A = B };")
	f.Add("typedef struct { struct { int x[2]; }; } a, *b; #pragma pack(1)")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Declarations(text, nil)
		if err != nil {
			return
		}
		for name := range d.Functions {
			require.NotEmpty(t, name)
		}
		for _, r := range d.Records {
			if l, err := d.Layout(&r); err == nil {
				require.Len(t, l.Offsets, len(r.Fields))
			}
		}
	})
}
