// Package machine assembles the emulator: the runtime, the operators and the collectives of a
// process, which it calls by the numbers of their C symbols.
//
// Package export defines the symbols; it packs their arguments into 64-bit words and calls a
// Machine with them. A function that no package implements returns its type's "not
// supported" code and sets a text that names it for aclGetRecentErrMsg. A bug in the
// emulator does the same instead of ending the program. The package also injects the failures
// of CANN_EMU_FAULTS and records the trace of host calls.
//
//	code := machine.Process().Call(thread, id, words)
//
// It contains no behaviour of CANN. The functions that C code calls are in symbols.go.
package machine
