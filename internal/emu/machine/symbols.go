package machine

// #include <stdint.h>
import "C"

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/export"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/rt"
)

// The numbers of package export must agree with those of others: a difference does not compile.
const _ = uint(export.ThreadSize - rt.ThreadSize)

var (
	_ = [1]struct{}{}[export.Custom-nn.MostCustom]
	_ = [1]struct{}{}[export.CustomWords-nn.MostCustomParams-2]
	_ = [1]struct{}{}[export.OperatorFailure-abi.ACLNN_ERR_INNER]
)

// Lookup returns the address of a CANN function, or 0. It replaces dlsym. It does not find functions
// that CANN got after the release of CANN_EMU_API, except operators that the release has with other parameters.
func Lookup(name string) uintptr {
	switch address, since := export.Lookup(name); {
	case address == 0:
		return custom(name)
	case isForeign(strings.TrimSuffix(name, abi.PhaseOne)):
		return address
	case since > release():
		return 0
	default:
		return address
	}
}

// isForeign reports whether the release of CANN_EMU_API has an operator with other parameters than the emulator.
func isForeign(symbol string) bool {
	return slices.Contains(foreign[symbol], abi.Releases()[release()])
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
		return export.Prepare(n, words)
	}
	return export.Execute(n)
}

// export.c of package export calls the functions below. t is the block of the calling OS thread, or null when there
// was no memory for one; then the call cannot store an error text.

//export emuCall
func emuCall(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return C.uint64_t(Absent(int(id)))
	}
	return C.uint64_t(Process().Call((*rt.Thread)(t), int(id), unsafe.Slice((*uint64)(words), n)))
}

//export emuPrepare
func emuPrepare(t unsafe.Pointer, id C.int, words *C.uint64_t, n C.int) C.uint64_t {
	if t == nil {
		return C.uint64_t(abi.ACLNN_ERR_INNER)
	}
	return C.uint64_t(Process().Prepare((*rt.Thread)(t), int(id), unsafe.Slice((*uint64)(words), n)))
}

//export emuExecute
func emuExecute(t unsafe.Pointer, id C.int, workspace, size, executor, stream C.uint64_t) C.uint64_t {
	if t == nil {
		return C.uint64_t(abi.ACLNN_ERR_INNER)
	}
	return C.uint64_t(Process().Execute((*rt.Thread)(t), int(id), uint64(workspace), uint64(size), uint64(executor), uint64(stream)))
}
