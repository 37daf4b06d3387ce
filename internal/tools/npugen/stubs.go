package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// emptyLibraries lists libraries that programs link although the table has no function of theirs.
var emptyLibraries = []string{"libacl_rt_impl", "libprofapi", "libc_sec"}

// homes returns the libraries that export a function. The functions of profiling are in libascendcl
// too, where older programs look for them. The runtime of 2026 is libacl_rt, and libascendcl keeps
// its functions. CANN 9 has some operators of the custom package itself; their headers are now with the
// other operators.
func homes(f *abi.Function) []string {
	list := []string{f.Library}
	switch {
	case f.Library == "libmsprofiler":
		list = append(list, "libascendcl")
	case f.Library == "libascendcl" && slices.Contains(f.Versions, abi.Unreleased):
		list = append(list, "libacl_rt")
	case f.Library == "libcust_opapi" && otherHeaders["aclnnop/"+f.Header] != "":
		list = append(list, "libopapi")
	}
	return list
}

// libraryFunctions returns the names of the functions that each library exports, sorted.
func libraryFunctions(t *abi.Table) map[string][]string {
	by := make(map[string][]string)
	for _, l := range emptyLibraries {
		by[l] = nil
	}
	for _, f := range t.AllFunctions() {
		for _, l := range homes(&f) {
			by[l] = append(by[l], f.Name)
		}
	}
	return by
}

// stubs returns a C file for each of CANN's libraries. It defines the functions of the library, so
// that a program that is linked with it names the library that has them in a CANN installation too.
// The library is a filter (DT_FILTER) for the emulator's own library: the dynamic linker takes the
// functions from there, and the definitions here never run.
func stubs(t *abi.Table) files {
	out := files{}
	for l, names := range libraryFunctions(t) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n// The names of %s.so. The functions are in libcann_emu.so, for which this library is a filter.\n", generatedMark, l)
		for _, name := range names {
			fmt.Fprintf(&b, "void %s(void) { __builtin_trap(); }\n", name)
		}
		out[l+".c"] = []byte(b.String())
	}
	return out
}
