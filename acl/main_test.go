package acl_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

func TestMain(m *testing.M) {
	os.Exit(m.Run())
}

var background = context.Background()

// openRuntime opens CANN, or skips the test with the reason why it cannot. When the test
// ends everything must be closed.
func openRuntime(t testing.TB, options ...acl.Option) *acl.Runtime {
	t.Helper()
	require.Empty(t, acl.Live(), "an earlier test left objects open")
	rt, err := acl.Open(acl.Config{}, options...)
	if errors.Is(err, acl.ErrNotInstalled) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, rt.Close())
		assert.Empty(t, acl.Live(), "the test left objects open")
	})
	return rt
}

// openDevice opens device 0.
func openDevice(t testing.TB, options ...acl.Option) *acl.Device {
	t.Helper()
	rt := openRuntime(t, options...)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dev.Close()) })
	return dev
}

// openStream makes a stream on device 0.
func openStream(t testing.TB, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	st, err := openDevice(t).NewStream(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	return st
}
