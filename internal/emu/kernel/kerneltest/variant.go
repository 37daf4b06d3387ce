package kerneltest

import (
	"testing"

	"github.com/goascend/cann/internal/emu/kernel"
)

// EachVariant runs a test with every kernel variant this CPU can run, and selects the
// variant of before again.
func EachVariant(t *testing.T, f func(t *testing.T)) {
	before := kernel.Variant()
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
