package acl

import (
	"context"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Context is a context of CANN on one device: streams and events belong to it, memory
// belongs to the device. Most programs need only the primary context, which a Device is.
type Context struct {
	owned
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
	c := cshim.Call{Args: [cshim.Args]uint64{0, uint64(primary.chip.id)}, Out: 1 << 0, Rebinds: true}
	if err := c.Do(createContext, primary.handle); err != nil {
		return nil, primary.fail(err)
	}
	primary.retain()
	x := &Context{scope: newScope(primary.chip, c.Args[0]), dev: d}
	x.open(KindContext)
	return x, nil
}

// Close gives the context back. It is destroyed (a Device: reset) when everything made in it
// is closed too, which then reports the errors of that.
func (x *Context) Close() error {
	if !x.close() {
		return nil
	}
	return x.scope.release()
}

func (x *Context) usable(op string) error {
	if x.closed.Load() {
		return x.scope.refuse(op, ErrClosed, "the %v is closed", x.kind)
	}
	return nil
}

// Device is the device of the context.
func (x *Context) Device() *Device { return x.dev }

// Handle is the aclrtContext, for C libraries.
func (x *Context) Handle() uint64 { return x.scope.handle }

// Synchronize waits for all work of the device, in all contexts, and returns what failed in
// it (aclrtSynchronizeDeviceWithTimeout). If ctx ends first the work goes on and the error
// matches ctx.Err(); see Stream.Synchronize.
func (x *Context) Synchronize(ctx context.Context) error {
	if err := x.usable("Context.Synchronize"); err != nil {
		return err
	}
	sc := x.scope
	passed := sc.launched()
	cut, err := sc.wait(ctx, synchronizeDevice, 0, true)
	if cut {
		e := interrupted("Context.Synchronize", ctx)
		e.Device = sc.chip.id
		return e
	}
	if err != nil {
		err = sc.fault(err)
	}
	for q, n := range passed {
		q.ring.passed(n)
	}
	return err
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
	return x.scope.do(setSysParam, uint64(s), uint64(value))
}

// Setting is the value of a setting (aclrtCtxGetSysParamOpt). One that was never set has
// none: code 107021.
func (x *Context) Setting(s Setting) (int64, error) {
	if err := x.usable("Context.Setting"); err != nil {
		return 0, err
	}
	v, err := x.scope.ask(getSysParam, 1, uint64(s))
	return int64(v), err
}

// do makes a call whose arguments are all words.
func (sc *scope) do(f *cshim.Func, args ...uint64) error {
	var c cshim.Call
	copy(c.Args[:], args)
	if err := c.Do(f, sc.handle); err != nil {
		return sc.fail(err)
	}
	return nil
}

// ask is do for a call with one out-parameter, at position out.
func (sc *scope) ask(f *cshim.Func, out int, args ...uint64) (uint64, error) {
	c := cshim.Call{Out: 1 << out}
	copy(c.Args[:], args)
	if err := c.Do(f, sc.handle); err != nil {
		return 0, sc.fail(err)
	}
	return c.Args[out], nil
}
