package graph

import (
	"sync/atomic"

	"github.com/goascend/cann/internal/emu/rt"
)

// Runtime adds the functions of graphs to a runtime.
type Runtime struct {
	*rt.Runtime
	count atomic.Int32 // last id
}

// New returns the graph functions for the runtime of a process.
func New(r *rt.Runtime) *Runtime { return &Runtime{Runtime: r} }
