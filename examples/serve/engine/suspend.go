package engine

// Suspend takes the engine out of service, for instance because its device has an alarm: its requests end with
// ErrDevice after the step that runs, and it takes no others. A nil reason puts it back.
func (e *Engine) Suspend(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out = why
	if why != nil {
		e.out = failed(why)
	}
}

// suspended returns why the engine is out of service, or nil.
func (e *Engine) suspended() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out
}
