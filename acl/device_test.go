package acl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestDeviceThatDoesNotExist(t *testing.T) {
	rt := acltest.Open(t)
	n, err := rt.DeviceCount()
	require.NoError(t, err)
	for _, id := range []int{n, -1, 1 << 20} {
		_, err := rt.Device(id)
		e := requireError(t, err, acl.ErrInvalidArgument, 107001)
		assert.Equal(t, id, e.Device)
		assert.Equal(t, acl.DamageNone, e.Damage())
		assert.NotEmpty(t, e.Message)
	}
}

func TestDeviceIsShared(t *testing.T) {
	rt := acltest.Open(t)
	a, b := acltest.Device(t, rt, 0), acltest.Device(t, rt, 0)
	assert.Equal(t, a.Handle(), b.Handle())
	assert.Same(t, rt, a.Runtime())
	one, err := a.DefaultStream()
	require.NoError(t, err)
	two, err := b.DefaultStream()
	require.NoError(t, err)
	assert.Same(t, one, two)
	require.NoError(t, one.Close(), "closing the default stream does nothing")
	require.NoError(t, two.Synchronize(background))

	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	_, err = a.NewStream()
	requireError(t, err, acl.ErrClosed, 0)
	require.NoError(t, two.Synchronize(background), "the other Device keeps the context")
}

// TestObjectsOutliveTheirDevice: what was made on a device keeps it open.
func TestObjectsOutliveTheirDevice(t *testing.T) {
	rt := acltest.Open(t)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	def, err := dev.DefaultStream()
	require.NoError(t, err)
	st, err := dev.NewStream()
	require.NoError(t, err)
	buf, err := st.Malloc(100)
	require.NoError(t, err)
	require.NoError(t, st.Memset(buf, 0, 100))
	ev, err := st.Record()
	require.NoError(t, err)
	host, err := dev.MallocHost(100)
	require.NoError(t, err)
	arena, err := st.NewArena(1 << 20)
	require.NoError(t, err)

	require.NoError(t, dev.Close())
	require.NoError(t, st.Copy(host, buf, 100))
	require.NoError(t, st.Synchronize(background))
	require.NoError(t, st.Close())
	require.NoError(t, ev.Synchronize(background))
	require.NoError(t, ev.Close())
	require.NoError(t, arena.Close())
	require.NoError(t, host.Close())
	require.NoError(t, buf.Close())
	requireError(t, def.Synchronize(background), acl.ErrClosed, 0)
	assert.Equal(t, map[acl.Kind]int{acl.KindRuntime: 1}, acl.Live())
}

func TestRuntimeMayCloseFirst(t *testing.T) {
	rt := acltest.Open(t)
	again, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	dev, err := again.Device(0)
	require.NoError(t, err)
	require.NoError(t, again.Close())
	st, err := dev.NewStream()
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, dev.Close())
	_, err = rt.DeviceCount()
	require.NoError(t, err)
}

func TestProperties(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	p, err := dev.Properties()
	require.NoError(t, err)
	assert.Equal(t, dev.Runtime().SoC(), p.Name)
	free, total, err := dev.MemInfo()
	require.NoError(t, err)
	assert.Equal(t, total, p.Memory)
	assert.Positive(t, total)
	assert.LessOrEqual(t, free, total)
	assert.Positive(t, p.AICores)
	assert.Positive(t, p.VectorCores)
	assert.Positive(t, p.L2)
}

func TestContextSettings(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	x, err := dev.NewContext()
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	_, err = x.Setting(acl.Deterministic)
	requireError(t, err, acl.ErrInvalidArgument, 107021)
	require.NoError(t, x.Set(acl.Deterministic, 1))
	v, err := x.Setting(acl.Deterministic)
	require.NoError(t, err)
	assert.EqualValues(t, 1, v)

	require.NoError(t, dev.SetSaturation(acl.InfNaN))
	m, err := dev.Saturation()
	require.NoError(t, err)
	assert.Equal(t, acl.InfNaN, m)
	require.NoError(t, dev.SetKernelTimeout(90*time.Second))
	require.NoError(t, dev.SetWaitTimeout(0))
	requireError(t, dev.SetWaitTimeout(-1), acl.ErrInvalidArgument, 0)
}

// TestLimitsOfNewerVersions: calls that not every CANN version has work or say so.
func TestLimitsOfNewerVersions(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	err := dev.SetCoreLimit(acl.CubeCore, 4)
	if err != nil {
		require.ErrorIs(t, err, acl.ErrNotSupported)
		_, err = dev.CoreLimit(acl.CubeCore)
		require.ErrorIs(t, err, acl.ErrNotSupported)
		require.ErrorIs(t, dev.ResetCoreLimits(), acl.ErrNotSupported)
		return
	}
	n, err := dev.CoreLimit(acl.CubeCore)
	require.NoError(t, err)
	assert.Equal(t, 4, n)
	require.NoError(t, dev.ResetCoreLimits())
}

func TestExplicitContext(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	x, err := dev.NewContext()
	require.NoError(t, err)
	assert.NotEqual(t, dev.Handle(), x.Handle())
	assert.Same(t, dev, x.Device())
	st, err := x.NewStream()
	require.NoError(t, err)
	assert.Equal(t, x.Handle(), st.ContextHandle())
	def, err := x.DefaultStream()
	require.NoError(t, err)
	primary := acltest.Stream(t, dev)

	// Memory belongs to the device, so both contexts use it.
	buf := malloc(t, dev, 64)
	want := []int32{1, 2, 3}
	require.NoError(t, acl.CopyToDevice(background, st, buf, want))
	require.NoError(t, st.Synchronize(background))
	got := make([]int32, 3)
	require.NoError(t, acl.CopyFromDevice(background, primary, got, buf))
	assert.Equal(t, want, got)
	require.NoError(t, acl.CopyFromDevice(background, def, got, buf))

	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	_, err = x.NewEvent()
	requireError(t, err, acl.ErrClosed, 0)
	require.NoError(t, st.Synchronize(background), "the stream keeps its context")
	require.NoError(t, st.Close())
	requireError(t, def.Synchronize(background), acl.ErrClosed, 0)
	require.NoError(t, primary.Synchronize(background), "the primary context is not affected")
}

func TestPeerAccess(t *testing.T) {
	rt := acltest.Open(t)
	a, b := acltest.Device(t, rt, 0), acltest.Device(t, rt, 1)
	_, err := a.CanAccessPeer(a)
	requireError(t, err, acl.ErrInvalidArgument, 100000)
	can, err := a.CanAccessPeer(b)
	require.NoError(t, err)
	if !can {
		t.Skip("the devices are no peers")
	}
	st := acltest.Stream(t, a)
	here, there := malloc(t, a, 12), malloc(t, b, 12)
	require.NoError(t, acl.CopyToDevice(background, st, here, []int32{7, 8, 9}))
	e := requireError(t, st.Copy(there, here, 12), acl.ErrWrongDevice, 0)
	assert.Contains(t, e.Message, "device 1")
	require.NoError(t, a.EnablePeerAccess(b))
	require.NoError(t, a.EnablePeerAccess(b), "twice does no harm")
	require.NoError(t, st.Copy(there, here, 12))
	require.NoError(t, st.Synchronize(background))
	got := make([]int32, 3)
	require.NoError(t, acl.CopyFromDevice(background, acltest.Stream(t, b), got, there))
	assert.Equal(t, []int32{7, 8, 9}, got)
	require.NoError(t, a.DisablePeerAccess(b))
	other := acltest.Stream(t, a)
	requireError(t, other.Copy(there, here, 12), acl.ErrWrongDevice, 0)
}
