package acl_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestMain(m *testing.M) {
	// The emulated machine: small enough to be filled, with peers.
	for k, v := range map[string]string{"CANN_EMU_DEVICES": "4", "CANN_EMU_MEMORY": "256M"} {
		if _, set := os.LookupEnv(k); !set {
			os.Setenv(k, v)
		}
	}
	// Examples cannot skip themselves where there is no CANN.
	if os.Getenv(unopened) == "" {
		if rt, err := acl.Open(acl.Config{}); err == nil {
			rt.Close()
		} else {
			flag.Set("test.skip", "^Example")
		}
	}
	goleak.VerifyTestMain(m)
}

// unopened is set for a test that must be the first to open CANN.
const unopened = "CANN_TEST_UNOPENED"

var background = context.Background()

// openStream makes a stream on device 0.
func openStream(t testing.TB, options ...acl.StreamOption) *acl.Stream {
	t.Helper()
	return acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0), options...)
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

// asked is a context that calls a function when it is first asked for its channel, as a wait does when it begins.
type asked struct {
	context.Context
	once sync.Once
	f    func()
}

func (a *asked) Done() <-chan struct{} {
	a.once.Do(a.f)
	return a.Context.Done()
}
