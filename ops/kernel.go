package ops

import (
	"context"
	"fmt"
	"os"
	"strings"

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
	dispatch dispatch // does the work of the methods
	validate func(a *A) error
	key      func(a *A) K
}

// NewOp makes an operator that chooses among kernels as those of the registry do: by its environment
// and logger, and pinned by the environment variable CANN_OPS_<NAME>=kernel. validate returns why
// arguments are refused, which should match ErrInvalid; key reads the arguments that it accepted. The
// kernels are in order of preference.
func NewOp[A any, K comparable](reg *Registry, name string, validate func(*A) error, key func(*A) K, kernels ...Kernel[A, K]) (*Op[A, K], error) {
	o := &Op[A, K]{
		dispatch: dispatch{name: name, reg: reg, log: decisionLog{operator: name, to: reg.log}, find: find[K], with: with[K]},
		validate: validate, key: key,
	}
	for _, k := range kernels {
		o.dispatch.kernels = append(o.dispatch.kernels, untyped(k))
	}
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

// Run checks the arguments, chooses a kernel and queues it on the stream. Arguments that no kernel
// can take, or that would fail on the device, are refused with ErrInvalid or ErrNoKernel before
// anything is launched.
func (o *Op[A, K]) Run(ctx context.Context, st *acl.Stream, a *A) error {
	if err := o.Check(a); err != nil {
		return err
	}
	return o.dispatch.run(ctx, st, a, o.choose(a))
}

// choose looks up the choice for the arguments' key, and makes it if the key is new.
func (o *Op[A, K]) choose(a *A) *choice {
	key := o.key(a)
	if c := o.dispatch.current(); c != nil {
		if made, ok := c.byKey.(map[K]*choice)[key]; ok {
			return made
		}
	}
	return o.dispatch.decide(key)
}

// Check returns nil if the arguments are consistent, otherwise the ErrInvalid that Run would
// return. It launches nothing and asks no kernel.
func (o *Op[A, K]) Check(a *A) error {
	if err := o.validate(a); err != nil {
		return fmt.Errorf("%s: %w", o.dispatch.name, err)
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

// Explain returns which kernel the arguments get, and why they do not get the others. It launches
// nothing.
func (o *Op[A, K]) Explain(a *A) Explanation {
	key, err := o.Key(a)
	if err != nil {
		return Explanation{Operator: o.dispatch.name, Invalid: err}
	}
	return o.dispatch.explanation(key)
}

// Name returns the operator's name.
func (o *Op[A, K]) Name() string { return o.dispatch.name }

// Kernels lists the kernels in order of preference.
func (o *Op[A, K]) Kernels() []string { return o.dispatch.names() }

// Register adds a kernel that is preferred to the existing ones, or replaces the kernel of the same
// name. On a pinned or sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Register(k Kernel[A, K]) error { return o.dispatch.register(untyped(k)) }

// Pin fixes the kernel by name until Unpin. Arguments that it does not support are then refused
// instead of going to another kernel.
func (o *Op[A, K]) Pin(name string) error { return o.dispatch.pin(name) }

// Unpin undoes Pin; on a sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Unpin() error { return o.dispatch.unpin() }

// Seal disables Register, Pin and Unpin for good.
func (o *Op[A, K]) Seal() { o.dispatch.seal() }

// untyped hides the types of a kernel.
func untyped[A any, K comparable](k Kernel[A, K]) kernel {
	u := kernel{name: k.Name, run: func(ctx context.Context, st *acl.Stream, a any) error { return k.Run(ctx, st, a.(*A)) }}
	if k.Supports != nil {
		u.supports = func(env *Env, key any) error { return k.Supports(env, key.(K)) }
	}
	return u
}
