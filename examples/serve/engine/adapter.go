package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
)

// ErrAdapter is the error of LoadAdapter and UnloadAdapter for names that are taken or unknown, folders that
// hold no fitting adapter, and when all slots are taken.
var ErrAdapter = errors.New("engine: adapter")

// adapter is a PEFT adapter that requests can name. The engine's mutex guards all but roots.
type adapter struct {
	name, folder string
	slot         int   // in the adapter bank, from 0
	users        int   // requests that have not ended
	ready        bool  // it is loaded
	gone         bool  // no request can name it any more
	roots        roots // of the texts that were read with it; of the engine's goroutine
}

// number is the adapter's number in a step.
func (a *adapter) number() int {
	if a == nil {
		return 0
	}
	return a.slot + 1
}

// Adapters lists the names of the adapters that requests can name, in the order of loading.
func (e *Engine) Adapters() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.adapters {
		if a.ready && !a.gone {
			names = append(names, a.name)
		}
	}
	return names
}

// LoadAdapter loads an adapter from a PEFT folder between two steps, and gives it a name. The error matches
// ErrAdapter, ErrClosed, ErrDevice or that of ctx.
func (e *Engine) LoadAdapter(ctx context.Context, name, folder string) error {
	a := &adapter{name: name, folder: folder}
	if err := e.reserve(a); err != nil {
		return err
	}
	err := e.between(ctx, func(ctx context.Context) error {
		_, err := e.team.do(ctx, order{Load: &placement{folder, a.slot}})
		e.mu.Lock()
		defer e.mu.Unlock()
		a.ready = err == nil // from now on it is loaded again when the device is opened again
		return err
	})
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.remove(a)
	}
	return err
}

// reserve gives an adapter a slot.
func (e *Engine) reserve(a *adapter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(); err != nil {
		return err
	}
	taken := map[int]bool{}
	for _, other := range e.adapters {
		if taken[other.slot] = true; other.name == a.name && !other.gone {
			return fmt.Errorf("%w %s: the name is taken", ErrAdapter, a.name)
		}
	}
	for taken[a.slot] {
		a.slot++
	}
	if a.slot >= e.o.Adapters {
		return fmt.Errorf("%w %s: all %d slots are taken; unload another, or wait until its requests have ended", ErrAdapter, a.name, e.o.Adapters)
	}
	e.adapters = append(e.adapters, a)
	return nil
}

// UnloadAdapter takes an adapter's name away. Its slot is free when the last request that uses it has ended.
func (e *Engine) UnloadAdapter(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.named(name)
	if a == nil {
		return fmt.Errorf("%w %s: there is none with this name", ErrAdapter, name)
	}
	if a.gone = true; a.users == 0 {
		e.remove(a)
	}
	return nil
}

// named finds an adapter that requests can name; its caller holds mu.
func (e *Engine) named(name string) *adapter {
	for _, a := range e.adapters {
		if a.name == name && a.ready && !a.gone {
			return a
		}
	}
	return nil
}

// remove frees an adapter's slot; its caller holds mu.
func (e *Engine) remove(a *adapter) {
	e.adapters = slices.DeleteFunc(e.adapters, func(x *adapter) bool { return x == a })
}

// released notes that a request of an adapter has ended; its caller holds mu.
func (e *Engine) released(a *adapter) {
	if a == nil {
		return
	}
	if a.users--; a.gone && a.users == 0 {
		e.remove(a)
	}
}

// loaded lists the adapters whose weights the device has.
func (e *Engine) loaded() (all []*adapter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.adapters {
		if a.ready {
			all = append(all, a)
		}
	}
	return all
}

// task is work for the engine's goroutine between two steps.
type task struct {
	ctx  context.Context
	do   func(ctx context.Context) error
	done chan error
}

// between lets the engine's goroutine do some work, and waits for it even after ctx has ended, since the work
// changes the device.
func (e *Engine) between(ctx context.Context, do func(ctx context.Context) error) error {
	x := &task{ctx, do, make(chan error, 1)}
	select {
	case e.tasks <- x:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.done:
		return ErrClosed
	}
	select {
	case err := <-x.done:
		return err
	case <-e.done:
		return ErrClosed
	}
}

// perform does a task, and brings the device back if it has failed.
func (e *Engine) perform(ctx context.Context, x *task) {
	if x.ctx.Err() != nil {
		x.done <- context.Cause(x.ctx)
		return
	}
	err := x.do(context.WithoutCancel(x.ctx)) // a rank that stops half-way would let others wait
	var failure *acl.Error
	if !errors.As(err, &failure) && !errors.Is(err, ErrRank) {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrAdapter, err)
		}
		x.done <- err
		return
	}
	for _, s := range e.running {
		s.next = 0 // they had no part in it
	}
	e.recover(ctx, err)
	x.done <- failed(err)
}

// performAll does the tasks that wait.
func (e *Engine) performAll(ctx context.Context) {
	for {
		select {
		case x := <-e.tasks:
			e.perform(ctx, x)
		default:
			return
		}
	}
}
