package profile

import "github.com/goascend/cann/internal/emu/rt"

// Runtime adds the functions of the profiler and of marks to a runtime.
type Runtime struct {
	*rt.Runtime
	profiler profiler
	marks    marks
}

// New returns the functions for the runtime of a process.
func New(r *rt.Runtime) *Runtime { return &Runtime{Runtime: r} }
