package abi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small is a table with one line of each kind.
const small = `# comment
library	libx	x/

type	8.1.RC1	handle	void *
type	8.1.RC1..	aclnnStatus	int32_t
type	8.1.RC1..	aclTensor	aclTensor
const	8.1.RC1	color	RED	-1
const	8.1.RC1	-	SIZE	4
record	8.1.RC1	x/a.h	struct	pair	8	a:int32_t@0	b:int32_t@4
func	8.1.RC1	x/a.h	paint	color	p:pair	c:color	...
op	8.1.RC1	x/a.h	aclnnFoo	self:aclTensor *	n:int64_t
op	8.5.0..	x/a.h	aclnnFoo	self:const aclTensor *	count:int64_t
other	8.5.0	x/a.h	aclnnForm	self:aclTensor *	n:int64_t
op	9.0.0..	x/a.h	aclnnForm	self:aclTensor *
split	8.5.0..	liby	x/a.h
split	9.0.0..	libz	aclnnFoo
`

func TestParse(t *testing.T) {
	table, err := Parse(Text{"small", small})
	require.NoError(t, err)
	paint, ok := table.Function("paint")
	require.True(t, ok)
	assert.True(t, paint.Variadic)
	assert.Equal(t, []Param{{Name: "p", Type: "pair", Class: ByValue}, {Name: "c", Type: "color", Class: Enum}}, paint.Params)
	foo, ok := table.Operator("Foo")
	require.True(t, ok)
	assert.Equal(t, Releases(), foo.Versions)
	assert.Equal(t, "count", foo.Params[1].Name, "names come from the newest version")
	assert.Equal(t, "aclTensor *", foo.Older[0].Params[0].Type)
	bar, ok := table.Operator("Form")
	require.True(t, ok)
	assert.Equal(t, []string{V850}, bar.Foreign())
	assert.Equal(t, V900, bar.Since())
	_, has := bar.At(V850)
	assert.False(t, has, "the release has another form")
	prepare, execute := bar.Phases()
	assert.Len(t, prepare.Others[0].Params, 4)
	assert.Equal(t, execute.Params, execute.Others[0].Params)
	assert.Equal(t, []string{"libx"}, table.Libraries(&foo.Function, V81RC1))
	assert.Equal(t, []string{"libx", "liby"}, table.Libraries(&foo.Function, V850))
	prepare, _ = foo.Phases()
	assert.Equal(t, []string{"libx", "liby", "libz"}, table.Libraries(&prepare, ""))
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"function\t8.1.RC1":                                                                `unknown kind of line "function"`,
		"type\t8.1.RC1\ta":                                                                 "type: 2 fields, want 3",
		"type\t8.1.RC1\ta\tint\tmore":                                                      "type: 4 fields, want 3",
		"type\t9.9\ta\tint":                                                                `versions "9.9"`,
		"type\t9.0.0,8.5.0\ta\tint":                                                        "in this order",
		"type\t8.1.RC1\thandle\tint":                                                       "typedef handle given twice",
		"type\t8.1.RC1\t1a\tint":                                                           "not a C name and type",
		"type\t8.1.RC1\ta\tint;":                                                           "not a C name and type",
		"library\t\tx/":                                                                    "library without a name",
		"split\t8.5.0..\t\tx/":                                                             "split without a library",
		"split\t8.5.0..\tliby\tx/":                                                         "split: x/ is neither a header of functions nor an operator",
		"split\t8.5.0..\tliby\taclnnNone":                                                  "split: aclnnNone is neither a header",
		"split\t9.0.0..\tliby\tx/a.h":                                                      "the split of x/a.h to liby is given twice",
		"other\t8.1.RC1\tx/a.h\taclnnNone\tself:aclTensor *":                               "another form of aclnnNone, which is no operator",
		"other\t9.1.0\tx/a.h\taclnnForm\tn:int64_t":                                        "two forms of aclnnForm in one of the releases [9.1.0]",
		"other\t8.1.RC1\tx/a.h\taclnnForm\tself:const aclTensor *":                         "aclnnForm: the other form has the same parameters",
		"const\t8.1.RC1\tcolor\tBLUE\t0x10":                                                "not a decimal",
		"const\t8.1.RC1\tcolor\tBLUE\t010":                                                 "not a decimal",
		"const\t8.1.RC1\tcolor\tBLUE\t18446744073709551616":                                "not a decimal",
		"const\t8.1.RC1\tcolor\tRED\t2":                                                    "constant RED given twice",
		"const\t9.0.0\tcolor\tBLUE\t2\nconst\t8.5.0\tcolor\tBLUE\t3":                       "constant BLUE: the form of [8.5.0] comes after that of [9.0.0]",
		"const\t8.1.RC1\t-\tA B\t2":                                                        "not an identifier",
		"record\t8.1.RC1\tx/a.h\tclass\tr\t8":                                              "want struct or union",
		"record\t8.1.RC1\tx/a.h\tstruct\tr\t0":                                             "not a positive number",
		"record\t8.1.RC1\tx/a.h\tstruct\tr\t8\nrecord\t9.0.0\tx/a.h\tunion\tr\t8":          "record r: a struct of [8.1.RC1], and a union of [9.0.0]",
		"record\t8.1.RC1\tx/a.h\tstruct\tpair\t8":                                          "record pair given twice",
		"record\t8.1.RC1\tx/a.h\tstruct\tr\t8\ta:int32_t":                                  "not name:type@offset",
		"record\t8.1.RC1\tx/a.h\tstruct\tr\t8\ta:int32_t@9":                                "does not fit",
		"record\t8.1.RC1\tx/a.h\tstruct\tr\t8\ta:int32_t@4\tb:int@0":                       "does not fit",
		"record\t8.1.RC1\tx/a.h\tunion\tr\t8\ta:int32_t@4":                                 "does not fit",
		"func\t8.1.RC1\tx/a.h\tpaint\tcolor\tp:pair\tc:color":                              "paint given twice",
		"op\t9.0.0\tx/a.h\taclnnFoo\tself:aclTensor *":                                     "given twice",
		"func\t9.0.0\tx/a.h\tpaint\tint\tp:pair":                                           "differ in more than const",
		"type\t9.0.0..8.5.0\ta\tint":                                                       "in this order",
		"func\t8.1.RC1\tx/a.h\tf\tint\ta":                                                  "not name:type",
		"func\t8.1.RC1\tx/a.h\tf\tint\ta:int\ta:int":                                       "two parameters a",
		"func\t8.1.RC1\tx/a.h\tf\tint\ta:nobody":                                           `parameter a: type "nobody"`,
		"func\t8.1.RC1\tx/a.h\tf\tnobody":                                                  `return type: type "nobody"`,
		"func\t8.1.RC1\ty/a.h\tf\tint":                                                     `no library line covers header "y/a.h"`,
		"func\t8.1.RC1\tx/a.h\tf\tint\t...":                                                "misplaced ellipsis",
		"func\t8.1.RC1\tx/a.h\tf\tint\ta:int\t...\tb:int":                                  "misplaced ellipsis",
		"func\t8.1.RC1\tx/a.h\tf-g\tint":                                                   "not an identifier",
		"ends\taclnnBar\t-":                                                                "aclnnBar ends: no operator aclnnBar",
		"ends\taclnnFoo\taclnnBar":                                                         "aclnnFoo ends: no operator aclnnBar",
		"ends\taclnnFoo\t-\nends\taclnnFoo\t-":                                             "the end of aclnnFoo is given twice",
		"op\t8.1.RC1\tx/a.h\tfoo\ta:int":                                                   "does not start with acl",
		"op\t8.1.RC1\tx/a.h\taclnnBar\ta:int\t...":                                         "misplaced ellipsis",
		"op\t8.1.RC1\tx/a.h\taclFoo\ta:int":                                                "two operators are called Foo",
		"type\t8.1.RC1\tl1\tl2\ntype\t8.1.RC1\tl2\tl1\nfunc\t8.1.RC1\tx/a.h\tf\tint\ta:l1": `typedefs of "l`,
	} {
		_, err := Parse(Text{"small", small}, Text{"more", "\n" + line})
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax, line)
		assert.Contains(t, syntax.Msg, want, line)
		assert.Equal(t, "more", syntax.File, line)
		assert.Equal(t, 2+strings.Count(line, "\n"), syntax.Line, line)
	}
}

func FuzzParse(f *testing.F) {
	for line := range strings.SplitSeq(small, "\n") {
		f.Add(line)
	}
	f.Add(small)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse(Text{"small", small}, Text{"fuzz", text})
		if err != nil {
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.NotEmpty(t, syntax.File)
			return
		}
		for _, fn := range table.AllFunctions() {
			require.NotEmpty(t, fn.Versions)
			require.NotEmpty(t, fn.Library)
			for _, p := range fn.Params {
				require.NotZero(t, p.Class, "%s %s", fn.Name, p.Name)
			}
		}
	})
}
