package niltest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Receivers calls every exported method of receivers that were never made: nil pointers and zero
// values. A method that returns an error must return one of the classes, unless its name begins
// with Close.
func Receivers(t *testing.T, classes []error, receivers ...any) {
	t.Helper()
	for _, r := range receivers {
		v := reflect.ValueOf(r)
		state := "zero"
		if v.IsNil() {
			state = "nil"
		}
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			for ctx, args := range arguments(v.Method(i).Type()) {
				t.Run(fmt.Sprintf("%s %v.%s%s", state, v.Type(), name, ctx), func(t *testing.T) {
					err, returns := call(t, v.Method(i), args)
					if returns && !strings.HasPrefix(name, "Close") {
						assert.Error(t, err)
					}
					refused(t, classes, err)
				})
			}
		}
	}
}

// Parameters calls the methods of a receiver in use that take something that can be nil, with
// nil; those that return an error must return one of the classes. Methods named in except may
// take nil.
func Parameters(t *testing.T, classes []error, receiver any, except ...string) {
	t.Helper()
	v := reflect.ValueOf(receiver)
	for i := range v.NumMethod() {
		name := v.Type().Method(i).Name
		if slices.Contains(except, name) || !takesNil(v.Method(i).Type()) {
			continue
		}
		t.Run(fmt.Sprintf("%v.%s", v.Type(), name), func(t *testing.T) {
			args := arguments(v.Method(i).Type())[""]
			err, returns := call(t, v.Method(i), args)
			assert.True(t, !returns || err != nil, "nil was taken")
			refused(t, classes, err)
		})
	}
}

// Function calls a function with zero arguments, nil where that is possible, as Parameters calls
// methods.
func Function(t *testing.T, classes []error, name string, f any) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		v := reflect.ValueOf(f)
		err, returns := call(t, v, arguments(v.Type())[""])
		assert.True(t, !returns || err != nil, "nil was taken")
		refused(t, classes, err)
	})
}

// call returns the error among the results, if there is one, and fails the test on a panic.
func call(t *testing.T, f reflect.Value, args []reflect.Value) (err error, returns bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	results := f.Call(args)
	if n := len(results); n > 0 && results[n-1].Type() == errorType {
		err, _ = results[n-1].Interface().(error)
		return err, true
	}
	return nil, false
}

func refused(t *testing.T, classes []error, err error) {
	t.Helper()
	if err != nil {
		assert.True(t, slices.ContainsFunc(classes, func(c error) bool { return errors.Is(err, c) }), "no class matches: %v", err)
		assert.NotContains(t, err.Error(), "usable")
	}
}

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

// arguments are zero values for the parameters of a function, without variadic ones. A function
// that takes a context is called with nil ("") and with one.
func arguments(f reflect.Type) map[string][]reflect.Value {
	n := f.NumIn()
	if f.IsVariadic() {
		n--
	}
	all := map[string][]reflect.Value{}
	for i := range n {
		all[""] = append(all[""], reflect.Zero(f.In(i)))
	}
	if n > 0 && f.In(0) == contextType {
		all[" in a context"] = slices.Clone(all[""])
		all[" in a context"][0] = reflect.ValueOf(context.Background())
	}
	if n == 0 {
		all[""] = nil
	}
	return all
}

// takesNil reports whether a parameter is a pointer, an interface or a function.
func takesNil(f reflect.Type) bool {
	for i := range f.NumIn() {
		switch f.In(i).Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Func:
			return true
		}
	}
	return false
}
