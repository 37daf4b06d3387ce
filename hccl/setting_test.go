package hccl_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/hccl"
)

// The process setting is read back, and invalid values are refused before HCCL is called.
func TestDeterminism(t *testing.T) {
	acltest.Open(t)
	before, err := hccl.ProcessDeterminism()
	if errors.Is(err, acl.ErrNotSupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, hccl.SetDeterminism(before)) }()
	for _, d := range []hccl.Determinism{hccl.Deterministic, hccl.NotDeterministic} {
		require.NoError(t, hccl.SetDeterminism(d))
		got, err := hccl.ProcessDeterminism()
		require.NoError(t, err)
		assert.Equal(t, d, got)
	}
	for _, d := range []hccl.Determinism{hccl.DeterminismUnset, hccl.Strict + 1} {
		var e *hccl.Error
		require.ErrorAs(t, hccl.SetDeterminism(d), &e)
		assert.ErrorIs(t, e, acl.ErrInvalidArgument)
		assert.Zero(t, e.Code, "HCCL was called")
	}
}
