package acl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/internal/testing/niltest"
)

// refusals are the classes of calls that were never made.
var refusals = []error{acl.ErrInvalidArgument, acl.ErrClosed}

// TestNil: objects that nothing has made, and nil parameters, give errors and no panics.
func TestNil(t *testing.T) {
	niltest.Complete(t, ".", "AddressRange", "Allocator", "Arena", "Buffer", "Condition", "Context", "CopyFromDevice", "CopyToDevice", "Device", "Error",
		"Event", "Graph", "HostBuffer", "Physical", "Profile", "Runtime", "Slice", "Stream", "WithLogger")
	niltest.Receivers(t, refusals,
		(*acl.AddressRange)(nil), (*acl.Physical)(nil), new(acl.AddressRange), new(acl.Physical), (*acl.Allocator)(nil), (*acl.Arena)(nil), (*acl.Buffer)(nil), (*acl.Context)(nil), (*acl.Event)(nil),
		(*acl.Graph)(nil), (*acl.HostBuffer)(nil), (*acl.Runtime)(nil), (*acl.Stream)(nil),
		new(acl.Allocator), new(acl.Arena), new(acl.Buffer), new(acl.Context), new(acl.Device), new(acl.Event),
		new(acl.Graph), new(acl.HostBuffer), new(acl.Runtime), new(acl.Stream))
	niltest.Receivers(t, refusals, (*acl.Device)(nil))
	require.Contains(t, new(acl.Error).Error(), "")
	require.Nil(t, acl.Slice[float32](nil))

	rt := acltest.Open(t, nil)
	dev := acltest.Device(t, rt, 0)
	st, err := dev.NewStream(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	ev, err := st.Record(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	buf, host := malloc(t, dev, 16), hostBuffer(t, dev, 16)
	graph := capture(t, st, func() error { return st.Memset(buf, 0, 16) })
	for _, receiver := range []any{dev.Allocator(), dev, st, ev, buf, host, graph} {
		niltest.Parameters(t, refusals, receiver)
	}
	var none context.Context
	require.ErrorIs(t, acl.CopyToDevice(none, st, buf, []byte{1}), acl.ErrInvalidArgument)
	require.ErrorIs(t, acl.CopyToDevice(background, nil, buf, []byte{1}), acl.ErrInvalidArgument)
	require.ErrorIs(t, acl.CopyToDevice(background, st, nil, []byte{1}), acl.ErrInvalidArgument)
	require.ErrorIs(t, acl.CopyFromDevice(none, st, []byte{1}, buf), acl.ErrInvalidArgument)
	require.ErrorIs(t, acl.CopyFromDevice(background, nil, []byte{1}, buf), acl.ErrInvalidArgument)
	require.ErrorIs(t, acl.CopyFromDevice(background, st, []byte{1}, nil), acl.ErrInvalidArgument)
	for _, m := range []acl.Memory{nil, (*acl.Buffer)(nil), (*acl.HostBuffer)(nil), new(acl.Buffer), new(acl.HostBuffer)} {
		require.ErrorIs(t, st.Copy(m, host, 1), acl.ErrInvalidArgument)
		require.ErrorIs(t, st.Copy(buf, m, 1), acl.ErrInvalidArgument)
		require.ErrorIs(t, st.Copy2D(m, 1, host, 1, 1, 1), acl.ErrInvalidArgument)
		require.ErrorIs(t, dev.Copy(background, buf, m, 1), acl.ErrInvalidArgument)
		require.ErrorIs(t, dev.Copy2D(background, buf, 1, m, 1, 1, 1), acl.ErrInvalidArgument)
	}
	_, err = rt.Device(1 << 32)
	require.ErrorIs(t, err, acl.ErrInvalidArgument, "not device 0")
	require.NoError(t, st.Synchronize(background), "everything still works")
}

// TestUsedAfterClose: every method of a closed object that returns an error returns ErrClosed.
func TestUsedAfterClose(t *testing.T) {
	rt := acltest.Open(t)
	dev := acltest.Device(t, rt, 0)
	st := acltest.Stream(t, dev)
	other, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	device, err := rt.Device(0)
	require.NoError(t, err)
	x, err := dev.NewContext()
	require.NoError(t, err)
	closed, err := dev.NewStream()
	require.NoError(t, err)
	ev, err := dev.NewEvent()
	require.NoError(t, err)
	arena, err := st.NewArena(64)
	require.NoError(t, err)
	graph := capture(t, st, func() error { return nil })
	for _, c := range []interface{ Close() error }{other, device, x, closed, ev, arena, graph} {
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		niltest.Receivers(t, []error{acl.ErrClosed}, c)
	}
}
