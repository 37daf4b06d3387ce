// Package cshim is the only package with C that faces CANN. It finds C functions by name,
// makes runtime calls and launches operators, each in one crossing from Go to C.
//
// By default the functions come from CANN's libraries through dlopen, lazily; a missing
// library or symbol is an error value that lists what was tried. With the build tag emu
// they come from the emulator linked into the program. Everything above is the same code.
// On systems other than Linux, on processors other than amd64 and arm64, and without cgo the
// package compiles with the same API and finds nothing, with the tag or without: every call
// returns a *LibraryError that names where the program can run.
//
// The package knows no function's meaning: acl, aclnn and hccl name the functions and
// give the errors their meaning. Use those; this package is for programs that bind a C
// function that those lack.
//
//	var memInfo = cshim.NewFunc(cshim.ACL, "aclrtGetMemInfo")
//
//	c := cshim.Call{Args: [12]uint64{1}, Out: 1<<1 | 1<<2}
//	if err := c.Do(memInfo, context); err != nil {
//		return err // *cshim.Error, *cshim.SymbolError or *cshim.LibraryError
//	}
//	free, total := c.Args[1], c.Args[2]
//
// No rule about OS threads reaches the caller: the context rides with each call, and the
// shim makes it current on the thread that happens to run the call.
package cshim
