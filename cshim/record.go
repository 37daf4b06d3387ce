package cshim

import (
	"runtime"
	"unsafe"
)

// CallRecord calls a function whose first parameter is a record of more than 16 bytes by value, given
// as words, before the other parameters, at most five. By the rules of x86-64 the record stands
// on the stack, behind the parameters in registers; by those of AArch64 its address is the
// first parameter. Addresses in the record must not move during the call.
func CallRecord(f *Func, current uint64, record []uint64, rest ...uint64) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&record[0])
	var c Call
	if runtime.GOARCH == "arm64" {
		c.Args[0] = uint64(uintptr(unsafe.Pointer(&record[0])))
		copy(c.Args[1:], rest)
	} else {
		copy(c.Args[:integerRegisters], rest)
		copy(c.Args[integerRegisters:], record)
	}
	return c.Do(f, current)
}

// integerRegisters are those that x86-64 passes parameters in.
const integerRegisters = 6

// CallAddress calls a function that writes the address of an object on the device, its second
// parameter, for a handle, its first.
func CallAddress(f *Func, current, handle uint64) (address uint64, err error) {
	c := Call{Args: [Args]uint64{handle}, Out: 1 << 1}
	err = c.Do(f, current)
	return c.Args[1], err
}
