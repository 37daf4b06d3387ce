// Package rt is the emulated ACL runtime: devices, contexts, streams, events, memory,
// host functions and error text, with the codes CANN answers (one Go function per C
// function, keyed by the C name in Functions).
//
// It knows nothing of operators or collectives, and no package above cshim knows it. C
// types end at package export: here every argument is a 64-bit word.
package rt
