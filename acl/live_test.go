package acl_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/acltest"
)

// TestLeaksAreReported: an object that is forgotten is told of with its kind and the stack
// that made it, and stays counted.
func TestLeaksAreReported(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	acltest.Open(t) // so that the runtime with the logger can be closed first
	rt, err := acl.Open(acl.Config{LeakStacks: true}, acl.Logger(zap.New(core)))
	require.NoError(t, err)
	defer acl.Logger(nil)()
	dev, err := rt.Device(0)
	require.NoError(t, err)
	st, err := dev.NewStream()
	require.NoError(t, err)
	before := acl.Live()[acl.KindEvent]
	closed, err := st.Record()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	forget(t, st)
	require.Eventually(t, func() bool { runtime.GC(); return logs.Len() > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, st.Close())
	require.NoError(t, dev.Close())
	require.NoError(t, rt.Close())
	runtime.GC()

	require.Equal(t, 1, logs.Len(), "only what was not closed is reported: %v", logs.All())
	entry := logs.All()[0]
	assert.Equal(t, "event", entry.ContextMap()["kind"])
	assert.Contains(t, entry.ContextMap()["made"], "live_test.go")
	assert.Equal(t, before+1, acl.Live()[acl.KindEvent])
	require.NoError(t, acl.ForgiveLeak(dev, acl.KindEvent))
}

//go:noinline
func forget(t *testing.T, st *acl.Stream) {
	_, err := st.Record()
	require.NoError(t, err)
}

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := acl.KindRuntime; k <= acl.KindArena; k++ {
		assert.NotEmpty(t, k.String())
		assert.False(t, seen[k.String()])
		seen[k.String()] = true
	}
}
