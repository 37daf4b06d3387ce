package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestHomes checks the libraries of functions that programs look for in more than one place.
func TestHomes(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	by := libraryFunctions(table, "")
	for name, libraries := range map[string][]string{
		"aclrtMalloc": {"libacl_rt", "libascendcl"}, "aclInit": {"libacl_rt", "libascendcl"}, "aclmdlLoadFromFile": {"libacl_mdl", "libascendcl"},
		"aclprofInit": {"libascendcl", "libmsprofiler"}, "aclCreateTensor": {"libnnopbase"}, "aclnnAddGetWorkspaceSize": {"libopapi", "libopapi_math"}, "aclnnAdd": {"libopapi", "libopapi_math"},
		"HcclAllReduce": {"libhccl"}, "aclopCompile": {"libacl_op_compiler"}, "aclnnSliceNz": {"libcust_opapi"}, "aclnnRecurrentGatedDeltaRule": {"libcust_opapi", "libopapi"}, "dcmi_init": {"libdcmi"},
	} {
		var found []string
		for _, l := range []string{"libacl_mdl", "libacl_op_compiler", "libacl_rt", "libascendcl", "libcust_opapi", "libdcmi", "libhccl", "libmsprofiler", "libnnopbase", "libopapi", "libopapi_math"} {
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

// TestLibrariesOfReleases checks that the SDK of a release has its libraries and functions, and the forms of its operators.
func TestLibrariesOfReleases(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for release, want := range map[string]struct{ functions, missing []string }{
		abi.V81RC1: {[]string{"libascendcl aclrtMalloc", "libascendcl aclmdlLoadFromFile", "libopapi aclnnAdd", "libhccl HcclCommInitAll"},
			[]string{"libacl_rt", "libacl_mdl", "libhcomm", "libopapi_math", "libopapi_nn", "libopapi_cv", "libopapi_transformer"}},
		abi.V850: {[]string{"libacl_rt aclrtMalloc", "libascendcl aclrtMalloc", "libacl_mdl aclmdlLoadFromFile", "libopapi_math aclnnAdd", "libopapi aclnnAdd",
			"libopapi_transformer aclnnFlashAttentionScore", "libopapi_cv aclnnRoiAlign", "libopapi_nn aclnnMatmul", "libhcomm HcclCommInitAll", "libhccl HcclAllReduce"}, []string{"libascendcl aclrtMemPoolCreate"}},
		abi.V900: {[]string{"libopapi_transformer aclnnAlltoAllvQuantGroupedMatMul"}, []string{"libascendcl aclrtMemManagedAdvise", "libhcomm HcclAllReduce"}},
		abi.V910: {[]string{"libacl_rt aclrtMemManagedAdvise"}, []string{"libacl_rt aclrtRecordEventWithFlag"}},
	} {
		by := libraryFunctions(table, release)
		for _, text := range want.functions {
			library, name, _ := strings.Cut(text, " ")
			assert.Contains(t, by[library], name, "%s of %s", library, release)
		}
		for _, text := range want.missing {
			library, name, _ := strings.Cut(text, " ")
			if name == "" {
				assert.NotContains(t, by, library, release)
			}
			assert.NotContains(t, by[library], name, "%s of %s", library, release)
		}
	}
	form := func(release string) int {
		out, err := headers(table, release, release)
		require.NoError(t, err)
		_, text, ok := strings.Cut(string(out["aclnnop/aclnn_allto_allv_quant_grouped_mat_mul.h"]), "aclnnAlltoAllvQuantGroupedMatMulGetWorkspaceSize(")
		require.True(t, ok)
		text, _, _ = strings.Cut(text, ";")
		return strings.Count(text, ",") + 1
	}
	assert.Equal(t, 31, form(abi.V900))
	assert.Equal(t, 27, form(abi.V910))
	out, err := headers(table, abi.V850, abi.V850)
	require.NoError(t, err)
	assert.NotContains(t, out, "aclnnop/aclnn_allto_allv_quant_grouped_mat_mul.h")
}

// TestStubs links a program with two stub libraries and runs it with the functions of a third
// library. The program names both libraries, and links with neither of them alone. Arguments of the first call
// arrive, wherever they are, and the third library is loaded by it.
func TestStubs(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	var core strings.Builder
	core.WriteString(`#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { puts("loaded"); }
int aclInit(const char *path) { return path ? 1 : 40; }
int aclnnAdd(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, double s, double t, double u, double v, double w, double x, double y, double z, double last)
{
	printf("%d %d %d %d %d %d %d %d %d %d %g %g %g %g %g %g %g %g %g\n", a, b, c, d, e, f, g, h, i, j, s, t, u, v, w, x, y, z, last);
	return 2;
}
`)
	for _, name := range table.Symbols() {
		if name != "aclInit" && name != "aclnnAdd" {
			core.WriteString("void " + name + "(void) {}\n")
		}
	}
	const program = `#include <stdio.h>
int aclInit(const char *);
int aclnnAdd(int, int, int, int, int, int, int, int, int, int, double, double, double, double, double, double, double, double, double);
int main(void)
{
	puts("started");
	fflush(stdout);
	return aclnnAdd(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, .5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5) + aclInit(0);
}
`
	for compiler, run := range map[string][]string{"gcc": nil, "aarch64-linux-gnu-gcc": {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"}} {
		t.Run(compiler, func(t *testing.T) {
			for _, needed := range append([]string{compiler}, run[:min(len(run), 1)]...) {
				if _, err := exec.LookPath(needed); err != nil {
					t.Skip(err)
				}
			}
			dir := t.TempDir()
			require.NoError(t, stubs(table, "").write(dir))
			gcc := func(args ...string) error {
				cmd := exec.Command(compiler, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Logf("%.500s", out)
				}
				return err
			}
			for name, text := range map[string]string{"core.c": core.String(), "main.c": program} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			require.NoError(t, gcc("-shared", "-fPIC", "-Wl,-soname,libcann_emu.so", "-o", "libcann_emu.so", "core.c"))
			for _, l := range []string{"libascendcl", "libopapi", "libc_sec"} {
				require.NoError(t, gcc("-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-Wl,-soname,"+l+".so", "-Wl,-rpath,$ORIGIN", "-o", l+".so", l+".c", "-ldl"))
			}
			require.Error(t, gcc("main.c", "-L.", "-lascendcl", "-o", "half"), "the operators are in libopapi")
			require.NoError(t, gcc("main.c", "-L.", "-lascendcl", "-lopapi", "-o", "program"))
			file, err := elf.Open(filepath.Join(dir, "program"))
			require.NoError(t, err)
			defer file.Close()
			needed, err := file.ImportedLibraries()
			require.NoError(t, err)
			require.Subset(t, needed, []string{"libascendcl.so", "libopapi.so"})
			require.NotContains(t, needed, "libcann_emu.so", "the name is not one of CANN's")
			command := append(slices.Clone(run), filepath.Join(dir, "program"))
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
			out, err := cmd.Output()
			require.Error(t, err)
			require.Equal(t, 42, cmd.ProcessState.ExitCode())
			require.Equal(t, "started\nloaded\n1 2 3 4 5 6 7 8 9 10 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5\n", string(out))
		})
	}
}
