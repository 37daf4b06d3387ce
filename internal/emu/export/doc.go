// Package export is the C interface of the emulator: every symbol of CANN, which packs its
// arguments into 64-bit words and calls package machine.
//
// Lists of the functions of the table in package abi are generated. From them symbols.c makes the
// symbols, and the lookup by name that replaces dlsym when a program is built with the tag emu.
//
// The package contains no behaviour of CANN. Only cshim (tag emu) and the main package of
// the shared library import it:
//
//	if fn := export.Lookup("aclrtMalloc"); fn != 0 {
//		// call it from C
//	}
package export
