package describe

import "github.com/goascend/cann/internal/emu/rt"

// Runtime adds the functions of descriptions to a runtime.
type Runtime struct {
	*rt.Runtime
}

// New returns the functions for the runtime of a process.
func New(r *rt.Runtime) *Runtime { return &Runtime{r} }
