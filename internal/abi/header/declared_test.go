package header

import (
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

func TestDeclarations(t *testing.T) {
	d, err := Declarations(declared, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"ONE": "1", "RED": "-1", "GREEN": "0", "BLUE": "3"}, d.Constants, "FLAGS refers to a later macro")
	again, err := Declarations(declared, d.Constants)
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
	table, err := abi.Parse(abi.Text{Name: "t", Data: "library\tlibx\tacl/\nconst\t8.1.RC1..\t-\tONE\t1\nconst\t8.1.RC1\tcolor\tRED\t0\nconst\t8.5.0..\tcolor\tRED\t-1\n" +
		"record\t8.1.RC1..\tacl/a.h\tstruct\tpair\t8\ta:int@0\ntype\t8.1.RC1..\taclError\tint\n" +
		"func\t8.1.RC1..\tacl/a.h\taclPaint\taclError\tp:pair *\tc:color\t...\nfunc\t9.0.0..\tacl/a.h\taclLater\taclError\n" +
		"outside\tacl/b.h\tkernels\nfunc\t8.1.RC1..\tacl/c.h\taclBare\taclError\noutside\taclBare\tno header\n" +
		"func\t8.1.RC1\tacl/a.h\taclFew\taclError\nfunc\t8.5.0..\tacl/a.h\taclFew\taclError\tn:int\n"})
	require.NoError(t, err)
	tree := fstest.MapFS{"include/acl/a.h": {Data: []byte(declared + "aclError aclFew(int n);\naclError aclNew(void);\n")}, "include/acl/b.h": {Data: []byte("aclError aclKernel(void);")}}
	c, err := Compare(table, abi.V850, tree)
	require.NoError(t, err)
	assert.Equal(t, Comparison{Equal: 4, Unknown: []string{"aclMany", "aclNew"}, Outside: []Outside{{"aclBare", "no header"}, {"aclKernel", "kernels"}},
		Headers: []Count{{"acl/a.h", 4, 0, 0, 2, 0}, {"acl/b.h", 0, 0, 0, 0, 1}, {"acl/c.h", 0, 0, 0, 0, 1}}}, c)
	c, err = Compare(table, abi.V900, tree)
	require.NoError(t, err)
	assert.Equal(t, []string{"aclLater"}, c.Missing)
	assert.Equal(t, Count{"acl/a.h", 4, 1, 0, 2, 0}, c.Headers[0])
	c, err = Compare(table, abi.V81RC1, tree)
	require.NoError(t, err)
	assert.Equal(t, []Difference{{"aclFew", "", "int"}, {"RED", "0", "-1"}}, c.Different)
	_, err = Compare(table, "2026-08", tree)
	assert.ErrorContains(t, err, `release "2026-08" is unknown; known are 8.1.RC1`)
	_, err = Compare(table, abi.V850, fstest.MapFS{"other/a.h": {}})
	assert.ErrorContains(t, err, "no folder acl")
}

func FuzzDeclarations(f *testing.F) {
	f.Add(declared)
	f.Add("enum { A = B };")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Declarations(text, nil)
		if err != nil {
			return
		}
		for name := range d.Functions {
			require.NotEmpty(t, name)
		}
	})
}
