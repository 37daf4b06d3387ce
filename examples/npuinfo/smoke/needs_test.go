package smoke

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

//go:generate go test -tags emu -run ^TestRun$ . -update

var update = flag.Bool("update", false, "write zz_needs.txt")

// TestRun tries everything in one process: every operator has a case, and every kernel that takes its
// case gives the reference's result. The calls of the kernels in the emulator's trace are those that were
// recorded.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("all kernels run, and all devices")
	}
	acltest.Need(t)
	dir := goldenDir(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	acltest.Rerun(t, func(t *testing.T) { tryAll(t, dir) }, "CANN_EMU_TRACE="+path, "CANN_GOLDEN_DIR="+dir, "CANN_EMU_DEVICES=3")
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return // in the process of the body, whose trace is the other's, or without the emulator
	}
	require.NoError(t, err)
	defer file.Close()
	events, err := ReadTrace(file)
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, NeedsOf(events).Write(&now))
	if *update {
		require.NoError(t, os.WriteFile("zz_needs.txt", now.Bytes(), 0o644))
		return
	}
	if os.Getenv("CANN_EMU_API") == "" && os.Getenv("CANN_EMU_SOC") == "" {
		require.Equal(t, needsText, now.String(), "kernels make other calls; run go generate ./examples/npuinfo/smoke")
	}
}

func tryAll(t *testing.T, dir string) {
	t.Helper()
	var progress bytes.Buffer
	r := Run(t.Context(), Config{Golden: dir, Progress: &progress})
	t.Log(progress.String())
	require.Empty(t, r.Problems)
	require.Empty(t, acl.Live())
	fits := map[string]bool{}
	for _, x := range r.Results {
		require.False(t, x.Verdict.Bad(), "%+v", x)
		if x.Verdict == OK {
			fits[x.Op+" "+x.DType] = true
			require.Positive(t, x.First, x.Name())
			require.Positive(t, x.Host, x.Name())
		} else {
			require.NotEmpty(t, x.Reason, x.Name())
		}
	}
	for _, name := range []string{"attention", "attention_grad", "grouped_matmul", "rms_norm", "moe_experts_grad", "gated_delta", "adamw", "load_balance", "add_rms_norm", "adamw_list"} {
		require.True(t, fits[name+" float32"], name)
	}
	require.True(t, fits["slice_to_nz bfloat16"] && fits["linear bfloat16"] && fits["moe_unpermute_grad bfloat16"])
	require.Empty(t, r.Untried, "operators without a case")
	var names []string
	for _, m := range r.Measures {
		require.Positive(t, m.Value, m.Name)
		names = append(names, m.Name)
	}
	require.Contains(t, names, "launch, the first of a shape")
	require.Contains(t, names, "copy of 32 MiB, device to itself")
	require.True(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "all_reduce of 4 MiB") }), names)
}

func TestCallText(t *testing.T) {
	for _, text := range []string{"Sort(self:int64)", "Zero()", "Add(self:bfloat16 other:float32)"} {
		c, ok := parseCall(text)
		require.True(t, ok)
		require.Equal(t, text, c.String())
	}
}
