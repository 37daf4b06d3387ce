package ops

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	"go.uber.org/zap/zapcore"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/logging"
)

// choiceLimit is how many choices an operator keeps.
const choiceLimit = 256

// choice is the kernel for a key, or the reason why there is none.
type choice[A any, K comparable] struct {
	kernel *Kernel[A, K]
	err    error
	left   *atomic.Pointer[left] // what left the AI Core in the first run, nil before it
}

// choices holds the choices made in one environment. It is never changed once published, so lookups
// need no lock; a new choice makes a new copy.
type choices[A any, K comparable] struct {
	epoch uint64 // of the registry
	byKey map[K]choice[A, K]
}

// choose looks up the choice for the arguments' key, and makes it if the key is new.
func (o *Op[A, K]) choose(a *A) choice[A, K] {
	key := o.key(a)
	if c := o.choices.Load(); c != nil && c.epoch == o.reg.epoch.Load() {
		if made, ok := c.byKey[key]; ok {
			return made
		}
	}
	return o.decide(key)
}

// decide makes the choice for a key and keeps it.
func (o *Op[A, K]) decide(key K) choice[A, K] {
	o.mu.Lock()
	defer o.mu.Unlock()
	epoch := o.reg.epoch.Load()
	env := o.reg.Env() // of this epoch or a later one, which soon repeats the choice
	next := &choices[A, K]{epoch: epoch, byKey: make(map[K]choice[A, K])}
	if c := o.choices.Load(); c != nil && c.epoch == epoch {
		if made, ok := c.byKey[key]; ok { // another goroutine has made it
			return made
		}
		if len(c.byKey) < choiceLimit {
			maps.Copy(next.byKey, c.byKey)
		}
	}
	e, kernel, reasons := o.explain(&env, key)
	made := choice[A, K]{kernel: kernel, left: new(atomic.Pointer[left])}
	if kernel == nil {
		made.err = &noKernel{e, reasons}
	}
	next.byKey[key] = made
	o.choices.Store(next)
	o.log.write(epoch, key, e)
	return made
}

// run runs the chosen kernel. In its first run the launches are watched for calls that leave the AI Core,
// which is known of Atlas A2 and A3.
func (o *Op[A, K]) run(ctx context.Context, st *acl.Stream, a *A, made choice[A, K]) error {
	if made.left.Load() != nil {
		return made.kernel.Run(ctx, st, a)
	}
	l := new(left)
	if env := o.reg.Env(); env.accelerates() != nil {
		made.left.Store(l)
		return made.kernel.Run(ctx, st, a)
	}
	err := l.watch(st, func() error { return made.kernel.Run(ctx, st, a) })
	if err == nil && made.left.CompareAndSwap(nil, l) {
		l.told(o.reg.log, o.name, made.kernel.Name)
	}
	return err
}

// forget drops all choices; later ones are logged again.
func (o *Op[A, K]) forget() {
	o.choices.Store(nil)
	o.log.keys = nil
}

// logLimit is how many decisions an operator logs in one environment.
const logLimit = 1024

// decisionLog logs each decision once, even if the choice was dropped and is made again.
type decisionLog[K comparable] struct {
	operator string
	to       acl.Logger
	epoch    uint64 // of the registry, in which keys were logged
	keys     map[K]struct{}
}

func (l *decisionLog[K]) write(epoch uint64, key K, e Explanation) {
	line := l.to.Check(zapcore.InfoLevel, "kernel chosen")
	if line == nil {
		return
	}
	if l.keys == nil || l.epoch != epoch {
		l.keys, l.epoch = make(map[K]struct{}), epoch
	}
	if _, old := l.keys[key]; old || len(l.keys) > logLimit {
		return
	}
	l.keys[key] = struct{}{}
	if len(l.keys) > logLimit {
		l.to.Check(zapcore.WarnLevel, "no more choices of kernels are logged: the arguments change with every call").
			Write(logging.String("operator", l.operator))
		return
	}
	line.Write(logging.String("operator", l.operator), logging.Stringer("decision", e), logging.String("key", fmt.Sprintf("%+v", key)))
}
