package ops

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
)

// dispatch chooses among the kernels of an operator without knowing the types of its arguments and keys.
// A package that imports this one compiles the methods of every Op anew, six CPU-seconds when all the
// work was done there; so the methods of Op only hide its types, and the work is done here.
type dispatch struct {
	name    string
	reg     *Registry
	choices atomic.Pointer[choices]
	find    func(byKey, key any) *choice           // find of the operator's keys
	with    func(byKey, key any, made *choice) any // with of the operator's keys

	mu      sync.Mutex // guards the fields below and the making of choices
	kernels []kernel
	pinned  string
	sealed  bool
	log     decisionLog
}

// kernel is a Kernel without the types of arguments and keys.
type kernel struct {
	name     string
	supports func(env *Env, key any) error                                      // nil accepts everything
	run      func(ctx context.Context, st *acl.Stream, args any, p *plan) error // args is a pointer
}

// made returns an error if the operator comes from no registry.
func (o *dispatch) made() error {
	if o == nil || o.reg == nil {
		return invalid("the operator was not made; take it from a registry of ops.NewRegistry")
	}
	return nil
}

// ready returns an error if a call cannot be made at all.
func (o *dispatch) ready(ctx context.Context, st *acl.Stream) error {
	switch {
	case o.made() != nil:
		return o.made()
	case ctx == nil:
		return fmt.Errorf("%s: %w", o.name, invalid("the context is nil"))
	case st == nil:
		return fmt.Errorf("%s: %w", o.name, invalid("the stream is nil"))
	}
	return nil
}

// complete returns an error if a kernel lacks a name or a function to run.
func (o *dispatch) complete(k kernel) error {
	if k.name == "" || k.run == nil {
		return fmt.Errorf("%s: %w", o.name, invalid("kernel %q needs a name and Run", k.name))
	}
	return nil
}

// names is Op.Kernels.
func (o *dispatch) names() []string {
	if o.made() != nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make([]string, len(o.kernels))
	for i, k := range o.kernels {
		names[i] = k.name
	}
	return names
}

// register is Op.Register.
func (o *dispatch) register(k kernel) error {
	if err := o.made(); err != nil {
		return err
	}
	if err := o.complete(k); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pinned != "" || o.sealed {
		state := "sealed"
		if o.pinned != "" {
			state = "pinned to " + o.pinned
		}
		return fmt.Errorf("%w: kernel %s not registered, %s is %s; unpin it first", ErrPinned, k.name, o.name, state)
	}
	kernels := []kernel{k}
	for _, old := range o.kernels {
		if old.name != k.name {
			kernels = append(kernels, old)
		}
	}
	o.kernels = kernels
	o.forget()
	return nil
}

// pin is Op.Pin.
func (o *dispatch) pin(name string) error {
	if err := o.made(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed && o.pinned != name {
		return fmt.Errorf("%w: %s is sealed", ErrPinned, o.name)
	}
	if o.pinned != "" && o.pinned != name {
		return fmt.Errorf("%w: %s is pinned to %s; unpin it first", ErrPinned, o.name, o.pinned)
	}
	for _, k := range o.kernels {
		if k.name == name {
			o.pinned = name
			o.forget()
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no kernel %q", ErrUnknownKernel, o.name, name)
}

// unpin is Op.Unpin.
func (o *dispatch) unpin() error {
	if err := o.made(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed {
		return fmt.Errorf("%w: %s is sealed", ErrPinned, o.name)
	}
	o.pinned = ""
	o.forget()
	return nil
}

// seal is Op.Seal.
func (o *dispatch) seal() {
	if o.made() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
}
