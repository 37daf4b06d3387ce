package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

var updateLosses = flag.Bool("update", false, "write testdata/losses.txt")

// TestSameLosses trains models for 20 steps with each kernel variant of the emulator that this CPU has. The losses are
// those of testdata/losses.txt to the last bit, as they are on every other machine.
func TestSameLosses(t *testing.T) {
	if os.Getenv("CANN_EMU_FAST") == "1" {
		t.Skip("with CANN_EMU_FAST the bits of bfloat16 are those of the CPU")
	}
	if os.Getenv("CANN_EMU_API") != "" {
		t.Skip("an older CANN has other operators, which round elsewhere")
	}
	same := func(t *testing.T) {
		rt, err := acl.Open(acl.Config{})
		if errors.Is(err, acl.ErrNotInstalled) || err != nil && strings.Contains(err.Error(), "this CPU cannot run it") {
			t.Skip(err)
		}
		require.NoError(t, err)
		require.NoError(t, rt.Close())
		if !rt.Emulated() {
			t.Skip("a device adds up in an order of its own")
		}
		if *updateLosses {
			require.NoError(t, os.WriteFile("testdata/losses.txt", []byte(lossesOfModels(t)), 0o644))
		}
		recorded, err := os.ReadFile("testdata/losses.txt")
		require.NoError(t, err)
		require.Equal(t, string(recorded), lossesOfModels(t))
	}
	t.Run("as it is", same)
	for _, variant := range []string{"portable", "avx2", "avx512", "avx512bf16", "amx"} {
		if chosen := os.Getenv("CANN_EMU_CPU"); chosen != "" && chosen != variant || testing.Short() || *updateLosses {
			continue
		}
		t.Run(variant, func(t *testing.T) { acltest.Rerun(t, same, "CANN_EMU_CPU="+variant) })
	}
}

// lossesOfModels trains models and returns the losses of their steps, a line for each model and element type.
func lossesOfModels(t *testing.T) string {
	t.Helper()
	small := []string{"-layers", "2", "-experts", "4", "-expert-size", "32", "-full-interval", "2", "-batch", "2", "-seq", "32", "-steps", "20"}
	var b strings.Builder
	for _, dtype := range []string{"fp32", "bf16"} {
		for _, model := range []string{"qwen3", "qwen3_moe", "qwen3_next"} {
			path := filepath.Join(t.TempDir(), "run.jsonl")
			trained(t, smallFlags(append(small, "-model", model, "-dtype", dtype, "-log", path)...)...)
			f, err := os.Open(path)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s %s:", model, dtype)
			for d := json.NewDecoder(f); d.More(); {
				var e entry
				require.NoError(t, d.Decode(&e))
				fmt.Fprintf(&b, " %x", float32(e.Loss))
			}
			require.NoError(t, f.Close())
			b.WriteString("\n")
		}
	}
	return b.String()
}
