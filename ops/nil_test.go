package ops_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/testing/niltest"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// operatorsOf returns the operators of a registry, *ops.Op each, by the names of its methods.
func operatorsOf(reg *ops.Registry) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	v := reflect.ValueOf(reg)
	for i := range v.NumMethod() {
		if f := v.Method(i).Type(); f.NumIn() == 0 && f.NumOut() == 1 && strings.HasPrefix(f.Out(0).String(), "*ops.Op[") {
			all[v.Type().Method(i).Name] = v.Method(i).Call(nil)[0]
		}
	}
	return all
}

// TestNilArguments: every operator refuses a nil context, stream and arguments, and arguments without
// tensors, with an error of its name.
func TestNilArguments(t *testing.T) {
	b := opstest.New(t)
	all := operatorsOf(b.Registry)
	require.Len(t, all, 47)
	for method, operator := range all {
		t.Run(method, func(t *testing.T) {
			name := operator.MethodByName("Name").Call(nil)[0].String()
			run := operator.MethodByName("Run")
			pointer := run.Type().In(2)
			call := func(ctx, st, a reflect.Value) error {
				err, _ := run.Call([]reflect.Value{ctx, st, a})[0].Interface().(error)
				return err
			}
			ctx, st, empty := reflect.ValueOf(t.Context()), reflect.ValueOf(b.Stream), reflect.New(pointer.Elem())
			noContext := reflect.Zero(reflect.TypeFor[context.Context]())
			for text, err := range map[string]error{
				"the context is nil":    call(noContext, st, empty),
				"the stream is nil":     call(ctx, reflect.ValueOf((*acl.Stream)(nil)), empty),
				"the arguments are nil": call(ctx, st, reflect.Zero(pointer)),
			} {
				require.ErrorIs(t, err, ops.ErrInvalid)
				require.ErrorContains(t, err, name+": ")
				require.ErrorContains(t, err, text)
			}
			if name != "adamw_list" { // an empty list updates nothing
				require.ErrorIs(t, call(ctx, st, empty), ops.ErrInvalid)
				require.ErrorContains(t, call(ctx, st, empty), name+": ")
			}
			refusals := []error{acl.ErrInvalidArgument}
			niltest.Receivers(t, refusals, reflect.Zero(operator.Type()).Interface(), reflect.New(operator.Type().Elem()).Interface())
			niltest.Parameters(t, refusals, operator.Interface())
		})
	}
}

// TestNilRegistry: registries that nothing has made give errors and no panics.
func TestNilRegistry(t *testing.T) {
	refusals := []error{acl.ErrInvalidArgument}
	niltest.Receivers(t, refusals, (*ops.Registry)(nil), new(ops.Registry))
	for _, reg := range []*ops.Registry{nil, new(ops.Registry)} {
		for name, operator := range operatorsOf(reg) {
			require.True(t, operator.IsNil(), name)
		}
	}
	_, err := ops.NewOp[int, int](nil, "mine", nil, nil)
	require.ErrorIs(t, err, ops.ErrInvalid)
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	_, err = ops.NewOp[int, int](reg, "mine", nil, nil)
	require.ErrorIs(t, err, ops.ErrInvalid)
	_, err = ops.NewOp(reg, "mine", func(*int) error { return nil }, func(*int) int { return 0 }, ops.Kernel[int, int]{Name: "empty"})
	require.ErrorIs(t, err, ops.ErrInvalid)
}
