package aclnn_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/internal/testing/niltest"
)

// TestNil: objects that nothing has made, and nil parameters, give errors of package acl's
// classes and no panics. A nil *Scope is like any nil pointer: scopes are values.
func TestNil(t *testing.T) {
	refusals := []error{acl.ErrInvalidArgument, acl.ErrClosed, acl.ErrNotSupported}
	niltest.Complete(t, ".", "Call", "Clone", "Compose", "Contiguous", "Copy", "CopyFromDevice", "CopyToDevice", "Error", "Executor",
		"FromSlice", "Full", "Launch", "Load", "LoadInto", "New", "NewCall", "Ones", "Operator", "Prepare", "Print", "Save",
		"Scope", "Sprint", "Tensor", "ToSlice", "Wrap", "Zeros")
	niltest.Receivers(t, refusals, (*aclnn.Executor)(nil), (*aclnn.Operator)(nil), (*aclnn.Tensor)(nil),
		new(aclnn.Call), new(aclnn.Executor), new(aclnn.Operator), new(aclnn.Scope), new(aclnn.Tensor))
	require.NotEmpty(t, new(aclnn.Error).Error())
	for name, f := range map[string]any{
		"Clone": aclnn.Clone, "Contiguous": aclnn.Contiguous, "Copy": aclnn.Copy,
		"CopyFromDevice": aclnn.CopyFromDevice[float32], "CopyToDevice": aclnn.CopyToDevice[float32],
		"FromSlice": aclnn.FromSlice[float32], "Full": aclnn.Full, "Load": aclnn.Load, "LoadInto": aclnn.LoadInto,
		"New": aclnn.New, "Ones": aclnn.Ones, "Prepare": aclnn.Prepare, "Print": aclnn.Print, "Save": aclnn.Save,
		"Sprint": aclnn.Sprint, "ToSlice": aclnn.ToSlice[float32], "Wrap": aclnn.Wrap, "Zeros": aclnn.Zeros,
		"operator": aclnn.Add, "NewCall": func(st *acl.Stream, op *aclnn.Operator) error { return aclnn.NewCall(st, op).Launch() },
		"Compose": func(st *acl.Stream) error { return aclnn.Compose(st, func(s *aclnn.Scope) { s.Zero(nil) }) },
	} {
		niltest.Function(t, refusals, name, f)
	}

	ctx := t.Context()
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	x := made(t)(aclnn.Zeros(st, aclnn.Float32, 2))
	refused := func(name string, err error) {
		t.Helper()
		assert.ErrorIs(t, err, acl.ErrInvalidArgument, name)
	}
	for _, none := range []*aclnn.Tensor{nil, new(aclnn.Tensor)} {
		_, err := aclnn.Clone(st, none)
		refused("Clone", err)
		_, err = aclnn.Contiguous(st, none)
		refused("Contiguous", err)
		refused("Copy", aclnn.Copy(st, none, x))
		refused("Copy from", aclnn.Copy(st, x, none))
		refused("CopyFromDevice", aclnn.CopyFromDevice(ctx, st, []float32{1}, none))
		refused("CopyToDevice", aclnn.CopyToDevice(ctx, st, none, []float32{1}))
		_, err = aclnn.ToSlice[float32](ctx, st, none)
		refused("ToSlice", err)
		_, err = aclnn.Sprint(ctx, st, none)
		refused("Sprint", err)
		refused("Print", aclnn.Print(ctx, st, io.Discard, none))
		refused("LoadInto", aclnn.LoadInto(ctx, st, none, safetensors.Tensor{}))
		refused("Save", aclnn.Save(ctx, st, nil, "x", none))
		refused("operator", aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: new(aclnn.Tensor)}))
		refused("list", aclnn.Cat(st, aclnn.CatParams{Tensors: []*aclnn.Tensor{x, none}, Out: x}))
	}
	_, err := aclnn.Load(ctx, st, aclnn.Float32, safetensors.Tensor{})
	refused("Load", err)
	refused("LoadInto", aclnn.LoadInto(ctx, st, x, safetensors.Tensor{}))
	_, err = aclnn.Wrap(new(acl.Buffer), aclnn.Float32, 0)
	refused("Wrap", err)
	_, err = aclnn.Prepare(st, (*aclnn.AddParams)(nil))
	refused("Prepare", err)
	refused("Compose", aclnn.Compose(st, nil))
	var scope aclnn.Scope
	aclnn.Launch(&scope, aclnn.Add, aclnn.AddParams{})
	refused("scope", scope.Err())

	ex, err := aclnn.Prepare(st, &aclnn.ExpParams{Self: x, Out: x})
	require.NoError(t, err)
	niltest.Parameters(t, refusals, ex)
	require.NoError(t, ex.Close())
	niltest.Receivers(t, []error{acl.ErrClosed}, ex)
	require.NoError(t, st.Synchronize(ctx), "everything still works")
}
