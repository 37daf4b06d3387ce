package fft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Kind selects the element types of a transform (aclfftType).
type Kind int32

// The kinds that have kernels, in single precision. There is no zero value: a plan says what it transforms.
const (
	ComplexToComplex Kind = abi.ACLFFT_C2C
	RealToComplex    Kind = abi.ACLFFT_R2C // forward: n real numbers to n/2+1 complex ones
	ComplexToReal    Kind = abi.ACLFFT_C2R // backward: n/2+1 complex numbers to n real ones
)

// String returns the name that ops-fft gives the kind.
func (k Kind) String() string {
	switch k {
	case ComplexToComplex:
		return "C2C"
	case RealToComplex:
		return "R2C"
	case ComplexToReal:
		return "C2R"
	}
	return fmt.Sprintf("Kind(%d)", int32(k))
}

// Layout says how the numbers of several transforms lie in a slice.
type Layout int32

// The layouts.
const (
	Rows    Layout = abi.ACLFFT_HORIZONTAL // one transform after the other
	Columns Layout = abi.ACLFFT_VERTICAL   // of a matrix of n rows; only ComplexToComplex on a 910B
)

// Direction is the sign of the exponent.
type Direction int32

// The directions. There is no zero value.
const (
	Forward  Direction = abi.ACLFFT_FORWARD  // sums of x[j] exp(-2πi jk/n)
	Backward Direction = abi.ACLFFT_BACKWARD // sums of x[j] exp(+2πi jk/n), n times the inverse
)

// Plan is a transform of a size (aclfftHandle). A mutex makes its calls take turns.
type Plan struct {
	st         *acl.Stream
	context    aclrtContext
	kind       Kind
	n, m       int // numbers of a transform: real ones or complex ones, and complex ones of a half spectrum
	transforms int
	writes     bool // whether the library writes over its input
	text       string

	mu     sync.Mutex
	handle aclfftHandle
}

// Plan1D makes a plan for transforms of n numbers, of which each call computes batch, on a stream (aclfftPlan1d).
// The slices of a call hold the numbers of all transforms in the plan's layout.
func Plan1D(st *acl.Stream, kind Kind, n, batch int, layout Layout) (*Plan, error) {
	p := &Plan{st: st, kind: kind, n: n, m: n/2 + 1, transforms: batch}
	p.text = fmt.Sprintf("%v of %d x %d", kind, batch, n)
	if layout == Columns {
		p.text += " along columns"
	} else if layout != Rows {
		return nil, p.invalid("fft.Plan1D", "Layout(%d); it is Rows or Columns", int32(layout))
	}
	return p.open("fft.Plan1D", func(chip string) error {
		p.writes = is910B(chip) && layout == Rows && n >= 32768
		return p.fits1D(chip, layout)
	}, func() (aclfftHandle, error) {
		return aclfftPlan1d(p.context, int32(n), aclfftType(kind), int32(batch), int32(layout))
	})
}

// Plan2D makes a plan for complex transforms of matrices of rows x columns numbers, in row-major order, of which each
// call computes batch (aclfftPlan2d). Rows and columns are 32, 64 or 128. Only a 910B has it.
func Plan2D(st *acl.Stream, rows, columns, batch int) (*Plan, error) {
	p := &Plan{st: st, kind: ComplexToComplex, n: rows * columns, transforms: batch}
	p.text = fmt.Sprintf("%v of %d x %d x %d", p.kind, batch, rows, columns)
	return p.open("fft.Plan2D", func(chip string) error {
		switch sizes := []int{32, 64, 128}; {
		case !is910B(chip):
			return fmt.Errorf("%w: %s transforms in one dimension only", acl.ErrNotSupported, chip)
		case !slices.Contains(sizes, rows) || !slices.Contains(sizes, columns):
			return fmt.Errorf("%w: rows and columns are 32, 64 or 128", acl.ErrNotSupported)
		}
		return nil
	}, func() (aclfftHandle, error) {
		return aclfftPlan2d(p.context, int32(batch), int32(rows), int32(columns), aclfftType(p.kind))
	})
}

// open checks a plan, makes its handle and sets the stream.
func (p *Plan) open(call string, fits func(chip string) error, handle func() (aclfftHandle, error)) (*Plan, error) {
	if _, _, err := bridge.StreamOf(p.st); err != nil {
		return nil, p.failed(call, err)
	}
	if p.n <= 0 || p.transforms <= 0 {
		return nil, p.invalid(call, "lengths and batches are positive")
	}
	if err := fits(p.st.Device().Runtime().SoC()); err != nil {
		return nil, p.failed(call, err)
	}
	p.context = aclrtContext(p.st.ContextHandle())
	h, err := handle()
	if err != nil {
		return nil, p.failed(call, err)
	}
	p.handle = h
	if err := aclfftSetStream(p.context, h, aclrtStream(p.st.Handle())); err != nil {
		return nil, errors.Join(p.failed(call, err), p.Close())
	}
	return p, nil
}

func is910B(chip string) bool { return strings.HasPrefix(chip, "Ascend910B") }

// fits1D refuses what the library has no kernel for on a chip.
func (p *Plan) fits1D(chip string, layout Layout) error {
	power := bits.OnesCount(uint(p.n)) == 1
	lengths := ""
	switch old := is910B(chip); {
	case !old && !strings.HasPrefix(chip, "Ascend950"):
		return fmt.Errorf("%w: ops-fft has kernels for Ascend910B and Ascend950, not for %s", acl.ErrNotSupported, chip)
	case layout == Columns && p.kind != ComplexToComplex:
		return fmt.Errorf("%w: columns are transformed from complex to complex numbers only", acl.ErrNotSupported)
	case layout == Columns && !old:
		return fmt.Errorf("%w: %s has no kernel for columns, and would transform a row", acl.ErrNotSupported, chip)
	case layout == Columns && (!power || p.n < 256 || p.n > 1<<18):
		lengths = "columns of a power of two from 256 to 262144"
	case layout == Rows && p.kind == ComplexToComplex && old && p.n > 256 && (!power || p.n > 1<<27):
		lengths = "rows up to 256, and of a power of two up to 2^27"
	case p.kind == ComplexToComplex && !old && (p.n <= 256 || !smooth(p.n)):
		lengths = "rows above 256 whose length has no prime factor above 47"
	case p.kind != ComplexToComplex && old && p.n > 1024:
		lengths = "rows up to 1024"
	case p.kind == RealToComplex && !old && p.n > 4096 && !smooth(p.n):
		lengths = "rows up to 4096, and above those whose length has no prime factor above 47"
	case p.kind == ComplexToReal && !old && (p.n <= 1024 || !smooth(p.n)):
		lengths = "rows above 1024 whose length has no prime factor above 47"
	case p.kind != ComplexToComplex && p.kind != RealToComplex && p.kind != ComplexToReal:
		return fmt.Errorf("%w: %v; name one of the package's kinds", acl.ErrInvalidArgument, p.kind)
	}
	if lengths != "" {
		return fmt.Errorf("%w: %s transforms %s", acl.ErrNotSupported, chip, lengths)
	}
	return nil
}

// smooth reports whether no prime factor is greater than 47.
func smooth(n int) bool {
	for p := 2; p <= 47; p++ {
		for n%p == 0 {
			n /= p
		}
	}
	return n == 1
}

// Close destroys the plan (aclfftDestroy). A second Close does nothing.
func (p *Plan) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle == 0 {
		return nil
	}
	err := aclfftDestroy(p.context, p.handle)
	if p.handle = 0; err != nil {
		return p.failed("Plan.Close", err)
	}
	return nil
}

// ComplexToComplex transforms src into dst, which may be the same slice (aclfftExecC2C). It waits until the stream has
// done what was queued before, at most until ctx ends, and then for the transform, which cannot be ended.
func (p *Plan) ComplexToComplex(ctx context.Context, dst, src []complex64, direction Direction) error {
	const call = "Plan.ComplexToComplex"
	if err := p.check(call, ComplexToComplex, len(dst), len(src)); err != nil {
		return err
	}
	if direction != Forward && direction != Backward {
		return p.invalid(call, "Direction(%d); it is Forward or Backward", int32(direction))
	}
	if p.writes { // the library works in its input for these lengths
		src = slices.Clone(src)
	}
	return run(ctx, p, call, dst, src, func(to, from *complex64) error {
		return aclfftExecC2C(p.context, p.handle, from, to, int32(direction))
	})
}

// RealToComplex transforms real numbers into the half of the spectrum that determines the rest (aclfftExecR2C): numbers
// 0 to n/2 of each transform. It waits as ComplexToComplex does.
func (p *Plan) RealToComplex(ctx context.Context, dst []complex64, src []float32) error {
	const call = "Plan.RealToComplex"
	if err := p.check(call, RealToComplex, len(dst), len(src)); err != nil {
		return err
	}
	return run(ctx, p, call, dst, src, func(to *complex64, from *float32) error {
		return aclfftExecR2C(p.context, p.handle, from, to)
	})
}

// ComplexToReal transforms the half of a spectrum, numbers 0 to n/2, into n real numbers, n times the inverse
// (aclfftExecC2R). It waits as ComplexToComplex does.
func (p *Plan) ComplexToReal(ctx context.Context, dst []float32, src []complex64) error {
	const call = "Plan.ComplexToReal"
	if err := p.check(call, ComplexToReal, len(dst), len(src)); err != nil {
		return err
	}
	return run(ctx, p, call, dst, src, func(to *float32, from *complex64) error {
		return aclfftExecC2R(p.context, p.handle, from, to)
	})
}

// check refuses a plan of another kind and slices of another length than the plan's.
func (p *Plan) check(call string, kind Kind, dst, src int) error {
	if p == nil || p.st == nil {
		return fmt.Errorf("fft.%s: %w: the plan is nil, or was not made by this package", call, acl.ErrInvalidArgument)
	}
	if p.kind != kind {
		return p.invalid(call, "the plan is for %v", p.kind)
	}
	to, from := p.n, p.n
	switch kind {
	case RealToComplex:
		to = p.m
	case ComplexToReal:
		from = p.m
	}
	if dst != to*p.transforms || src != from*p.transforms {
		return p.invalid(call, "dst has %d numbers and src %d; the plan takes %d and %d", dst, src, to*p.transforms, from*p.transforms)
	}
	return nil
}

// run waits for the stream's earlier work and calls the library with the slices' memory.
func run[D, S any](ctx context.Context, p *Plan, call string, dst []D, src []S, execute func(*D, *S) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle == 0 {
		return p.failed(call, fmt.Errorf("%w: the plan is closed", acl.ErrClosed))
	}
	if err := cmp.Or(ctx.Err(), p.st.Synchronize(ctx)); err != nil {
		return p.failed(call, err)
	}
	if err := execute(&dst[0], &src[0]); err != nil {
		return p.failed(call, err)
	}
	return nil
}

func (p *Plan) invalid(call, format string, args ...any) error {
	return p.failed(call, fmt.Errorf("%w: %s", acl.ErrInvalidArgument, fmt.Sprintf(format, args...)))
}

// Error is a failed or refused call of a plan.
type Error struct {
	Op   string // such as "Plan.RealToComplex"
	Plan string // what it transforms, such as "C2C of 4 x 1000"
	Code int32  // aclfftResult; 0 when the library was not called
	Err  error  // an error of acl, *cshim.Error, or both
}

func (e *Error) Error() string { return fmt.Sprintf("%s(%s): %v", e.Op, e.Plan, e.Err) }

// Unwrap returns the cause for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// failed makes the error of a call that the library refused or for which it was not found.
func (p *Plan) failed(call string, err error) error {
	e := &Error{Op: call, Plan: p.text, Err: err}
	var c *cshim.Error
	if errors.As(err, &c) {
		e.Code = c.Code
		if class := codeClasses[c.Code]; class != nil {
			e.Err = fmt.Errorf("%w: %w", class, err)
		}
		return e
	}
	var library *cshim.LibraryError
	var symbol *cshim.SymbolError
	if errors.As(err, &library) || errors.As(err, &symbol) {
		e.Err = fmt.Errorf("%w: %w; build ops-fft and install it beside CANN", acl.ErrNotInstalled, err)
	}
	return e
}

// codeClasses maps aclfftResult codes to the errors of package acl.
var codeClasses = map[int32]error{
	abi.ACLFFT_INVALID_PLAN: acl.ErrClosed, abi.ACLFFT_ALLOC_FAILED: acl.ErrOutOfMemory, abi.ACLFFT_INVALID_TYPE: acl.ErrInvalidArgument,
	abi.ACLFFT_INVALID_VALUE: acl.ErrInvalidArgument, abi.ACLFFT_INVALID_SIZE: acl.ErrInvalidArgument,
	abi.ACLFFT_NOT_IMPLEMENTED: acl.ErrNotSupported, abi.ACLFFT_NOT_SUPPORTED: acl.ErrNotSupported,
}
