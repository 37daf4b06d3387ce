package ops

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/class"
	"github.com/goascend/cann/ops/internal/check"
)

// Errors of dispatch, for errors.Is. ErrNoKernel also matches acl.ErrNotSupported, the others match
// acl.ErrInvalidArgument.
var (
	// ErrPinned says that an operator is pinned or sealed and was not changed.
	ErrPinned = class.Of(class.ErrInvalidArgument, "ops: operator is pinned")
	// ErrNoKernel says that no kernel supports the arguments; the error lists and wraps the
	// reasons.
	ErrNoKernel = class.Of(class.ErrNotSupported, "ops: no kernel supports the arguments")
	// ErrUnknownKernel says that an operator has no kernel of that name.
	ErrUnknownKernel = class.Of(class.ErrInvalidArgument, "ops: unknown kernel")
	// ErrInvalid says that arguments were refused before anything was launched.
	ErrInvalid = check.ErrInvalid
)

// Kernel is one implementation of an operator with arguments A. K is the operator's key: the
// properties of the arguments on which the choice of a kernel may depend.
type Kernel[A any, K comparable] struct {
	Name string
	// Supports returns nil, or why the kernel cannot take arguments with this key in this
	// environment. It must be a pure function, because its answer is kept for later calls with
	// an equal key. A nil Supports accepts everything. Run must accept arguments that differ only
	// in properties that the key does not include.
	Supports func(env *Env, key K) error
	// Run queues the computation on the stream. The arguments have been checked.
	Run func(ctx context.Context, st *acl.Stream, a *A) error
}

// Op is an operator with its kernels in order of preference and the choices made among them. It is
// safe for concurrent use.
//
// A choice is made once per key and kept until a kernel is registered or pinned or the environment
// changes. An operator keeps at most 256 choices; when one more is needed it drops all of them and
// makes them again on demand.
type Op[A any, K comparable] struct {
	name     string
	reg      *Registry
	validate func(a *A) error
	key      func(a *A) K

	choices atomic.Pointer[choices[A, K]]

	mu      sync.Mutex // guards the fields below and the making of choices
	kernels []Kernel[A, K]
	pinned  string
	sealed  bool
	log     decisionLog[K]
}

// NewOp makes an operator that chooses among kernels as those of the registry do: by its environment
// and logger, and pinned by the environment variable CANN_OPS_<NAME>=kernel. validate returns why
// arguments are refused, which should match ErrInvalid; key reads the arguments that it accepted. The
// kernels are in order of preference.
func NewOp[A any, K comparable](reg *Registry, name string, validate func(*A) error, key func(*A) K, kernels ...Kernel[A, K]) (*Op[A, K], error) {
	o := &Op[A, K]{name: name, reg: reg, validate: validate, key: key, kernels: kernels, log: decisionLog[K]{operator: name, to: reg.log}}
	variable := "CANN_OPS_" + strings.ToUpper(name)
	if k := os.Getenv(variable); k != "" {
		if err := o.Pin(k); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
	}
	return o, nil
}

// op makes an operator of this package.
func op[A any, K comparable](reg *Registry, name string, validate func(*A) error, key func(*A) K, kernels ...Kernel[A, K]) *Op[A, K] {
	o, err := NewOp(reg, name, validate, key, kernels...)
	if err != nil {
		reg.fail(err)
	}
	return o
}

// Name returns the operator's name.
func (o *Op[A, K]) Name() string { return o.name }

// Run checks the arguments, chooses a kernel and queues it on the stream. Arguments that no kernel
// can take, or that would fail on the device, are refused with ErrInvalid or ErrNoKernel before
// anything is launched.
func (o *Op[A, K]) Run(ctx context.Context, st *acl.Stream, a *A) error {
	if err := o.Check(a); err != nil {
		return err
	}
	made := o.choose(a)
	if made.err != nil {
		return made.err
	}
	if err := o.run(ctx, st, a, made); err != nil {
		return fmt.Errorf("%s (kernel %s): %w", o.name, made.kernel.Name, err)
	}
	return nil
}

// Check returns nil if the arguments are consistent, otherwise the ErrInvalid that Run would
// return. It launches nothing and asks no kernel.
func (o *Op[A, K]) Check(a *A) error {
	if err := o.validate(a); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	return nil
}

// Key returns the key that the kernels' Supports get for these arguments; the error is that of
// Check.
func (o *Op[A, K]) Key(a *A) (K, error) {
	if err := o.Check(a); err != nil {
		var none K
		return none, err
	}
	return o.key(a), nil
}

// Kernels lists the kernels in order of preference.
func (o *Op[A, K]) Kernels() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make([]string, len(o.kernels))
	for i, k := range o.kernels {
		names[i] = k.Name
	}
	return names
}

// Register adds a kernel that is preferred to the existing ones, or replaces the kernel of the same
// name. On a pinned or sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Register(k Kernel[A, K]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pinned != "" || o.sealed {
		state := "sealed"
		if o.pinned != "" {
			state = "pinned to " + o.pinned
		}
		return fmt.Errorf("%w: kernel %s not registered, %s is %s; unpin it first", ErrPinned, k.Name, o.name, state)
	}
	kernels := []Kernel[A, K]{k}
	for _, old := range o.kernels {
		if old.Name != k.Name {
			kernels = append(kernels, old)
		}
	}
	o.kernels = kernels
	o.forget()
	return nil
}

// Pin fixes the kernel by name until Unpin. Arguments that it does not support are then refused
// instead of going to another kernel.
func (o *Op[A, K]) Pin(name string) error {
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
			o.pinned = name
			o.forget()
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no kernel %q", ErrUnknownKernel, o.name, name)
}

// Unpin undoes Pin; on a sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Unpin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed {
		return fmt.Errorf("%w: %s is sealed", ErrPinned, o.name)
	}
	o.pinned = ""
	o.forget()
	return nil
}

// Seal disables Register, Pin and Unpin for good.
func (o *Op[A, K]) Seal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
}
