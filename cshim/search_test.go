//go:build !emu && linux && cgo && (amd64 || arm64)

package cshim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/cshim"
)

// build makes a shared object of C text.
func build(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	source := filepath.Join(t.TempDir(), "library.c")
	require.NoError(t, os.WriteFile(source, []byte(text), 0o644))
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O0", "-o", path, source).CombinedOutput()
	if err != nil {
		t.Skipf("gcc: %v\n%s", err, out)
	}
}

// answer calls a function without parameters that an operator library should have.
func answer(t *testing.T, name string) uint64 {
	t.Helper()
	var c cshim.Call
	v, err := c.Value(cshim.NewFunc(cshim.Op, name), 0)
	require.NoError(t, err)
	return v
}

// rerun runs the test again in a process with an installation of CANN that prepare makes in root.
// The folder is not removed before the test ends, in both processes.
func rerun(t *testing.T, prepare func(root string), body func(t *testing.T)) {
	root := os.Getenv("ASCEND_HOME_PATH")
	if os.Getenv("CSHIM_TEST") == "" {
		root = t.TempDir()
		prepare(root)
	}
	acltest.Rerun(t, body, "CSHIM_TEST=1", "LD_PRELOAD=", "ASCEND_HOME_PATH="+root, "ASCEND_TOOLKIT_HOME=",
		"ASCEND_OPP_PATH="+root+"/opp", "ASCEND_CUSTOM_OPP_PATH="+root+"/custom", "LD_LIBRARY_PATH="+root+"/elsewhere")
}

// TestSymbolsDoNotPreempt: a custom package comes first for the operators that it overrides, and its
// other functions do not replace those of the same name inside CANN's library.
func TestSymbolsDoNotPreempt(t *testing.T) {
	library := func(own string, n int) string {
		return fmt.Sprintf("int l0op_add(void) { return %d; } int aclnn%s(void) { return l0op_add(); } int aclnnBoth(void) { return l0op_add(); }", n, own)
	}
	rerun(t, func(root string) {
		build(t, root+"/custom/op_api/lib/libcust_opapi.so", library("Custom", 1))
		build(t, root+"/lib64/libopapi.so", library("Own", 2))
	}, func(t *testing.T) {
		require.EqualValues(t, 1, answer(t, "aclnnBoth"), "the custom package is asked first")
		require.EqualValues(t, 1, answer(t, "aclnnCustom"))
		require.EqualValues(t, 2, answer(t, "aclnnOwn"), "CANN's operator calls CANN's function")
	})
}

// TestOperatorLibraries: the libraries of operators of older and newer versions are found where they
// are, and asked in CANN's order.
func TestOperatorLibraries(t *testing.T) {
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	old := "opp/built-in/op_impl/ai_core/tbe/op_api/lib/linux/" + cpu
	order := []struct{ folder, name string }{ // each overrides the operators of those after it
		{"custom/op_api/lib", "libcust_opapi.so"}, {"lib64", "libopapi_math.so"}, {"elsewhere", "libopapi_nn.so"},
		{"lib64", "libopapi_transformer.so"}, {"lib64", "libopapi_novel.so"}, {"lib64", "libopapi_legacy.so"}, {"lib64", "libopapi.so"},
		{old, "libaclnn_ops_infer.so"}, {old, "libaclnn_ops_train.so"}, {old, "libaclnn_math.so"}, {"lib64", "libaclnn_sparse.so"},
		{"lib64", "libaclnn_fft.so"}, {"elsewhere", "libaclnn_rand.so"},
	}
	rerun(t, func(root string) {
		for i, l := range order {
			text := ""
			for j := range i + 1 { // an operator that this one and all before it have
				text += fmt.Sprintf("int aclnnFrom%d(void) { return %d; }\n", len(order)-1-j, i)
			}
			text += fmt.Sprintf("int aclnnOnly%d(void) { return %d; }\n", i, i)
			build(t, filepath.Join(root, l.folder, l.name), text)
		}
	}, func(t *testing.T) {
		for i := range order {
			require.EqualValues(t, i, answer(t, fmt.Sprintf("aclnnOnly%d", i)))
			require.EqualValues(t, len(order)-1-i, answer(t, fmt.Sprintf("aclnnFrom%d", i)))
		}
		opened, err := cshim.Opened(cshim.Op)
		require.NoError(t, err)
		require.Len(t, opened, len(order))
		for i, l := range order {
			require.Equal(t, l.name, filepath.Base(opened[i]))
		}
		var missing *cshim.SymbolError
		require.ErrorAs(t, cshim.NewFunc(cshim.Op, "aclnnNowhere").Available(), &missing)
		require.Len(t, missing.Tried, len(order))
	})
}

// TestSignalsStayGos: CANN is asked to leave the signals alone before a library of it is opened.
func TestSignalsStayGos(t *testing.T) {
	t.Setenv("ASCEND_COREDUMP_SIGNAL", "")
	require.NoError(t, os.Unsetenv("ASCEND_COREDUMP_SIGNAL"))
	rerun(t, func(root string) {
		build(t, root+"/lib64/libopapi.so", `#include <stdlib.h>
#include <string.h>
static int asked;
__attribute__((constructor)) static void look(void)
{
	const char *v = getenv("ASCEND_COREDUMP_SIGNAL");
	asked = v && !strcmp(v, "none");
}
int aclnnAsked(void) { return asked; }
`)
	}, func(t *testing.T) { require.EqualValues(t, 1, answer(t, "aclnnAsked")) })
}

// TestNoDriver: without the driver's library its functions are missing, and the error says where it was looked for.
func TestNoDriver(t *testing.T) {
	rerun(t, func(string) {}, func(t *testing.T) {
		var c cshim.Call
		err := c.Do(cshim.NewFunc(cshim.Driver, "dcmi_init"), 0)
		var missing *cshim.LibraryError
		require.ErrorAs(t, err, &missing)
		require.ErrorContains(t, err, "/usr/local/dcmi/libdcmi.so")
		require.ErrorContains(t, err, "install the driver")
	})
}

// TestDriver: a driver's library that CANN's folder has is found.
func TestDriver(t *testing.T) {
	rerun(t, func(root string) {
		build(t, root+"/lib64/libdcmi.so", "int dcmi_init(void) { return -8012; }")
	}, func(t *testing.T) {
		var c cshim.Call
		err := c.Do(cshim.NewFunc(cshim.Driver, "dcmi_init"), 0)
		var failed *cshim.Error
		require.ErrorAs(t, err, &failed)
		require.EqualValues(t, -8012, failed.Code)
	})
}
