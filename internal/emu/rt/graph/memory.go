package graph

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/rt"
)

// allocation is memory on which a captured task works.
type allocation struct {
	name         string // of the argument
	addr, serial uint64
}

// watched returns a task that fails when it runs after its memory was freed. A device does not
// notice that the address belongs to another allocation now, and neither does the emulator without
// a sanitizer.
func (r *Runtime) watched(task rt.Task) rt.Task {
	if !r.Sanitizes() || task.Accesses == nil {
		return task
	}
	var all []allocation
	for _, a := range task.Accesses() {
		if serial := r.Allocation(a.Addr); serial != 0 {
			all = append(all, allocation{a.Name, a.Addr, serial})
		}
	}
	name := task.Name
	check := func() error {
		for _, a := range all {
			if r.Allocation(a.addr) != a.serial {
				return fmt.Errorf("use after free: %s was captured with %s at %#x, which was freed since; keep the memory of a graph until aclmdlRIDestroy (CANN_EMU_SANITIZE)", name, a.name, a.addr)
			}
		}
		return nil
	}
	if run := task.Run; run != nil {
		task.Run = func() error {
			if err := check(); err != nil {
				return err
			}
			return run()
		}
	}
	if wait := task.Wait; wait != nil {
		task.Wait = func(cancel <-chan struct{}) error {
			if err := check(); err != nil {
				return err
			}
			return wait(cancel)
		}
	}
	return task
}
