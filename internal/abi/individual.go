package abi

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed individual.txt
var individualText string

var individuals = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for line := range strings.Lines(individualText) {
		if !strings.HasPrefix(line, "#") {
			for _, name := range strings.Fields(line) {
				names[name] = true
			}
		}
	}
	return names
})

// Individual reports whether an operator, named without prefix, has an NNOPBASE executor. All threads
// share the cache of these, and their tensors are addressed by index. The other operators are
// composed of such kernels by hand-written host code.
func Individual(operator string) bool { return individuals()[operator] }
