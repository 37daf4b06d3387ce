package acl

import (
	"context"
	"errors"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Context is a context of CANN on one device: streams and events belong to it, memory
// belongs to the device. Most programs need only the primary context, which a Device is.
type Context struct {
	owned
	mu    sync.Mutex // held while the context is closed and its reference is given back
	scope *scope
	dev   *Device
}

// NewContext makes an explicit context with a default stream of its own
// (aclrtCreateContext).
func (d *Device) NewContext() (*Context, error) {
	if err := d.usable("Device.NewContext"); err != nil {
		return nil, err
	}
	primary := d.scope
	handle, err := aclrtCreateContext(primary.handle, int32(primary.chip.id))
	if err != nil {
		return nil, primary.fail(err)
	}
	primary.retain()
	x := &Context{scope: newScope(primary.chip, handle), dev: d}
	x.open(KindContext, leak{})
	return x, nil
}

// Close gives the context back. The last Close, of the context or of what was made in it,
// waits for its work, destroys the context (resets a Device) and returns the errors of that.
func (x *Context) Close() error { return x.CloseContext(context.Background()) }

// CloseContext is Close that waits at most until ctx ends. Then the context is still open, and
// CloseContext can be called again; the error matches ctx.Err().
func (x *Context) CloseContext(ctx context.Context) error {
	const op = "Context.CloseContext"
	if x == nil || !x.isOpen() {
		return nil
	}
	if ctx == nil {
		return noContext(op)
	}
	if x.leave() {
		return nil
	}
	failed, cut := x.scope.settle(ctx)
	if cut {
		return errors.Join(failed, x.scope.interrupted(op, ctx))
	}
	x.mu.Lock()
	first := x.close()
	x.mu.Unlock()
	if !first {
		return failed
	}
	return errors.Join(failed, x.scope.release())
}

// leave closes the context if its scope has other users, and so has nothing to wait for. It reports whether
// the context is closed, by this call or another one.
func (x *Context) leave() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.isOpen() || x.scope.tryRelease() && x.close()
}

// settle waits for the work that the end of the context would wait for. Without a bound it leaves the wait to the end.
func (sc *scope) settle(ctx context.Context) (failed error, interrupted bool) {
	if ctx.Done() == nil {
		return nil, false
	}
	sc.mu.Lock()
	s := sc.fallback
	sc.mu.Unlock()
	if s != nil {
		cut, err := s.q.wait(ctx)
		if failed = s.q.faulty(err); cut {
			return failed, true
		}
	}
	if primary := sc.chip.primary; sc == primary || primary.refs.Load() == 1 {
		cut, err := sc.waitDevice(ctx)
		return errors.Join(failed, sc.faulty(err)), cut
	}
	return failed, false
}

func (x *Context) usable(op string) error {
	switch {
	case x == nil || x.scope == nil:
		return neverMade(op, KindContext)
	case !x.isOpen():
		return x.scope.refuse(op, ErrClosed, "the %v is closed", x.kind)
	}
	return nil
}

// waits is usable for a call that waits.
func (x *Context) waits(op string, ctx context.Context) error {
	if err := x.usable(op); err != nil {
		return err
	}
	if ctx == nil {
		return noContext(op)
	}
	return nil
}

// Device is the device of the context.
func (x *Context) Device() *Device {
	if x == nil {
		return nil
	}
	return x.dev
}

// Handle is the aclrtContext, for C libraries.
func (x *Context) Handle() uint64 {
	if x == nil || x.scope == nil {
		return 0
	}
	return uint64(x.scope.handle)
}

// Synchronize waits for all work of the device, in all contexts, and returns what failed in
// it (aclrtSynchronizeDevice). If ctx ends first the work goes on and the error
// matches ctx.Err(); see Stream.Synchronize.
func (x *Context) Synchronize(ctx context.Context) error {
	if observed() {
		return x.watch(CallWait, "Context.Synchronize", 0, func() error { return x.synchronize(ctx) })
	}
	return x.synchronize(ctx)
}

func (x *Context) synchronize(ctx context.Context) error {
	if err := x.waits("Context.Synchronize", ctx); err != nil {
		return err
	}
	sc := x.scope
	passed := sc.launched()
	cut, err := sc.waitDevice(ctx)
	if cut {
		return sc.interrupted("Context.Synchronize", ctx)
	}
	err = sc.faulty(err)
	for q, n := range passed {
		q.ring.passed(n)
	}
	return err
}

// waitDevice waits for all work of the device, as queue.wait does for that of a stream. Streams of
// other code in the process are waited for aside.
func (sc *scope) waitDevice(ctx context.Context) (interrupted bool, err error) {
	join := func() error { return aclrtSynchronizeDeviceWithTimeout(sc.handle, forever) }
	if ctx.Done() == nil {
		return false, join()
	}
	for _, q := range sc.chip.queues() {
		if interrupted, _ := q.pass(ctx); interrupted {
			return true, nil
		}
	}
	return sc.chip.aside.wait(ctx, join)
}

// launched is the number of launches of each stream.
func (sc *scope) launched() map[*queue]uint64 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	n := make(map[*queue]uint64, len(sc.queues))
	for q := range sc.queues {
		n[q] = q.ring.launched.Load()
	}
	return n
}

// Setting is an option of a context.
type Setting int

// Settings, with the values of aclSysParamOpt. CANN 8.1 knows the first two.
const (
	// Deterministic makes results repeatable: 0 off, 1 on, 2 strong, 3 the same for every
	// batch size (from CANN 9.2).
	Deterministic Setting = abi.ACL_OPT_DETERMINISTIC
	// DebugKernel runs kernels that check their addresses.
	DebugKernel Setting = abi.ACL_OPT_ENABLE_DEBUG_KERNEL
	// KernelEarlyStart lets a kernel start while the one before it ends.
	KernelEarlyStart Setting = abi.ACL_OPT_ENABLE_KERNEL_EARLY_START
)

// Set changes a setting for the operators that are launched in this context from now on
// (aclrtCtxSetSysParamOpt).
func (x *Context) Set(s Setting, value int64) error {
	if err := x.usable("Context.Set"); err != nil {
		return err
	}
	return x.scope.wrap(aclrtCtxSetSysParamOpt(x.scope.handle, aclSysParamOpt(s), value))
}

// Setting is the value of a setting (aclrtCtxGetSysParamOpt). One that was never set has
// none: code 107021.
func (x *Context) Setting(s Setting) (int64, error) {
	if err := x.usable("Context.Setting"); err != nil {
		return 0, err
	}
	value, err := aclrtCtxGetSysParamOpt(x.scope.handle, aclSysParamOpt(s))
	return value, x.scope.wrap(err)
}
