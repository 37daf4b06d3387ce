package kernel

/*
#cgo CFLAGS: -std=gnu11 -O3 -g1 -Wall -Wextra
#include "variant.h"
*/
import "C"

import (
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/knob"
)

// The packages with C include these headers, which Go does not know. It does know their text, as a part of this package, and
// compiles those packages again when it changes.
//
//go:embed *.h
var _ embed.FS

// Variants lists the kernel variants, best first.
var Variants = []string{"amx", "avx512bf16", "avx512", "avx2", "portable"}

var (
	variant  int               // in use, as C counts
	fast     bool              // whether results of 16 bits may depend on the variant
	onSelect []func(int, bool) // of the packages with C
)

// number returns C's number of a variant.
func number(i int) int { return len(Variants) - 1 - i }

// OnSelect calls use with the number of the variant in use (variant.h), and again when another one is selected. fast is
// that of SetFast. It is for the init functions of packages.
func OnSelect(use func(variant int, fast bool)) {
	onSelect = append(onSelect, use)
	use(variant, fast)
}

// SetFast chooses whether products of bfloat16 use units of the CPU whose sums have other bits than those of the other
// variants: AVX-512 BF16 and AMX. It must not be called while kernels run.
func SetFast(on bool) {
	fast = on
	for _, use := range onSelect {
		use(variant, fast)
	}
}

// Fast reports what SetFast chose; CANN_EMU_FAST at first.
func Fast() bool { return fast }

// Select chooses the kernel variant by name; "" chooses the best this CPU can run. It must
// not be called while kernels run.
func Select(name string) error {
	i := slices.IndexFunc(Variants, func(v string) bool { return name == "" || name == v })
	for ; i >= 0 && i < len(Variants); i++ {
		if C.variant_supported(C.int(number(i))) == 0 {
			if name == "" {
				continue
			}
			break
		}
		variant = number(i)
		for _, use := range onSelect {
			use(variant, fast)
		}
		return nil
	}
	return fmt.Errorf("kernel: variant %q is unknown or not supported by this CPU (have %v)", name, Variants)
}

// Variant returns the name of the variant in use.
func Variant() string { return Variants[number(variant)] }

// The reasons why CANN_EMU_CPU and CANN_EMU_FAST cannot be used.
var cpuError, fastError error

// An unusable CANN_EMU_CPU falls back to the best variant, because a library cannot report an
// error at start-up.
func init() {
	name := knob.Get("CANN_EMU_CPU")
	if Select(name) != nil {
		cpuError = fmt.Errorf("CANN_EMU_CPU=%q: this CPU cannot run it, or it is none of %v", name, Variants)
		_ = Select("")
	}
	switch value := knob.Get("CANN_EMU_FAST"); value {
	case "", "0":
	case "1":
		SetFast(true)
	default:
		fastError = fmt.Errorf("CANN_EMU_FAST=%q: it is 1, or 0 or nothing", value)
	}
}

// Misconfigured reports which variables of the environment cannot be used, or returns nil.
func Misconfigured() error { return errors.Join(thread.EnvError, cpuError, fastError) }
