package kernel

/*
#cgo CFLAGS: -std=gnu11 -O3 -g1 -Wall -Wextra
#cgo LDFLAGS: -lm
#include <stdlib.h>
#include "kernel.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/emu/knob"
)

// Variants lists the kernel variants of amd64 and of arm64, best first.
var Variants = []string{"amx", "avx512bf16", "avx512", "avx2", "neonbf16", "neondot", "portable"}

// Select chooses the kernel variant by name; "" chooses the best this CPU can run. It must
// not be called while kernels run.
func Select(name string) error {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	if C.kernel_select(s) != 0 {
		return fmt.Errorf("kernel: variant %q is unknown or not supported by this CPU (have %v)", name, Variants)
	}
	return nil
}

// Variant returns the name of the variant in use.
func Variant() string { return C.GoString(C.kernels.name) }

// cpuError says why CANN_EMU_CPU cannot be used.
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

// Misconfigured says which variables of the environment cannot be used, or returns nil.
func Misconfigured() error { return errors.Join(threadsError, cpuError) }
