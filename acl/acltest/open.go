package acltest

import (
	"errors"
	"testing"

	"github.com/goascend/cann/acl"
)

// Open opens the runtime for a test, or skips the test where there is no CANN. When the test
// ends it closes the runtime and requires, as NoLeaks does, that nothing is left open.
func Open(t testing.TB, options ...acl.Option) *acl.Runtime {
	t.Helper()
	NoLeaks(t)
	rt, err := acl.Open(acl.Config{}, options...)
	if errors.Is(err, acl.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, rt)
	return rt
}

// Need skips a test where there is no CANN, for tests of what opens the runtime itself.
func Need(t testing.TB) {
	t.Helper()
	if err := Open(t).Close(); err != nil {
		t.Fatal(err)
	}
}

// Device opens a device until the test ends, or skips the test where there are not as many.
func Device(t testing.TB, rt *acl.Runtime, id int) *acl.Device {
	t.Helper()
	n, err := rt.DeviceCount()
	if err != nil {
		t.Fatal(err)
	}
	if id >= n {
		t.Skipf("device %d is needed, there are %d", id, n)
	}
	dev, err := rt.Device(id)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, dev)
	return dev
}

// Stream makes a stream of a device until the test ends. Work that has failed on it by then
// fails the test, unless a Synchronize of the test has reported it.
func Stream(t testing.TB, dev *acl.Device, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	st, err := dev.NewStream(options...)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, st)
	return st
}

func closeAfter(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		t.Helper()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
