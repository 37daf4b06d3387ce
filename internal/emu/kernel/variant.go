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
	variant  int         // in use, as C counts
	onSelect []func(int) // of the packages with C
)

// number returns C's number of a variant.
func number(i int) int { return len(Variants) - 1 - i }

// OnSelect calls use with the number of the variant in use (variant.h), and again when another one is selected. It is for
// the init functions of packages.
func OnSelect(use func(variant int)) {
	onSelect = append(onSelect, use)
	use(variant)
}

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
			use(variant)
		}
		return nil
	}
	return fmt.Errorf("kernel: variant %q is unknown or not supported by this CPU (have %v)", name, Variants)
}

// Variant returns the name of the variant in use.
func Variant() string { return Variants[number(variant)] }

// cpuError is the reason why CANN_EMU_CPU cannot be used.
var cpuError error

// An unusable CANN_EMU_CPU falls back to the best variant, because a library cannot report an
// error at start-up.
func init() {
	name := knob.Get("CANN_EMU_CPU")
	if Select(name) != nil {
		cpuError = fmt.Errorf("CANN_EMU_CPU=%q: this CPU cannot run it, or it is none of %v", name, Variants)
		_ = Select("")
	}
}

// Misconfigured reports which variables of the environment cannot be used, or returns nil.
func Misconfigured() error { return errors.Join(thread.EnvError, cpuError) }
