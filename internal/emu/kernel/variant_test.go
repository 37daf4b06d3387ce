package kernel_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/kernel"
)

// TestVariants reports which kernel variants the tests cover on this machine. Tests with
// EachVariant cover all variants of the CPU, and the others only the one in use, which
// CANN_EMU_CPU selects.
func TestVariants(t *testing.T) {
	used := kernel.Variant()
	defer func() { require.NoError(t, kernel.Select(used)) }()
	var have, lack []string
	for _, v := range kernel.Variants {
		if kernel.Select(v) == nil {
			have = append(have, v)
			require.Equal(t, v, kernel.Variant())
		} else {
			lack = append(lack, v)
		}
	}
	t.Logf("this CPU has the kernel variants %s; it lacks %s; in use is %s", strings.Join(have, ", "), strings.Join(append(lack, "none")[:max(len(lack), 1)], ", "), used)
	require.Contains(t, have, "portable", "it runs everywhere")
	want := have[0] // the best
	if asked := os.Getenv("CANN_EMU_CPU"); slices.Contains(have, asked) {
		want = asked
	}
	require.Equal(t, want, used)
	require.Error(t, kernel.Select("sse9"))
}

// TestMisconfigured: a library cannot refuse a value when it is loaded, so that the first call does, and names all of them.
func TestMisconfigured(t *testing.T) {
	if os.Getenv("CANN_EMU_FAST") == "yes" {
		t.Fatal(kernel.Misconfigured())
	}
	child := exec.Command(os.Args[0], "-test.run=^TestMisconfigured$")
	child.Env = append(os.Environ(), "CANN_EMU_FAST=yes", "CANN_EMU_CPU=sse9")
	out, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `CANN_EMU_FAST="yes"`)
	require.Contains(t, string(out), `CANN_EMU_CPU="sse9"`)
}
