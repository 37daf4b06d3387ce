package export

/*
#cgo CFLAGS: -g0 -O0 -Wall -Wextra
#include <stdlib.h>
#include "export.h"
*/
import "C"

import (
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/machine"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/rt"
)

// The block that export.h reserves per OS thread must hold an rt.Thread.
const _ = uint(C.EMU_THREAD_SIZE - rt.ThreadSize)

// Lookup returns the address of an exported CANN function, or 0. It replaces dlsym. With
// CANN_EMU_API=8.1.RC1 it does not find functions that CANN added after that version.
func Lookup(name string) uintptr {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	s := C.emu_lookup(c)
	if s == nil {
		return custom(name)
	}
	if s.later != 0 && machine.OldAPI() {
		return 0
	}
	return uintptr(s.address)
}

// custom returns the address of a phase of an operator that the program has registered, or 0.
func custom(symbol string) uintptr {
	operator, isOperator := strings.CutPrefix(symbol, "aclnn")
	operator, one := strings.CutSuffix(operator, abi.PhaseOne)
	n, words, ok := nn.Custom(operator)
	switch {
	case !isOperator || !ok:
		return 0
	case one:
		return uintptr(C.emu_custom_prepare(C.int(n), C.int(words)))
	}
	return uintptr(C.emu_custom_execute(C.int(n)))
}

// The numbers of package nn and of export.h must agree: a difference does not compile.
var (
	_ = [1]struct{}{}[C.EMU_CUSTOM-nn.MostCustom]
	_ = [1]struct{}{}[C.EMU_CUSTOM_WORDS-nn.MostCustomParams-2]
)

// export.c calls the functions below. t is the block of the calling OS thread, or null when there
// was no memory for one; then the call cannot store an error text.

//export emuCall
func emuCall(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return C.uint64_t(machine.Absent(int(id)))
	}
	return C.uint64_t(machine.Process().Call((*rt.Thread)(t), int(id), unsafe.Slice((*uint64)(words), n)))
}

//export emuPrepare
func emuPrepare(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return C.uint64_t(abi.ACLNN_ERR_INNER)
	}
	return C.uint64_t(machine.Process().Prepare((*rt.Thread)(t), int(id), unsafe.Slice((*uint64)(words), n)))
}

//export emuExecute
func emuExecute(t unsafe.Pointer, id C.int, workspace, size, executor, stream C.uint64_t) C.uint64_t {
	if t == nil {
		return C.uint64_t(abi.ACLNN_ERR_INNER)
	}
	return C.uint64_t(machine.Process().Execute((*rt.Thread)(t), int(id), uint64(workspace), uint64(size), uint64(executor), uint64(stream)))
}
