package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// emptyLibraries lists libraries that programs link although the table has no function of theirs.
var emptyLibraries = []string{"libacl_rt_impl", "libprofapi", "libc_sec", "libruntime"}

// library is the code of all libraries: their functions load the emulator and jump into it.
//
//go:embed library.h
var library string

// homes returns the libraries that export a function. The functions of profiling, dumps, queues and channels are in
// libascendcl too, where older programs, and the binding, look for them. The runtime of 2026 is libacl_rt, and libascendcl keeps
// its functions. CANN 9 has some operators of the custom package itself; their headers are now with the
// other operators.
func homes(f *abi.Function) []string {
	list := []string{f.Library}
	switch {
	case slices.Contains([]string{"libmsprofiler", "libascend_dump", "libacl_tdt_channel", "libacl_tdt_queue"}, f.Library):
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
// The first call of one loads libcann_emu.so, whose Go runtime starts threads: until then a process may fork.
func stubs(t *abi.Table) files {
	out := files{}
	for l, names := range libraryFunctions(t) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n// The functions of %s.so, which are in libcann_emu.so.\n", generatedMark, l)
		if len(names) > 0 {
			b.WriteString("#define FUNCTIONS(F)")
			for i, name := range names {
				fmt.Fprintf(&b, " \\\n\tF(%d, %s)", i, name)
			}
			b.WriteString("\n\n" + library)
		}
		out[l+".c"] = []byte(b.String())
	}
	return out
}
