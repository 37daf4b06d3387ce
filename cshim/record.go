package cshim

import (
	"runtime"
	"unsafe"
)

// WithRecord returns the words of a call whose first parameter is a record of more than 16 bytes by
// value, before at most five others. By the rules of x86-64 the record stands on the stack, behind
// the parameters in registers; by those of AArch64 its address, which must not move during the
// call, is the first parameter. The size is a multiple of 8.
func WithRecord(record unsafe.Pointer, size uintptr, rest ...uint64) (args [Args]uint64) {
	if runtime.GOARCH == "arm64" {
		args[0] = uint64(uintptr(record))
		copy(args[1:], rest)
		return args
	}
	copy(args[:integerRegisters], rest)
	copy(args[integerRegisters:], unsafe.Slice((*uint64)(record), size/8))
	return args
}

// integerRegisters are those that x86-64 passes parameters in.
const integerRegisters = 6
