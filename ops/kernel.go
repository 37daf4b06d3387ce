package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/goascend/cann/acl"
)

// Errors of dispatch, for errors.Is.
var (
	// ErrPinned says that an operator is pinned or sealed and was left as it is.
	ErrPinned = errors.New("ops: operator is pinned")
	// ErrNoKernel says that no kernel supports the arguments; the error lists the reasons, and
	// wraps them.
	ErrNoKernel = errors.New("ops: no kernel supports the arguments")
	// ErrUnknownKernel says that an operator has no kernel of that name.
	ErrUnknownKernel = errors.New("ops: unknown kernel")
	// ErrInvalid says that arguments were refused before anything was launched.
	ErrInvalid = errors.New("ops: invalid argument")
)

// Kernel is one way to compute an operator with arguments A.
type Kernel[A any] struct {
	Name string
	// Supports returns nil, or why the kernel cannot take these arguments here. It must
	// depend on env and on what the operator's signature covers only, and launch nothing.
	Supports func(env *Env, a *A) error
	// Run queues the computation on the stream.
	Run func(ctx context.Context, st *acl.Stream, a *A) error
}

// Signature is what the choice of a kernel may depend on: dtypes, formats, shape classes,
// packed by the operator.
type Signature [4]uint64

// Op is an operator: its kernels in order of preference, and the choices made. It is safe
// for concurrent use.
type Op[A any] struct {
	name      string
	reg       *Registry
	validate  func(a *A) error
	signature func(a *A) Signature

	mu      sync.RWMutex
	kernels []Kernel[A]
	pinned  string
	sealed  bool
	chosen  map[Signature]*choice[A]
	epoch   uint64 // of the registry when chosen was filled
}

type choice[A any] struct {
	kernel *Kernel[A]
	err    error
}

// op makes an operator of a registry. CANN_OPS_<NAME>=kernel in the environment pins it.
func op[A any](reg *Registry, name string, validate func(*A) error, signature func(*A) Signature, kernels ...Kernel[A]) *Op[A] {
	o := &Op[A]{name: name, reg: reg, validate: validate, signature: signature, kernels: kernels}
	if k := os.Getenv("CANN_OPS_" + strings.ToUpper(name)); k != "" {
		if err := o.Pin(k); err != nil {
			reg.fail(fmt.Errorf("CANN_OPS_%s: %w", strings.ToUpper(name), err))
		}
	}
	return o
}

// Name is the operator's name.
func (o *Op[A]) Name() string { return o.name }

// Run checks the arguments, chooses a kernel and queues it on the stream. Arguments that no
// kernel can take, or that would fail on the device, come back as ErrInvalid or ErrNoKernel
// with nothing launched.
func (o *Op[A]) Run(ctx context.Context, st *acl.Stream, a *A) error {
	if err := o.validate(a); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	k, err := o.choose(a)
	if err != nil {
		return err
	}
	if err := k.Run(ctx, st, a); err != nil {
		return fmt.Errorf("%s (kernel %s): %w", o.name, k.Name, err)
	}
	return nil
}

// choose looks the signature up, and decides once when it is new.
func (o *Op[A]) choose(a *A) (*Kernel[A], error) {
	sig := o.signature(a)
	epoch := o.reg.epoch.Load()
	o.mu.RLock()
	c := o.chosen[sig]
	fresh := c != nil && o.epoch == epoch
	o.mu.RUnlock()
	if fresh {
		return c.kernel, c.err
	}
	env := o.reg.Env()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch != epoch || o.chosen == nil {
		o.chosen, o.epoch = make(map[Signature]*choice[A]), epoch
	}
	if c := o.chosen[sig]; c != nil { // another goroutine was faster
		return c.kernel, c.err
	}
	e, k, reasons := o.explain(&env, a)
	c = &choice[A]{kernel: k}
	if k == nil {
		c.err = &noKernel{e, reasons}
	}
	o.chosen[sig] = c
	o.reg.log.Info("kernel chosen", zap.String("operator", o.name), zap.Stringer("decision", e))
	return c.kernel, c.err
}

// Candidate is one kernel in an Explanation.
type Candidate struct {
	Kernel string
	Reason string // why it was passed over; "" for the one taken and those not asked
}

// Explanation says how the kernel for some arguments is chosen.
type Explanation struct {
	Operator   string
	Kernel     string // the one taken, "" when none can
	Pinned     bool
	Candidates []Candidate
}

// String is one line: the kernel taken, and the others with their reasons.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Operator)
	switch {
	case e.Kernel == "":
		b.WriteString("no kernel")
	case e.Pinned:
		b.WriteString(e.Kernel + " (pinned)")
	default:
		b.WriteString(e.Kernel)
	}
	for _, c := range e.Candidates {
		switch {
		case c.Kernel == e.Kernel:
		case c.Reason == "":
			fmt.Fprintf(&b, "; %s comes after it", c.Kernel)
		default:
			fmt.Fprintf(&b, "; not %s: %s", c.Kernel, c.Reason)
		}
	}
	return b.String()
}

// Explain tells which kernel the arguments get and why the others do not. It launches
// nothing.
func (o *Op[A]) Explain(a *A) Explanation {
	env := o.reg.Env()
	o.mu.RLock()
	defer o.mu.RUnlock()
	e, _, _ := o.explain(&env, a)
	return e
}

// noKernel is ErrNoKernel with what the kernels said.
type noKernel struct {
	explanation Explanation
	reasons     []error
}

func (e *noKernel) Error() string { return fmt.Sprintf("%v: %v", ErrNoKernel, e.explanation) }

func (e *noKernel) Unwrap() []error { return append([]error{ErrNoKernel}, e.reasons...) }

func (o *Op[A]) explain(env *Env, a *A) (e Explanation, taken *Kernel[A], reasons []error) {
	e = Explanation{Operator: o.name, Pinned: o.pinned != ""}
	for i := range o.kernels {
		k := &o.kernels[i]
		c := Candidate{Kernel: k.Name}
		if o.pinned != "" && k.Name != o.pinned {
			c.Reason = "another kernel is pinned"
		} else if taken == nil {
			if err := k.Supports(env, a); err != nil {
				c.Reason = err.Error()
				reasons = append(reasons, err)
			} else {
				taken, e.Kernel = k, k.Name
			}
		}
		e.Candidates = append(e.Candidates, c)
	}
	return e, taken, reasons
}

// Kernels lists the kernels in order of preference.
func (o *Op[A]) Kernels() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	names := make([]string, len(o.kernels))
	for i, k := range o.kernels {
		names[i] = k.Name
	}
	return names
}

// Register adds a kernel that is preferred to those there; one of the same name replaces
// its predecessor. A pinned or sealed operator stays as it is: ErrPinned.
func (o *Op[A]) Register(k Kernel[A]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pinned != "" || o.sealed {
		state := "sealed"
		if o.pinned != "" {
			state = "pinned to " + o.pinned
		}
		return fmt.Errorf("%w: kernel %s not registered, %s is %s; unpin it first", ErrPinned, k.Name, o.name, state)
	}
	kernels := []Kernel[A]{k}
	for _, old := range o.kernels {
		if old.Name != k.Name {
			kernels = append(kernels, old)
		}
	}
	o.kernels, o.chosen = kernels, nil
	return nil
}

// Pin fixes the kernel by name until Unpin. Arguments that it does not support are then
// refused instead of going to another kernel.
func (o *Op[A]) Pin(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed && o.pinned != name {
		return fmt.Errorf("%w: %s is sealed", ErrPinned, o.name)
	}
	if o.pinned != "" && o.pinned != name {
		return fmt.Errorf("%w: %s is pinned to %s; unpin it first", ErrPinned, o.name, o.pinned)
	}
	for _, k := range o.kernels {
		if k.Name == name {
			o.pinned, o.chosen = name, nil
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no kernel %q", ErrUnknownKernel, o.name, name)
}

// Unpin lets the choice follow the arguments again; on a sealed operator it is ErrPinned.
func (o *Op[A]) Unpin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed {
		return fmt.Errorf("%w: %s is sealed", ErrPinned, o.name)
	}
	o.pinned, o.chosen = "", nil
	return nil
}

// Seal ends registration and pinning for good.
func (o *Op[A]) Seal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
}

// Always supports all arguments.
func Always[A any](*Env, *A) error { return nil }
