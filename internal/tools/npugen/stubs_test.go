package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestHomes checks the libraries of functions that programs look for in more than one place.
func TestHomes(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	by := libraryFunctions(table)
	for name, libraries := range map[string][]string{
		"aclrtMalloc": {"libacl_rt", "libascendcl"}, "aclInit": {"libacl_rt", "libascendcl"}, "aclmdlLoadFromFile": {"libascendcl"},
		"aclprofInit": {"libascendcl", "libmsprofiler"}, "aclCreateTensor": {"libnnopbase"}, "aclnnAddGetWorkspaceSize": {"libopapi"}, "aclnnAdd": {"libopapi"},
		"HcclAllReduce": {"libhccl"}, "aclopCompile": {"libacl_op_compiler"}, "aclnnSliceNz": {"libcust_opapi"}, "aclnnRecurrentGatedDeltaRule": {"libcust_opapi", "libopapi"}, "dcmi_init": {"libdcmi"},
	} {
		var found []string
		for _, l := range []string{"libacl_op_compiler", "libacl_rt", "libascendcl", "libcust_opapi", "libdcmi", "libhccl", "libmsprofiler", "libnnopbase", "libopapi"} {
			for _, f := range by[l] {
				if f == name {
					found = append(found, l)
				}
			}
		}
		assert.Equal(t, libraries, found, name)
	}
	all := map[string]bool{}
	for _, names := range by {
		for _, name := range names {
			all[name] = true
		}
	}
	assert.Len(t, all, len(table.Symbols()), "every function has a library")
}

// TestStubs links a program with two stub libraries and runs it with the functions of a third
// library. The program names both libraries, and links with neither of them alone.
func TestStubs(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	table, err := abi.Load()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, stubs(table).write(dir))
	gcc := func(args ...string) error {
		cmd := exec.Command("gcc", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%.500s", out)
		}
		return err
	}
	for name, text := range map[string]string{
		"core.c": "int aclInit(const char *path) { return path ? 1 : 40; }\nint aclnnAdd(void) { return 2; }\n",
		"main.c": "int aclInit(const char *);\nint aclnnAdd(void);\nint main(void) { return aclInit(0) + aclnnAdd(); }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, gcc("-shared", "-fPIC", "-Wl,-soname,libcann_emu.so", "-o", "libcann_emu.so", "core.c"))
	for _, l := range []string{"libascendcl", "libopapi", "libc_sec"} {
		require.NoError(t, gcc("-Wall", "-Wextra", "-Werror", "-shared", "-nostdlib", "-fPIC", "-Wl,-soname,"+l+".so", "-Wl,--filter,libcann_emu.so", "-Wl,-rpath,$ORIGIN", "-o", l+".so", l+".c"))
	}
	require.Error(t, gcc("main.c", "-L.", "-lascendcl", "-o", "half"), "the operators are in libopapi")
	require.NoError(t, gcc("main.c", "-L.", "-lascendcl", "-lopapi", "-o", "program"))
	program, err := elf.Open(filepath.Join(dir, "program"))
	require.NoError(t, err)
	defer program.Close()
	needed, err := program.ImportedLibraries()
	require.NoError(t, err)
	require.Subset(t, needed, []string{"libascendcl.so", "libopapi.so"})
	require.NotContains(t, needed, "libcann_emu.so", "the name is not one of CANN's")
	cmd := exec.Command(filepath.Join(dir, "program"))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	err = cmd.Run()
	require.Error(t, err)
	require.Equal(t, 42, cmd.ProcessState.ExitCode())
}
