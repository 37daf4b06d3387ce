package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const importExtra = `library	libx	x/
library	libcust	aclnn_
record	2026-08	x/a.h	struct	dim	4	n:uint32_t@0
`

// Dumps of two CANN versions that differ in const, a name, a value and an enumerator, and
// of an operator package.
var importDumps = []string{
	`{"version": "8.1.RC1",
	  "functions": {
	    "aclnnFoo": {"ret": "aclnnStatus", "params": [{"name": "workspace", "type": "void *"}, {"name": "n", "type": "uint64_t"}, {"name": "e", "type": "aclOpExecutor *"}, {"name": "s", "type": "const aclrtStream"}], "header": "x/foo.h"},
	    "aclnnFooGetWorkspaceSize": {"ret": "aclnnStatus", "params": [{"name": "x", "type": "const aclTensor *"}, {"name": "lambda", "type": "const bool"}, {"name": "out", "type": "aclTensor *"}, {"name": "workspaceSize", "type": "uint64_t *"}, {"name": "executor", "type": "aclOpExecutor **"}], "header": "x/foo.h"},
	    "aclnnLoneGetWorkspaceSize": {"ret": "aclnnStatus", "params": [{"name": "w", "type": "uint64_t *"}], "header": "x/foo.h"},
	    "paint": {"ret": "aclError", "params": [{"name": "c", "type": "const color"}, {"name": "p", "type": "void *const"}, {"name": "f", "type": "int ( *const)(int)"}], "header": "x/a.h"}},
	  "constants": {"RED": 0, "BLUE": 1, "VERSION": 1, "_ISupper": 256, "HUGE": 18446744073709551614},
	  "enums": {"color": {"BLUE": 1, "RED": 0}},
	  "typedefs": {"color": "color", "aclTensor": "aclTensor", "aclOpExecutor": "aclOpExecutor", "aclnnStatus": "int32_t", "aclError": "int", "aclrtStream": "void *", "info": "tagInfo", "pairAlias": "pair"},
	  "records": {"pair": {"kind": "struct", "size": 4, "header": "x/a.h", "fields": [{"name": "a", "type": "int32_t", "offset": 0}]}}}`,
	`{"version": "2026-08",
	  "functions": {
	    "aclnnFoo": {"ret": "aclnnStatus", "params": [], "header": "x/foo.h"},
	    "aclnnFooGetWorkspaceSize": {"ret": "aclnnStatus", "params": [{"name": "x", "type": "const aclTensor *"}, {"name": "lambd", "type": "bool"}, {"name": "out", "type": "const aclTensor *"}, {"name": "workspaceSize", "type": "uint64_t *"}, {"name": "executor", "type": "aclOpExecutor **"}], "header": "x/foo.h"},
	    "paint": {"ret": "aclError", "params": [{"name": "color", "type": "color"}, {"name": "p", "type": "void *"}, {"name": "f", "type": "int ( *)(int)"}], "header": "x/a.h"}},
	  "constants": {"RED": 0, "GREEN": -1, "VERSION": 2},
	  "enums": {"color": {"GREEN": -1, "RED": 0}},
	  "typedefs": {"color": "color", "aclTensor": "aclTensor", "aclOpExecutor": "aclOpExecutor", "aclnnStatus": "int32_t", "aclError": "int", "aclrtStream": "void *", "dim": "dim"},
	  "records": {"dim": {"kind": "struct", "size": 4, "header": "x/a.h", "fields": [{"name": "", "type": "odd", "offset": null}]}}}`,
	`{"version": "some package", "functions": {
	    "aclnnBar": {"ret": "aclnnStatus", "params": [], "header": "aclnn_bar.h"},
	    "aclnnBarGetWorkspaceSize": {"ret": "aclnnStatus", "params": [{"name": "x", "type": "aclTensor *"}, {"name": "workspaceSize", "type": "uint64_t *"}, {"name": "executor", "type": "aclOpExecutor **"}], "header": "aclnn_bar.h"}}}`,
}

const imported = "# CANN's C interface. Made by `npugen import` from dumps of the headers; see parse.go for the grammar.\n" + `
# Types
type	8.1.RC1,2026-08	aclError	int
type	8.1.RC1,2026-08	aclOpExecutor	aclOpExecutor
type	8.1.RC1,2026-08	aclTensor	aclTensor
type	8.1.RC1,2026-08	aclnnStatus	int32_t
type	8.1.RC1,2026-08	aclrtStream	void *
type	8.1.RC1	info	struct tagInfo
type	8.1.RC1	pairAlias	pair
record	8.1.RC1	x/a.h	struct	pair	4	a:int32_t@0

# Constants, by enum and value
const	2026-08	color	GREEN	-1
const	8.1.RC1,2026-08	color	RED	0
const	8.1.RC1	color	BLUE	1
const	8.1.RC1	-	HUGE	18446744073709551614
const	8.1.RC1	-	VERSION	1
const	2026-08	-	VERSION	2

# Functions
func	8.1.RC1	x/foo.h	aclnnLoneGetWorkspaceSize	aclnnStatus	w:uint64_t *
func	8.1.RC1,2026-08	x/a.h	paint	aclError	color:color	p:void *	f:int ( *)(int)

# Operators: two functions each, the parameters are those of the first
op	custom	aclnn_bar.h	aclnnBar	x:aclTensor *
op	8.1.RC1	x/foo.h	aclnnFoo	x:const aclTensor *	lambda:bool	out:aclTensor *
op	2026-08	x/foo.h	aclnnFoo	x:const aclTensor *	lambd:bool	out:const aclTensor *
`

func writeDumps(t *testing.T, dumps ...string) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "extra.txt"), []byte(importExtra), 0o644))
	for i, d := range dumps {
		paths = append(paths, filepath.Join(dir, string(rune('a'+i))+".json"))
		require.NoError(t, os.WriteFile(paths[i], []byte(d), 0o644))
	}
	return dir, paths
}

func TestImport(t *testing.T) {
	dir, paths := writeDumps(t, importDumps...)
	require.NoError(t, importTables(dir, paths))
	got, err := os.ReadFile(filepath.Join(dir, "cann.txt"))
	require.NoError(t, err)
	assert.Equal(t, imported, string(got))
}

func TestImportRefuses(t *testing.T) {
	dir, paths := writeDumps(t, "{")
	var syntax *json.SyntaxError
	require.ErrorAs(t, importTables(dir, paths), &syntax)
	assert.ErrorContains(t, importTables(dir, []string{filepath.Join(dir, "absent.json")}), "absent.json")

	// A table that does not parse must not be written.
	dir, paths = writeDumps(t, `{"version": "8.1.RC1", "constants": {"A": 1}, "functions": {"f": {"ret": "nobody", "params": [], "header": "x/a.h"}}}`)
	var bad *abi.SyntaxError
	require.ErrorAs(t, importTables(dir, paths), &bad)
	assert.NoFileExists(t, filepath.Join(dir, "cann.txt"))
}

// TestImportReproducesTheTable compares the table with the dumps from which it was made, when
// CANN_ABI_DIR names a folder with them.
func TestImportReproducesTheTable(t *testing.T) {
	dumps := os.Getenv("CANN_ABI_DIR")
	if dumps == "" {
		t.Skip("CANN_ABI_DIR is not set")
	}
	want, err := os.ReadFile("../abi/table/cann.txt")
	require.NoError(t, err)
	extra, err := os.ReadFile("../abi/table/extra.txt")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "extra.txt"), extra, 0o644))
	var paths []string
	for _, name := range []string{"cann-8.1.RC1.json", "cann-2026-08.json", "custom-ops.json"} {
		paths = append(paths, filepath.Join(dumps, name))
	}
	require.NoError(t, importTables(dir, paths))
	got, err := os.ReadFile(filepath.Join(dir, "cann.txt"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}
