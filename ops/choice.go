package ops

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/goascend/cann/acl"
)

// choiceLimit is how many choices an operator keeps.
const choiceLimit = 256

// choice is the kernel for a key, or the reason why there is none.
type choice struct {
	kernel *kernel
	err    error
	left   atomic.Pointer[left] // what left the AI Core in the first run, nil before it
}

// choices holds the choices made in one environment. It is never changed once published, so lookups
// need no lock; a new choice makes a new copy.
type choices struct {
	epoch uint64 // of the registry
	count int
	byKey any // map[K]*choice, with the operator's type of keys: a map of any keys takes three times as long
}

// find returns the choice for a key, nil if there is none.
func find[K comparable](byKey, key any) *choice { return byKey.(map[K]*choice)[key.(K)] }

// with returns the choices with another one; byKey may be nil.
func with[K comparable](byKey, key any, made *choice) any {
	next := map[K]*choice{key.(K): made}
	if byKey != nil {
		maps.Copy(next, byKey.(map[K]*choice))
	}
	return next
}

// current returns the choices that are valid, nil if there are none.
func (o *dispatch) current() *choices {
	if c := o.choices.Load(); c != nil && c.epoch == o.reg.epoch.Load() {
		return c
	}
	return nil
}

// decide makes the choice for a key and keeps it.
func (o *dispatch) decide(key any) *choice {
	o.mu.Lock()
	defer o.mu.Unlock()
	epoch := o.reg.epoch.Load()
	env := o.reg.Env() // of this epoch or a later one, which soon repeats the choice
	next := &choices{epoch: epoch, count: 1}
	var kept any
	if c := o.choices.Load(); c != nil && c.epoch == epoch {
		if made := o.find(c.byKey, key); made != nil { // another goroutine has made it
			return made
		}
		if c.count < choiceLimit {
			kept, next.count = c.byKey, c.count+1
		}
	}
	e, kernel, reasons := o.explain(&env, key)
	made := &choice{kernel: kernel}
	if kernel == nil {
		made.err = &noKernel{e, reasons}
	}
	next.byKey = o.with(kept, key, made)
	o.choices.Store(next)
	o.log.write(epoch, key, e)
	return made
}

// run runs the chosen kernel, or returns why there is none.
func (o *dispatch) run(ctx context.Context, st *acl.Stream, args any, p *plan, made *choice) error {
	if made.err != nil {
		return made.err
	}
	if err := o.watched(ctx, st, args, p, made); err != nil {
		return fmt.Errorf("%s (kernel %s): %w", o.name, made.kernel.name, err)
	}
	return nil
}

// watched runs the chosen kernel. In its first run the launches are watched for calls that leave the AI
// Core, which is known of Atlas A2 and A3.
func (o *dispatch) watched(ctx context.Context, st *acl.Stream, args any, p *plan, made *choice) error {
	if made.left.Load() != nil {
		return made.kernel.run(ctx, st, args, p)
	}
	l := new(left)
	if env := o.reg.Env(); env.accelerates() != nil {
		made.left.Store(l)
		return made.kernel.run(ctx, st, args, p)
	}
	err := l.watch(st, func() error { return made.kernel.run(ctx, st, args, p) })
	if err == nil && made.left.CompareAndSwap(nil, l) {
		l.report(o.reg.log, o.name, made.kernel.name)
	}
	return err
}

// forget drops all choices; later ones are logged again.
func (o *dispatch) forget() {
	o.choices.Store(nil)
	o.log.keys = nil
}

// logLimit is how many decisions an operator logs in one environment.
const logLimit = 1024

// decisionLog logs each decision once, even if the choice was dropped and is made again.
type decisionLog struct {
	operator string
	to       *slog.Logger
	epoch    uint64 // of the registry, in which keys were logged
	keys     map[any]struct{}
}

func (l *decisionLog) write(epoch uint64, key any, e Explanation) {
	if !l.to.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	if l.keys == nil || l.epoch != epoch {
		l.keys, l.epoch = make(map[any]struct{}), epoch
	}
	if _, old := l.keys[key]; old || len(l.keys) > logLimit {
		return
	}
	l.keys[key] = struct{}{}
	if len(l.keys) > logLimit {
		l.to.Warn("no more choices of kernels are logged: the arguments change with every call", "operator", l.operator)
		return
	}
	l.to.Info("kernel chosen", "operator", l.operator, "decision", e.String(), "key", fmt.Sprintf("%+v", key))
}
