// Package export is the C interface of the emulator: every symbol of CANN, which packs its
// arguments into 64-bit words and calls package machine.
//
// Lists of the functions of the table in package abi are generated. From them symbols.c makes the
// symbols, and the lookup by name that replaces dlsym when a program is built with the tag emu.
//
// The package contains no behaviour of CANN. Package machine imports it and has the Go functions
// that it calls, so that its C, which takes gcc long, is compiled before the emulator and not after it:
//
//	address, later := export.Lookup("aclrtMalloc")
package export
