package hccl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/hccl"
)

// TestMemoryRanges checks that chips other than Atlas A3 refuse memory ranges with acl.ErrNotSupported,
// and that collectives continue to work.
func TestMemoryRanges(t *testing.T) {
	rt := acltest.Open(t)
	if strings.HasPrefix(rt.SoC(), "Ascend910_93") {
		t.Skip("Atlas A3 has memory ranges")
	}
	st := acltest.Stream(t, acltest.Device(t, rt, 0))
	comms, err := hccl.JoinAll(t.Context(), st)
	require.NoError(t, err)
	c := comms[0]
	const base, size = 1 << 40, 2 << 20
	calls := map[string]func() error{
		"HcclCommSetMemoryRange":       func() error { return c.SetMemoryRange(t.Context(), base, size) },
		"HcclCommUnsetMemoryRange":     func() error { return c.UnsetMemoryRange(base) },
		"HcclCommActivateCommMemory":   func() error { return c.ActivateMemory(base, size, 1) },
		"HcclCommDeactivateCommMemory": func() error { return c.DeactivateMemory(base) },
	}
	for name, call := range calls {
		err := call()
		require.ErrorIs(t, err, acl.ErrNotSupported, name)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, c.Barrier(st))
	require.NoError(t, st.Synchronize(t.Context()))
	require.NoError(t, c.Close())
	for name, call := range calls {
		require.ErrorIs(t, call(), acl.ErrClosed, name)
	}
}
