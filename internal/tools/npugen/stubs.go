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

// homes returns the libraries that export a function in a release, of any release if it is "". The functions of
// profiling, dumps, queues and channels are in libascendcl too, where older programs, and the binding, look for them.
// CANN 9 has some operators of the custom package itself; their headers are now with the other operators.
func homes(t *abi.Table, f *abi.Function, release string) []string {
	list := t.Libraries(f, release)
	switch {
	case slices.Contains([]string{"libmsprofiler", "libascend_dump", "libacl_tdt_channel", "libacl_tdt_queue"}, f.Library):
		list = append(list, "libascendcl")
	case f.Library == "libcust_opapi" && otherHeaders["aclnnop/"+f.Header] != "":
		list = append(list, "libopapi")
	}
	return list
}

// outside lists the libraries that are no part of a release: of the driver, of operator packages, and of sources that
// users build.
var outside = []string{"libdcmi", "libcust_opapi", "libops_blas", "libcann_ops_fft"}

// has reports whether a release has a function, with whatever parameters.
func has(f *abi.Function, release string) bool {
	return release == "" || slices.Contains(outside, f.Library) || slices.Contains(f.Versions, release) || slices.Contains(f.Foreign(), release)
}

// libraryFunctions returns the names of the functions that each library of a release exports, sorted; with "" of all
// releases together.
func libraryFunctions(t *abi.Table, release string) map[string][]string {
	by := make(map[string][]string)
	for _, l := range emptyLibraries {
		by[l] = nil
	}
	for _, f := range t.AllFunctions() {
		if !has(&f, release) {
			continue
		}
		for _, l := range homes(t, &f, release) {
			by[l] = append(by[l], f.Name)
		}
	}
	return by
}

// stubs returns a C file for each of CANN's libraries. It defines the functions of the library, so
// that a program that is linked with it names the library that has them in a CANN installation too.
// The first call of one loads libcann_emu.so, whose Go runtime starts threads: until then a process may fork.
func stubs(t *abi.Table, release string) files {
	out := files{}
	for l, names := range libraryFunctions(t, release) {
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
