package acltest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
)

// Open opens the runtime for a test, or skips it where there is no CANN.
func Open(t testing.TB, options ...acl.Option) *acl.Runtime {
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

// Main runs a package's tests, of which none may leave a goroutine, with the runtime open all
// the time, where there is one: what each of them closes last is a device, whose memory stays.
func Main(m *testing.M) {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		goleak.VerifyTestMain(m) // every test that needs the runtime says why it is not there
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := rt.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// Need skips a test of something that opens the runtime itself where there is no CANN.
func Need(t testing.TB) {
	t.Helper()
	require.NoError(t, Open(t).Close())
}

// Device opens a device, or skips the test where there are not as many.
func Device(t testing.TB, rt *acl.Runtime, id int) *acl.Device {
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

// Stream makes a stream of a device.
func Stream(t testing.TB, dev *acl.Device, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	st, err := dev.NewStream(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	return st
}
