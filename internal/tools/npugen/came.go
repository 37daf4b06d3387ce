package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi"
)

// runtimeLibraries are the libraries of the runtime's functions, which older programs find in libascendcl.
var runtimeLibraries = []string{"libascendcl", "libascend_dump", "libacl_tdt_channel", "libacl_tdt_queue"}

// emitReleases generates the functions of the runtime by the release that they came with, by which package cshim
// finds the installed one, and the operators that a release has in another form, by which the emulator refuses them.
func emitReleases(out files, t *abi.Table) error {
	var b bytes.Buffer
	b.WriteString(generatedMark + "\npackage cshim\n\n// came lists the releases of CANN, oldest first, each with the functions of the runtime that came with it.\n" +
		"var came = []struct {\n\trelease   string\n\tfunctions []string\n}{\n")
	for _, release := range abi.Releases()[:len(abi.Releases())-1] {
		fmt.Fprintf(&b, "\t{%q, []string{", release)
		for _, f := range t.Functions {
			// No program needs to know whether there is a release before the first.
			if release != abi.V81RC1 && f.Since() == release && slices.Contains(runtimeLibraries, f.Library) {
				fmt.Fprintf(&b, "\n\t\t%q,", f.Name)
			}
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	if err := out.golang("cshim/zz_releases.go", b.Bytes()); err != nil {
		return err
	}
	b.Reset()
	b.WriteString(generatedMark + "\npackage machine\n\n// foreign lists the releases that have another form of an operator under its symbol.\nvar foreign = map[string][]string{\n")
	for i := range t.Operators {
		if releases := t.Operators[i].Foreign(); len(releases) > 0 {
			fmt.Fprintf(&b, "\t%q: %#v,\n", t.Operators[i].Symbol, releases)
		}
	}
	b.WriteString("}\n")
	return out.golang(machineDir+"zz_foreign.go", b.Bytes())
}
