package kerneltest

import (
	"os"
	"testing"

	"github.com/goascend/cann/internal/emu/kernel"
)

// EachVariant runs a test with every kernel variant that this CPU can run, and those with products of bfloat16 of their own
// also with kernel.SetFast. Then it selects the previous variant again. If CANN_EMU_CPU is set, it runs only the variant in
// use, or none with -short, since a run without CANN_EMU_CPU has it.
func EachVariant(t *testing.T, f func(t *testing.T)) {
	before, fast := kernel.Variant(), kernel.Fast()
	if os.Getenv("CANN_EMU_CPU") != "" {
		if testing.Short() {
			t.Skip("a run without CANN_EMU_CPU has it")
		}
		t.Run(before, f)
		return
	}
	run := func(name, variant string, fast bool) {
		t.Run(name, func(t *testing.T) {
			if err := kernel.Select(variant); err != nil {
				t.Skip(err)
			}
			kernel.SetFast(fast)
			f(t)
		})
	}
	defer func() {
		kernel.SetFast(fast)
		if err := kernel.Select(before); err != nil {
			t.Error(err)
		}
	}()
	for _, v := range kernel.Variants {
		run(v, v, fast)
		if !fast && (v == "amx" || v == "avx512bf16") {
			run(v+" fast", v, true)
		}
	}
}
