package hccl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/acltest"
)

// TestMemoryRanges: chips other than Atlas A3 have no memory ranges, and say so by name;
// collectives go on.
func TestMemoryRanges(t *testing.T) {
	rt := acltest.Open(t)
	if strings.HasPrefix(rt.SoC(), "Ascend910_93") {
		t.Skip("Atlas A3 has memory ranges")
	}
	st := acltest.Stream(t, acltest.Device(t, rt, 0))
	comms, err := hccl.JoinAll(st)
	require.NoError(t, err)
	c := comms[0]
	const base, size = 1 << 40, 2 << 20
	calls := map[string]func() error{
		"HcclCommSetMemoryRange":       func() error { return c.SetMemoryRange(base, size) },
		"HcclCommUnsetMemoryRange":     func() error { return c.UnsetMemoryRange(base) },
		"HcclCommActivateCommMemory":   func() error { return c.ActivateMemory(base, size, 1) },
		"HcclCommDeactivateCommMemory": func() error { return c.DeactivateMemory(base) },
	}
	for name, call := range calls {
		err := call()
		require.ErrorIs(t, err, hccl.ErrUnsupported, name)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, c.Barrier(st))
	require.NoError(t, st.Synchronize(t.Context()))
	require.NoError(t, c.Close())
	for name, call := range calls {
		require.ErrorIs(t, call(), hccl.ErrClosed, name)
	}
}
