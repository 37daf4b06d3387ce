// Package export is the C face of the emulator: every symbol of CANN's interface, packed
// into 64-bit words and handed to package machine.
//
// The symbols, one per function of the table in package abi, are generated; so is the
// look-up by name that stands in for dlsym when a program is built with the tag emu.
//
// The package holds no behaviour of CANN. Nothing but cshim (tag emu) and the main package
// of the shared library imports it:
//
//	if fn := export.Lookup("aclrtMalloc"); fn != 0 {
//		// call it from C
//	}
package export
