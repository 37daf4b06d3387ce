package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// callable is a table with a function for each way of passing a parameter.
const callable = `library	libascendcl	acl/
type	8.1.RC1	aclError	int32_t
type	8.1.RC1	aclrtContext	void *
type	8.1.RC1	aclrtStream	void *
const	8.1.RC1	aclrtKind	KIND	1
record	8.1.RC1	acl/a.h	struct	pair	24	a:char@0	b:uint64_t@8	c:char[4]@16
func	8.1.RC1	acl/a.h	aclWords	aclError	stream:aclrtStream	dst:void *	n:int32_t	kind:aclrtKind
func	8.1.RC1	acl/a.h	aclResults	aclError	out:void **	type:uint32_t	ms:float *	stream:aclrtStream *
func	8.1.RC1	acl/a.h	aclHost	aclError	n:size_t	path:const char *
func	8.1.RC1	acl/a.h	aclHosts	aclError	p:pair *	values:const int32_t *
func	8.1.RC1	acl/a.h	aclName	const char *	n:uint32_t
func	8.1.RC1	acl/a.h	aclFloat	aclError	x:double
record	8.1.RC1	acl/a.h	struct	triple	24	a:aclrtStream@0	b:aclrtKind@8	c:uint32_t@12	d:aclrtStream *@16
func	8.1.RC1	acl/a.h	aclRecord	aclError	t:triple	stream:aclrtStream
func	8.1.RC1	acl/a.h	aclLateRecord	aclError	stream:aclrtStream	t:triple
func	8.1.RC1	acl/a.h	aclRecordAndText	aclError	t:triple	path:const char *
func	8.1.RC1	acl/a.h	aclAddress	aclError	stream:aclrtStream	at:uint64_t **
`

func TestCalls(t *testing.T) {
	table, err := abi.Parse(abi.Text{Name: "callable", Data: callable})
	require.NoError(t, err)
	for _, c := range []struct{ named, want string }{
		{"aclWords", `
// aclWords calls aclError aclWords(aclrtStream stream, void *dst, int32_t n, aclrtKind kind).
func aclWords(current aclrtContext, stream aclrtStream, dst uintptr, n int32, kind aclrtKind) error {
	var c cshim.Call
	c.Args[0] = uint64(stream)
	c.Args[1] = uint64(dst)
	c.Args[2] = uint64(n)
	c.Args[3] = uint64(kind)
	return c.Do(fnAclWords, uint64(current))
}
`},
		{"aclResults", `
// aclResults calls aclError aclResults(void **out, uint32_t type, float *ms, aclrtStream *stream).
func aclResults(current aclrtContext, typeArg uint32) (out uintptr, ms float32, stream aclrtStream, err error) {
	var c cshim.Call
	c.Out = 1<<0|1<<2|1<<3
	c.Args[1] = uint64(typeArg)
	if err = c.Do(fnAclResults, uint64(current)); err != nil {
		return
	}
	out = uintptr(c.Args[0])
	ms = math.Float32frombits(uint32(c.Args[2]))
	stream = aclrtStream(c.Args[3])
	return
}
`},
		{"aclHost", `
// aclHost calls aclError aclHost(size_t n, const char *path).
func aclHost(current aclrtContext, n uint64, path *byte) error {
	var c cshim.Call
	c.HostArg, c.Host = 2, unsafe.Pointer(path)
	c.Args[0] = uint64(n)
	return c.Do(fnAclHost, uint64(current))
}
`},
		{"aclHosts", `
// aclHosts calls aclError aclHosts(pair *p, const int32_t *values).
func aclHosts(current aclrtContext, p *pair, values *int32) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(p)
	pin.Pin(values)
	var c cshim.Call
	c.Args[0] = uint64(uintptr(unsafe.Pointer(p)))
	c.Args[1] = uint64(uintptr(unsafe.Pointer(values)))
	return c.Do(fnAclHosts, uint64(current))
}
`},
		{"aclHosts", `
	pair struct {
	a int8
	_ [7]byte
	b uint64
	c [4]byte
	_ [4]byte
}
`},
		{"aclHosts", "\nvar _ [24]byte = [unsafe.Sizeof(pair{})]byte{}\n"},
		{"aclName", `
func aclName(current aclrtContext, n uint32) (string, error) {
	var c cshim.Call
	c.Args[0] = uint64(n)
	v, err := c.Value(fnAclName, uint64(current))
	return cshim.CString(v), err
}
`},
		{"aclRecord", `
// aclRecord calls aclError aclRecord(triple t, aclrtStream stream).
func aclRecord(current aclrtContext, t *triple, stream aclrtStream) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(t)
	c := cshim.Call{Args: cshim.WithRecord(unsafe.Pointer(t), unsafe.Sizeof(*t), uint64(stream))}
	return c.Do(fnAclRecord, uint64(current))
}
`},
		{"aclRecord", `
	triple struct {
	a aclrtStream
	b aclrtKind
	c uint32
	d uint64
}
`},
		{"aclAddress", `
func aclAddress(current aclrtContext, stream aclrtStream) (at uintptr, err error) {
	var c cshim.Call
	c.Out = 1<<1
	c.Args[0] = uint64(stream)
	if err = c.Do(fnAclAddress, uint64(current)); err != nil {
		return
	}
	at = uintptr(c.Args[1])
	return
}
`},
		{"fnAclName", "\nvar (\n\tfnAclName = cshim.NewFunc(cshim.ACL, \"aclName\")\n)\n"},
	} {
		src, err := calls(table, "acl", map[string]bool{c.named: true})
		require.NoError(t, err)
		assert.Contains(t, string(src), c.want)
	}
	src, err := calls(table, "acl", map[string]bool{"fnAclName": true})
	require.NoError(t, err)
	assert.NotContains(t, string(src), "func ", "the call was not named")
	src, err = calls(table, "acl", map[string]bool{"other": true})
	require.NoError(t, err)
	assert.Empty(t, src)
	_, err = calls(table, "acl", map[string]bool{"aclFloat": true})
	assert.ErrorContains(t, err, "aclFloat: parameter x: a runtime call passes no floating-point numbers")
	_, err = calls(table, "acl", map[string]bool{"aclLateRecord": true})
	assert.ErrorContains(t, err, "aclLateRecord: t: a record by value must be the first parameter")
	_, err = calls(table, "acl", map[string]bool{"aclRecordAndText": true})
	assert.ErrorContains(t, err, "aclRecordAndText: path: beside a record by value stand words only")
}

// The hand-written lists of the generator must name functions of the table and must not repeat what
// the C types show.
func TestCallExceptions(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, name := range slices.Concat(rebinds, callsBack) {
		_, ok := table.Function(name)
		assert.True(t, ok, name)
	}
	for key := range hostPointers {
		function, param, _ := strings.Cut(key, ".")
		f, ok := table.Function(function)
		require.True(t, ok, key)
		i := slices.IndexFunc(f.Params, func(p abi.Param) bool { return p.Name == param })
		require.GreaterOrEqual(t, i, 0, key)
		_, how, err := newCallWriter(table).byType(f.Params[i])
		assert.True(t, err != nil || how != asHost, "%s needs no exception", key)
	}
}

var handPacked = regexp.MustCompile(`cshim\.(Args|Call)\b`)

// apart lists the folders that may use call blocks: the one that defines them, the one that
// generates them, and one that calls functions without arguments that do not belong to CANN.
var apart = []string{"cshim", "internal/tools/npugen", "internal/tools/emptycann"}

// Only generated code may pack the words of a call.
func TestNoHandPackedWords(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(apart, filepath.ToSlash(rel)) || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasPrefix(d.Name(), "zz_"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			assert.NotRegexp(t, handPacked, string(src), rel)
		}
		return err
	})
	require.NoError(t, err)
}
