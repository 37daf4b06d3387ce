// Package export is the C interface of the emulator: every symbol of CANN, which packs its
// arguments into 64-bit words and calls package machine.
//
// Lists of the functions of the table in package abi are generated. From them symbols.c makes the
// symbols, and the lookup by name that replaces dlsym when a program is built with the tag emu.
//
// The package contains no behaviour of CANN. Its C, which takes gcc long, is compiled before the emulator,
// because it imports nothing of it: only package machine imports export, and has the Go functions that
// the C code calls. Without machine a program does not link.
//
//	address, since := export.Lookup("aclrtMalloc")
package export
