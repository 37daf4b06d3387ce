package kerneltest

import (
	"os"
	"testing"

	"github.com/goascend/cann/internal/emu/kernel"
)

// EachVariant runs a test with every kernel variant that this CPU can run, and then selects the
// previous variant again. If CANN_EMU_CPU is set, it runs only the variant in use, or none with -short,
// since a run without CANN_EMU_CPU has it.
func EachVariant(t *testing.T, f func(t *testing.T)) {
	before := kernel.Variant()
	if os.Getenv("CANN_EMU_CPU") != "" {
		if testing.Short() {
			t.Skip("a run without CANN_EMU_CPU has it")
		}
		t.Run(before, f)
		return
	}
	for _, v := range kernel.Variants {
		t.Run(v, func(t *testing.T) {
			if err := kernel.Select(v); err != nil {
				t.Skip(err)
			}
			defer func() {
				if err := kernel.Select(before); err != nil {
					t.Error(err)
				}
			}()
			f(t)
		})
	}
}
