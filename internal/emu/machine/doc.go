// Package machine is the emulator as one thing: the runtime, the operators and the collectives
// of a process behind the numbers that its C symbols have.
//
// Package export has the symbols; it packs their arguments into 64-bit words and calls a
// Machine with them. A function that no package implements returns its type's "not
// supported" code and leaves a text that names it for aclGetRecentErrMsg; so does a mistake
// in the emulator, instead of ending the program. Failures that CANN_EMU_FAULTS asks for and
// the trace of host calls begin here.
//
//	code := machine.Process().Call(thread, id, words)
//
// It holds no behaviour of CANN, and no C.
package machine
