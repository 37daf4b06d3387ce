package rt

// Runtime is the state of one emulated process: what CANN keeps behind its C functions.
type Runtime struct {
	Handles Handles
}

// New returns a runtime that is not initialised yet; devices are made on first use.
func New() *Runtime { return &Runtime{} }
