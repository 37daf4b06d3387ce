package queue

import "github.com/goascend/cann/internal/emu/rt"

// Runtime adds the functions of queues to a runtime.
type Runtime struct {
	*rt.Runtime
	queues queues
}

// New returns the queue functions for the runtime of a process.
func New(r *rt.Runtime) *Runtime {
	q := &Runtime{Runtime: r}
	r.AtFinalize(q.queues.close)
	return q
}
