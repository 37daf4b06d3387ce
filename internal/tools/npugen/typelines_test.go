package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// The lines of releases become one for each form, and types come with what they mention.
func TestTypeLines(t *testing.T) {
	table, err := abi.Parse(abi.Text{Name: "t", Data: "library\tlibx\tacl/\ntype\t8.1.RC1..\taclError\tint\nconst\t8.1.RC1..\tkind\tKIND_A\t0\noutside\thccl/in.h\tkernels\n"})
	require.NoError(t, err)
	lines := map[string]map[string]string{}
	for release, text := range map[string]string{
		abi.V850: "typedef int aclError;\nenum kind { KIND_A };\ntypedef struct { struct in_addr at; union { long n; } ; } place;\n#define ACL_SIZE 2\n#define SIZE (ACL_SIZE * 2)\n",
		abi.V900: "typedef int aclError;\nenum kind { KIND_A, KIND_B };\ntypedef struct { struct in_addr at; inner in; } place;\n#define ACL_SIZE 2\ntypedef void *(*maker)(place *);\n",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"acl/a.h": text, "hccl/in.h": "typedef struct { int n[2]; } inner;\ntypedef struct { int n; } other;\n"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		one, err := typeLines(table, release, dir)
		require.NoError(t, err)
		for name, line := range one {
			if lines[name] == nil {
				lines[name] = map[string]string{}
			}
			lines[name][release] = line
		}
	}
	for name, want := range map[string][]string{
		"KIND_B":   {"const\t9.0.0\tkind\tKIND_B\t1"},
		"ACL_SIZE": {"const\t8.5.0..9.0.0\t-\tACL_SIZE\t2"},
		"SIZE":     {"const\t8.5.0\t-\tSIZE\t4\tacl/a.h"},
		"maker":    {"type\t9.0.0\tmaker\tvoid *( *)(place *)"},
		"inner":    {"record\t9.0.0\tacl/a.h\tstruct\tinner\t8\tn:int[2]@0"},
		"place_1":  {"record\t8.5.0\tacl/a.h\tunion\tplace_1\t8\tn:long@0"},
		"place": {
			"record\t8.5.0\tacl/a.h\tstruct\tplace\t16\tat:struct in_addr@0\t:place_1@8", "record\t9.0.0\tacl/a.h\tstruct\tplace\t12\tat:struct in_addr@0\tin:inner@4",
		},
	} {
		forms, err := formsOf(lines[name])
		require.NoError(t, err)
		assert.Equal(t, want, forms, name)
		delete(lines, name)
	}
	assert.Empty(t, lines)
	_, err = formsOf(map[string]string{abi.V850: "type\tx\tint", abi.V900: "type\tx\tlong"})
	assert.ErrorContains(t, err, "releases have it as")
}
