package acl_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
)

func TestMain(m *testing.M) {
	// The emulated machine: small enough to be filled, with peers.
	for k, v := range map[string]string{"CANN_EMU_DEVICES": "4", "CANN_EMU_MEMORY": "256M"} {
		if _, set := os.LookupEnv(k); !set {
			os.Setenv(k, v)
		}
	}
	goleak.VerifyTestMain(m)
}

var background = context.Background()

// openRuntime opens CANN, or skips the test with the reason why it cannot. When the test
// ends everything must be closed.
func openRuntime(t testing.TB, options ...acl.Option) *acl.Runtime {
	t.Helper()
	before := acl.Live() // not empty if an earlier test has failed
	rt, err := acl.Open(acl.Config{}, options...)
	if errors.Is(err, acl.ErrNotInstalled) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close())
		assert.Equal(t, before, acl.Live(), "the test left objects open")
	})
	return rt
}

// openDevice opens a device.
func openDevice(t testing.TB, rt *acl.Runtime, id int) *acl.Device {
	t.Helper()
	n, err := rt.DeviceCount()
	require.NoError(t, err)
	if id >= n {
		t.Skipf("device %d is needed, there are %d", id, n)
	}
	dev, err := rt.Device(id)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dev.Close()) })
	return dev
}

// openStream makes a stream on device 0.
func openStream(t testing.TB, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	return newStream(t, openDevice(t, openRuntime(t), 0), options...)
}

func newStream(t testing.TB, dev *acl.Device, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	st, err := dev.NewStream(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	return st
}

// hold keeps the stream busy until release is called, at the latest when the test ends.
func hold(t testing.TB, st *acl.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	var open bool
	release = func() {
		if !open {
			open = true
			close(gate)
		}
	}
	t.Cleanup(release)
	err := st.HostFunc(func() { <-gate })
	if errors.Is(err, acl.ErrNotSupported) {
		t.Skip("this CANN version has no host functions: ", err)
	}
	require.NoError(t, err)
	return release
}

// malloc is a buffer that is closed with the test.
func malloc(t testing.TB, from interface {
	Malloc(int) (*acl.Buffer, error)
}, n int) *acl.Buffer {
	t.Helper()
	b, err := from.Malloc(n)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// requireError checks code and group.
func requireError(t testing.TB, err error, group error, code acl.Code) *acl.Error {
	t.Helper()
	require.ErrorIs(t, err, group)
	var e *acl.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}
