package nn

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

// args are the arguments of an operator by C parameter name: *Tensor, []*Tensor, *Scalar,
// []*Scalar, []int64, []float32, []bool, string, bool, float64 and integers. A parameter
// that is not named is null, or zero.
type args map[string]any

// host resolves addresses of the tests' own C memory to themselves.
type host struct{}

func (host) Resolve(addr uint64, _ int64) (unsafe.Pointer, error) { return rt.Pointer(addr), nil }

// run prepares and executes an operator, given by its name without "aclnn".
func run(t testing.TB, name string, a args) {
	t.Helper()
	require.NoError(t, execute(t, name, a))
}

// refused prepares an operator and asserts that phase one answers code with a text that
// holds every one of texts.
func refused(t testing.TB, code int32, name string, a args, texts ...string) {
	t.Helper()
	_, err := prepared(t, name, a)
	var e *Error
	require.True(t, errors.As(err, &e), "want a refusal, got %v", err)
	require.Equal(t, code, e.Code, e.Text)
	require.Contains(t, e.Text, "aclnn"+name)
	for _, s := range texts {
		require.Contains(t, e.Text, s)
	}
}

// execute is run that returns the error of either phase. Small calls are tried before, to see
// what they do with their tensors.
func execute(t testing.TB, name string, a args) error {
	t.Helper()
	c := called(t, name, a)
	accepted := calls.note(c)
	e, err := newExecutor(implementations[name], c)
	if err != nil {
		return err
	}
	if e.call.launchErr != nil {
		return e.call.launchErr
	}
	scratch := workspaceOf(t, e)
	compute := func(e *executor) error { return together([]*executor{e}, []uint64{scratch}) }
	if triable(e.call) {
		trial, err := prepared(t, name, a)
		require.NoError(t, err)
		verifyTouches(t, trial, compute)
	}
	if err := compute(e); err != nil {
		return err
	}
	accepted()
	return nil
}

// prepared is phase one.
func prepared(t testing.TB, name string, a args) (*executor, error) {
	t.Helper()
	return newExecutor(implementations[name], called(t, name, a))
}

// called is the call of an operator that is implemented.
func called(t testing.TB, name string, a args) *Call {
	t.Helper()
	op := find(name)
	require.NotNil(t, op, "no operator aclnn%s", name)
	require.NotNil(t, implementations[name], "aclnn%s is not implemented", name)
	c := &Call{op: op, args: make([]any, len(op.params)), join: alone, links: &links{}}
	known := make(map[string]bool)
	for i, p := range op.params {
		known[p.name] = true
		c.args[i] = argument(t, c, p, a[p.name])
	}
	for k := range a {
		require.True(t, known[k], "aclnn%s has no parameter %q", name, k)
	}
	return c
}

// argument converts one argument to what decode makes of it.
func argument(t testing.TB, c *Call, p param, v any) any {
	t.Helper()
	switch p.class {
	case intClass, pointerClass:
		switch v := v.(type) {
		case nil:
			return int64(0)
		case int:
			return int64(v)
		case int64:
			return v
		case dtype.Type:
			return int64(v)
		}
	case boolClass:
		b, _ := v.(bool)
		return b
	case doubleClass, floatClass:
		f, _ := v.(float64)
		return f
	}
	switch v := v.(type) {
	case nil:
		return nil
	case *Tensor:
		if v == nil {
			return nil
		}
		return withoutMemory(c.capture(v, p.name))
	case []*Tensor:
		list := make([]*Tensor, len(v))
		for k, x := range v {
			list[k] = withoutMemory(c.capture(x, fmt.Sprintf("%s[%d]", p.name, k)))
		}
		return list
	}
	return v
}

// withoutMemory is a captured tensor as phase one has it: its memory is found when it runs.
func withoutMemory(x *Tensor) *Tensor {
	x.host = nil
	return x
}

// tensor makes a contiguous tensor of C memory; values repeat as needed, nil leaves it
// unwritten. Writes outside of it fail the test.
func tensor(t testing.TB, d dtype.Type, shape []int64, values ...float64) *Tensor {
	return tensorIn(t, d, kerneltest.Contiguous, shape, values...)
}

// tensorIn is tensor with another layout.
func tensorIn(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, values ...float64) *Tensor {
	t.Helper()
	return of(kerneltest.New(t, d, l, shape, values))
}

// of wraps a view in a tensor.
func of(v kernel.View) *Tensor {
	return &Tensor{
		Shape: slices.Clone(v.Shape), Strides: slices.Clone(v.Strides), DType: v.DType, Format: dtype.ND,
		Storage: slices.Clone(v.Shape), Addr: uint64(uintptr(v.Data)), host: v.Data,
	}
}

// values reads a tensor in row-major order.
func values(x *Tensor) []float64 { return kerneltest.Values(x.View()) }

// scalar is a scalar of the type CANN programs use for a Go value: int64, float64 as
// double, bool.
func scalar(v any) *Scalar {
	s := &Scalar{}
	p := unsafe.Pointer(&s.Bits)
	switch v := v.(type) {
	case int:
		s.DType = dtype.Int64
		kerneltest.Set(s.DType, p, float64(v))
	case float64:
		s.DType = dtype.Float64
		kerneltest.Set(s.DType, p, v)
	case float32:
		s.DType = dtype.Float32
		kerneltest.Set(s.DType, p, float64(v))
	case bool:
		s.DType = dtype.Bool
		if v {
			s.Bits[0] = 1
		}
	default:
		panic(fmt.Sprintf("no scalar type for %T", v))
	}
	return s
}
