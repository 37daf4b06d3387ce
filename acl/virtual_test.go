package acl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestVirtualMemory: a buffer over two pieces of memory, which keep what they hold when they are mapped
// elsewhere.
func TestVirtualMemory(t *testing.T) {
	const page = 2 << 20
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	free, _, err := dev.MemInfo()
	require.NoError(t, err)
	r, err := dev.Reserve(5*page - 100)
	require.NoError(t, err)
	require.Equal(t, 5*page, r.Size())
	after, _, err := dev.MemInfo()
	require.NoError(t, err)
	require.Equal(t, free, after, "addresses take no memory")
	a, err := dev.MallocPhysical(page)
	require.NoError(t, err)
	b, err := dev.MallocPhysical(page + 1)
	require.NoError(t, err)
	require.Equal(t, 2*page, b.Size())

	both, err := r.Map(page, a, b)
	require.NoError(t, err)
	require.Equal(t, r.Address()+page, both.Address())
	require.Equal(t, 3*page, both.Size())
	x, err := aclnn.Wrap(both, aclnn.Float32, 3*page/4)
	require.NoError(t, err)
	require.NoError(t, aclnn.InplaceFillScalar(st, aclnn.InplaceFillScalarParams{Self: x, Value: aclnn.Float(3)}))

	for name, c := range map[string]struct {
		offset int
		pieces []*acl.Physical
		class  error
	}{
		"taken":            {2 * page, []*acl.Physical{a}, acl.ErrBusy},
		"not a page":       {100, []*acl.Physical{a}, acl.ErrInvalidArgument},
		"negative":         {-page, []*acl.Physical{a}, acl.ErrInvalidArgument},
		"beyond the range": {4 * page, []*acl.Physical{b}, acl.ErrInvalidArgument},
		"nothing":          {0, nil, acl.ErrInvalidArgument},
		"nil":              {0, []*acl.Physical{nil}, acl.ErrInvalidArgument},
	} {
		_, err := r.Map(c.offset, c.pieces...)
		require.ErrorIs(t, err, c.class, name)
	}
	require.ErrorIs(t, r.Close(), acl.ErrBusy)
	release := hold(t, st)
	closed := make(chan error)
	go func() { closed <- both.Close() }() // waits for the stream
	select {
	case err := <-closed:
		t.Fatalf("memory was unmapped while a stream uses it: %v", err)
	default:
	}
	release()
	require.NoError(t, <-closed)

	again, err := r.Map(0, b)
	require.NoError(t, err)
	got := make([]float32, 4)
	require.NoError(t, acl.CopyFromDevice(t.Context(), st, got, again))
	require.Equal(t, []float32{3, 3, 3, 3}, got)
	require.NoError(t, b.Close(), "mapped memory stays until its buffer is closed")
	require.NoError(t, acl.CopyFromDevice(t.Context(), st, got, again))
	_, err = r.Map(3*page, b)
	require.ErrorIs(t, err, acl.ErrClosed)
	require.NoError(t, again.Close())
	require.NoError(t, a.Close())
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err = r.Map(0, a)
	require.ErrorIs(t, err, acl.ErrClosed)
	after, _, err = dev.MemInfo()
	require.NoError(t, err)
	require.Equal(t, free, after)
	_, err = dev.MallocPhysical(1 << 46)
	require.ErrorIs(t, err, acl.ErrOutOfMemory)
	for _, n := range []int{0, -1} {
		_, err = dev.MallocPhysical(n)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
		_, err = dev.Reserve(n)
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
	}
}

// TestVirtualMemoryOfDevices: memory of another device is refused.
func TestVirtualMemoryOfDevices(t *testing.T) {
	rt := acltest.Open(t)
	if n, err := rt.DeviceCount(); err != nil || n < 2 {
		t.Skip("needs two devices")
	}
	r, err := acltest.Device(t, rt, 0).Reserve(2 << 20)
	require.NoError(t, err)
	p, err := acltest.Device(t, rt, 1).MallocPhysical(2 << 20)
	require.NoError(t, err)
	_, err = r.Map(0, p)
	require.ErrorIs(t, err, acl.ErrWrongDevice)
	require.NoError(t, p.Close())
	require.NoError(t, r.Close())
}
