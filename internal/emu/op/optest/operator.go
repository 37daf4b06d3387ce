package optest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// Args holds the arguments of an operator by C parameter name: *Tensor, []*Tensor, *Scalar,
// []*Scalar, []int64, []float32, []bool, string, bool, float64 and integers. Parameters without an
// entry are null or zero.
type Args map[string]any

// Tested is the table of the operators that tests can call. Main sets it.
var Tested op.Table

// Memory is op.Memory for the tests, which allocate their tensors in the C memory of the process.
type Memory struct{}

// Resolve returns the address itself as a pointer.
func (Memory) Resolve(addr uint64, _ int64) (unsafe.Pointer, error) { return rt.Pointer(addr), nil }

// Run prepares and executes an operator, given by its name without "aclnn".
func Run(t testing.TB, name string, a Args) {
	t.Helper()
	require.NoError(t, Execute(t, name, a))
}

// RunOn is like Run on another chip than that of the operator's other tests.
func RunOn(t testing.TB, chip acceptance.Chip, name string, a Args) {
	t.Helper()
	e, err := PrepareIn(t, op.Env{Chip: chip}, name, a)
	require.NoError(t, err)
	require.NoError(t, Together([]*op.Executor{e}, []uint64{WorkspaceOf(t, e)}))
}

// Refused prepares an operator and asserts that phase one refuses the call with the code and a
// message that contains all of texts.
func Refused(t testing.TB, code int32, name string, a Args, texts ...string) {
	t.Helper()
	_, err := Prepare(t, name, a)
	var e *op.Error
	require.True(t, errors.As(err, &e), "want a refusal, got %v", err)
	require.Equal(t, code, e.Code, e.Text)
	require.Contains(t, e.Text, "aclnn"+name)
	for _, s := range texts {
		require.Contains(t, e.Text, s)
	}
}

// Execute is like Run but returns the error of either phase. For small calls it first verifies how
// the operator accesses its tensors.
func Execute(t testing.TB, name string, a Args) error {
	t.Helper()
	call := called(t, name, a, op.Env{})
	accepted := calls.note(nil, call)
	e, err := op.NewExecutor(Tested[name], call)
	if err != nil {
		return err
	}
	if e.Call.LaunchErr() != nil {
		return e.Call.LaunchErr()
	}
	scratch := WorkspaceOf(t, e)
	compute := func(e *op.Executor) error { return Together([]*op.Executor{e}, []uint64{scratch}) }
	if triable(e.Call) {
		trial, err := Prepare(t, name, a)
		require.NoError(t, err)
		verifyTouches(t, trial, compute)
		verifyAliases(t, name, a, compute)
		if !trial.Call.Once() {
			verifyRebinding(t, name, a, compute)
		}
	}
	if err := compute(e); err != nil {
		return err
	}
	accepted()
	return nil
}

// Prepare runs phase one of an operator.
func Prepare(t testing.TB, name string, a Args) (*op.Executor, error) {
	t.Helper()
	return PrepareIn(t, op.Env{}, name, a)
}

// PrepareIn runs phase one of an operator in an environment.
func PrepareIn(t testing.TB, env op.Env, name string, a Args) (*op.Executor, error) {
	t.Helper()
	return op.NewExecutor(Tested[name], called(t, name, a, env))
}

// called returns the call of a tested operator. If env cannot join groups, every group has one
// rank.
func called(t testing.TB, name string, a Args, env op.Env) *op.Call {
	t.Helper()
	o := op.Find(name)
	require.NotNil(t, o, "no operator aclnn%s", name)
	require.NotNil(t, Tested[name], "aclnn%s is not implemented", name)
	if env.Join == nil {
		env.Join = alone
	}
	if env.Links == nil {
		env.Links = new(op.Links)
	}
	if env.Chip == 0 {
		env.Chip = home(name)
	}
	return op.NewCall(o, inOrder(t, o, a), env)
}

var homes sync.Map // of acceptance.Chip by operator

// home returns the chip on which an operator is tested if the test names none: the 910B if it has the
// operator.
func home(name string) acceptance.Chip {
	if chip, ok := homes.Load(name); ok {
		return chip.(acceptance.Chip)
	}
	chip, err := acceptance.Home(name)
	if err != nil {
		panic(err) // the tables are tested
	}
	homes.Store(name, chip)
	return chip
}

// inOrder returns the arguments of a call in the form that op.NewCall takes.
func inOrder(t testing.TB, o *op.Operator, a Args) []any {
	t.Helper()
	values := make([]any, len(o.Params))
	known := make(map[string]bool)
	for i, p := range o.Params {
		known[p.Name] = true
		values[i] = argument(p, a[p.Name])
	}
	for k := range a {
		require.True(t, known[k], "aclnn%s has no parameter %q", o.Name, k)
	}
	return values
}

// argument converts one argument to the form that op.NewCall takes.
func argument(p op.Param, v any) any {
	switch p.Class {
	case op.IntClass, op.PointerClass:
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
	case op.BoolClass:
		b, _ := v.(bool)
		return b
	case op.DoubleClass, op.FloatClass:
		f, _ := v.(float64)
		return f
	}
	switch v := v.(type) {
	case nil:
		return nil
	case *op.Tensor:
		if v == nil {
			return nil
		}
	}
	return v
}

// Tensor returns a contiguous tensor in C memory. Values repeat to fill the tensor; without values
// it stays unwritten. Writes outside its bounds fail the test.
func Tensor(t testing.TB, d dtype.Type, shape []int64, values ...float64) *op.Tensor {
	return TensorIn(t, d, kerneltest.Contiguous, shape, values...)
}

// TensorIn is like Tensor with another layout.
func TensorIn(t testing.TB, d dtype.Type, l kerneltest.Layout, shape []int64, values ...float64) *op.Tensor {
	t.Helper()
	return Of(kerneltest.New(t, d, l, shape, values))
}

// Of wraps a view in a tensor.
func Of(v kernel.View) *op.Tensor {
	return &op.Tensor{
		Shape: slices.Clone(v.Shape), Strides: slices.Clone(v.Strides), DType: v.DType, Format: dtype.ND,
		Storage: slices.Clone(v.Shape), Addr: uint64(uintptr(v.Data)), Data: v.Data,
	}
}

// Values returns the elements of a tensor in row-major order.
func Values(x *op.Tensor) []float64 { return kerneltest.Values(x.View()) }

// Scalar returns a scalar of the type that CANN programs use for a Go value: int64, double for
// float64, or bool.
func Scalar(v any) *op.Scalar {
	s := &op.Scalar{}
	p := unsafe.Pointer(&s.Bits)
	switch v := v.(type) {
	case int:
		s.DType = dtype.Int64
		*(*int64)(p) = int64(v)
	case int32:
		s.DType = dtype.Int32
		*(*int32)(p) = v
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

// With returns a copy of the arguments to which more is added. Entries of more replace those of the
// same name.
func (a Args) With(more Args) Args {
	out := Args{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}
