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

	attend func(ctx context.Context, st *acl.Stream, a *A, p *plan) error // in place of Run, in the operators of attention
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
	plan     func(a *A, p *plan) (K, error) // in place of validate and key, in the operators of attention
}

// NewOp makes an operator that chooses among kernels as those of the registry do: by its environment
// and logger, and pinned by the environment variable CANN_OPS_<NAME>=kernel. validate returns why
// arguments are refused, which should match ErrInvalid; key reads the arguments that it accepted. The
// kernels are in order of preference.
func NewOp[A any, K comparable](reg *Registry, name string, validate func(*A) error, key func(*A) K, kernels ...Kernel[A, K]) (*Op[A, K], error) {
	switch {
	case reg == nil || reg.log == nil:
		return nil, invalid("operator %q has no registry; make one with ops.NewRegistry", name)
	case name == "" || validate == nil || key == nil:
		return nil, invalid("operator %q needs a name, a check of its arguments and a key", name)
	}
	o := &Op[A, K]{validate: validate, key: key}
	if err := o.open(reg, name, kernels); err != nil {
		return nil, err
	}
	return o, nil
}

// open gives the operator its registry, name and kernels, and pins the kernel that the environment names.
func (o *Op[A, K]) open(reg *Registry, name string, kernels []Kernel[A, K]) error {
	d := &o.dispatch
	d.name, d.reg, d.log, d.find, d.with = name, reg, decisionLog{operator: name, to: reg.log}, find[K], with[K]
	for _, k := range kernels {
		u := untyped(k)
		if err := d.complete(u); err != nil {
			return err
		}
		d.kernels = append(d.kernels, u)
	}
	variable := "CANN_OPS_" + strings.ToUpper(name)
	if k := os.Getenv(variable); k != "" {
		if err := o.Pin(k); err != nil {
			return fmt.Errorf("%s: %w", variable, err)
		}
	}
	return nil
}

// op makes an operator of this package.
func op[A any, K comparable](reg *Registry, name string, validate func(*A) error, key func(*A) K, kernels ...Kernel[A, K]) *Op[A, K] {
	o := &Op[A, K]{validate: validate, key: key}
	if err := o.open(reg, name, kernels); err != nil {
		reg.fail(err)
	}
	return o
}

// planned makes an operator of this package whose check of the arguments makes a plan for its kernels.
func planned[A any, K comparable](reg *Registry, name string, plan func(*A, *plan) (K, error), kernels []Kernel[A, K]) *Op[A, K] {
	o := &Op[A, K]{plan: plan}
	if err := o.open(reg, name, kernels); err != nil {
		reg.fail(err)
	}
	return o
}

// core returns what does the work of the methods, nil for a nil operator.
func (o *Op[A, K]) core() *dispatch {
	if o == nil {
		return nil
	}
	return &o.dispatch
}

// Run checks the arguments, chooses a kernel and queues it on the stream. Arguments that no kernel
// can take, or that would fail on the device, are refused with ErrInvalid or ErrNoKernel before
// anything is launched.
func (o *Op[A, K]) Run(ctx context.Context, st *acl.Stream, a *A) error {
	if err := o.core().ready(ctx, st); err != nil {
		return err
	}
	p := o.blank()
	k, err := o.examine(a, p)
	if err != nil {
		return err
	}
	return o.dispatch.run(ctx, st, a, p, o.choose(k))
}

// blank returns a plan to fill, nil if the operator makes none.
func (o *Op[A, K]) blank() *plan {
	if o.plan == nil {
		return nil
	}
	return new(plan)
}

// examine checks the arguments and returns their key. In the operators of attention it also fills the
// plan, so that sizes and mask are examined once per launch.
func (o *Op[A, K]) examine(a *A, p *plan) (k K, err error) {
	switch {
	case a == nil:
		err = invalid("the arguments are nil")
	case o.plan != nil:
		k, err = o.plan(a, p)
	default:
		if err = o.validate(a); err == nil {
			return o.key(a), nil
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.dispatch.name, err)
	}
	return k, err
}

// choose looks up the choice for a key, and makes it if the key is new.
func (o *Op[A, K]) choose(key K) *choice {
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
	_, err := o.Key(a)
	return err
}

// Key returns the key that the kernels' Supports get for these arguments; the error is that of
// Check.
func (o *Op[A, K]) Key(a *A) (K, error) {
	if err := o.core().made(); err != nil {
		var none K
		return none, err
	}
	return o.examine(a, o.blank())
}

// Explain returns which kernel the arguments get, and why they do not get the others. It launches
// nothing.
func (o *Op[A, K]) Explain(a *A) Explanation {
	key, err := o.Key(a)
	if err != nil {
		return Explanation{Operator: o.Name(), Invalid: err}
	}
	return o.dispatch.explanation(key)
}

// Name returns the operator's name.
func (o *Op[A, K]) Name() string {
	if o == nil {
		return ""
	}
	return o.dispatch.name
}

// Kernels lists the kernels in order of preference.
func (o *Op[A, K]) Kernels() []string { return o.core().names() }

// Register adds a kernel that is preferred to the existing ones, or replaces the kernel of the same
// name. On a pinned or sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Register(k Kernel[A, K]) error { return o.core().register(untyped(k)) }

// Pin fixes the kernel by name until Unpin. Arguments that it does not support are then refused
// instead of going to another kernel.
func (o *Op[A, K]) Pin(name string) error { return o.core().pin(name) }

// Unpin undoes Pin; on a sealed operator it fails with ErrPinned.
func (o *Op[A, K]) Unpin() error { return o.core().unpin() }

// Seal disables Register, Pin and Unpin for good.
func (o *Op[A, K]) Seal() { o.core().seal() }

// untyped hides the types of a kernel.
func untyped[A any, K comparable](k Kernel[A, K]) kernel {
	u := kernel{name: k.Name}
	switch {
	case k.attend != nil:
		u.run = func(ctx context.Context, st *acl.Stream, a any, p *plan) error { return k.attend(ctx, st, a.(*A), p) }
	case k.Run != nil:
		u.run = func(ctx context.Context, st *acl.Stream, a any, _ *plan) error { return k.Run(ctx, st, a.(*A)) }
	}
	if k.Supports != nil {
		u.supports = func(env *Env, key any) error { return k.Supports(env, key.(K)) }
	}
	return u
}
